"""Nodes are read while what looks into their evidence is imported."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.evidence.build import node
from tests.invoked import FORKS
from tests.replay import ReplayTransport
from tests.verbs.working import examined
from toolkit import progress
from toolkit.checks.judged import Judged
from toolkit.cli.options import Said
from toolkit.errors import Outcome, UsageError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.pool import Abandoned
from toolkit.ssh.transport import Transport
from toolkit.verbs import each, reading
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli import nodes
from toolkit.verbs.cli.session import Session


class Silent:
    """A link and a run's folder, of which nothing is wanted here."""

    path = Path("runs/one")
    closed = 0

    def close(self) -> None:
        Silent.closed += 1

    def keep_evidence(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("why", "told"), [(UsageError("nothing to judge by", hint="none"), 0), (KeyboardInterrupt(), 2)]
)
def test_work_that_cannot_be_made_ends_the_threads_and_closes_their_links(
    why: BaseException, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "read_node", lambda *_: node())
    monkeypatch.setattr(Silent, "closed", 0)
    link = cast("Transport", Silent())
    fleet = Fleet((Host("a"), Host("b")), lambda _: link, Access())
    outcomes: list[Outcome[None]] = []

    def make() -> Callable[[str, Evidence], None]:
        raise why

    with nullcontext() if told else pytest.raises(type(why)):
        outcomes = reading.read_meanwhile(fleet, cast("RunFolder", link), make)
    assert [type(each.error) for each in outcomes] == [Abandoned] * told
    for thread in threading.enumerate():
        if thread.name.startswith("gdr-"):
            thread.join(10)
            assert not thread.is_alive()
    assert Silent.closed == 2


Found = tuple[list[Outcome[Judged]], list[str], list[str], str, bool]


@pytest.mark.parametrize("full", [False, True])
def test_doctor_by_processes_finds_and_keeps_what_one_process_does(
    tmp_path: Path, full: bool
) -> None:
    def found(cores: int) -> Found:
        ours, its = FORKS.Pipe(duplex=False)
        base = tmp_path / f"of-{cores}"
        process = FORKS.Process(target=examined, args=(its, cores, base), kwargs={"full": full})
        process.start()
        its.close()
        told = cast("Found", ours.recv())
        process.join()
        return told

    outcomes, between, kept, trouble, here = found(1)
    by_two = found(2)
    assert [each.value for each in by_two[0]] == [each.value for each in outcomes]
    assert [str(each.error or "") for each in by_two[0]] == ["", "", "", "n3: no answer", "", ""]
    assert by_two[1:3] == (between, kept)
    assert (len(kept), bool(by_two[3])) == ((0, True) if full else (5, False))
    assert (bool(trouble), here, by_two[4]) == (bool(by_two[3]), True, False)


def test_a_terminal_s_progress_which_has_a_thread_begins_after_the_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    class Board(progress.Silent):
        def begin(self, title: str, total: int) -> None:
            told.append(f"{title} {total}")

    def fork() -> int:
        told.append("fork")
        raise BlockingIOError  # then this process asks them all

    monkeypatch.setattr(os, "fork", fork)
    fleet = Fleet(
        (Host("a"), Host("b")), cast("Callable[[Host], Transport]", None), Access(progress=Board())
    )
    found = each.on_hosts(fleet, "reading", lambda host: host.name, processes=2)
    assert told == ["fork", "fork", "reading 2"]
    assert [one.value for one in found] == ["a", "b"]


class Link:
    """A link that counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(
    ("fanout", "waited_s", "same", "closed"),
    [
        pytest.param(2, 59, True, (0, 0, 1), id="at-once"),
        pytest.param(2, 61, True, (1, 1, 2), id="after-a-while-it-connects-anew"),
        pytest.param(1, 0, False, (2, 2, 2), id="not-of-more-than-are-reached-at-once"),
    ],
)
def test_who_comes_to_a_node_after_the_look_has_its_link(
    monkeypatch: pytest.MonkeyPatch,
    fanout: int,
    waited_s: float,
    same: bool,
    closed: tuple[int, int, int],
) -> None:
    """:param closed: links, once one host is taken, all but the other are closed, and all are."""
    links: list[Link] = []

    def connect(_: Host) -> Transport:
        links.append(Link())
        return cast("Transport", links[-1])

    clock = iter((0.0, 0.0, waited_s))
    monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    kept = each.Kept(Fleet((Host("a"), Host("b")), connect, Access(fanout=fanout)))
    each.on_each(kept.fleet, "looking", lambda *_: None)
    taken = kept.fleet.connect(Host("a"))
    assert (cast("Link", taken) in links[:2]) is same
    counted = [sum(link.closed for link in links)]
    for but in ("b",), ():
        kept.close(but)
        counted.append(sum(link.closed for link in links))
    assert tuple(counted) == closed


@pytest.mark.parametrize("saved", [True, False])
def test_nodes_are_those_that_were_saved_or_that_are_asked_and_then_kept(
    saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Titled(progress.Silent):
        def begin(self, title: str, total: int) -> None:
            begun.append(f"{title} {total}")

    begun: list[str] = []
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "gpu1.evidence").write_text(node().dump())
    way = Fleet(
        (Host("gpu1"),),
        lambda host: ReplayTransport(host.name, node()),
        Access(progress=Titled()),
    )
    monkeypatch.setattr(nodes, "fleet", lambda _: nullcontext(way))
    from_ = str(tmp_path / "gpu1.evidence") if saved else ""
    session = Session.begin("plan", Said({"from_": from_}))
    for more in ({}, {"title": "planning"}):
        found = nodes.each_node(session, lambda name, seen: (name, seen == node()), **more)
        assert found == [Outcome("gpu1", ("gpu1", True))]
    assert begun == ([] if saved else ["reading 1", "planning 1"])
    assert (session.folder.path / "gpu1.evidence").exists() is not saved
