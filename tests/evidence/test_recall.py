"""A recalled answer is the one that working it out again gives, whatever machines came before.

Facts and verdicts of one machine are given to another whose sources say the same. Were an
answer to rest on a frame that was not asked for through ``Sources``, it would differ here.
"""

from __future__ import annotations

import gc
import random
import re
import weakref
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.board import Board
from tests.evidence.boards import boards
from tests.evidence.build import node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.machines.held import TODAY, evidence_of, rows
from tests.laws import NIGHT, few, tried
from toolkit.checks import check
from toolkit.checks.check import Verdict
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import CutOff, NotCollected
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.fact import fact
from toolkit.facts.reading import Reading
from toolkit.facts.recall import Answers, Sources, forget
from toolkit.want import PeerPath, Want

LONG = True
WANTS = (Want(path=None), Want(path=PeerPath.PEERMEM), Want(path=PeerPath.DMABUF))
KEYS = sorted(node().frames)
LOST = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from((ABSENT, DENIED, TIMEOUT)), max_size=3
)


def judge(evidence: Evidence, want: Want) -> Judged:
    return judge_node("node", evidence, want, TODAY)


def same_as_alone(fleet: Sequence[tuple[Evidence, Want]]) -> None:
    """Judge the machines after one another, and then each with nothing to recall."""
    forget()
    together = [judge(*each) for each in fleet]
    for each, recalled in zip(fleet, together, strict=True):
        forget()
        assert judge(*each) == recalled


def cut(evidence: Evidence, at: float) -> Evidence:
    text = evidence.dump()
    return Evidence.parse(text[: max(40, int(len(text) * at))])


@tried(1000 if NIGHT else 60)
@given(
    st.lists(
        st.tuples(boards(), LOST, st.sampled_from((1.0, 1.0, 0.3, 0.7)), st.sampled_from(WANTS)),
        min_size=2,
        max_size=5,
    )
)
def test_drawn_fleets_are_judged_as_each_node_alone(
    drawn: list[tuple[Board, dict[str, Override], float, Want]],
) -> None:
    same_as_alone([(cut(node(lost, board=board), at), want) for board, lost, at, want in drawn])


@pytest.mark.parametrize("seed", [1, 2] if NIGHT else [1])
def test_real_kinds_of_machines_are_judged_as_each_alone(seed: int) -> None:
    """With frames of one put into another, so that they differ in few."""
    chance = random.Random(seed)  # noqa: S311 no secret is made of it
    names = few(sorted({row.machine for row in rows()}), 3, "alone")
    whole = [evidence_of(name) for name in names]
    mixed = []
    for each in whole:
        other = chance.choice(whole)
        taken = chance.sample(sorted(other.frames), k=min(2, len(other.frames)))
        mixed.append(each.plus(other.frames[key] for key in taken))
    fleet = [*whole, *mixed]
    chance.shuffle(fleet)
    same_as_alone([(each, chance.choice(WANTS)) for each in fleet])


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The frames that are looked at while a node is judged anew."""
    looked: list[str] = []
    text = Sources.text

    def watched(self: Sources, key: str) -> str:
        looked.append(key)
        return text(self, key)

    monkeypatch.setattr(Sources, "text", watched)
    return looked


def test_an_equal_machine_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = calls_of(monkeypatch)
    judge(node(), WANTS[0])
    first = len(looked)
    judge(node(), WANTS[0])
    assert len(looked) == first > 0


def test_a_frame_that_differs_is_read_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    judge(node(), WANTS[0])
    looked = calls_of(monkeypatch)
    judge(node({"limits": "root hard memlock 64\n"}), WANTS[0])
    assert "limits" in looked
    assert "nvidia-smi-q" not in looked


@pytest.mark.parametrize(
    ("key", "own", "other"),
    [
        pytest.param("pci-config", r"(?m)^000010 .*$", "000010" + " a5" * 16, id="addresses"),
        pytest.param("infiniband", r"\A", "mlx5_0/node_guid:a088:c203:00ab:cdef\n", id="GUIDs"),
        pytest.param("boot-id", r"\w{8}-", "0badcafe-", id="boot"),
    ],
)
def test_what_names_one_machine_makes_no_verdict_anew(
    key: str, own: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(node(), WANTS[0])
    made: list[object] = []
    keep = Answers._keep

    def watched(self: Answers[object], more: Hashable, sources: Sources, leaf: Any) -> None:
        made.append(leaf.answer)
        keep(self, more, sources, leaf)

    monkeypatch.setattr(Answers, "_keep", watched)
    text, changed = re.subn(own, other, node().text(key))
    assert changed
    judge(node({key: text}), WANTS[0])
    assert not [each for each in made if isinstance(each, Verdict | Judged)]


class Small(Reading):
    """A machine with few facts: which frames there are, and the lines of one of them."""

    @fact
    def kernel(self) -> str:
        return self._text("kernel-release")

    @fact
    def names(self) -> tuple[str, ...]:
        return self.sources.names()

    @fact
    def places(self) -> dict[str, int]:
        return {line: len(line) for line in self._text("lines").split("\n")[:-1]}

    @fact
    def first(self) -> str:
        return next(iter(self.places))


def small(*frames: Frame, complete: bool = True) -> Small:
    return Small(Evidence({each.key: each for each in frames}, complete))


def of(*frames: str, complete: bool = True) -> Small:
    parts = (Frame(each, State.OK, f"cat {each}", f"{each}\n") for each in frames)
    return small(*parts, complete=complete)


def lines(text: str) -> Small:
    return small(Frame("lines", State.OK, "cat lines", text))


def test_equal_values_in_another_order_are_told_apart() -> None:
    """Dictionaries are equal in any order, and what rests on one may take its first key."""
    assert [lines(text).first for text in ("a\nb\n", "b\na\n")] == ["a", "b"]


@pytest.mark.parametrize("text", ["\udcc3\udca9\n", "\ud800\n"])
def test_a_byte_that_is_no_character_is_told_from_one(text: str) -> None:
    assert [lines(each).first for each in ("é\n", text)] == ["é", text[:-1]]


def test_a_frame_more_is_seen_where_all_were_asked_for() -> None:
    assert of("a").names == ("a",)
    assert of("a", "b").names == ("a", "b")


def test_what_is_missing_is_told_from_what_was_cut_off() -> None:
    with pytest.raises(NotCollected):
        _ = of("a").kernel
    with pytest.raises(CutOff):
        _ = of("a", complete=False).kernel
    assert of("a", "kernel-release").kernel == "kernel-release\n"


def test_an_error_that_is_recalled_keeps_no_machine_alive() -> None:
    """It would by its traceback: then each error held the evidence of one node."""
    for _ in range(2):
        one = of("a")
        sources = weakref.ref(one.sources)
        with pytest.raises(NotCollected):
            _ = one.kernel
        del one
        gc.collect()
        assert sources() is None


def test_answers_are_bounded() -> None:
    answers: Answers[str] = Answers(4)
    for number in range(40):
        frame = Frame("a", State.OK, "cat a", "a" * number)
        sources = Sources(Evidence({"a": frame}, complete=True))
        assert answers.ask(sources, partial(sources.text, "a")) == "a" * number
    assert answers._kept <= 4


def test_a_want_keeps_its_number_while_another_thread_numbers_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hosts are judged in threads, and groups of them have wants of their own."""

    class Between(list[tuple[Want, int]]):
        """The other thread comes right after each of ours that is added."""

        def append(self, row: tuple[Want, int]) -> None:
            super().append(row)
            super().append((WANTS[1], 1000))

    monkeypatch.setattr(check, "_wants", Between())
    assert check.number_of(WANTS[0]) != check.number_of(WANTS[1])
