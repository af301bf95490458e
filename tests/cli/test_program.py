"""The program itself: its version, its help, its completion, and a line that was mistyped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invoked import here
from toolkit import __version__, cli
from toolkit.cli import Gdr
from toolkit.errors import ExitCode

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no tasks of others are found."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "made_of", "lines"),
    [
        ("gdr", "", [f"gdr-toolkit {__version__}"]),
        ("gdr", "abc", [f"gdr-toolkit {__version__} (commit abc)"]),
        ("other", "abc", ["other 9", f"gdr-toolkit {__version__} (commit abc)"]),
    ],
)
def test_the_version_tells_the_commit_where_one_is_known(
    name: str, made_of: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(cli, "commit", lambda: made_of)
    Gdr(name=name, version="9").print_version()
    assert capsys.readouterr().out.splitlines() == lines
    assert here(monkeypatch, "--version") == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == lines[-1:]


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("doctor --host a", "doctor has no option --host", "did you mean --hosts? gdr --help doct"),
        ("doctor --host=a", "doctor has no option --host", "did you mean --hosts? gdr --help d"),
        ("doctor --zzz", "doctor has no option --zzz", "gdr --help doctor"),
        ("doctor --form a", "doctor has no option --form", "did you mean --from? gdr --help doc"),
        ("doctor --hosts-fil a", "doctor has no option --hosts-fil", "did you mean --hosts-file? "),
        ("doctor --checks a", "doctor has no option --checks", "gdr --help doctor"),
        ("plan --format json", "plan has no option --format", "gdr --help plan"),
        ("version", "version is no verb", "did you mean --version? gdr --list"),
        ("help doctor", "help is no verb", "did you mean --help? gdr --list"),
        ("doctor --hosts-file", "--hosts-file needs a value", "gdr --help doctor"),
        ("docter", "docter is no verb", "did you mean doctor? gdr --list"),
        ("no-such-verb", "no-such-verb is no verb", "gdr --list"),
        ("--wrong", "--wrong is no option", "gdr --list"),
        ("--config", "--config needs a value", "gdr --list"),
        ("--help docter", "docter is no verb", "did you mean doctor? gdr --list"),
        ("image --diff a", "a is no verb", "two images side by side: gdr image.diff"),
    ],
)
def test_a_mistyped_line_says_what_was_meant(
    words: str, said: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("sys.argv", ["gdr", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == ExitCode.USAGE
    error, following = capsys.readouterr().err.splitlines()[:2]
    assert error == f"error: {said}"
    assert following.startswith(f" next: {hint}")


@pytest.mark.parametrize("verb", ["doctor", "provision", "init", "runs.list"])
def test_the_help_of_a_verb_can_be_typed(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """In a pipe and within a sentence, too."""
    assert here(monkeypatch, "--help", verb) == ExitCode.OK
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: gdr {verb} ")
    assert "[OPTIONS]\n\n  " in said
    assert "\n\nOptions:\n  " in said
    assert "  gdr " in said
    assert "invoke " not in said


def test_a_shell_completes_verbs_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert here(monkeypatch, "--complete", "--", "gdr", "doct") == ExitCode.OK
    assert "doctor" in capsys.readouterr().out.splitlines()
    assert here(monkeypatch, "--complete", "--", "gdr", "doctor", "--") == ExitCode.OK
    assert "--hosts" in capsys.readouterr().out.splitlines()


# Ctrl-C comes while a module is imported that makes a class from a text.
CUT = """
import sys
from invoke import Program
from toolkit.cli import Gdr

def run(*words):
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        sys.exit(130)

Program.run = run
Gdr(name="gdr").run()
"""


def test_ctrl_c_amid_an_import_ends_with_our_code_and_not_by_a_signal(tmp_path: Path) -> None:
    (tmp_path / "cut.py").write_text(CUT)
    path = {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    words = [sys.executable, "-m", "cut"]
    done = subprocess.run(words, cwd=tmp_path, env=os.environ | path, check=False)
    assert done.returncode == ExitCode.INTERRUPTED
