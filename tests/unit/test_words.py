"""Sentences that count."""

from __future__ import annotations

import pytest

from toolkit.plural import counted, figure, first_of, sized


@pytest.mark.parametrize(
    ("number", "said"),
    [
        pytest.param(0, "0 nodes owe", id="none"),
        pytest.param(1, "1 node owes", id="one"),
        pytest.param(2, "2 nodes owe", id="more"),
    ],
)
def test_noun_and_verb_go_with_the_number(number: int, said: str) -> None:
    assert counted(number, "node", "owes", "owe") == said


def test_a_noun_needs_no_verb() -> None:
    assert (counted(1, "GPU"), counted(8, "GPU")) == ("1 GPU", "8 GPUs")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        ((1 << 20) - 1, "1048575 bytes"),
        (1 << 20, "1 MiB"),
        ((65 << 20) - 1, "64 MiB"),
        (8 << 30, "8192 MiB"),
    ],
)
def test_bytes_are_whole_mebibytes(count: int, said: str) -> None:
    assert sized(count) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.12345, "0.123"),
        (9.876, "9.88"),
        (999.4, "999"),
        (999.5, "1000"),
        (1234.5, "1234"),
        (1e6, "1000000"),
    ],
)
def test_a_figure_has_three_digits_and_never_an_exponent(value: float, said: str) -> None:
    assert figure(value) == said


@pytest.mark.parametrize(
    ("words", "most", "said"),
    [
        ((), 1, ""),
        (("a",), 1, "a"),
        (("a", "b"), 1, "a and 1 more"),
        (("a", "b"), 2, "a, b"),
        (("a", "b", "c", "d"), 2, "a, b and 2 more"),
    ],
)
def test_a_long_list_is_its_first_words_and_how_many_are_left(
    words: tuple[str, ...], most: int, said: str
) -> None:
    assert first_of(words, most) == said
    assert first_of(words, most, "; ") == said.replace(",", ";")
