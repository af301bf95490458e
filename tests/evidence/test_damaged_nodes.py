"""What is made of a node when one of its frames is damaged: traits, plans, gates and figures.

Checks are held to that by ``test_findings``; this is of what reads a node beside them. Lines stand
in ``damaged_nodes.txt`` that no damage before gave. To accept a change: GDR_ACCEPT=1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, PORTS, REDIRECTS
from tests.evidence.build import node
from tests.evidence.test_findings import CHANGES, accepted
from tests.unit.planning import (
    LITTLE_MEMLOCK,
    NO_AUTOLOAD,
    NO_HOOKS,
    NOT_LOADED,
    TRANSLATED,
    frames,
)
from toolkit.checks.all import ALL
from toolkit.checks.check import Verdict
from toolkit.checks.learned import had, learn
from toolkit.errors import ToolkitError, read_or
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.comparables import TOPICS, layout, traits
from toolkit.facts.node.node import Node
from toolkit.features.gate.plan import expected
from toolkit.features.predict import show as predicted
from toolkit.features.predict.plan.totals import predict
from toolkit.features.topology import cli as topology
from toolkit.features.topology.show.view import view
from toolkit.plan.plan import make_plan
from toolkit.report.plan_text import plan_lines
from toolkit.report.table import Painter
from toolkit.want import PeerPath, Want

KEPT = Path(__file__).parent / "made/damaged_nodes.txt"  # beside the captures it is none of them
PLAIN = Painter(coloured=False)
NODES = {
    "healthy": node(),
    "ill": node(
        frames(TRANSLATED, NOT_LOADED, NO_AUTOLOAD, LITTLE_MEMLOCK, NO_HOOKS),
        board=BOARD.but(PORTS[0], acs=REDIRECTS),
    ),
}
CHANGED: dict[str, Callable[[str], str]] = {**CHANGES, "empty": lambda _: ""}


class Noted(dict[str, Frame]):
    """Frames that remember which of them were asked for."""

    def __init__(self, whole: dict[str, Frame]) -> None:
        super().__init__(whole)
        self.asked: set[str] = set()

    def get(self, key: str, default: object = None) -> Frame | None:  # type: ignore[override] # no other default is given
        self.asked.add(key)
        return super().get(key)

    def __getitem__(self, key: str) -> Frame:
        self.asked.add(key)
        return super().__getitem__(key)


def comparable(name: str, evidence: Evidence) -> Iterator[str]:
    told = Node(evidence)
    for topic in TOPICS:
        found = traits(told, topic)
        yield from [f"{topic.name}: not read"] if found is None else map(str, found)
    yield from map(str, read_or(lambda: layout(told), ()))


def learned(name: str, evidence: Evidence) -> Iterator[str]:
    others = [had(each, Node(NODES["healthy"])) for each in ("b", "c")]
    for kind in learn([had("a", Node(evidence)), *others], {"a": 2, "b": 2, "c": 2}):
        yield f"{kind.hosts}: {kind.about}"
        yield from (f"{key}: {value!r}" for key, value in kind.expect.values)
        yield from map(str, kind.dissents)
        yield from (f"{key}: {why}" for key, why in (*kind.open, *kind.unread))


def gated(name: str, evidence: Evidence) -> Iterator[str]:
    yield from (each.line for each in expected(Node(evidence)))


def tree(name: str, evidence: Evidence) -> Iterator[str]:
    yield from topology.text(view(name, evidence), PLAIN).split("\n")


def figures(name: str, evidence: Evidence) -> Iterator[str]:
    yield from predicted.text(name, predict(Node(evidence)), PLAIN, whole=True).split("\n")


@cache
def verdicts(name: str, path: PeerPath) -> dict[str, Verdict]:
    whole = Node(NODES[name])
    return {check.id: check(whole, Want(path=path)) for check in ALL}


def planned(name: str, evidence: Evidence) -> Iterator[str]:
    """The verdicts are those of the whole: what the plan itself reads is damaged."""
    for path in PeerPath:
        plan = make_plan(Node(evidence), verdicts(name, path), Want(path=path))
        yield from plan_lines([(name, plan)], PLAIN, diffs=True)


FORMS: dict[str, Callable[[str, Evidence], Iterable[str]]] = {
    "traits": comparable,
    "expect": learned,
    "gate": gated,
    "topology": tree,
    "predict": figures,
    "plan": planned,
}


def made(form: str, name: str, evidence: Evidence) -> list[str]:
    try:
        return list(FORMS[form](name, evidence))
    except ToolkitError as why:
        return [f"{type(why).__name__}: {why}"]


def told() -> Iterator[str]:
    for form in FORMS:
        known: set[str] = set()
        for name, whole in NODES.items():
            noted = Noted(whole.frames)
            first = made(form, name, Evidence(noted, whole.complete))
            known.update(first)
            yield from (f"{form} {name}", *first)
            for key in sorted(noted.asked & set(whole.frames)):
                frame = whole.frames[key]
                if frame.state is not State.OK:
                    continue
                for what, change in CHANGED.items():
                    damaged = {**whole.frames, key: replace(frame, text=change(frame.text))}
                    lines = made(form, name, Evidence(damaged, whole.complete))
                    new = [line for line in dict.fromkeys(lines) if line not in known]
                    known.update(new)
                    if new:
                        yield from (f"{form} {name}, {key} {what}", *(f"  {line}" for line in new))


def test_what_is_made_of_a_damaged_node() -> None:
    accepted("".join(f"{line}\n" for line in told()), KEPT)


LISTED = ("rdma-modinfo", "nvidia-modinfo", "peermem-modinfo", "all-modinfo", "peermem-resolve")


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("keys", [LISTED, *((key,) for key in LISTED)], ids=" ".join)
def test_modules_below_a_merged_usr_are_the_same_files(name: str, keys: tuple[str, ...]) -> None:
    """A tool that follows the link says /usr/lib/modules, another of the same node /lib/modules."""
    whole = NODES[name]
    texts = {key: whole.frames[key].text.replace(" /lib/", " /usr/lib/") for key in keys}
    found = {key: replace(whole.frames[key], text=text) for key, text in texts.items()}
    assert all(found[key] != whole.frames[key] for key in keys)
    merged = Evidence({**whole.frames, **found}, whole.complete)
    here, want = Node(merged), Want()
    said = {check.id: check(here, want) for check in ALL}
    assert {check: each.finding.status for check, each in said.items()} == {
        check: each.finding.status for check, each in verdicts(name, PeerPath.PEERMEM).items()
    }
    plans = [
        make_plan(Node(evidence), of, want)
        for evidence, of in ((merged, said), (whole, verdicts(name, PeerPath.PEERMEM)))
    ]
    assert plans[0].acts == plans[1].acts
