"""How does the firmware set up processors and memory? Mostly a matter of taste, which is shown."""

from __future__ import annotations

from toolkit.checks.check import Impact
from toolkit.checks.firmware.bios import bios
from toolkit.checks.firmware.bios_seen import BiosFinding, right, unseen, wrong
from toolkit.compat.bios import BiosRole
from toolkit.errors import NoEvidence
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.want import Want

_SLOW_TO_WAKE = 50  # microseconds: idle states beyond it are called deep here
_SAVING = 8  # of energy_perf_bias, which goes from 0, performance, to 15, saving


@bios(
    BiosRole.NUMA_CLUSTERING,
    impact=Impact.SLOW,
    source="/sys/devices/system/node; numa_node of PCI functions; ACPI SRAT and _PXM",
    fix="node interleaving off in the BIOS; NPS1 or SNC off is the simple choice, and any other "
    "wants jobs pinned by nodes rather than sockets",
)
def numa_clustering(node: Node, want: Want) -> BiosFinding:
    """Memory of sockets is not interleaved, and GPUs and HCAs know their node.

    Interleaving makes one node of several sockets: half of all host memory is then far from
    any device, and nobody can tell which half. Several nodes a socket (NPS, SNC) are in
    order; without any proximity (-1) neither pinning nor NCCL knows what is near.
    """
    sockets, nodes = node.setup.sockets, node.numa_nodes
    functions = (*node.pci.gpus, *node.compute_hcas)
    lost = tuple(each.address for each in functions if each.numa < 0)
    if not sockets:
        raise NoEvidence("/sys/devices/system/node: which socket a node is on is not told")
    populated = len({number for number, _ in node.setup.packages})
    if populated < sockets or nodes < sockets:
        return wrong(f"{nodes} NUMA nodes on {sockets} sockets", expected="at least one a socket")
    if lost and nodes > 1:
        return wrong(
            f"{len(lost)} of {len(functions)} GPUs and HCAs belong to no node of {nodes}",
            expected="a NUMA node for each",
            hint="NUMA (SRAT) on in the BIOS; see pcie.numa",
            details=lost,
        )
    each = populated // sockets
    how = "one node a socket" if each == 1 else f"{each} nodes a socket (NPS{each}, SNC{each})"
    return right(f"{how}, {counted(sockets, 'socket')}", number=each)


@bios(
    BiosRole.C_STATES,
    impact=Impact.SLOW,
    source="Documentation/admin-guide/pm/cpuidle; /sys/devices/system/cpu/cpu0/cpuidle",
    fix="as the site wants it: C-states in the BIOS, or idle states by the kernel",
)
def c_states(node: Node, want: Want) -> BiosFinding:
    """Processors rest as the site wants them to; by itself either way is in order.

    Traffic between GPU and HCA below one switch needs no processor. Jobs that wait for one
    pay the time until it wakes.
    """
    setup = node.setup
    if not setup.idle:
        driver = setup.idle_driver or "no driver"
        return right(f"no idle states: {driver}", on=False, firm=False)
    deep = [e for e in setup.idle if e.latency_us > _SLOW_TO_WAKE and not e.disabled]
    shown = ", ".join(f"{e.name} {e.latency_us} us" for e in setup.idle if not e.disabled)
    return right(
        f"down to {deep[-1].name}" if deep else f"none deeper than {_SLOW_TO_WAKE} us",
        on=bool(deep),
        firm=False,
        details=(f"{setup.idle_driver}: {shown}",),
    )


@bios(
    BiosRole.POWER_PROFILE,
    impact=Impact.SLOW,
    source="/sys/devices/system/cpu: cpufreq, energy_perf_bias; Documentation/admin-guide/pm",
    fix="a performance profile in the BIOS, or one that leaves power to the system; then tuned-adm "
    "profile throughput-performance",
)
def power_profile(node: Node, want: Want) -> BiosFinding:
    """The machine is not told to save power at the cost of speed.

    Firmware that keeps the clocks to itself shows no cpufreq; what profile it follows then
    only its own screens and its BMC tell.
    """
    setup = node.setup
    if setup.energy_bias is not None and setup.energy_bias >= _SAVING:
        return wrong(
            f"energy bias {setup.energy_bias}: speed is given up to save power",
            expected=f"below {_SAVING}: 0 is performance, 6 the balance",
            hint="x86_energy_perf_policy 0 sets it until the next boot",
        )
    if not setup.clock_driver:
        return unseen("no cpufreq: the firmware keeps the clocks to itself")
    told = [setup.clock_driver, f"governor {setup.governor}" if setup.governor else ""]
    told += [f"energy bias {setup.energy_bias}"] if setup.energy_bias is not None else []
    told += [] if setup.turbo is None else ["turbo" if setup.turbo else "no turbo"]
    return right(", ".join(filter(None, told)))


@bios(
    BiosRole.SMT,
    impact=Impact.SLOW,
    source="/sys/devices/system/cpu/smt/control; /proc/cpuinfo, siblings and cpu cores",
    fix="as the site wants it: SMT (Hyper-Threading) in the BIOS, or nosmt on the kernel command "
    "line",
)
def smt(node: Node, want: Want) -> BiosFinding:
    """Cores run as many threads as the site wants; by itself either way is in order."""
    control, cpu = node.setup.smt, node.cpu
    if control in {"off", "forceoff"}:
        return right("off by the kernel; the processor has it", on=False, firm=False)
    if control == "notsupported":
        return right("off in the BIOS, or the processor has none", on=False)
    if control == "on" or cpu.threads > cpu.cores > 0:
        return right("on", on=True)
    if cpu.threads and cpu.threads == cpu.cores:
        return right("off", on=False)
    return unseen("neither the kernel nor the processor tells")
