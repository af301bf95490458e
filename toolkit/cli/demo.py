"""The verb for the simulated nodes themselves."""

from __future__ import annotations

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.flow.demo import catalogue, demo_folder, reset
from toolkit.report.table import columns


@verb((Option("reset", False, "make the nodes anew: whatever was healed is ill again"),))
def demo(said: Said) -> ExitCode:
    """The simulated nodes: which there are, where they lie, and how to make them ill again.

    Examples:
      invoke demo
      invoke demo --reset
      invoke doctor --hosts demo-all
    """
    if said.flag("reset"):
        reset()
        print("as they were at first")
        return ExitCode.OK
    print("\n".join(columns(catalogue())))
    print(f"\nthey lie in {demo_folder()}; --hosts demo[001-200] makes larger fleets")
    return ExitCode.OK
