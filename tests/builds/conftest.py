"""Where what a test is built on cannot be had (no network, no right to mount), it is not run."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from dev.tools import in_ci
from tests.builds.mirrors import NotToBeHad
from tests.builds.packing import Modules, make_modules, only_what_a_disk_needs
from tests.builds.sandbox import Sandbox
from tests.builds.secure_guest import Story
from tests.builds.secure_guest import story as run_story


def _told() -> Generator[None, None, None]:
    try:
        return (yield)
    except NotToBeHad as why:
        if in_ci():
            raise
        pytest.skip(str(why))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip where a fixture could not be had; in CI that is an error."""
    return (yield from _told())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """The same for what the test itself asks for."""
    return (yield from _told())


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The guest with Secure Boot, run once whatever the number of pytest's workers."""
    base = tmp_path_factory.getbasetemp()
    return run_story(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(scope="session")
def modules() -> Modules:
    """Real modules of one kernel, with and without signatures."""
    return make_modules()


@pytest.fixture(scope="session")
def small() -> Iterator[Sandbox]:
    """A system with kernels, of which only the modules are there that a disk needs."""
    with Sandbox.of("guest") as made:
        only_what_a_disk_needs(made)
        yield made
