"""Files that have nvidia-peermem loaded before services start jobs that may need it."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.errors import NotCollected
from toolkit.facts.distros import with_systemd
from toolkit.facts.modules.load_order import OURS
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Artefact, Trigger, Values
from toolkit.want import PeerPath, Want

_PROOFS = ("peermem.order",)
_UNIT = (Trigger.DAEMON_RELOAD,)
_NEEDS = ("peermem.file", "peermem.stub")


def _before(*services: str) -> Values:
    """For nodes on which one of these services starts at boot."""

    def values(node: Node, want: Want) -> Mapping[str, str] | None:
        if want.path is not PeerPath.PEERMEM:
            return None
        try:
            times = node.unit_times
        except NotCollected:
            return None  # evidence of an earlier probe
        return {} if times and any(times[name].loaded for name in services) else None

    return values


def _drop_in(word: str, service: str) -> Artefact:
    return Artefact(
        f"order.{word}",
        f"let {word} wait until nvidia-peermem is loaded",
        f"/etc/systemd/system/{service}.d/gdr-toolkit.conf",
        "systemd/after-peermem.conf.j2",
        _before(service),
        (*_UNIT, Trigger.REBOOT),
        _PROOFS,
        families=with_systemd,
        needs=_NEEDS,
        removed=_UNIT,
    )


ORDER = (
    Artefact(
        "order.unit",
        "load nvidia-peermem after OFED and the driver, and before what starts jobs",
        f"/etc/systemd/system/{OURS}",
        "systemd/peermem.service.j2",
        _before("slurmd.service", "kubelet.service"),
        _UNIT,
        _PROOFS,
        families=with_systemd,
        needs=_NEEDS,
        removed=_UNIT,
    ),
    _drop_in("slurmd", "slurmd.service"),
    _drop_in("kubelet", "kubelet.service"),
)
