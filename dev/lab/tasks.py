"""The tasks vm.up, vm.ssh, vm.test, vm.down, vm.list and vm.box: machines for whoever wants one."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from invoke.collection import Collection

from dev import tools
from dev.lab import pcitree
from dev.lab.boxing import box_
from dev.lab.machine import Guest
from dev.lab.making import ready
from dev.lab.qemu import IOMMUS, KERNELS, Spec
from dev.tools import MARKS, missing, sentence
from tests.builds.mirrors import NotToBeHad
from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Unsupported, UsageError
from toolkit.report.table import columns
from toolkit.verbs.access import state_dir

NAME = (Option("name", "lab", "the guest's name, and that of the host in --hosts", "n"),)
MACHINE = (
    Option("kernel", "6.1", "6.1 or 6.12"),
    Option("iommu", "intel", "intel, amd or none"),
    Option("pci", "hgx", "PCI functions beside QEMU's: hgx, none, or a file (docs/machines.md)"),
    Option("memory", 1024, "MiB"),
    Option("install", False, "install the Debian packages that it needs (apt-get)"),
)
_NAMES = re.compile(r"[a-z][a-z0-9-]{0,30}")


@verb(NAME, MACHINE)
def up(said: Said) -> ExitCode:
    """Start a guest: Debian 12 from a disk by GRUB, under QEMU's emulation (no KVM needed).

    The first one makes the disk from Debian's packages, in some minutes; it is kept.

    Examples:
      invoke vm.up
      invoke vm.up --name acs --kernel 6.12 --iommu amd --pci my.tree
    """
    name, spec = _name(said), _spec(said)
    if said.flag("install"):
        tools.install(MARKS["machine"], dry=said.dry)
    lacks = missing(MARKS["machine"])
    if lacks and not (said.dry and said.flag("install")):
        raise Unsupported("a guest " + sentence(lacks), hint="--install installs what is missing")
    guest = Guest(name, _home() / name, spec, lasting=True)
    if guest.pid:
        raise UsageError(f"{name} runs already", hint=f"invoke vm.down --name {name}, or --name")
    if said.dry:
        print(f"{name}: would be made and started")
        return ExitCode.OK
    guest.remove()  # what one that was ended otherwise has left
    began = time.monotonic()
    try:
        with _ended_by_signals():
            ready(guest, tell=_tell)
            (guest.folder / "spec.json").write_text(json.dumps(_written(spec)))
            _tell("starting it")
            guest.start()
            guest.wait()
    except NotToBeHad as why:
        guest.remove()
        raise Unsupported(f"no disk for a guest: {why}", hint="see docs/machines.md") from why
    except BaseException:
        guest.remove()  # whatever happened, no guest is left behind
        raise
    _tell(f"up after {time.monotonic() - began:.0f} s")
    print(_how_to_reach(guest))
    return ExitCode.OK


@verb(NAME, (Option("command", "", "run this in place of a shell", "c"),))
def ssh(said: Said) -> ExitCode:
    """Log in to a guest as root.

    Examples:
      invoke vm.ssh
      invoke vm.ssh --command 'lspci -t; cat /proc/cmdline'
    """
    guest = _running(said)
    words = ["ssh", "-F", str(guest.ssh_config), guest.name]
    if said.text("command"):
        words.append(said.text("command"))
    if said.dry:
        print(shlex.join(words))
        return ExitCode.OK
    sys.stdout.flush()
    status = subprocess.run(words, check=False).returncode
    return ExitCode.OK if status == 0 else ExitCode.FAILED


@verb(NAME)
def test(said: Said) -> ExitCode:
    """Run the suites that we ship against a guest: pytest --pyargs toolkit.suites.

    Exits 0 when all passes, 2 on a failure; a guest without GPUs fails much.

    Examples:
      invoke vm.test --name acs
    """
    guest = _running(said)
    reach = ("--hosts", guest.name, "--ssh-config", str(guest.ssh_config))
    words = (sys.executable, "-m", "pytest", "--pyargs", "toolkit.suites", *reach)
    if said.dry:
        print(shlex.join(words))
        return ExitCode.OK
    sys.stdout.flush()
    return ExitCode.OK if subprocess.run(words, check=False).returncode == 0 else ExitCode.FAILED


@verb(NAME, (Option("all", False, "all of them"),))
def down(said: Said) -> ExitCode:
    """End a guest and delete its disk; what it was made from stays.

    Examples:
      invoke vm.down --name acs
      invoke vm.down --all
    """
    guests = list(_all()) if said.flag("all") else [_known(said)]
    for guest in guests:
        if not said.dry:
            guest.remove()
        print(f"{guest.name}: {'would be ' * said.dry}ended and removed")
    return ExitCode.OK


@verb()
def list_(_: Said) -> ExitCode:
    """The guests: which there are, and whether they run.

    Examples:
      invoke vm.list
    """
    rows = [
        [each.name, each.spec.kernel, each.spec.iommu, "runs" if each.pid else "ended"]
        for each in _all()
    ]
    print("\n".join(columns([["name", "kernel", "iommu", "state"], *rows])) if rows else "none")
    return ExitCode.OK


def collection() -> Collection:
    """The tasks, as vm.NAME."""
    return Collection("vm", up, ssh, test, down, list_, box_)


def _home() -> Path:
    return state_dir() / "lab"


def _name(said: Said) -> str:
    name = said.text("name")
    if not _NAMES.fullmatch(name):
        raise UsageError(
            f"--name {name!r} is no name for a guest", hint="small letters, digits and -"
        )
    return name


def _spec(said: Said) -> Spec:
    kernel, iommu, memory = said.text("kernel"), said.text("iommu"), said.number("memory")
    if kernel not in KERNELS:
        raise UsageError(f"--kernel {kernel}: no such guest", hint=" or ".join(KERNELS))
    if iommu not in IOMMUS:
        raise UsageError(f"--iommu {iommu}: no such guest", hint=", ".join(IOMMUS))
    if memory < 512:
        raise UsageError(f"--memory {memory}: no guest boots with less than 512 MiB")
    text = "" if said.text("pci") == "none" else pcitree.named(said.text("pci"))
    if text:
        pcitree.build(text)  # a table that cannot be read is told before anything is made
    return Spec(kernel=kernel, iommu=iommu, pci=text, memory_mb=memory)


def _written(spec: Spec) -> dict[str, object]:
    return {key: value for key, value in asdict(spec).items() if key in _KEPT}


_KEPT = ("kernel", "iommu", "pci", "memory_mb", "cpus")


def _all() -> Iterator[Guest]:
    for path in sorted(_home().glob("*/spec.json")):
        told = json.loads(path.read_text())
        yield Guest(path.parent.name, path.parent, Spec(**told), lasting=True)


def _known(said: Said) -> Guest:
    name = _name(said)
    for guest in _all():
        if guest.name == name:
            return guest
    names = ", ".join(each.name for each in _all()) or "none"
    raise UsageError(f"no guest {name!r}", hint=f"guests: {names}; invoke vm.up makes one")


def _running(said: Said) -> Guest:
    guest = _known(said)
    if not guest.pid:
        raise UsageError(f"{guest.name} does not run", hint=f"invoke vm.up --name {guest.name}")
    return guest


def _tell(what: str) -> None:
    print(f"vm: {what}", file=sys.stderr, flush=True)


def _how_to_reach(guest: Guest) -> str:
    config = shlex.quote(str(guest.ssh_config))
    return "\n".join(
        (
            f"ssh -F {config} {guest.name}",
            f"./invokew doctor --hosts {guest.name} --ssh-config {config}",
            f"./invokew vm.down --name {guest.name}",
        )
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is done here as Ctrl-C does."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
