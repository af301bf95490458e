"""What an upgrade would do to one node: built, lost, restarted, booted; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

from msgspec import Struct
from msgspec.structs import astuple

from toolkit.checks.check import Status
from toolkit.checks.consumers.chosen import taken
from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.checks.judged import Judged, judge_node
from toolkit.checks.modules.fixes import (
    fabric_manager_package,
    image_package,
    of_another_distribution,
)
from toolkit.compat.reader import Compat, Confidence
from toolkit.errors import ExitCode, NoEvidence, Unparsable, Unsupported, read_or
from toolkit.evidence import Evidence
from toolkit.facts.distros import driver_source
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.facts.versions import Version
from toolkit.features.rehearse.plan_evidence import as_if, firmware_lines
from toolkit.plan.plan import make_plan
from toolkit.plan.upgrade_packages import driver_file, flavour_after, modules_package, not_offered
from toolkit.upgrade import Upgrade
from toolkit.want import PeerPath, Want

_MINOR = re.compile(r"\.el(\d+_\d+)")
_BUILT_WITH = {  # what is compiled anew once one of these is another
    "ofed": {"ofed", "kernel"},
    "driver": {"driver", "kernel"},
    "nvidia-peermem": {"ofed", "driver", "kernel"},
    "nvidia-fs": {"driver", "kernel"},
    "gdrdrv": {"driver", "kernel"},
}


class RebuiltPart(Struct, frozen=True):
    """One part that has to be compiled again."""

    part: str  # "ofed", "driver", "nvidia-peermem", "nvidia-fs", "gdrdrv"
    version: str
    kernel: str
    compiles: bool | None  # None where it is not known
    found: str  # why
    basis: str = ""  # who knows it: "vendor", "source", "build"
    confidence: str = ""


class CheckTurn(Struct, frozen=True):
    """One check, or the way of one library, that would answer otherwise."""

    what: str  # id of a check, or "nccl 2.22.3"
    before: str
    after: str
    found: str
    worse: bool


class Rehearsal(Struct, frozen=True):
    """One node, and what the upgrade would do to it."""

    parts: tuple[RebuiltPart, ...]  # in the order in which they are built
    turns: tuple[CheckTurn, ...]  # by the checks, where all of it compiles
    libraries: tuple[CheckTurn, ...]
    dies: tuple[str, ...]  # settings and packages that do not outlive it, and what to take along
    packages: tuple[str, ...]
    restarts: tuple[str, ...]
    boots: int
    path: tuple[str, str]  # "peermem", "dmabuf", "none" or "not known": before and after
    unclear: tuple[str, ...] = ()  # what could not be told, and why
    judged: Judged | None = None

    def __eq__(self, other: object) -> bool:
        return type(other) is Rehearsal and self._told == other._told

    def __hash__(self) -> int:
        return hash(self._told)

    @property
    def _told(self) -> tuple[object, ...]:
        """All but the judgement, by which nodes of one future are unlike."""
        return astuple(self)[:-1]

    @property
    def state(self) -> str:
        turned = any(each.worse for each in (*self.turns, *self.libraries))
        if turned or any(each.compiles is False for each in self.parts):
            return "loses"
        unknown = self.unclear or any(each.compiles is None for each in self.parts)
        return "unknown" if unknown else "keeps"

    @property
    def exit_code(self) -> ExitCode:
        codes = {"loses": ExitCode.FAILED, "unknown": ExitCode.UNKNOWN}
        return codes.get(self.state, ExitCode.OK)


def rehearse_node(
    host: str, evidence: Evidence, want: Want, upgrade: Upgrade, today: date
) -> Rehearsal:
    """Decide for one node.

    :raises NoEvidence: where the evidence does not tell what the upgrade would replace.
    """
    node, compat = Node(evidence), want.compat
    later = as_if(evidence, upgrade, compat)
    now, then = (judge_node(host, each, want, today) for each in (evidence, later))
    parts = tuple(_parts(node, upgrade, compat))
    stuck = next((each for each in parts if each.compiles is False), None)
    path = _path(node, want), "none" if stuck else _path(Node(later), want)
    boots = bool(upgrade.kernel or upgrade.firmware) + _has_a_trial(node, want, now)
    return Rehearsal(
        parts,
        tuple(turns_of(now, then)),
        tuple(_libraries(now, then)),
        tuple(_dies(node, upgrade)),
        tuple(_packages(node, upgrade)),
        ("the whole node",) if boots else tuple(_restarts(node, upgrade)),
        boots,
        path,
        (*_unclear(node, upgrade), *not_offered(evidence, upgrade)),
        now,
    )


def _has_a_trial(node: Node, want: Want, now: Judged) -> bool:
    """The node's arguments wait for a boot of their own: provision tries one thing at a time."""
    verdicts = {each.check.id: each for each in now.verdicts}
    try:
        return make_plan(node, verdicts, taken(node.fresh(), want)).trial is not None
    except (NoEvidence, Unparsable, Unsupported):
        return False


def _parts(node: Node, upgrade: Upgrade, compat: Compat) -> Iterator[RebuiltPart]:
    """What is compiled again, what it rests on first."""
    kernel = upgrade.kernel or node.kernel
    changed = {name for name in ("driver", "ofed", "kernel") if getattr(upgrade, name)}
    for name, version in _there(node, upgrade):
        if not changed & _BUILT_WITH[name]:
            continue
        part = "peermem" if name == "nvidia-peermem" else name
        if part not in {"ofed", "driver", "peermem"}:
            yield RebuiltPart(name, version, kernel, None, "no table tells of it")
            continue
        open_ = node.driver is not None and flavour_after(node, upgrade) is Flavor.OPEN
        flavour = ("open" if open_ else "proprietary") if part == "driver" else ""
        rows = compat.compiling(part, version, kernel, flavour)
        sure = [row for row in rows if row.confidence is not Confidence.LOW]
        if not sure:
            found = "; ".join(row.note for row in rows) or "no row of the table is of this pair"
            yield RebuiltPart(name, version, kernel, None, found)
        else:
            row = sure[0]
            told = (row.note, str(row.basis), str(row.confidence))
            yield RebuiltPart(name, version, kernel, row.works, *told)


def _there(node: Node, upgrade: Upgrade) -> Iterator[tuple[str, str]]:
    """The parts that the node has from outside of its kernel, each with its version then."""
    if read_or(lambda: node.ofed.flavour, OfedFlavour.INBOX) is not OfedFlavour.INBOX:
        yield "ofed", upgrade.ofed or str(node.ofed.version or "")
    if node.driver is None:
        return
    driver = upgrade.driver or str(node.driver.version)
    if not modules_package(node, upgrade):
        yield "driver", driver
    if read_or(lambda: node.peermem_files, ()):
        yield "nvidia-peermem", driver
    beside = read_or(lambda: node.companion_modules, {})
    yield from ((name, beside[name].version) for name in ("nvidia-fs", "gdrdrv") if name in beside)


def turns_of(now: Judged, then: Judged) -> Iterator[CheckTurn]:
    """The checks that answer otherwise."""
    before = {each.check.id: each.status for each in now.verdicts}
    for each in then.verdicts:
        was = before.get(each.check.id, each.status)
        if was is not each.status:
            worse = each.status is Status.FAIL
            yield CheckTurn(each.check.id, str(was), str(each.status), each.finding.found, worse)


def _libraries(now: Judged, then: Judged) -> Iterator[CheckTurn]:
    """The libraries that would take another way."""
    before = {(each.consumer, each.version, each.origin): str(each.way) for each in now.chosen}
    for each in then.chosen:
        was = before.get((each.consumer, each.version, each.origin), str(each.way))
        if was != each.way:
            name = f"{each.consumer} {each.version}".rstrip()
            reasons = "; ".join(each.reasons)
            yield CheckTurn(name, was, str(each.way), reasons, each.way == "none")


def _path(node: Node, want: Want) -> str:
    """The way that consumers take: "none" where it is not usable."""
    path = taken(node.fresh(), want).path
    if path is None:
        return "not known"
    try:
        gap = dmabuf_gap(node, want) if path is PeerPath.DMABUF else peermem_gap(node)
    except (NoEvidence, Unparsable):
        return "not known"
    return "none" if gap else str(path)


def _dies(node: Node, upgrade: Upgrade) -> Iterator[str]:
    """What stays behind at its old version, or has no meaning any more."""
    manager = read_or(lambda: node.fabric_manager, None)
    if upgrade.driver and manager is not None:
        package = fabric_manager_package(node, Version(upgrade.driver))
        if str(manager) != upgrade.driver:
            yield f"nvidia-fabricmanager {manager} refuses another driver: take {package} along"
    closed = node.driver is not None and node.driver.flavor is not Flavor.OPEN
    if closed and upgrade.driver and flavour_after(node, upgrade) is Flavor.OPEN:
        yield "the proprietary modules are gone from 620 on: GPUs before Turing have none"
        beside = ", ".join(sorted(read_or(lambda: node.companion_modules, {})))
        if beside:
            yield f"{beside}: built beside the proprietary driver; build beside the open one"
    mine = read_or(lambda: node.ofed.flavour is not OfedFlavour.INBOX, False)
    if mine and upgrade.kernel and _minor(upgrade.kernel) != _minor(node.kernel):
        yield (
            "libibverbs and rdma-core of the distribution replace OFED's with a minor release "
            "(IBVERBS_1.15): hold them back"
        )


def _minor(release: str) -> str:
    found = _MINOR.search(release)
    return found[1] if found else ""


def _packages(node: Node, upgrade: Upgrade) -> Iterator[str]:
    known = read_or(lambda: {each.release for each in node.kernels}, set())
    if upgrade.kernel and upgrade.kernel not in known:
        yield image_package(node, upgrade.kernel)
    if (modules := modules_package(node, upgrade)) and (upgrade.kernel or upgrade.driver):
        yield f"{modules}: the driver came as modules, and nobody compiles it"
        if read_or(lambda: node.peermem_files, ()) and upgrade.driver:
            way = driver_source(node.distro, upgrade.driver, driver_file(node), node.arch)
            yield f"the source of nvidia-peermem: {way}"


def _restarts(node: Node, upgrade: Upgrade) -> Iterator[str]:
    """What is interrupted where no boot does it."""
    if upgrade.ofed:
        yield "openibd: all RDMA, and the net devices of the HCAs (reload --what rdma)"
    if upgrade.driver:
        yield "every use of the GPUs (reload --what driver)"
        if read_or(lambda: node.fabric_manager, None) is not None:
            yield "nvidia-fabricmanager"
        if read_or(lambda: any(each.persistence == "Enabled" for each in node.gpu_rows), False):
            yield "nvidia-persistenced"


def _unclear(node: Node, upgrade: Upgrade) -> Iterator[str]:
    """Where the node is not one that this can be told of."""
    asked: tuple[tuple[str, Callable[[], str]], ...] = (
        (upgrade.driver, lambda: "" if node.driver else "no driver is loaded that would go"),
        (upgrade.ofed, lambda: _no_ofed(node)),
        (upgrade.kernel, lambda: of_another_distribution(node, upgrade.kernel)),
        (upgrade.firmware, lambda: _no_firmware(node, upgrade.firmware)),
    )
    for version, why in asked:
        if version and (said := _said(why)):
            yield said


def _said(why: Callable[[], str]) -> str:
    try:
        return why()
    except (NoEvidence, Unparsable) as unread:
        return str(unread)


def _no_ofed(node: Node) -> str:
    if node.ofed.flavour is OfedFlavour.INBOX:
        return "the kernel's own RDMA stack is in use: OFED would be new there"
    return "" if node.ofed.version is not None else "the version of OFED is not told"


def _no_firmware(node: Node, version: str) -> str:
    lines = firmware_lines(node)
    line = version.partition(".")[0]
    return (
        "" if line in lines else f"no HCA runs firmware of line {line}: {', '.join(sorted(lines))}"
    )
