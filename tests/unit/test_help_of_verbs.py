"""VERB --help tells of the verb, also of one that begins with a name."""

from __future__ import annotations

import pytest

from toolkit.cli import Gdr, verbs

NAMED = ["undo", "explain", "runs.show"]


@pytest.mark.parametrize("word", ["--help", "-h"])
@pytest.mark.parametrize("name", [*NAMED, "doctor"])
def test_help_is_the_same_before_a_verb_and_behind_it(
    name: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for words in ((name, word), ("--help", name)):
        code: object = 0
        try:
            Gdr(name="gdr", binary="gdr", namespace=verbs()).run(["gdr", *words])
        except SystemExit as end:
            code = end.code
        seen = capsys.readouterr()
        assert (code, seen.err) == (0, "")
        told.append(seen.out.partition("Docstring:")[2])
    assert told[0] == told[1] != ""
    assert "one JSON document" in told[0]  # options keep their words, however often they are parsed
