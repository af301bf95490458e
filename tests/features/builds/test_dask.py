"""A Dask cluster as the executor of builds, by a client of our own."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from types import ModuleType
from typing import Any

import pytest

from toolkit import __version__
from toolkit.errors import TransportError, UsageError
from toolkit.features.builds.io.dask import DaskCluster, open_dask, version_here
from toolkit.features.builds.io.executor import WorkerLost

_PLAIN = {"timeout": 10, "set_as_default": False, "security": None}


class Killed(Exception):
    pass


class Theirs:
    def __init__(self, result: object) -> None:
        self.told = result

    def result(self) -> object:
        if isinstance(self.told, BaseException):
            raise self.told
        return self.told

    def add_done_callback(self, call: Callable[[Theirs], None]) -> None:
        call(self)


class Client:
    """Runs what is submitted at once, and says what lies here for it to say."""

    versions: dict[str, object] = {}  # noqa: RUF012 # each test lays its own
    made: list[tuple[object, ...]] = []  # noqa: RUF012 # likewise
    left = 0
    gone: Exception | None = None
    ends: BaseException | None = None

    def __init__(self, *words: object, **more: object) -> None:
        Client.made.append((*words, more))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        Client.left += 1

    def run(self, call: Callable[[], str], on_error: str) -> dict[str, object]:
        assert (call, on_error) == (version_here, "return")
        return self.versions

    def submit(self, call: Callable[[], object], *, pure: bool) -> Theirs:
        assert not pure
        if self.gone:
            raise self.gone
        try:
            return Theirs(self.ends or call())
        except Exception as why:
            return Theirs(why)


class Rpc:
    asked: list[str] = []  # noqa: RUF012 # each test lays its own
    closed = 0

    def __init__(self, url: str, *, connection_args: object) -> None:
        assert connection_args is None
        Rpc.asked.append(url)

    async def identity(self) -> None:
        return

    async def close_rpc(self) -> None:
        Rpc.closed += 1


@pytest.fixture(autouse=True)
def _distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("distributed")
    module.rpc, module.Client, module.KilledWorker = Rpc, Client, Killed
    monkeypatch.setitem(sys.modules, "distributed", module)
    monkeypatch.setattr(Client, "versions", {"tcp://a": __version__, "tcp://b": __version__})
    for place, name in ((Client, "made"), (Rpc, "asked")):
        monkeypatch.setattr(place, name, [])
    for place, name in ((Client, "left"), (Rpc, "closed")):
        monkeypatch.setattr(place, name, 0)


@pytest.mark.parametrize(("jobs", "at_once"), [(0, 2), (5, 5)])
def test_its_workers_are_the_crew(jobs: int, at_once: int) -> None:
    logging.getLogger("distributed.worker").setLevel(logging.INFO)
    logging.getLogger("distributedly").setLevel(logging.INFO)
    with open_dask("host:8786", jobs) as crew:
        assert crew.at_once == at_once
        assert crew.executor.submit(divmod, 7, 2).result() == (3, 1)
        assert crew.executor.submit(int, "11", base=2).result() == 3
        assert Client.left == 0
    assert Client.left == 1
    assert (Rpc.asked, Rpc.closed) == (["tcp://host:8786"], 1)
    assert Client.made == [("tcp://host:8786", _PLAIN)]
    assert logging.getLogger("distributed.worker").level == logging.CRITICAL
    assert logging.getLogger("distributed").level == logging.CRITICAL
    assert logging.getLogger("distributedly").level == logging.INFO


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ({}, "the Dask scheduler at host:1 has no workers"),
        (
            {"tcp://b": "0.0", "tcp://a": __version__},
            f"the Dask worker tcp://b has gdr-toolkit 0.0; here it is {__version__}",
        ),
        (
            {"tcp://b": "0.0", "tcp://a": ModuleNotFoundError("no toolkit")},
            f"the Dask worker tcp://a has none: no toolkit; here it is {__version__}",
        ),
    ],
)
def test_workers_that_would_build_something_else(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, object], says: str
) -> None:
    monkeypatch.setattr(Client, "versions", versions)
    with pytest.raises(TransportError) as raised, open_dask("host:1", 0):
        pass
    assert str(raised.value) == says
    assert Client.left == 1


def test_the_version_is_that_of_the_toolkit() -> None:
    assert version_here() == __version__


def test_a_job_that_took_its_workers_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "ends", Killed("two of them"))
    why = DaskCluster(Client(), Killed).submit(int).exception()
    assert isinstance(why, WorkerLost)
    assert str(why).endswith("after the other with it: two of them")


@pytest.mark.parametrize("where", ["gone", "ends"])
def test_a_scheduler_that_is_lost(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    lost = OSError("x") if where == "gone" else CancelledError("x")
    monkeypatch.setattr(Client, where, lost)
    why = DaskCluster(Client(), Killed).submit(int).exception()
    assert isinstance(why, TransportError)
    assert str(why) == "the connection to the Dask scheduler was lost"
    assert why.__cause__ is lost


@pytest.mark.parametrize("why", [UsageError("x"), KeyboardInterrupt()])
def test_what_a_job_raises_comes_home(monkeypatch: pytest.MonkeyPatch, why: BaseException) -> None:
    monkeypatch.setattr(Client, "ends", why)
    ours = DaskCluster(Client(), Killed).submit(int)
    assert ours.exception() is why
    assert not ours.cancel()
