"""The verb for the simulated nodes themselves."""

from __future__ import annotations

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.demo import fleet
from toolkit.demo.nodes import READY, SMALL
from toolkit.errors import ExitCode
from toolkit.flow.access import state_dir
from toolkit.report.table import columns

_ABOUT = {
    "demo-healthy": "an 8-GPU HGX node on which all is well",
    "demo-iommu": "the IOMMU translates, locked memory is limited",
    "demo-stub": "nvidia-peermem is an empty stub since an OFED update",
    "demo-kernel": "a kernel update came without modules built for it",
    "demo-rocky": "RHEL family: the IOMMU translates, nothing loads nvidia-peermem",
    "demo-acs": "ACS redirect is on at the switches",
    "demo-nogpu": "no GPU at all",
    "demo-hang": "nvidia-smi never answers",
    "demo-noroot": "sudo refuses",
    "demo-arch": "a distribution without a rule",
}


@verb((Option("reset", False, "make the nodes anew: whatever was healed is ill again"),))
def demo(said: Said) -> ExitCode:
    """The simulated nodes: which there are, where they lie, and how to make them ill again.

    Examples:
      invoke demo
      invoke demo --reset
      invoke doctor --hosts demo-all
    """
    folder = state_dir() / "demo"
    if said.flag("reset"):
        fleet.reset(folder)
    rows = [
        (name, _ABOUT.get(name, ""), "" if name in SMALL else "demo-all only") for name in READY
    ]
    print("\n".join(columns(rows)))
    print(f"\nthey lie in {folder}")
    return ExitCode.OK
