"""What decides whether a node does GPUDirect RDMA, as rows of gate.sh, of one that passed. Pure.

Only what a shell reads from /proc and /sys in a moment: what takes a tool is doctor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

from msgspec import Struct

from toolkit.compat.gpus import XidAction, xid_rows
from toolkit.errors import Unparsable, UsageError
from toolkit.facts.node.node import Node
from toolkit.facts.pci.config_space import ACS_CAPABILITY
from toolkit.node.scripts import FOLDER

_PCI, _VERBS, _MODULE = "/sys/bus/pci/devices", "/sys/class/infiniband", "/sys/module"
# Arguments of the kernel that decide on IOMMU, ACS and the driver.
_ARGUMENTS = ("iommu", "intel_iommu", "amd_iommu", "pci=", "pcie_", "nvidia")
_SICK = frozenset({XidAction.RESET, XidAction.REBOOT, XidAction.EXCHANGE})
_RELOAD = "reload --hosts NODE"
_PROVISION = "provision --hosts NODE"


class Expected(Struct, frozen=True):
    """One thing that is to be as it was."""

    kind: str  # a word of gate.sh: is, there, leads, least, has, bits, locks, xids
    check: str  # the check that tells more: "acs.redirect"
    what: str  # "acs.redirect 0000:17:00.0"
    path: str
    wanted: str
    fix: str = ""

    @property
    def line(self) -> str:
        """A row of gate.sh's table.

        :raises UsageError: a value has what would end a field or begin a command.
        """
        fields = (self.kind, self.what, self.path, self.wanted, self.fix)
        if any(set(each) & set("|\n") for each in fields):
            raise UsageError(
                f"{self.what}: {self.wanted!r} cannot stand in a gate",
                hint="a bar ends a field there",
            )
        return "|".join(fields)


def expected(node: Node) -> tuple[Expected, ...]:
    """All of one node, the causes first.

    :raises NoEvidence: where something that decides was not read.
    """
    return (*_kernel(node), *_modules(node), *_gpus(node), *_hcas(node), *_bridges(node), *_log())


def _kernel(node: Node) -> Iterator[Expected]:
    release = "/proc/sys/kernel/osrelease"
    yield Expected("is", "kernel.version", "kernel", release, node.kernel, "boot that kernel")
    for word in node.cmdline.words:
        if word.startswith(_ARGUMENTS):
            head = f"argument {word.partition('=')[0]}"
            yield Expected("has", "iommu.cmdline", head, "/proc/cmdline", word, _PROVISION)
    for daemon in node.daemons:
        if daemon.name == "slurmd":  # a prolog has its limits, and so has a job
            limit = daemon.memlock
            yield Expected("locks", "rdma.memlock_now", "memlock of slurmd", "", limit, _PROVISION)


def _modules(node: Node) -> Iterator[Expected]:
    for name, state in sorted(node.module_state.items()):
        place = f"{_MODULE}/{name}"
        for field, value in (
            ("version", state.version),
            ("srcversion", state.srcversion),
            ("initstate", state.initstate),
        ):
            if value:
                what = f"module {name} {field}"
                yield Expected("is", "modules.origin", what, f"{place}/{field}", value, _RELOAD)
        for holder in sorted(state.holders):
            what = f"module {holder} on {name}"
            path = f"{place}/holders/{holder}"
            yield Expected("there", "peermem.bound", what, path, "it holds it", _RELOAD)


def _gpus(node: Node) -> Iterator[Expected]:
    for gpu in node.pci.gpus:
        place = f"{_PCI}/{gpu.address}"
        ids = f"0x{gpu.device:04x}"
        yield Expected("is", "gpu.lost", f"GPU {gpu.address}", f"{place}/device", ids, "drain it")
        what, path = f"driver of GPU {gpu.address}", f"{place}/driver"
        yield Expected("leads", "nvidia.present", what, path, gpu.driver, _RELOAD)
        if gpu.now.width:  # the speed sinks while a GPU idles
            what, wide = f"lanes of GPU {gpu.address}", str(gpu.now.width)
            yield Expected("least", "pcie.link", what, f"{place}/current_link_width", wide)
        if gpu.group:
            domain = node.iommu_groups.get(gpu.group)
            if domain is None:
                raise Unparsable("/sys/kernel/iommu_groups", f"no group {gpu.group}")
            what, path = f"IOMMU of GPU {gpu.address}", f"{place}/iommu_group/type"
            yield Expected("is", "iommu.passthrough", what, path, domain.value, _PROVISION)


def _hcas(node: Node) -> Iterator[Expected]:
    for hca in node.rdma_hardware:
        for port in hca.ports:
            if not port.up:
                continue  # unused, or the node would not have passed
            place, what = f"{_VERBS}/{hca.name}/ports/{port.number}", f"{hca.name}/{port.number}"
            state = "4: ACTIVE"
            yield Expected("is", "rdma.port", f"port {what}", f"{place}/state", state, "the cable")
            yield Expected("is", "rdma.rate", f"rate of {what}", f"{place}/rate", port.rate)
            layer = port.link_layer
            yield Expected("is", "rdma.port", f"layer of {what}", f"{place}/link_layer", layer)


def _bridges(node: Node) -> Iterator[Expected]:
    pairs = node.near_pairs
    tree = node.pci_config.functions if pairs else {}
    for address in sorted({bridge.address for each in pairs for bridge in each.bridges}):
        space = tree[address].config
        at = space.extended(ACS_CAPABILITY) if space else None
        if space is not None and at is not None:
            value, path = f"{space.word(at + 6):04x}", f"{_PCI}/{address}/config@{at + 6}"
            yield Expected("bits", "acs.redirect", f"ACS of {address}", path, value, _PROVISION)


def _log() -> Iterator[Expected]:
    rows = [each for each in xid_rows() if each.act in _SICK]
    numbers = [str(n) for each in rows for n in range(each.first, each.last + 1)]
    # In the table a bar parts fields: gate.sh is given commas.
    yield Expected("xids", "gpu.xid", "Xid since boot", "", ",".join(numbers), "drain it")


def alike(tables: Mapping[str, tuple[Expected, ...]]) -> tuple[Expected, ...]:
    """The one table of all these nodes.

    :raises UsageError: they are not alike.
    """
    (first, wanted), *others = tables.items()
    for host, table in others:
        odd = sorted({each.line for each in table} ^ {each.line for each in wanted})
        if odd:
            what = odd[0].split("|")[1]
            raise UsageError(
                f"{host} differs from {first} in {len(odd)} rows, such as {what}",
                hint="one gate for each kind of node: --hosts with those alike; see compare",
            )
    return wanted


def script(table: tuple[Expected, ...], of: str, when: str) -> str:
    """The whole gate, as one file of POSIX sh. Cut off at any byte, it does nothing.

    :param of: the hosts whose state it holds.
    :param when: the day on which they passed.
    """
    rows = "\n".join(each.line for each in table)
    digest = sha256(rows.encode()).hexdigest()[:12]
    head = f"#!/bin/sh\n# As {of} on {when}: made by gdr-toolkit, to be made anew after a change.\n"
    engine = (FOLDER / "gate.sh").read_text("utf-8")
    body = f"digest='{digest}, of {of} on {when}'\ntable() {{\n    cat <<'ROWS'\n{rows}\nROWS\n}}\n"
    return f'{head}{{\n{engine}\n{body}\ngate "$@" end\n}}\n'
