"""Scratch nodes, one for each shell that the engine must run under."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS, Tree, make_tree
from tests.scripts.shells import Case, usual

HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)  # after -k and -m: who names another shell has all of its cases
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave nine tenths of the cases in busybox and bash out, but for GDR_SHELLS=all."""
    asked = os.environ.get("GDR_SHELLS", "")
    if asked not in {"", "all"}:
        raise pytest.UsageError(f"GDR_SHELLS is {asked!r}: it is all, or not set")
    if asked:
        return
    taken = usual([_case(item) for item in items])
    config.hook.pytest_deselected(
        items=[item for item, kept in zip(items, taken, strict=True) if not kept]
    )
    items[:] = [item for item, kept in zip(items, taken, strict=True) if kept]


def _case(item: pytest.Item) -> Case:
    callspec = getattr(item, "callspec", None)
    if callspec is None or not item.path.is_relative_to(HERE):
        return Case(item.nodeid, str(item.path), "")
    found = {name: _shell(value) for name, value in callspec.params.items()}
    rest = [f"{name}={callspec.params[name]!r}" for name in sorted(found) if not found[name]]
    same = (getattr(item, "originalname", item.name), *rest)
    return Case(item.nodeid, str(item.path), next(filter(None, found.values()), ""), same)


def _shell(value: object) -> str:
    """The shell that a parameter names, alone or with its words; "" for all else."""
    words = value.split() if isinstance(value, str) else value
    first = words[0] if isinstance(words, (list, tuple)) and words else ""
    return first if first in {"dash", "busybox", "bash"} else ""


@pytest.fixture(params=sorted(SHELLS))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    """A scratch node under each shell in turn."""
    return make_tree(tmp_path / "node", SHELLS[request.param])


@pytest.fixture
def dash_tree(tmp_path: Path) -> Tree:
    """A scratch node under dash alone, for what no shell does differently."""
    return make_tree(tmp_path / "node", SHELLS["dash"])
