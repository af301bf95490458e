"""The task vm.box: a box of our own, where the Vagrantfile looks for it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from dev import tools
from dev.lab.box import NAME, box
from dev.lab.rows import rows
from dev.run import ROOT
from dev.tools import MARKS, missing, sentence
from tests.builds.mirrors import NotToBeHad
from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Unsupported, UsageError

MAKE = (
    Option("name", NAME, "which; docs/boxes.md lists them"),
    Option("out", "", "the box's file; vagrant/NAME.box unless given"),
    Option("install", False, "install the Debian packages that making it needs (apt-get)"),
)


@verb(MAKE)
def box_(said: Said) -> ExitCode:
    """Make a Vagrant box of Debian 12 from its packages, for vagrant-libvirt; needs root.

    debian12 has nothing but Debian; healthy shows GPUs, HCAs and their stack, and the others are
    it with one thing broken. Vagrant takes what lies beside the Vagrantfile.

    Examples:
      invoke vm.box
      invoke vm.box --name healthy
      cd vagrant && vagrant up healthy
    """
    return put(said)


def put(said: Said) -> ExitCode:
    """Make the box, and put it where the Vagrantfile, or --out, says.

    :raises Unsupported: it cannot be made here.
    :raises UsageError: there is no such box, or the place cannot be written.
    """
    name = said.text("name") or NAME
    if name not in rows():
        raise UsageError(f"--name {name}: no such box", hint=f"boxes: {', '.join(rows())}")
    if said.flag("install"):
        tools.install(MARKS["machine"], dry=said.dry)
    lacks = missing(MARKS["machine"])
    if lacks and not (said.dry and said.flag("install")):
        raise Unsupported("a box " + sentence(lacks), hint="--install installs what is missing")
    out = Path(said.text("out") or ROOT / "vagrant" / f"{name}.box")
    if said.dry:
        print(out)
        return ExitCode.OK
    try:
        _copy(box(name, _tell), out)
    except NotToBeHad as why:
        raise Unsupported(f"no box: {why}", hint="see docs/vagrant.md") from why
    print(out)
    ours = f"gdr-toolkit/{name}"  # as the Vagrantfile calls it
    _tell(f"where Vagrant has one of that name: vagrant box add --force --name {ours} {out}")
    return ExitCode.OK


def _copy(made: Path, out: Path) -> None:
    """Whole or not at all: Vagrant may be looking."""
    beside = out.with_name(f".{out.name}.part")
    try:
        shutil.copyfile(made, beside)
        beside.replace(out)
    except OSError as why:
        raise UsageError(f"{out}: {why.strerror}", hint="name another with --out") from why


def _tell(what: str) -> None:
    print(f"vm: {what}", file=sys.stderr, flush=True)
