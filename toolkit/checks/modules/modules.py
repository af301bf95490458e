"""Does configuration let the modules load, and are they all of one stack?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.checks.check import (
    Finding,
    Impact,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.modules.fixes import reload
from toolkit.checks.modules.obstacles import loaded_from_elsewhere, of_two_stacks
from toolkit.checks.rdma.makers import rdma_modules, takes_nvidia_peermem
from toolkit.facts.boot.cmdline import Cmdline, parse_cmdline
from toolkit.facts.node.node import Node
from toolkit.want import Want

if TYPE_CHECKING:
    from toolkit.facts.modules.pasted_modules import ConfigLines

RDMA = ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_cm")


@check(
    "modules.blacklist",
    impact=Impact.BROKEN,
    tense=Tense.AT_BOOT,
    source="modprobe.d(5); Mellanox/doca-driver-build entrypoint; kernel-parameters",
    fix="remove the blacklist or install line, then rebuild the initramfs",
)
def blacklist(node: Node, want: Want) -> Finding:
    """No module that the path needs is kept from loading.

    A containerised OFED leaves /etc/modprobe.d/blacklist-ofed-modules.conf behind, which
    kills the inbox stack. "blacklist" stops loading by alias and at boot; an install line
    to /bin/false and module_blacklist= stop an explicit modprobe too.
    """
    if not node.probed and node.said_config is not None:
        return _by_lines(node.said_config)
    needed = ["nvidia", *rdma_modules(node), "ib_core", "ib_uverbs"]
    if takes_nvidia_peermem(node, want):
        needed.append("nvidia_peermem")
    arguments = _arguments(node)
    on_cmdline = {
        module.replace("-", "_")
        for name in ("module_blacklist", "modprobe.blacklist", "rd.driver.blacklist")
        for module in arguments.listed(name)
    }
    stopped = {}
    for module in needed:
        if module in node.modprobe.blacklisted:
            stopped[module] = "blacklisted"
        if command := node.modprobe.blocked(module):
            stopped[module] = f"install {command}"
        if module in on_cmdline:
            stopped[module] = "blacklisted on the kernel command line"
    if not stopped:
        return passed("none of them")
    return failed(
        "; ".join(f"{module}: {how}" for module, how in stopped.items()),
        expected="no line that keeps them from loading",
        details=_lines_naming(node, set(stopped)),
    )


def _by_lines(said: ConfigLines) -> Finding:
    """Lines that somebody found; those that were not found may say more."""
    names = ("nvidia", "nvidia_peermem", *RDMA)
    stopped = {
        name: f"install {command}" if command else "blacklisted"
        for name in names
        if (command := said.config.blocked(name)) or name in said.config.blacklisted
    }
    if stopped:
        return failed(
            "; ".join(f"{module}: {how}" for module, how in stopped.items()),
            expected="no line that keeps them from loading",
            details=tuple(
                f"{file}: {line}"
                for line, file in said.files.items()
                if line.split()[1].replace("-", "_") in stopped
            ),
        )
    told = [f"{module}: {words}" for module, words in said.config.options]
    others = sorted(said.config.blacklisted)
    told += [f"blacklisted: {', '.join(others)}"] if others else []
    return unknown(
        f"none of {', '.join(names)} in these lines"
        f"{f' ({told[0]})' if told else ''}; what the others say is not told",
        hint="modprobe -c | grep -e blacklist -e install; cat /proc/cmdline",
    )


def _arguments(node: Node) -> Cmdline:
    """The kernel's; of an image those in its boot menu, and none where it has no menu."""
    if node.live:
        return node.cmdline
    return node.next_cmdline if node.boot_entries else parse_cmdline("")


def _lines_naming(node: Node, modules: set[str]) -> tuple[str, ...]:
    """Where in /etc/modprobe.d it says so."""
    return tuple(
        f"/etc/modprobe.d/{name}: {line}"
        for name, line in node.modprobe_files
        if line.split()[:1] in (["blacklist"], ["install"])
        and line.split()[1:2]
        and line.split()[1].replace("-", "_") in modules
    )


@check(
    "modules.origin",
    impact=Impact.BROKEN,
    on_disk=True,
    source="mlnx-ofa_kernel packaging (updates/, extra/); Mellanox/nv_peer_memory issue 39",
    fix="depmod -a, rebuild the initramfs; then " + reload("rdma"),
)
def origin(node: Node, want: Want) -> Finding:
    """The RDMA modules come from one stack, and the loaded ones are those on disk.

    An initramfs with inbox mlx5 inside wins over OFED on disk; peermem then finds no
    symbol ("Unknown symbol ... err -2"), or OFED's ib_uverbs is refused on the kernel's own
    ib_core ("disagrees about version of symbol"). Told by srcversion, by version and build id,
    by the mark of out-of-tree modules, and by what the kernel says of refused ones.
    """
    if not node.probed and (told := of_two_stacks(node, RDMA)) is not None:
        return failed(told.found, expected=told.expected, hint=told.command)
    files = node.rdma_files
    if not files:
        return not_applicable("no RDMA module on disk for the running kernel")
    origins = {name: files[name].origin for name in RDMA if name in files}
    if len(set(origins.values())) > 1:
        return failed(
            ", ".join(f"{name} {where}" for name, where in origins.items()),
            expected="all of one stack",
            hint=f"depmod -a {node.kernel}",
        )
    if stale := loaded_from_elsewhere(node, origins):
        return failed(
            f"loaded from elsewhere than on disk: {', '.join(stale)}",
            expected="the loaded modules are those on disk",
        )
    if (refused := of_two_stacks(node, RDMA)) is not None:
        return failed(refused.found, expected=refused.expected, hint=refused.command)
    where = next(iter(origins.values()), "")
    version = next((files[name].version for name in origins if files[name].version), "")
    return passed(f"all {where} {version}".rstrip())
