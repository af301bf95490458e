"""What nvidia-smi says of the health of GPUs: memory, clocks, and what the driver asks for."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.gpu.driver import NOT_LOADED
from toolkit.checks.gpu.health import NONE_LISTED
from toolkit.errors import unless_cut
from toolkit.facts.gpu.smi_health import Pairs, SmiHealth, raised, unreadable
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.want import Want

_ANEW = "drain the node, then ./invokew reload, or reboot it"
_RESET = "drain the node, then nvidia-smi -i GPU --gpu-reset, which ends what runs on the GPU"


@check(
    "nvidia.nvml",
    impact=Impact.BROKEN,
    source='nvmlErrorString: "Driver/library version mismatch", "Driver Not Loaded"; nvidia-smi',
    fix="after an update load the driver anew (reload), or reboot; what it refuses for another "
    "reason stands in the kernel log: dmesg | grep NVRM",
)
def nvml(node: Node, want: Want) -> Finding:
    """User space reaches the driver: NVML answers, and finds GPUs.

    Where the libraries were updated and the loaded driver was not, every new CUDA process fails
    until the driver is loaded anew; those that run already go on.
    """
    if clash := node.api_mismatch:
        return failed(clash, expected="one version everywhere", hint=_ANEW)
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    if node.has_gpu_rows and not node.has_nvidia_smi:
        return not_applicable("nvidia-smi is not installed")
    said = node.smi_said
    if said.silent:
        mismatch = any("version mismatch" in line for line in said.silent)
        return failed(
            said.silent[0],
            expected="an answer of NVML",
            hint=_ANEW if mismatch else "dmesg | grep NVRM says why; then reboot",
            details=said.silent[1:],
        )
    if not node.gpu_rows:
        return unknown(NONE_LISTED, hint="nvidia-smi -L")
    return passed(f"it answers for {counted(len(node.gpu_rows), 'GPU')}")


Pick = Callable[[SmiHealth], Pairs]


def _judged(
    node: Node, sections: tuple[str, ...], pick: Pick, bad: Callable[[Pairs], Finding]
) -> Finding:
    """What every GPU tells in these sections of nvidia-smi -q.

    :param bad: the failure, of "ADDRESS: NAME" with value; what passes is said here.
    """
    report = node.smi_shown
    gpus = report.gpus
    told = [gpu for gpu in gpus if gpu.health.sections & set(sections)]
    pairs = tuple(
        (f"{gpu.address}: {name}", value) for gpu in told for name, value in pick(gpu.health)
    )
    ill = tuple(each for each in raised(pairs) if each not in unreadable(pairs))
    if ill:
        return bad(ill)
    if strange := unreadable(pairs):
        return unknown(f"{strange[0][0]} is {strange[0][1]!r}", hint="nvidia-smi -q")
    if told and len(told) < len(gpus):
        return unknown(f"nvidia-smi -q tells it of {len(told)} of {len(gpus)} GPUs")
    if report.lacks:
        shown = f"none on {counted(len(told), 'GPU')} shown; " if pairs else ""
        return unknown(f"{shown}nvidia-smi -q: {report.lacks}", hint="nvidia-smi -q, whole")
    if not pairs:
        return not_applicable(f"nvidia-smi -q tells nothing of it: {' or '.join(sections)}")
    return passed(f"none on {counted(len(gpus), 'GPU')}")


def _lines(pairs: Pairs) -> tuple[str, ...]:
    return tuple(f"{name}: {value}" for name, value in pairs)


def _gpus(pairs: Pairs) -> str:
    return counted(len({name.split(": ")[0] for name, _ in pairs}), "GPU")


@check(
    "gpu.ecc",
    impact=Impact.SICK,
    source="nvidia-smi -q, ECC Errors, Retired Pages and Remapped Rows; NVIDIA GPU memory error "
    "management guide, row remapping; dynamic page retirement",
    fix="drain the node and reset the GPU, which brings a pending repair about; exchange a GPU "
    "whose repair failed",
)
def ecc(node: Node, want: Want) -> Finding:
    """No GPU has uncorrected memory errors since its driver was loaded, or a repair that waits.

    Uncorrected errors of the GPU's whole life are no fault: a row that was remapped, or a page
    that was retired, is gone. One that waits for a reset is in use until then; a repair that
    failed, or SRAM errors above NVIDIA's threshold, are grounds for an exchange.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)

    def bad(pairs: Pairs) -> Finding:
        final = any("Failure" in n or "Threshold" in n or "Unrepairable" in n for n, _ in pairs)
        return failed(
            f"uncorrected memory errors, or a repair that waits, on {_gpus(pairs)}",
            expected="no uncorrected error since the driver was loaded, no repair pending",
            hint="drain the node and have the GPU exchanged" if final else _RESET,
            details=_lines(pairs),
        )

    sections = ("ECC Errors", "Retired Pages", "Remapped Rows")
    return _judged(node, sections, lambda health: health.errors + health.repairs, bad)


@check(
    "gpu.reset",
    impact=Impact.SICK,
    source="nvidia-smi -q, GPU Recovery Action and GPU Reset Status; NVML, "
    "nvmlDeviceGetGpuRecoveryAction; nvmlErrorString, NVML_ERROR_RESET_REQUIRED",
    fix="what it asks for: drain the node, then reset the GPU or reboot",
)
def reset(node: Node, want: Want) -> Finding:
    """The driver asks for no reset of a GPU, and for no reboot.

    Since branch 560 nvidia-smi names the recovery action; before, it says whether a reset is
    required or recommended, and answers "GPU requires reset" in place of a value.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    said = unless_cut(lambda: node.smi_said, None)

    def bad(pairs: Pairs) -> Finding:
        reboot = any("Reboot" in value for _, value in pairs)
        return failed(
            f"asked for on {_gpus(pairs)}",
            expected="no reset and no reboot asked for",
            hint="drain the node and reboot it" if reboot else _RESET,
            details=_lines(pairs),
        )

    if said and said.reset:
        return bad(tuple(("nvidia-smi", line) for line in said.reset))
    sections = ("GPU Recovery Action", "GPU Reset Status")
    return _judged(node, sections, lambda health: health.recovery, bad)


@check(
    "gpu.throttle",
    impact=Impact.SLOW,
    source="nvidia-smi -q, Clocks Event Reasons; NVML, nvmlClocksEventReasons",
    fix="cooling: fans, inlet temperature, dust; power: supplies and cables, the cap of the rack",
)
def throttle(node: Node, want: Want) -> Finding:
    """No GPU is slowed down by heat, or by its power supply, at this moment.

    The software's own power cap, idle clocks and a clock that an administrator set are no fault.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)

    def bad(pairs: Pairs) -> Finding:
        return failed(
            f"{_gpus(pairs)} slowed down",
            expected="no slowdown by heat or power",
            hint="power: supplies, cables and the rack's cap"
            if any("Power" in name for name, _ in pairs)
            else "cooling: nvidia-smi -q -d TEMPERATURE, then fans and inlet",
            details=_lines(pairs),
        )

    sections = ("Clocks Event Reasons", "Clocks Throttle Reasons")
    return _judged(node, sections, lambda health: health.clocks, bad)
