"""What a controller does for ten times as many nodes costs ten times as much, not a thousand."""

from __future__ import annotations

from collections.abc import Set
from datetime import date
from pathlib import Path

from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence
from toolkit.plan.bundle import Bundle, File
from toolkit.rollout.journal import Event, by_host
from toolkit.rollout.plan.batches import Standing, Terms, advance, over
from toolkit.verbs.each import Alike
from toolkit.want import Want

CAPTURES = Path(__file__).parents[1] / "evidence"


class Hosts(frozenset[str]):
    """A set that counts how often it is laid together with another, which is a copy of both."""

    copies = 0

    def __or__(self, other: Set[object]) -> frozenset[str]:
        Hosts.copies += 1
        return super().__or__(frozenset(map(str, other)))


def copies(hosts: int) -> int:
    """How many copies of its sets one look at a rollout half done makes."""
    names = tuple(f"n{number:04d}" for number in range(hosts))
    terms = Terms((names[:1], names[1:]), 8, 0, 8)
    now = Standing(done=Hosts(names[: hosts // 2]))
    Hosts.copies = 0
    assert len(advance(terms, now).begin) == 8
    assert not over(terms, now)
    return Hosts.copies


def test_a_look_at_a_rollout_copies_its_sets_no_more_often_for_more_hosts() -> None:
    assert copies(1000) == copies(50) < 5


def test_equal_verdicts_of_many_nodes_are_kept_once() -> None:
    alike = Alike()
    evidence = Evidence.parse((CAPTURES / "healthy.txt").read_text())
    judged = [
        alike.judged(judge_node(f"gpu{at}", evidence, Want(), date(2026, 11, 22)))
        for at in range(2)
    ]
    assert [each.host for each in judged] == ["gpu0", "gpu1"]
    assert judged[0].verdicts == judged[1].verdicts
    assert all(a is b for a, b in zip(judged[0].verdicts, judged[1].verdicts, strict=True))


def test_equal_parts_of_bundles_are_kept_once() -> None:
    alike = Alike()
    one, two = (
        alike.bundle(
            Bundle((File("/etc/x", 0o644, bytes(9), "0"),), ("place x",), str(at), "sh " * 9)
        )
        for at in range(2)
    )
    assert one is not None
    assert two is not None
    assert (one.manifest, two.manifest) == ("0", "1")
    assert one.engine is two.engine
    assert one.contents[0] is two.contents[0]
    assert alike.bundle(None) is None


def test_events_are_laid_out_by_host_in_one_pass() -> None:
    events = [Event(f"n{at % 3}", str(at)) for at in range(9)]
    found = by_host(iter(events))
    assert [event.phase for event in found["n1"]] == ["1", "4", "7"]
