"""What rebuilds nvidia-peermem on the node by itself: the program, and the hooks that call it.

===============  ==========================================================================
who calls        where, and when
===============  ==========================================================================
DKMS             3.2 and later: when it has installed something (post_transaction)
package manager  DKMS before 3.2; also where OFED or the driver does not come by DKMS
kernel packages  Debian's and RHEL's, after DKMS's own hook
===============  ==========================================================================

Their places are those that the check looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.checks.kernel.rebuilding import HOOKS, Hook, calls, hooks_of
from toolkit.checks.modules.fixes import family_of
from toolkit.facts.distros import every
from toolkit.facts.modules.placed_files import REBUILD
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.plan.artefact import Artefact, Values
from toolkit.plan.artefacts_modules import dkms_may_build
from toolkit.want import PeerPath, Want

_PROOFS = ("peermem.rebuild",)
_BUILT = ("peermem.file", "peermem.stub")
_NEW_KERNEL = "look after nvidia-peermem for a new kernel"
_UPDATED = "rebuild nvidia-peermem when packages have changed what it rests on"
_BY_DKMS = "rebuild nvidia-peermem when DKMS has changed what it rests on"
_ROWS = {  # by the hook's id: title, template
    "dkms": (_BY_DKMS, "dkms/after-transaction.conf.j2"),
    "apt": (_UPDATED, "apt/rebuild.conf.j2"),
    "dnf": (_UPDATED, "dnf/rebuild.action.j2"),
    "zypper": (_UPDATED, "zypper/rebuild.sh.j2"),
    "kernel": (_NEW_KERNEL, "kernel/rebuild.sh.j2"),
    "headers": (_NEW_KERNEL, "kernel/rebuild.sh.j2"),
    "kernel-install": (_NEW_KERNEL, "kernel/rebuild.install.j2"),
}


def rebuilding(*owners: Values) -> tuple[Artefact, ...]:
    """The rows, for nodes where DKMS builds nvidia-peermem, or will by one of ``owners``.

    :param owners: values of the artefacts by which DKMS builds nvidia-peermem.
    """
    built_here = _built_here(owners)
    program = Artefact(
        "rebuild.program",
        "rebuild what no longer fits, aside, and keep what works",
        REBUILD,
        "dkms/rebuild.sh.j2",
        built_here,
        (),
        _PROOFS,
        families=every,
        needs=_BUILT,  # they build nothing now: what does is before them in the plan
        mode=0o755,
    )
    hooks = (
        Artefact(
            f"rebuild.{hook.id}",
            _ROWS[hook.id][0],
            hook.path,
            _ROWS[hook.id][1],
            _called(hook, built_here),
            (),
            _PROOFS,
            needs=_BUILT,
            families=every,
            mode=0o755 if hook.executable else 0o644,
        )
        for hook in HOOKS
    )
    return (program, *hooks)


def _built_here(owners: Sequence[Values]) -> Values:
    """Where DKMS builds nvidia-peermem, or will by one of ``owners``."""

    def values(node: Node, want: Want) -> Mapping[str, str] | None:
        if want.path is not PeerPath.PEERMEM or node.ofed.flavour is OfedFlavour.INBOX:
            return None
        if not dkms_may_build(node, want):
            return None
        there = node.peermem_dkms or any(each(node, want) is not None for each in owners)
        return {} if there else None

    return values


def _called(hook: Hook, built_here: Values) -> Values:
    """Where it is built there, and somebody calls the hook."""

    def values(node: Node, want: Want) -> Mapping[str, str] | None:
        if hook not in hooks_of(family_of(node).name):
            return None  # which hooks a family lacks is told by the check
        return built_here(node, want) if calls(hook.caller, node) else None

    return values
