"""Machines that no expert has handed us: what the probe prints on them, from what vendors say.

Sources stand in ``machines.toml``, with the verdicts. What a source leaves open is as on the
machine that the evidence was made from.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.evidence.machines import ailing, clouds, servers
from toolkit.evidence import Evidence

COMPOSED: dict[str, Callable[[], Evidence]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        servers.dgx_h100_ib,
        servers.hgx_h200_roce,
        servers.hgx_h200_thor2,
        servers.hgx_b200_pollara,
        servers.l40s_irdma,
        clouds.p5,
        clouds.p5en,
        clouds.p6_b200,
        servers.gb200_nvl72,
        servers.gb300_nvl72,
        clouds.nd_h100_v5,
        clouds.nd_gb300_v6,
        clouds.a3_mega,
        clouds.a3_ultra,
        clouds.a4,
        clouds.h100_device_plugin,
        clouds.gb200_dra,
        clouds.guest_tree,
        clouds.guest_flat,
        ailing.lost_hgx_h100,
        ailing.lost_l40s,
        ailing.lost_gh200,
        ailing.flapping_port,
        servers.connectx10,
        servers.mi300x,
        clouds.mig_fleet,
        servers.spark,
    )
}
