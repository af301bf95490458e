"""Sentences that count."""

from __future__ import annotations

import pytest

from toolkit.plural import counted


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
