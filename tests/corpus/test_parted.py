"""Two captures in one text, one below the other and no prompt between them, are read as two."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.corpus.expected import EXPECTED
from tests.corpus.known import CORPUS
from toolkit.facts.kinds import parted
from toolkit.facts.text.pasted_logs import frames_of
from toolkit.verbs.pasted_logs import decoded

LONG = 60_000  # characters


def frames(text: str) -> dict[str, str]:
    return {each.key: each.text.strip() for each in frames_of(text, "x.txt")}


def headed() -> dict[str, tuple[str, dict[str, str]]]:
    """One capture of each kind that begins with its head, with what it is by itself."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for file, case in EXPECTED.items():
        text = "" if case.refused else decoded((CORPUS / file).read_bytes())
        parts = parted(text) if 0 < len(text) < LONG else []
        if len(parts) == 1 and parts[0][0] is not None and len(alone := frames(text)) == 1:
            found.setdefault(parts[0][0].name, (text, alone))
    return found


HEADED = headed()


@pytest.mark.parametrize("first", HEADED)
def test_a_capture_ends_where_another_begins(first: str) -> None:
    wrong = []
    for one, other in permutations(HEADED, 2):
        if one != first:
            continue
        (above, its), (below, others) = HEADED[one], HEADED[other]
        if frames(f"{above.rstrip()}\n\n{below}") != its | others:
            wrong.append(other)
    assert not wrong


def test_most_kinds_of_the_corpus_begin_with_a_head() -> None:
    assert len(HEADED) > 20
