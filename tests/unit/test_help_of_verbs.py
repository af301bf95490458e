"""VERB --help tells of the verb, also of one that begins with a name."""

from __future__ import annotations

import pytest
from invoke.collection import Collection

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
        told.append(seen.out.partition("[OPTIONS]")[2])
    assert told[0] == told[1] != ""
    assert "one JSON document" in told[0]  # options keep their words, however often they are parsed


def test_help_shows_what_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gdr", "undo", "--help"])
    Gdr(name="gdr", binary="gdr", namespace=verbs()).run(["gdr", "undo", "--help"])
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: gdr undo RUN [OPTIONS]\n\n  Take")
    assert "\n    gdr undo " in shown
    assert "invoke" not in shown


OLD = {
    "--job-limit": ("provision", "kubernetes", "undo", "bios"),
    "--job-limit=5": ("provision",),
    "--hook-limit": ("provision", "bios"),
    "--boot-limit": ("bios", "image"),
    "--bmc-limit": ("doctor", "verify", "bios", "capture", "report"),
    "--drain-limit": ("kubernetes",),
    "--limit-s": ("build",),
    "--dry-run": ("build",),
    "--rollback": ("image",),
}


@pytest.mark.parametrize(("old", "verb"), [(o, v) for o, its in OLD.items() for v in its])
def test_an_old_name_of_an_option_is_answered_with_the_new_one(
    old: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        Gdr(name="gdr", binary="gdr", namespace=verbs()).run(["gdr", verb, old, "5"])
    assert ended.value.code == 64
    new = capsys.readouterr().err.partition("next: its name is ")[2].partition(" now")[0]
    named = {f"--{name}" for name in verbs()[verb].get_arguments() for name in name.names}
    assert new.replace("-", "_") in {each.replace("-", "_") for each in named}


@pytest.mark.parametrize(
    "line",
    [
        "gdr provision --rollback",  # another verb's
        "gdr provision --no-such -- x",  # "--" is the old name of nothing
    ],
)
def test_an_old_name_is_not_told_to_a_verb_that_never_had_it(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        Gdr(name="gdr", binary="gdr", namespace=verbs()).run(line.split())
    assert "its name is" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "next_"),
    [
        ("gdr.provision --job-limit 5", "its name is --job-timeout now"),
        ("gdr.doctor --host a", "did you mean --hosts?"),
    ],
)
def test_verbs_in_a_collection_of_a_sites_own_are_answered_likewise(
    line: str, next_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = Collection()
    theirs.add_collection(verbs(), name="gdr")
    with pytest.raises(SystemExit):
        Gdr(name="x", binary="x", namespace=theirs).run(["x", *line.split()])
    assert f"next: {next_}" in capsys.readouterr().err
