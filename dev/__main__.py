"""Invoke itself, as ``invokew`` runs it: for users, too, whose HOME may not be entered."""

import sys

from invoke import __version__
from invoke.program import Program

from toolkit.cli import Settings

sys.argv[0] = "invoke"  # as which it is told of
Program(
    name="Invoke",
    binary="inv[oke]",
    binary_names=["invoke", "inv"],
    version=__version__,
    config_class=Settings,
).run()
