"""What all tests share: a mark says what a test needs, and here it is asked for."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dev.tools import MARKS, in_ci, missing, sentence
from tests.selecting import may_hold

# A shell that starts the tests in the background hands down an ignored SIGINT, to us and to
# every controller that a test starts; tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes tells of the machine's load, and nothing of ours.
settings.register_profile("gdr", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gdr")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files alone that hold no test with the marks asked for."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    wanted = str(config.getoption("markexpr"))
    return None if may_hold(collection_path.read_text(), wanted, MARKS) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of more than a minute, which say LONG, first: one begun last is what all wait for."""
    items.sort(key=lambda item: getattr(getattr(item, "module", None), "LONG", False) is not True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose tools are not here, with their packages named; fail it in CI."""
    lacks = missing(tool for mark in item.iter_markers() for tool in MARKS.get(mark.name, ()))
    if lacks and in_ci():
        pytest.fail(sentence(lacks), pytrace=False)
    if lacks:
        pytest.skip(sentence(lacks))
