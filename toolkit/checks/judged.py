"""One node after its judgement: what reports and exit codes are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.all import ALL, how_far
from toolkit.checks.breakages import KnownBreakage, known
from toolkit.checks.check import (
    Gap,
    Impact,
    Status,
    Verdict,
    amd_gpus,
    by_design,
    number_of,
    without_gpus,
)
from toolkit.checks.consumers.choices import choices
from toolkit.checks.consumers.chosen import Chosen, taken
from toolkit.checks.consumers.path import selected
from toolkit.checks.follows import Step, steps
from toolkit.checks.role import role
from toolkit.errors import ExitCode, NoEvidence, Unparsable, read_or
from toolkit.evidence import Evidence
from toolkit.facts.firmware.redfish_bmc import Same, Trust, same_machine
from toolkit.facts.node.node import Node
from toolkit.facts.recall import Answers
from toolkit.facts.text.pasted_logs import IMPORTED
from toolkit.want import Want

ASSUMED = ", assumed"
OTHERS = "other gpus"  # which are nobody's to judge here
NOT_READ = "not read: "  # and why
ELSEWHERE = ", of another machine: "  # and what differs
PASSES = "passes"  # a state: nothing is wrong as far as was judged, and not all was
WITHOUT = "n/a"  # a state: nothing is wrong, and no GPUDirect RDMA is to be had
UNVERIFIED = ", certificate not verified"


class Judged(Struct, frozen=True):
    """The verdicts on one node, with the few facts that head a report."""

    host: str
    verdicts: tuple[Verdict, ...]
    today: date  # the day on which waivers are weighed
    about: tuple[tuple[str, str], ...] = ()  # ("kernel", "6.8.0-45-generic"), ...; what was read
    complete: bool = True  # False when the evidence was cut off
    gpus: bool = True  # False when the node is known to have none
    without: str = ""  # why GPUDirect RDMA is nothing to this machine, by design
    known: tuple[KnownBreakage, ...] = ()  # breakages that it meets
    chosen: tuple[Chosen, ...] = ()  # what each library would do
    text: bool = False  # what tools printed, and no node that anybody asked
    steps: tuple[Step, ...] = ()  # which open verdicts follow from which
    partial: str = ""  # how far the verdicts go, where --only or --skip left checks out
    # Of checks that --only left out: a change that it makes may not do them harm.
    beside: tuple[Verdict, ...] = ()

    def having(self, status: Status) -> tuple[Verdict, ...]:
        """The verdicts of this status; waived failures are not among the failures."""
        # Asked ten times a node of two hundred verdicts: its status alone rules most of them out.
        found = (each for each in self.verdicts if each.finding.status is status)
        return tuple(each for each in found if not each.waived(self.today))

    @property
    def waived(self) -> tuple[Verdict, ...]:
        failed = (each for each in self.verdicts if each.finding.status is Status.FAIL)
        return tuple(each for each in failed if each.waived(self.today))

    @property
    def exit_code(self) -> ExitCode:
        if not self.complete:
            return ExitCode.UNREACHABLE
        if self.having(Status.FAIL):
            return ExitCode.FAILED
        return ExitCode.UNKNOWN if self.having(Status.UNKNOWN) else ExitCode.OK

    @property
    def whole(self) -> Judged:
        """With the verdicts beside those that were asked for: what guards a change looks at."""
        return replace(self, verdicts=(*self.verdicts, *self.beside), beside=())

    @property
    def mendable(self) -> bool:
        """Whether a plan may mend what fails: not hardware, and not what is in a container."""
        failing = self.having(Status.FAIL)
        others = [each.check for each in failing if not each.check.id.startswith("inside.")]
        return not failing or any(each.impact is not Impact.SICK for each in others)

    @property
    def state(self) -> str:
        """In one or two words; "ready" only when nothing of all fails and nothing is unknown."""
        if not self.complete:
            return "cut off"
        failures = self.having(Status.FAIL)
        for impact in Impact:  # worst first
            if any(each.check.impact is impact for each in failures):
                return impact.value
        if self.having(Status.UNKNOWN):
            return "unknown"
        if not self.gpus:
            return "no GPU"
        if self.without:
            return WITHOUT
        return PASSES if self.partial else "ready"


def judge_node(
    host: str, evidence: Evidence, want: Want, today: date, node: Node | None = None
) -> Judged:
    """Judge one node by every check that counts; each fact is computed once.

    :param node: of this evidence, where the caller asks more of it.
    """
    node = node or Node(evidence)
    want = taken(node.fresh(), want)
    judged = _ANSWERS.ask(node.sources, partial(_judged, node, want), number_of(want))
    frames = evidence.frames.values()
    return replace(
        judged,
        host=host,
        today=today,
        complete=evidence.complete,
        text=bool(frames) and all(IMPORTED in frame.source for frame in frames),
    )


_ANSWERS: Answers[Judged] = Answers(256)


def _judged(node: Node, want: Want) -> Judged:
    """What holds for every node with these sources."""
    counts = want.checks.has
    verdicts = tuple(check(node, want) for check in (*ALL, *want.own) if counts(check.id))
    return Judged(
        "",
        verdicts,
        date.min,
        _about(node, want),
        gpus=not without_gpus(node.fresh()),
        without=by_design(node.fresh()),
        known=tuple(k for k in known(node, want) if not want.checks or any(map(counts, k.checks))),
        chosen=choices(node.fresh(), want) if counts(selected.id) else (),
        steps=steps(node.fresh(), want, verdicts),
        partial=how_far(want.checks, want.own),
    )


def _about(node: Node, want: Want) -> tuple[tuple[str, str], ...]:
    """What heads a report; a fact that was not read is left out, not guessed."""
    facts: dict[str, Callable[[], str]] = {
        "role": lambda: _role(node, want),
        "system": lambda: node.distro.pretty,
        "kernel": lambda: node.kernel,
        "driver": lambda: _driver(node),
        "ofed": lambda: str(node.ofed),
        "path": lambda: _path(want),
        "inside": lambda: str(node.inside or ""),
        "gpus": lambda: str(len(node.pci.gpus)),
        OTHERS: lambda: amd_gpus(node),
        "hcas": lambda: str(len(node.hcas)),
        "bmc": lambda: _bmc(node),
    }
    told = []
    for name, ask in facts.items():
        try:
            if said := ask():
                told.append((name, said))
        except (NoEvidence, Unparsable):
            continue
    return tuple(told)


def _role(node: Node, want: Want) -> str:
    """The role, and whether that is known: loose files seldom tell it."""
    here = role(node, want)
    return f"{here}{'' if want.role or node.role_told else ASSUMED}"


def _path(want: Want) -> str:
    """The path that the node takes, where nobody insists on one.

    :raises NoEvidence: where somebody does, or which it is is not known.
    """
    if not want.taken or want.path is None:
        raise NoEvidence("not by the node")
    return f"{want.path}, as the node has it"


def _bmc(node: Node) -> str:
    """The machine as its BMC tells it, and whether anybody vouches for the BMC.

    :raises NoEvidence: no BMC was given.
    """
    if not node.has_bmc:
        raise NoEvidence("no BMC was given")
    try:
        told = node.bmc
    except (NoEvidence, Unparsable) as why:
        return f"{NOT_READ}{why}"
    names = f"{told.model or told.vendor or 'a machine without a name'}, BIOS {told.bios or '?'}"
    return f"{names}{_elsewhere(node)}{UNVERIFIED if told.verified is Trust.NO else ''}"


def _elsewhere(node: Node) -> str:
    try:
        same, differs = same_machine(node.dmi, node.bmc_machine)
    except (NoEvidence, Unparsable):
        return ""
    return f"{ELSEWHERE}{differs}" if same is Same.NO else ""


def _driver(node: Node) -> str:
    """The driver, and whether a container brought it: such a one is updated by its pod."""
    if node.driver is None:
        return "none"
    named = f"{node.driver.version} {node.driver.flavor}"
    return read_or(
        lambda: f"{named}, from a container" if node.containers.driver_container else named, named
    )


class Cause(Struct, frozen=True):
    """A failed or unknown verdict that follows from no other, and those that follow from it."""

    root: Verdict
    follows: tuple[Verdict, ...] = ()  # in the order of the checks


def causes(judged: Judged) -> tuple[Cause, ...]:
    """Each failed or unknown verdict in exactly one cause; waived failures are in none.

    Verdicts that are open for one and the same reason, a frame that was not read, are one
    cause: the first of them stands for it.
    """
    open_ = {each.check.id: each for each in judged.verdicts if _open(judged, each)}
    roots = {name: _root(name, judged, open_) for name in open_}
    first: dict[object, str] = {}
    groups: dict[str, list[Verdict]] = {}
    for name, verdict in open_.items():
        top = roots[name]
        top = first.setdefault(_reason(open_[top]), top)
        if name == top:
            groups.setdefault(top, [])
        else:
            groups.setdefault(top, []).append(verdict)
    return tuple(Cause(open_[top], tuple(groups[top])) for top in open_ if top in groups)


def _open(judged: Judged, verdict: Verdict) -> bool:
    if verdict.status is Status.FAIL:
        return not verdict.waived(judged.today)
    return verdict.status is Status.UNKNOWN


def _root(name: str, judged: Judged, open_: dict[str, Verdict]) -> str:
    """Where the steps from a verdict end; itself where they would go in a circle."""
    after = {each.check: each.after for each in judged.steps}
    at, seen = name, {name}
    while (above := after.get(at, "")) in open_:
        if above in seen:
            return name
        seen.add(above)
        at = above
    return at


def _reason(root: Verdict) -> object:
    """What makes two roots one: for a failure nothing does, for an unknown the same words."""
    if root.status is Status.FAIL:
        return root.check.id
    gap = root.finding.gap
    return gap if gap is not Gap.NONE else (Status.UNKNOWN, root.finding.found)


# Which commands would tell most of what a node's texts do not.
_MOST = 3
# What prints a source, or what stands in for it, as it is typed; by the key of the frame.
_PRINTS = {
    "pci": "lspci -vvv -nn",
    "lspci": "lspci -vvv -nn",
    "nvidia-smi-q": "nvidia-smi -q",
    "nvidia-topology": "nvidia-smi topo -m",
    "dmesg": "dmesg",
    "infiniband": "ibstat",
    "ofed-info": "ofed_info -s",
    "module-state": "lsmod",
    "dkms-status": "dkms status",
    "mokutil": "mokutil --sb-state",
    "cmdline": "cat /proc/cmdline",
    "os-release": "cat /etc/os-release",
    "gds": "gdscheck -p",
}


class MissingCommand(Struct, frozen=True):
    """One command, and how many checks wait for what it prints."""

    command: str
    checks: int


def wanted(judged: Judged) -> tuple[MissingCommand, ...]:
    """At most three commands, the most telling first; none where nothing is missing.

    A check counts for the source that it asked for last: there it could not go on.
    """
    missing = [
        each.cited[-1]
        for each in judged.verdicts
        if each.finding.gap is Gap.NOT_COLLECTED and each.cited
    ]
    about = dict(judged.about)
    others = OTHERS in about and about.get("gpus") == "0"  # of which its tools say nothing
    found = Counter(
        _PRINTS[key]
        for key in missing
        if key in _PRINTS and not (others and _PRINTS[key].startswith("nvidia-smi"))
    )
    return tuple(MissingCommand(*each) for each in found.most_common(_MOST))
