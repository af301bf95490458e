"""A plugin of pytest that keeps the tests which a list names, where a mutant renamed others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHOSEN = "MUTANTS_CHOSEN"  # in the environment: a file with one test a line; empty for all


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = set(Path(os.environ[CHOSEN]).read_text().splitlines())
    if not names:
        return
    kept = [item for item in items if item.nodeid in names]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
    items[:] = kept
