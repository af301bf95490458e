"""The task vm.box: a box of our own, where the Vagrantfile looks for it, or in another form."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from dev import tools
from dev.lab.box import NAME, box, login
from dev.lab.exported import FORMS, exported
from dev.lab.rows import rows
from dev.run import ROOT
from dev.tools import MARKS, missing, sentence
from tests.builds.mirrors import NotToBeHad
from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Unsupported, UsageError

MAKE = (
    Option("name", NAME, "which; docs/boxes.md lists them"),
    Option("form", "vagrant", "vagrant, ova (VirtualBox), oci (a container's disk) or qcow2"),
    Option("out", "", "the box's file; vagrant/NAME.box unless given, NAME.ova, and so on"),
    Option("install", False, "install the Debian packages that making it needs (apt-get)"),
)

_ENDINGS = {"vagrant": ".box", **FORMS}


@verb(MAKE)
def box_(said: Said) -> ExitCode:
    """Make a box of Debian 12 from its packages, for vagrant-libvirt or others; needs root.

    debian12 has nothing but Debian; healthy shows GPUs, HCAs and their stack, and the others are
    it with one thing broken. Vagrant takes what lies beside the Vagrantfile. With another form the
    key by which vagrant logs in is put beside it, as FILE.key.

    Examples:
      invoke vm.box
      invoke vm.box --name healthy
      cd vagrant && vagrant up healthy
      invoke vm.box --name acs --form oci --out acs.oci.tar
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
    form = said.text("form") or "vagrant"
    if form not in _ENDINGS:
        raise UsageError(f"--form {form}: no such form", hint=f"forms: {', '.join(_ENDINGS)}")
    if said.flag("install"):
        tools.install(MARKS["machine"], dry=said.dry)
    lacks = missing(MARKS["machine"])
    if lacks and not (said.dry and said.flag("install")):
        raise Unsupported("a box " + sentence(lacks), hint="--install installs what is missing")
    out = Path(said.text("out") or ROOT / "vagrant" / f"{name}{_ENDINGS[form]}")
    if said.dry:
        print(out)
        return ExitCode.OK
    try:
        if form == "vagrant":
            _copy(box(name, _tell), out)
        else:
            _copy(exported(name, form, _tell), out)
            _copy(login(), Path(f"{out}.key"))
    except NotToBeHad as why:
        raise Unsupported(f"no box: {why}", hint="see docs/vagrant.md") from why
    print(out)
    if form != "vagrant":
        return ExitCode.OK
    ours = f"gdr-toolkit/{name}"  # as the Vagrantfile calls it
    _tell(f"where Vagrant has one of that name: vagrant box add --force --name {ours} {out}")
    return ExitCode.OK


def _copy(made: Path, out: Path) -> None:
    """Whole or not at all: Vagrant may be looking."""
    beside = out.with_name(f".{out.name}.part")
    try:
        shutil.copy(made, beside)
        beside.replace(out)
    except OSError as why:
        raise UsageError(f"{out}: {why.strerror}", hint="name another with --out") from why


def _tell(what: str) -> None:
    print(f"vm: {what}", file=sys.stderr, flush=True)
