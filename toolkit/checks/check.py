"""The question, what was seen, and the answer with its sources."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from enum import StrEnum
from functools import cached_property, partial
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.rdma.makers import (
    NOT_CONNECTX,
    has_connectx,
    legacy_serves,
    without_nvidia_peermem,
)
from toolkit.checks.role import PASSED_THROUGH, role
from toolkit.compat.gpus import machine_type
from toolkit.errors import (
    CutOff,
    NeedsRoot,
    NoEvidence,
    NotCollected,
    Unparsable,
    read_or,
    unless_cut,
)
from toolkit.facts.fact import once
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Kind
from toolkit.facts.recall import Answers
from toolkit.facts.text.pasted_logs import IMPORTED
from toolkit.plural import counted
from toolkit.want import PeerPath, Role, Waiver, Want


class Status(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"  # could not be read; never a pass
    NA = "n/a"  # does not apply here, with the reason


class Impact(StrEnum):
    """What a failure means; the worst first, which names the state of a node."""

    SICK = "sick"  # hardware or firmware is failing: drain the node, no setting mends it
    BROKEN = "broken"  # GPUDirect cannot work
    SLOW = "slow"  # it works, and slower than the hardware can
    FRAGILE = "fragile"  # it works now, not after the next boot, update or restart


class Tense(StrEnum):
    NOW = "now"
    AT_BOOT = "at boot"


WHOLE = "give the whole answer of the command"
BOTH_PATHS = frozenset(PeerPath)
ALL_ROLES = frozenset(Role)


class Gap(StrEnum):
    """Why a verdict stays open, where many stay open for the same reason."""

    NONE = ""
    ROOT = "run as root"
    NOT_COLLECTED = "not part of this evidence"
    LOG = "not told by this kernel log"  # given as a text: alone, or an excerpt
    LOST = "nvidia-smi gives no answer while a GPU is lost"
    PATH = "which path the node takes is not known: see path.selected"


class Finding(Struct, frozen=True):
    """What one check saw on one node."""

    status: Status
    found: str  # in one line: what is so; for n/a and unknown, why
    expected: str = ""  # in one line: what should be; with a failure only
    hint: str = ""  # in one line: what to do about this very finding
    details: tuple[str, ...] = ()  # further lines, one per device or file
    gap: Gap = Gap.NONE  # for unknown: reports fold those of one gap into one line


def passed(found: str, *, details: tuple[str, ...] = ()) -> Finding:
    return Finding(Status.PASS, found, details=details)


def failed(found: str, *, expected: str, hint: str = "", details: tuple[str, ...] = ()) -> Finding:
    return Finding(Status.FAIL, found, expected, hint, details)


def not_applicable(why: str) -> Finding:
    return Finding(Status.NA, why)


def unknown(why: str, *, hint: str = "", gap: Gap = Gap.NONE) -> Finding:
    return Finding(Status.UNKNOWN, why, hint=hint, gap=gap)


Judge = Callable[[Node, Want], Finding]


_MANY, _FEW = 256, 32  # verdicts kept of one check, and wants
_wants: list[tuple[Want, int]] = []
_numbers = count()


def number_of(want: Want) -> int:
    """A number for equal wants, which are few, and too large to be keys."""
    for known, number in _wants:
        if known is want or known == want:
            return number
    new = next(_numbers)
    _wants[:-_FEW] = []
    _wants.append((want, new))
    return new  # and not the last one's, which may be another thread's by now


class Check(Struct, frozen=True, dict=True):
    """One question about a node. Its docstring is its title, and what ``explain`` prints."""

    id: str  # "peermem.stub"
    judge: Judge
    impact: Impact
    source: str  # where the rule comes from: a kernel symbol, a man page, a document
    fix: str  # how the property is brought about, for ``explain``
    paths: frozenset[PeerPath] = BOTH_PATHS
    tense: Tense = Tense.NOW
    roles: frozenset[Role] = ALL_ROLES
    needs_gpu: bool = True  # n/a on a node known to have none
    on_disk: bool = False  # asks of files for one kernel alone: an image has them too

    @cached_property
    def answers(self) -> Answers[Verdict]:
        """Its own: a check made of another by ``replace`` begins anew."""
        return Answers(_MANY)

    @property
    def title(self) -> str:
        """The first line of the docstring: the property, as it should be."""
        return (self.judge.__doc__ or self.id).strip().split("\n", 1)[0]

    @property
    def why(self) -> str:
        """The rest of the docstring, unindented: why it matters, and the traps."""
        rest = (self.judge.__doc__ or "").strip().split("\n")[1:]
        return "\n".join(line.strip() for line in rest).strip()

    def __call__(self, node: Node, want: Want) -> Verdict:
        """Judge with nothing cited yet, so that the sources cited are this check's own.

        Of a machine whose sources say what another's said the verdict is recalled.
        """
        judge = partial(self._verdict, node.fresh(), want)
        return self.answers.ask(node.sources, judge, number_of(want))

    def _verdict(self, fresh: Node, want: Want) -> Verdict:
        finding = self._finding(fresh, want)
        if finding.status is Status.PASS and (why := fresh.cut()):
            finding = unknown(why, hint=WHOLE)
        ours = (each for each in want.waivers if each.check == self.id and not each.hosts)
        return Verdict(self, finding, tuple(dict.fromkeys(fresh.cited)), next(ours, None))

    def _finding(self, node: Node, want: Want) -> Finding:
        if want.path is None:
            # Where the path that the node takes is not known: what holds whichever it is.
            found = [self._finding(node, replace(want, path=path)) for path in PeerPath]
            if all(each == found[0] for each in found):
                return found[0]
            open_ = (each for each in found if each.status is Status.UNKNOWN)
            return next(open_, unknown(Gap.PATH.value, gap=Gap.PATH))
        if want.path not in self.paths:
            here = ", which this node takes" if want.taken else ""
            return not_applicable(f"not part of the {want.path} path{here}")
        try:
            idle = self._idle(node, want)
            return not_applicable(idle) if idle else self.judge(node, want)
        except (NoEvidence, Unparsable) as why:
            return _open(node, why)

    def _idle(self, node: Node, want: Want) -> str:
        """Why it does not apply to this node; "" where it does."""
        if self.needs_gpu and no_gpu_on_bus(node.fresh()):
            return "; ".join(filter(None, (NO_GPU, amd_gpus(node.fresh()))))
        if (why := _design(node.fresh())) and (self.of_gdr or self._of_hcas(why)):
            return why
        given = self.of_use and want.role is not Role.BARE_METAL and _all_given(node.fresh())
        others = ""
        if self.of_nvidia_peermem:
            others = without_nvidia_peermem(node.fresh()) or legacy_serves(node.fresh())
        if self.id in _OF_CONNECTX and not has_connectx(node.fresh()):
            others = NOT_CONNECTX
        if given or others:
            return others or GIVEN
        if self.tense is Tense.NOW and not self.on_disk and not node.live:
            return "an image has no present"
        if self.roles != ALL_ROLES and (here := role(node, want)) not in self.roles:
            return f"not judged on a {here}"
        return ""

    def _of_hcas(self, why: str) -> bool:
        """Asks for HCAs where the machine has another carrier; GB10 has HCAs, and uses them."""
        return why != ONE_MEMORY and self.id in {"rdma.devices", "rdma.port"}

    @property
    def of_gdr(self) -> bool:
        """Asks of GPUDirect itself, rather than of the node that might do it."""
        topic = self.id.partition(".")[0]
        return topic in _GDR or self.id in _GDR

    @property
    def of_nvidia_peermem(self) -> bool:
        """Asks of that module, which HCAs of other makers have no use for."""
        topic = self.id.partition(".")[0]
        return topic in {"peermem", "ib"} or self.paths == frozenset({PeerPath.PEERMEM})

    @property
    def of_use(self) -> bool:
        """Asks of what a node needs that uses its GPUs itself, rather than giving them away."""
        topic = self.id.partition(".")[0]
        return (topic in _OWN_USE or self.id in _OWN_USE) and self.id not in _OF_ANY_HOST


def _open(node: Node, why: NoEvidence | Unparsable) -> Finding:
    """What was not read leaves the verdict open; whether root would help is said once for all."""
    if isinstance(why, NotCollected):
        return unknown(str(why), hint=why.own_hint, gap=Gap.NOT_COLLECTED)
    if isinstance(why, NeedsRoot) and not read_or(lambda: node.fresh().root, False):
        return unknown(f"{Gap.ROOT}: {why}", hint=why.own_hint, gap=Gap.ROOT)
    gap = (
        Gap.LOST
        if "nvidia-smi" in str(why) and read_or(lambda: bool(node.fresh().smi_said.lost), False)
        else Gap.NONE
    )
    loose = isinstance(why, Unparsable) and any(
        IMPORTED in node.sources.source(k) for k in node.cited
    )
    return unknown(str(why), hint=WHOLE if loose else why.own_hint, gap=gap)


def without_gpus(node: Node) -> bool:
    """Known to have no GPU; a PCI bus that could not be read proves nothing."""
    try:
        return no_gpu_on_bus(node)
    except CutOff:
        return False


def by_design(node: Node) -> str:
    """Why GPUDirect RDMA is nothing to this machine; "" where it is, or where none can tell."""
    try:
        return _design(node)
    except CutOff:
        return ""


_GDR = frozenset({"path", "peermem", "dmabuf", "register", "ib", "gdrcopy", "acs", "ats"}) | {
    "pcie.distance",
    "pcie.bar1",
    "iommu.passthrough",
    "iommu.boot",
    "gds.iommu",
}
BY_DESIGN = "not supported by design: "
ONE_MEMORY = f"{BY_DESIGN}CPU and GPU share one memory (GB10), and host buffers serve"

# On a host whose GPUs all belong to guests these are the guests' affair; that no GPU is given
# away where none should be is a check of its own, gpu.vfio_bound.
_OWN_USE = frozenset({"path", "peermem", "dmabuf", "register", "ib", "gdrcopy", "nvidia"}) | {
    "kernel.pending_reboot",
    "pcie.distance",
}
# Of the modules of OFED in the kernel, which drive no other maker's HCAs.
_OF_CONNECTX = frozenset({"ofed.kernel_match", "ofed.openibd"})
_OF_ANY_HOST = frozenset({"nvidia.present", "nvidia.fabricmanager"})
NO_GPU = "no NVIDIA GPU on the PCI bus"
GIVEN = "every GPU is given to guests (vfio-pci): judge it there"


@once
def _all_given(node: Node) -> bool:
    """Known to have given all its GPUs to guests.

    :raises CutOff: where the evidence ends before it could tell.
    """
    gpus = unless_cut(lambda: node.pci.gpus, ())
    return bool(gpus) and all(each.driver == PASSED_THROUGH for each in gpus)


@once
def _design(node: Node) -> str:
    """GPUs for which GPUDirect RDMA is not made, or a machine where another way carries.

    :raises CutOff: where the evidence ends before it could tell.
    """
    try:
        if node.unified_memory:
            return ONE_MEMORY
        if fabric := _past_verbs(node):
            return fabric
        if not node.has_dmi or node.hcas or not node.pci.whole:
            return ""
        kind = machine_type(node.dmi, frozenset(each.device for each in node.pci.gpus))
    except CutOff:
        raise
    except (NoEvidence, Unparsable):
        return ""
    return "" if kind is None or kind.rdma else f"{BY_DESIGN}{kind.name} has {kind.network}"


def _past_verbs(node: Node) -> str:
    """The network with GPUDirect of its own that is all there is; "" where verbs are in use."""
    if node.pci.adapters or any(e.kind is not Kind.OMNI_PATH for e in node.rdma_hardware):
        return ""
    found = (each.fabric for each in node.pci.functions.values())
    return f"not judged here: {name}, past verbs" if (name := next(filter(None, found), "")) else ""


def amd_gpus(node: Node) -> str:
    """ "8 AMD GPUs, out of scope" where the PCI bus has some; "" else."""
    count = sum(each.is_amd_gpu for each in node.pci.functions.values())
    return f"{counted(count, 'AMD GPU')}, out of scope" if count else ""


@once
def no_gpu_on_bus(node: Node) -> bool:
    """Known to have none; where the evidence ends before the PCI bus it cannot be told.

    :raises CutOff: there, so that a check that might not apply is not judged at all.
    """
    return unless_cut(lambda: node.pci.whole and not node.pci.gpus, False)


class Verdict(Struct, frozen=True):
    """The answer, with the sources that it rests on."""

    check: Check
    finding: Finding
    cited: tuple[str, ...] = ()  # keys of frames, in the order they were asked for
    waiver: Waiver | None = field(default=None)

    @property
    def status(self) -> Status:
        return self.finding.status

    def waived(self, today: date) -> bool:
        """A failure that the site lives with; shown as waived, never as passed."""
        return self.status is Status.FAIL and self.waiver is not None and today <= self.waiver.until


def check(
    name: str,
    *,
    impact: Impact,
    source: str,
    fix: str,
    paths: frozenset[PeerPath] = BOTH_PATHS,
    tense: Tense = Tense.NOW,
    roles: frozenset[Role] = ALL_ROLES,
    needs_gpu: bool = True,
    on_disk: bool = False,
) -> Callable[[Judge], Check]:
    """Turn a judgement into a Check; the topic file lists it and ``ALL`` gathers it."""

    def wrap(judge: Judge) -> Check:
        return Check(name, judge, impact, source, fix, paths, tense, roles, needs_gpu, on_disk)

    return wrap
