"""Does every GPU answer, and what has the kernel logged of GPUs and NVSwitches since boot?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from toolkit.checks.check import (
    NO_GPU,
    Finding,
    Impact,
    check,
    failed,
    no_gpu_on_bus,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.gpu.driver import NOT_LOADED
from toolkit.compat.gpus import XidAction, xid_row
from toolkit.errors import CutOff, NoEvidence, Unparsable, unless_cut
from toolkit.facts.gpu.driver import is_error
from toolkit.facts.gpu.kernel_trouble import Trouble
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.want import Want

T = TypeVar("T")
NONE_LISTED = "nvidia-smi lists no GPU and does not say why"
_OFF = "drain the node and reboot it, cold if that does not do; exchange the GPU if it comes again"
_HINTS = {
    XidAction.RESET: "drain the node, then reset the GPU: nvidia-smi -i GPU --gpu-reset, which "
    "ends what runs on it, with NVSwitches on all GPUs; exchange it if the Xid comes again",
    XidAction.REBOOT: _OFF,
    XidAction.EXCHANGE: "drain the node, and have the GPU, its seat and its power looked at",
}


def asked(ask: Callable[[], T]) -> tuple[T | None, NoEvidence | Unparsable | None]:
    """A fact, or why it is not known; where evidence is cut off nothing is told.

    :raises CutOff: there.
    """
    try:
        return ask(), None
    except CutOff:
        raise
    except (NoEvidence, Unparsable) as why:
        return None, why


@check(
    "gpu.lost",
    impact=Impact.SICK,
    needs_gpu=False,
    source="nvmlErrorString, NVML_ERROR_GPU_IS_LOST; open-gpu-kernel-modules, osinit.c, "
    '"fallen off the bus"; NVIDIA Xid catalog, Xid 79',
    fix="drain the node, reboot it cold, exchange the GPU if it goes again",
)
def lost(node: Node, want: Want) -> Finding:
    """Every GPU answers its driver: none is lost, none fell off the bus.

    nvidia-smi then ends with 15 and one sentence, and what it would have said of the other GPUs
    is not known; or it lists the GPU, with "[Unknown Error]" in place of values. The kernel log
    names the GPU, with Xid 79 or, where the driver finds it so, over three lines without a number.
    A line stays in the log until the next boot, though the GPU came back with a reset: it went
    once, and may go again.
    """
    kube = node.kube_gpus
    if kube is not None and kube.gone:
        return failed(
            f"Kubernetes offers {kube.gone}",
            expected="each GPU allocatable",
            hint="kubectl logs of its nvidia-device-plugin, and dmesg there, say which and why",
            details=(f"node {kube.name}",) if kube.name else (),
        )
    if node.plugin_log is not None and (ill := node.plugin_log.ill):
        return failed(
            f"the device plugin has called {counted(len(ill), 'GPU')} unhealthy: {ill[0]}",
            expected="each GPU healthy",
            hint="dmesg there says why; what its Xid calls for, then restart the plugin's pod",
            details=ill,
        )
    return _answering(node)


def _answering(node: Node) -> Finding:
    fallen, no_log = asked(lambda: node.fallen_gpus)
    said, no_words = asked(lambda: node.smi_said)
    lines = said.lost if said else ()
    rows = unless_cut(lambda: node.gpu_rows, ())
    mute = [row.address for row in rows if is_error(row.name) and is_error(row.persistence)]
    if fallen or lines or mute:
        named = {each.address for each in fallen or () if each.address} | set(mute)
        named |= set(said.addresses) if said and lines else set()
        which = ", ".join(sorted(named)) or "which one is not told"
        return failed(
            f"{counted(max(1, len(named)), 'GPU', 'does', 'do')} not answer: {which}",
            expected="an answer of every GPU",
            hint=_OFF,
            details=(
                *(f"nvidia-smi: {line}" for line in lines),
                *(f"{address}: nvidia-smi has errors in place of its values" for address in mute),
                *_by_device(fallen or ()),
            ),
        )
    if no_gpu_on_bus(node.fresh()):
        return not_applicable(NO_GPU)
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    if why := no_words or no_log:
        raise why
    if not node.gpu_rows:
        return unknown(NONE_LISTED, hint="nvidia-smi -L")
    if partly := _partly(node):
        return unknown(f"nvidia-smi has errors in place of {partly}", hint="nvidia-smi -q")
    return passed(f"all {len(node.gpu_rows)} answer, and none fell off the bus {node.log_reaches}")


def _partly(node: Node) -> str:
    """The first value that NVML failed to tell of a GPU that it lists; "" for none.

    What nvidia-smi -q does not tell in time, other checks need and say.
    """
    rows = {row.address: row.errors for row in node.gpu_rows if row.errors}
    gpus = unless_cut(lambda: node.smi.gpus, ())
    told = rows or {gpu.address: gpu.errors for gpu in gpus if gpu.errors}
    return next((f"values of {address}: {wrong[0]}" for address, wrong in told.items()), "")


def _by_device(troubles: Sequence[Trouble]) -> tuple[str, ...]:
    """Each kind of line once for each device: the first of them, when it came and how often."""
    groups: dict[tuple[str, int], list[Trouble]] = {}
    for each in troubles:
        groups.setdefault((each.address, each.number), []).append(each)
    return tuple(_told(group) for group in groups.values())


def _told(group: Sequence[Trouble]) -> str:
    first, last = group[0], group[-1]
    row = xid_row(first.number) if first.text.startswith("NVRM: Xid") else None
    head = f"{row.kind}, {row.text}" if row else ""
    times = f"{len(group)} times" if len(group) > 1 else ""
    until = f"last {last.when}" if len(group) > 1 and last.when else ""
    said = ", ".join(word for word in (head, first.when, times, until) if word)
    return f"{said}: {first.text}" if said else first.text


@check(
    "gpu.xid",
    impact=Impact.SICK,
    needs_gpu=False,
    source="NVIDIA Xid catalog, docs.nvidia.com/deploy/xid-errors; toolkit/compat/data/xids.toml; "
    'open-gpu-kernel-modules, nvErrorLog, "NVRM: Xid (PCI:...): 79, ..."',
    fix="what the Xid's row says: reset the GPU, reboot the node, exchange the GPU; drain first",
)
def xid(node: Node, want: Want) -> Finding:
    """The kernel log has no Xid that tells of a failing GPU.

    Xids of applications (13, 31, 43, 45) and of contained errors (63, 94) end a job and leave the
    GPU well. Others leave it unfit for the next job until it is reset (48, 95, 119), the node is
    booted (79), or it is exchanged. Those of the fifth NVLink (144 to 150) say "Fatal" or
    "Nonfatal" themselves; 154 names what the driver asks for. A reset that mended it does not
    take the line back: its date tells, and a waiver with a date can say so. A fatal error of
    unified memory (nvidia-uvm) has no number and counts with them: no CUDA program starts after it.
    """
    told = node.xids
    if sick := [*(each for each in told if each.sick), *node.uvm_troubles]:
        return _sick_xids(sick)
    if strange := sorted({each.number for each in told if each.sick is None}):
        numbers = ", ".join(str(each) if each else "a cut line" for each in strange)
        return unknown(
            f"Xid {numbers}: what it means is not known",
            hint="look it up: docs.nvidia.com/deploy/xid-errors",
        )
    if not told and no_gpu_on_bus(node.fresh()):
        return not_applicable(NO_GPU)
    if not told and node.no_driver:
        return not_applicable(NOT_LOADED)
    reach = node.log_reaches
    if not told:
        return passed(f"none {reach}")
    return passed(
        f"{counted(len(told), 'Xid')} {reach}, of jobs and of what was contained alone: "
        + ", ".join(str(number) for number in sorted({each.number for each in told})),
        details=_by_device(told),
    )


def _sick_xids(sick: Sequence[Trouble]) -> Finding:
    by_gpu: dict[str, set[int]] = {}
    for each in sick:
        by_gpu.setdefault(each.address, set()).add(each.number)
    acts = {row.act if (row := xid_row(each.number)) else XidAction.REBOOT for each in sick}
    worst = next(act for act in reversed(_HINTS) if act in acts | {XidAction.RESET})
    return failed(
        "; ".join(
            f"{address}: Xid {', '.join(map(str, sorted(numbers)))}"
            if address
            else _without_number(sick)
            for address, numbers in by_gpu.items()
        ),
        expected="no Xid of memory, firmware, NVLink or bus",
        hint=_HINTS[worst],
        details=_by_device(sick),
    )


def _without_number(sick: Sequence[Trouble]) -> str:
    of_uvm = any("uvm" in each.text.lower() for each in sick if not each.address)
    return "nvidia-uvm had a fatal error" if of_uvm else "the driver says that a GPU must be reset"


@check(
    "nvlink.sxid",
    impact=Impact.SICK,
    source='open-gpu-kernel-modules, NVSWITCH_PRINT_SXID, "nvidia-nvswitch3: SXid (PCI:...): ..."; '
    "Fabric Manager user guide, NVSwitch SXid errors",
    fix="drain the node, reset all its GPUs and NVSwitches or reboot it, exchange what comes again",
)
def sxid(node: Node, want: Want) -> Finding:
    """The kernel log has no fatal SXid of an NVSwitch.

    The driver says of each whether it is fatal. A GPU that is lost takes its links with it, which
    an NVSwitch logs as SXid 20034 seconds later: look at gpu.lost and gpu.xid first. Without a
    fatal one the traffic was sent again, and nothing is lost but time.
    """
    told = node.sxids
    if fatal := [each for each in told if each.sick]:
        numbers = ", ".join(str(number) for number in sorted({each.number for each in fatal}))
        return failed(
            f"SXid {numbers} on {', '.join(sorted({each.address for each in fatal}))}",
            expected="no fatal SXid",
            hint="drain the node; if a GPU fell off the bus, it is the cause; reboot",
            details=_by_device(fatal),
        )
    if strange := [each for each in told if each.sick is None]:
        which = strange[0].number or "of a cut line"
        return unknown(f"SXid {which}: whether it is fatal is not told", hint="dmesg | grep SXid")
    if not told and not node.nvswitches:
        return not_applicable("no NVSwitch on the PCI bus")
    seen = f"{counted(len(told), 'SXid')}, none of them fatal," if told else "none"
    return passed(f"{seen} {node.log_reaches}", details=_by_device(told))
