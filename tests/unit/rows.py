"""Every row of the tables over checks: ``ROWS`` of each ``test_checks_*`` in this folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.evidence.judging import Row

FRAMEWORK = "test_checks_framework"  # holds what is true of all of them, and no rows


def gathered() -> list[Row]:
    """The rows, in the order of the files' names."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_checks_*.py"))
    modules = [import_module(f"tests.unit.{name}") for name in names if name != FRAMEWORK]
    return [row for module in modules for row in getattr(module, "ROWS", ())]


ROWS = gathered()
