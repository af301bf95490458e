"""Every row of the tables over checks: ``ROWS`` of each ``test_checks_*`` in this folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.evidence.judging import Row

FRAMEWORK = "test_checks_framework"  # holds what is true of all of them, and no rows


def by_file() -> dict[str, list[Row]]:
    """The rows of each file that has some, in the order of the files' names."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_checks_*.py"))
    modules = {name: import_module(f"tests.unit.{name}") for name in names if name != FRAMEWORK}
    found = {name: list(getattr(module, "ROWS", ())) for name, module in modules.items()}
    return {name: rows for name, rows in found.items() if rows}


ROWS = [row for rows in by_file().values() for row in rows]
