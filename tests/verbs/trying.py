"""A simulated node on which command lines are tried, reached without SSH."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolkit.demo.create import environment, make_node
from toolkit.demo.nodes import READY
from toolkit.demo.tree import clone
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.plan import decide, decide_boot
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.boot_arguments import PASSED_THROUGH, Argument, Contributor
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs import provision
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.plan import Planned, plan_node
from toolkit.want import Want

TODAY = date(2026, 11, 22)


@dataclass(slots=True)
class Machine:
    """One node below a folder, and a connection to it."""

    place: Path
    name: str = "gpu07"
    cut: Callable[[str], None] = lambda _script: None  # may raise, as a controller that dies
    asked: list[str] = field(default_factory=list)

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        self.cut(script)
        done = subprocess.run(
            ["/bin/sh", "-s"],
            input=script.replace("sleep 1;", ":;"),
            env=environment(self.place) | {"GDR_UID": "0"},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        for line in done.stdout.split("\n")[:-1]:
            sink(line)
        return Result(done.returncode, done.stdout, done.stderr)

    def close(self) -> None: ...

    def read(self, path: str) -> str:
        return (self.place / "tree" / path.lstrip("/")).read_text()

    def exists(self, path: str) -> bool:
        return (self.place / "tree" / path.lstrip("/")).exists()

    @property
    def boot_id(self) -> str:
        return self.read("/proc/sys/kernel/random/boot_id").strip()

    @property
    def loader(self) -> dict[str, str]:
        """All that a boot loader reads, by path; not what it loads."""
        tree = self.place / "tree"
        folders = (tree / "boot", tree / "etc/default", tree / "etc/grub.d")
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        files += [path for path in (tree / "etc/kernel/cmdline",) if path.exists()]
        return {
            str(p.relative_to(tree)): p.read_text() for p in files if "/boot/init" not in str(p)
        }

    def plan(self, want: Want | None = None, *, untried: bool = False) -> Planned:
        return plan_node(self.name, collect(self), want or Want(), TODAY, untried=untried)

    def bring(
        self, want: Want | None = None, *, reboot: bool = True, untried: bool = False
    ) -> provision.Provisioned:
        """provision, of this one node."""
        host = Host(self.name)
        fleet = Fleet((host,), lambda _host: self, Access())
        folder = RunFolder(self.place / "runs", "provision", datetime.now(UTC))
        options = provision.ProvisionOptions(reboot=reboot, untried=untried)
        node = provision.NodeRounds(host, self, fleet, want or Want(), TODAY, options, folder)
        return node.bring(self.plan(want, untried=untried))


def make_machine(place: Path, kind: str) -> Machine:
    """A node of the demo's, with two GPUs, to which files and arguments are to be given.

    It is made and booted once, and cloned as the demo's fleets are.

    :param place: below a test's own folder; the first of a kind lies beside those of all tests.
    """
    first = place.parents[1] / f"first-{kind}"
    if not first.exists():
        recipe = READY[kind]
        machine = replace(recipe.machine, pairs=2, nvswitches=0)
        make_node(first, replace(recipe, machine=machine, memlock=False), kind)
    clone(first / "tree", place / "tree")
    (place / "bin").symlink_to(first / "bin")
    return Machine(place)


def asks_for(
    monkeypatch: pytest.MonkeyPatch, *words: str, proofs: tuple[str, ...] = PASSED_THROUGH
) -> None:
    """Have every node be asked for these arguments, and no others."""
    asked = Contributor(lambda _n, _w: tuple(Argument(w, "a test", proofs) for w in words), proofs)
    rows = tuple(replace(row, asking=(asked,)) if row.asking else row for row in ARTEFACTS)
    for module in (decide, decide_boot):
        monkeypatch.setattr(module, "ARTEFACTS", rows)
