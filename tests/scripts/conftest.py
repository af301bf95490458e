"""Scratch nodes, one for each shell that the engine must run under."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS, Tree, make_tree


@pytest.fixture(params=sorted(SHELLS))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    """A scratch node under each shell in turn."""
    return make_tree(tmp_path / "node", SHELLS[request.param])


@pytest.fixture
def dash_tree(tmp_path: Path) -> Tree:
    """A scratch node under dash alone, for what no shell does differently."""
    return make_tree(tmp_path / "node", SHELLS["dash"])
