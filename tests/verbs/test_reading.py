"""Nodes are read while what looks into their evidence is imported."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.evidence.build import node
from tests.invoked import FORKS
from tests.replay import ReplayTransport
from tests.verbs.working import examined
from toolkit import progress
from toolkit.checks.judged import Judged
from toolkit.cli.options import Said
from toolkit.errors import Outcome, UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.hosts.host import Host
from toolkit.node.collect import Register
from toolkit.node.inside import Inside, parse_inside
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.pool import Abandoned
from toolkit.ssh.transport import Transport
from toolkit.verbs import each, reading
from toolkit.verbs import inside as inside_module
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.cli import nodes
from toolkit.verbs.cli.session import Session

if TYPE_CHECKING:
    from toolkit.redfish.fleet import BmcFleet


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
            thread.join(60)
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


class Hearing(progress.Silent):
    """What is said of hosts."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, title: str, total: int) -> None:
        self.said.append(f"{title} {total}")

    def note(self, host: str, text: str) -> None:
        self.said.append(f"{host}: {text}")


BMC = Frame("bmc", State.OK, "Redfish", "a BMC\n")


@pytest.mark.parametrize("bmcs", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_a_node_is_asked_with_all_that_is_to_be_looked_into(
    bmcs: bool, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    link, register, where = (
        cast("Transport", Link()),
        Register("libibverbs.so"),
        parse_inside("docker:a"),
    )

    def collect(way: Transport, *, register: object) -> Evidence:
        asked.extend((way, register))
        return node()

    def collect_inside(way: Transport, it: Inside, register: object) -> Evidence:
        asked.extend((way, it, register))
        return node()

    def frames(host: Host) -> list[Frame]:
        return [BMC] if host.name == "a" else []

    monkeypatch.setattr(reading, "collect", collect)
    monkeypatch.setattr(inside_module, "collect_inside", collect_inside)
    heard = Hearing()
    access = Access(progress=heard, register=register, inside=where if inside else None)
    known = cast("BmcFleet", SimpleNamespace(frames=frames)) if bmcs else None
    fleet = Fleet((Host("a"),), lambda _: link, access, bmcs=known)
    found = reading.read_node(fleet, Host("a"), link)
    assert found == (node().plus([BMC]) if bmcs else node())
    assert asked == ([link, where, register] if inside else [link, register])
    said = ["a: looking into docker:a"] * inside + ["a: reading its BMC"] * bmcs
    assert heard.said == said


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("asks", [False, True])
def test_what_a_node_said_is_kept_before_it_is_laid_beside_an_earlier_run(
    earlier: bool, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier run read is no word of the node's now."""
    port = Frame("earlier-ports", State.OK, "run r0", "uptime:1\n")
    link = cast("Transport", Link())
    folder = RunFolder(tmp_path, "doctor", datetime(2026, 1, 1, tzinfo=UTC))

    def ports(runs: Path, host: str, now: Evidence, *, but: Path) -> tuple[Frame, ...]:
        assert (runs, host, now, but) == (tmp_path, "a", said, folder.path)
        return (port,)

    def more(way: Transport, evidence: Evidence) -> Evidence:
        assert way is link
        return evidence.plus([BMC])

    monkeypatch.setattr(reading, "collect", lambda *_, **__: node())
    monkeypatch.setattr(reading, "earlier_ports", ports)
    said = node().plus([BMC]) if asks else node()
    heard = Hearing()
    fleet = Fleet((Host("a"),), lambda _: link, Access(progress=heard))
    (outcome,) = reading.read_each(
        fleet,
        folder,
        lambda name, evidence: (name, evidence),
        title="planning",
        earlier=earlier,
        more=more if asks else None,
    )
    assert outcome.get() == ("a", said.plus([port]) if earlier else said)
    assert (folder.path / "a.evidence").read_text() == said.dump()
    assert heard.said[0] == "planning 1"


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
