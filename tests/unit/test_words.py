"""Sentences that count."""

from __future__ import annotations

import pytest

from toolkit.plural import counted, figure, sized


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
