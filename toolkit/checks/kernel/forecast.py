"""What a node would lose of GPUDirect RDMA if it booted another kernel. Nothing is touched."""

from __future__ import annotations

from msgspec import Struct

from toolkit.checks.check import Finding, Status, unknown
from toolkit.checks.judged import Judged
from toolkit.checks.kernel.next_kernel import TOPICS, Boot, Topic
from toolkit.checks.modules.fixes import (
    cannot_build,
    image_package,
    of_another_distribution,
    would_build,
)
from toolkit.errors import ExitCode, NoEvidence, Unparsable
from toolkit.facts.node.node import Node
from toolkit.want import Want


class Prospect(Struct, frozen=True):
    """One thing that GPUDirect rests on, as that kernel would find it."""

    topic: str  # "driver", "nvidia-peermem"
    finding: Finding  # a failure is a loss
    cited: tuple[str, ...] = ()  # keys of frames, in the order they were asked for


class Forecast(Struct, frozen=True):
    """One node, one kernel that it might boot."""

    kernel: str  # kernel release; "" where the next boot's is not known
    prospects: tuple[Prospect, ...]

    def having(self, status: Status) -> tuple[Prospect, ...]:
        return tuple(each for each in self.prospects if each.finding.status is status)

    @property
    def losses(self) -> tuple[Prospect, ...]:
        return self.having(Status.FAIL)

    @property
    def keeps(self) -> tuple[Prospect, ...]:
        return self.having(Status.PASS)

    @property
    def unknown(self) -> tuple[Prospect, ...]:
        return self.having(Status.UNKNOWN)

    @property
    def state(self) -> str:
        """ "loses", "unknown" or "keeps"; keeps only when nothing is lost or unknown."""
        if self.losses:
            return "loses"
        return "unknown" if self.unknown else "keeps"

    @property
    def exit_code(self) -> ExitCode:
        if self.losses:
            return ExitCode.FAILED
        return ExitCode.UNKNOWN if self.unknown else ExitCode.OK


class Foreseen(Struct, frozen=True):
    """A node as it is, and as it would be."""

    judged: Judged
    forecast: Forecast

    @property
    def exit_code(self) -> ExitCode:
        """That of the forecast alone: what is wrong now is doctor's business."""
        return self.forecast.exit_code if self.judged.complete else ExitCode.UNREACHABLE


def forecast(node: Node, want: Want, release: str = "") -> Forecast:
    """Judge what a boot of one kernel would find.

    :param release: kernel release; "" for that of the next boot.
    """
    first = node.fresh()
    try:
        wanted = release or first.default_kernel
        found = next((each for each in first.kernels if each.release == wanted), None)
    except (NoEvidence, Unparsable) as why:
        return Forecast(release, (Prospect("kernel", _open(why), _cited(first)),))
    if found is None:
        return Forecast(wanted, (Prospect("kernel", _not_installed(first, wanted), _cited(first)),))
    boot = Boot(found, following=not release)
    return Forecast(wanted, tuple(_judge(node, want, boot, *topic) for topic in TOPICS.items()))


def _judge(node: Node, want: Want, boot: Boot, topic: str, judge: Topic) -> Prospect:
    fresh = node.fresh()
    try:
        finding = judge(fresh, want, boot)
    except (NoEvidence, Unparsable) as why:
        finding = _open(why)
    return Prospect(topic, finding, _cited(fresh))


def _open(why: NoEvidence | Unparsable) -> Finding:
    return unknown(str(why), hint=why.own_hint)


def _cited(node: Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.cited))


def _not_installed(node: Node, release: str) -> Finding:
    if strange := of_another_distribution(node, release):
        return unknown(f"{release} is not installed there", hint=strange)
    if newer := cannot_build(node, release):
        return unknown(f"{release} is not installed there", hint=newer)
    would = would_build(node)
    then = f"; DKMS would build {would} then" if would else ""
    return unknown(
        f"{release} is not installed there", hint=f"install {image_package(node, release)}{then}"
    )
