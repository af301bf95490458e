"""Is nvidia-peermem built again when what it was built against changes?

``HOOKS`` is the one list of what a node needs for that: ``artefacts_dkms`` places it.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from toolkit.checks.check import (
    Finding,
    Impact,
    Status,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.modules.fixes import family_of
from toolkit.checks.modules.peermem import PEERMEM_ONLY, file, stub
from toolkit.facts.modules.placed_files import REBUILD, HookFile
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.want import Modules, Want

AFTER_TRANSACTION = (3, 2)  # the DKMS that has post_transaction
PLUGIN = "python3-dnf-plugin-post-transaction-actions"
_PLUGINS = {  # by hook: the package without which it is not read, and what that package has
    "dnf": (PLUGIN, "/dnf-plugins/post-transaction-actions.py"),
    "dnf5": ("libdnf5-plugin-actions", "/libdnf5/plugins/actions.so"),
}
_DNF5 = "/usr/bin/dnf5"  # where it is, "dnf" is that one


class Caller(StrEnum):
    """Who calls the program."""

    DKMS = "dkms"
    PACKAGES = "packages"
    KERNEL = "kernel"


class Hook(Struct, frozen=True):
    """One file that has the program called."""

    id: str  # "apt"
    path: str
    caller: Caller
    families: frozenset[str]  # names of rows of distros.py; EVERY for what DKMS itself reads
    executable: bool = False


EVERY: frozenset[str] = frozenset()
_DEBIAN, _RHEL, _SUSE = (frozenset({name}) for name in ("debian", "rhel", "suse"))
HOOKS = (
    Hook("dkms", "/etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf", Caller.DKMS, EVERY),
    Hook("apt", "/etc/apt/apt.conf.d/zz-gdr-toolkit", Caller.PACKAGES, _DEBIAN),
    Hook(
        "dnf",
        "/etc/dnf/plugins/post-transaction-actions.d/gdr-toolkit.action",
        Caller.PACKAGES,
        _RHEL,
    ),
    Hook("dnf5", "/etc/dnf/libdnf5-plugins/actions.d/gdr-toolkit.actions", Caller.PACKAGES, _RHEL),
    Hook("zypper", "/usr/lib/zypp/plugins/commit/gdr-toolkit", Caller.PACKAGES, _SUSE, True),
    Hook("kernel", "/etc/kernel/postinst.d/zz-gdr-toolkit", Caller.KERNEL, _DEBIAN, True),
    Hook("headers", "/etc/kernel/header_postinst.d/zz-gdr-toolkit", Caller.KERNEL, _DEBIAN, True),
    Hook(
        "kernel-install", "/etc/kernel/install.d/95-gdr-toolkit.install", Caller.KERNEL, _RHEL, True
    ),
)


def hooks_of(node: Node) -> tuple[Hook, ...]:
    """Those that the node's family has a use for; of dnf's two formats the one that it reads.

    :raises NoEvidence: where the node does not tell which dnf it has.
    """
    family = family_of(node).name
    found = [each for each in HOOKS if not each.families or family in each.families]
    if any(each.id in _PLUGINS for each in found):
        unread = "dnf" if _DNF5 in node.rebuild_hooks else "dnf5"
        found = [each for each in found if each.id != unread]
    return tuple(found)


def calls(caller: Caller, node: Node) -> bool:
    """Whether it takes this caller: before 3.2 DKMS tells nobody, and of packages it knows its own.

    :raises NoEvidence: where the node does not tell.
    """
    told = node.dkms_version.at_least(*AFTER_TRANSACTION)
    match caller:
        case Caller.DKMS:
            return told
        case Caller.PACKAGES:
            return not (told and node.ofed_dkms and node.driver_dkms)
    return True


@check(
    "peermem.rebuild",
    impact=Impact.FRAGILE,
    paths=PEERMEM_ONLY,
    tense=Tense.AT_BOOT,
    source="dkms(8), post_transaction; apt.conf(5); libdnf5-actions(8); kernel-install(8); "
    "docs/builds.md",
    fix="./invokew provision --hosts NODE places a program that rebuilds, and what calls it",
)
def rebuild(node: Node, want: Want) -> Finding:
    """Something rebuilds nvidia-peermem when OFED, the driver or the kernel changes.

    DKMS builds it for new kernels and new drivers alone, and where OFED was not built before
    it, as an empty module. After an OFED update its symbol versions are those of the old one,
    and the next boot is without it. Looked for is what provision places; a way of the site's
    own cannot be recognised: waive this check there.
    """
    if why := _nothing_to_follow(node, want):
        return not_applicable(why)
    family = family_of(node).name
    needed = [each for each in hooks_of(node) if calls(each.caller, node)]
    if not family or (
        calls(Caller.PACKAGES, node) and not any(each.caller is Caller.PACKAGES for each in needed)
    ):
        return unknown(
            f"{node.distro.id}: no hooks of ours are known for its packages",
            hint="DKMS 3.2 needs none where OFED and the driver come by DKMS; else build it again "
            "after updates by a way of your own",
        )
    return (
        _lacking(needed, node.rebuild_hooks)
        or _stopped(needed, node)
        or passed(f"{REBUILD}, called by {_callers(needed)}")
    )


def _lacking(needed: list[Hook], found: dict[str, HookFile]) -> Finding | None:
    if ill := _ill(REBUILD, found, executable=True):
        return _unnoticed(needed, needed, [f"{REBUILD}: {ill}"])
    wrong = {each: _ill(each.path, found, executable=each.executable) for each in needed}
    missing = [each for each, why in wrong.items() if why]
    if not missing:
        return None
    return _unnoticed(missing, needed, [f"{each.path}: {wrong[each]}" for each in missing])


def _stopped(needed: list[Hook], node: Node) -> Finding | None:
    for package, brings in (_PLUGINS[each.id] for each in needed if each.id in _PLUGINS):
        if not any(brings in path for path in node.rebuild_hooks):
            return failed(
                f"dnf does not read its hook: no {package}",
                expected="the plugin that runs actions after a transaction",
                hint=f"dnf install {package}",
            )
    if node.autoinstall_off:
        return failed(
            "the hooks are there, and /etc/dkms/no-autoinstall keeps them from building",
            expected="no such file",
            hint="rm /etc/dkms/no-autoinstall",
        )
    return None


def _nothing_to_follow(node: Node, want: Want) -> str:
    if want.modules is Modules.BUILT:
        return "modules are built elsewhere and delivered"
    if node.ofed.flavour is OfedFlavour.INBOX:
        return "the inbox RDMA stack: it comes with the kernel"
    if not node.has_dkms:
        return "no DKMS here: nvidia-peermem comes as it was built"
    return "" if node.peermem_dkms else _another_owner(node, want)


def _another_owner(node: Node, want: Want) -> str:
    """DKMS builds no nvidia-peermem: why it need not; "" where it has to begin to."""
    if not any(each.judge(node, want).status is Status.FAIL for each in (file, stub)):
        return "nvidia-peermem comes as it was built, not by DKMS"
    version = str(node.driver.version) if node.driver else ""
    if version in node.driver_sources:
        return ""
    return "DKMS builds no nvidia-peermem; see peermem.file"


def _ill(path: str, found: dict[str, HookFile], *, executable: bool) -> str:
    if path not in found:
        return "missing"
    if found[path] is HookFile.EMPTY:
        return "empty"
    return "cannot be executed" if executable and found[path] is not HookFile.RUNS else ""


def _unnoticed(missing: list[Hook], needed: list[Hook], details: list[str]) -> Finding:
    callers = {each.caller for each in missing}
    events = [] if callers == {Caller.KERNEL} else ["an OFED update", "a driver update"]
    # Without a hook of the kernel's packages those that see updates see new kernels too.
    if Caller.KERNEL in callers or not any(each.caller is Caller.KERNEL for each in needed):
        events.append("a new kernel")
    return failed(
        f"goes unnoticed: {', '.join(events)}",
        expected="nvidia-peermem is built again after each of them",
        details=tuple(details),
    )


def _callers(hooks: list[Hook]) -> str:
    names = {Caller.DKMS: "DKMS", Caller.KERNEL: "new kernels"}
    return ", ".join(dict.fromkeys(names.get(each.caller, each.id) for each in hooks))
