"""What rebuilds nvidia-peermem on the node by itself: the program, and the hooks that call it.

===============  ==========================================================================
who calls        where, and when
===============  ==========================================================================
DKMS             3.2 and later: when it has installed something (post_transaction)
package manager  DKMS before 3.2; also where OFED or the driver does not come by DKMS
kernel packages  Debian's and RHEL's, after DKMS's own hook
===============  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.change.artefact import Artefact, Values
from toolkit.facts.node import Node
from toolkit.want import Want

REBUILD = "/usr/lib/gdr-toolkit/rebuild"
AFTER_TRANSACTION = (3, 2)  # the DKMS that has post_transaction
_BUILT = ("peermem.file", "peermem.stub")


def rebuilding(*owners: Values) -> tuple[Artefact, ...]:
    """The rows, for nodes that should have what one of ``owners`` places.

    :param owners: values of the artefacts by which DKMS builds nvidia-peermem.
    """

    def built_here(node: Node, want: Want) -> Mapping[str, str] | None:
        return {} if any(each(node, want) is not None for each in owners) else None

    def by_dkms(node: Node, want: Want) -> Mapping[str, str] | None:
        return built_here(node, want) if node.dkms_version.at_least(*AFTER_TRANSACTION) else None

    def by_packages(node: Node, want: Want) -> Mapping[str, str] | None:
        noticed = node.dkms_version.at_least(*AFTER_TRANSACTION)
        if noticed and node.ofed_dkms and node.driver_dkms:
            return None
        return built_here(node, want)

    def row(
        name: str, title: str, path: str, template: str, values: Values, *families: str, mode: int
    ) -> Artefact:
        return Artefact(
            name,
            title,
            path,
            template,
            values,
            (),
            _BUILT,
            needs=_BUILT,  # they build nothing now: what does is before them in the plan
            families=frozenset(families or ("debian", "rhel", "suse")),
            mode=mode,
        )

    new_kernel = "look after nvidia-peermem for a new kernel"
    updated = "rebuild nvidia-peermem when packages have changed what it rests on"
    return (
        row("rebuild.program", "rebuild what no longer fits, aside, and keep what works",
            REBUILD, "dkms/rebuild.sh.j2", built_here, mode=0o755),
        row("rebuild.dkms", "rebuild nvidia-peermem when DKMS has changed what it rests on",
            "/etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf",
            "dkms/after-transaction.conf.j2", by_dkms, mode=0o644),
        row("rebuild.apt", updated, "/etc/apt/apt.conf.d/zz-gdr-toolkit",
            "apt/rebuild.conf.j2", by_packages, "debian", mode=0o644),
        row("rebuild.dnf", updated,
            "/etc/dnf/plugins/post-transaction-actions.d/gdr-toolkit.action",
            "dnf/rebuild.action.j2", by_packages, "rhel", mode=0o644),
        row("rebuild.zypper", updated, "/usr/lib/zypp/plugins/commit/gdr-toolkit",
            "zypper/rebuild.sh.j2", by_packages, "suse", mode=0o755),
        row("rebuild.kernel", new_kernel, "/etc/kernel/postinst.d/zz-gdr-toolkit",
            "kernel/rebuild.sh.j2", built_here, "debian", mode=0o755),
        row("rebuild.headers", new_kernel, "/etc/kernel/header_postinst.d/zz-gdr-toolkit",
            "kernel/rebuild.sh.j2", built_here, "debian", mode=0o755),
        row("rebuild.kernel-install", new_kernel, "/etc/kernel/install.d/95-gdr-toolkit.install",
            "kernel/rebuild.install.j2", built_here, "rhel", mode=0o755),
    )  # fmt: skip
