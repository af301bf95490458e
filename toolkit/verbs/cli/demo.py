"""The verb for the simulated nodes themselves."""

from __future__ import annotations

import sys

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.report.document import dumps
from toolkit.report.listings import demo_document
from toolkit.report.table import columns
from toolkit.verbs.access import demo_folder
from toolkit.verbs.demo import catalogue, reset


@verb(
    (
        Option("reset", False, "make the nodes anew: whatever was healed is ill again"),
        Option("json", False, "one JSON document on standard output (docs/demo.schema.json)"),
    )
)
def demo(said: Said) -> ExitCode:
    """The simulated nodes: which there are, where they lie, and how to make them ill again.

    Examples:
      invoke demo
      invoke demo --reset
      invoke doctor --hosts demo-all
    """
    if said.flag("reset"):
        said.not_dry("demo --reset", "which nodes it would make anew: demo")
        reset()
    if said.flag("json"):
        told = demo_document(catalogue(), str(demo_folder()), reset=said.flag("reset"))
        sys.stdout.write(dumps(told))
    elif said.flag("reset"):
        print("as they were at first")
    else:
        rows = [
            (name, why, "demo" if in_demo else "demo-all only")
            for name, why, in_demo in catalogue()
        ]
        print("\n".join(columns(rows)))
        print(f"\nthey lie in {demo_folder()}; --hosts demo[001-200] makes larger fleets")
    return ExitCode.OK
