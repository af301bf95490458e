"""What our pages show is what a run shows, and what they tell one to type ends as told."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tasks
from dev.run import ROOT
from tests.unit.blocks import blocks, commands, examples, script
from tests.unit.test_project_blocks import HELPS, PAGES, PROGRAMS
from toolkit.cli import Gdr
from toolkit.errors import ExitCode

LONG = True
READING = (
    *("doctor", "plan", "compare", "report", "drift", "topology", "predict", "capture", "bundle"),
    "rehearse",
    *("checks", "explain", "hosts", "demo", "runs"),
)
# What a page's reader has and a test has not: his files, runs, containers, cluster and its Slurm,
# and a key to end what goes on until then.
HIS = re.compile(
    r"--(via|inside|site|inventory|hosts-file|ssh-config|pass-fd|nccl-log|bmc-\w+|transport|import"
    r"|textfile|passport-key|job|serve)$"
    r"|.*\.(txt|log|gz)\b|folder/$|FOLDER$|.*vagrant:|CHECK$"
)
WRONG = {ExitCode.USAGE, ExitCode.BUG, ExitCode.INTERRUPTED}


def _typed() -> Iterator[tuple[str, ...]]:
    """Commands of pages and helps that only read, on the demo's nodes in place of gpu007."""
    whole = [block for page in PAGES for block in blocks(page.name, page.read_text())]
    whole += [examples(verb, text) for verb, text in HELPS.items()]
    for block in whole:
        for program, *words in commands(script(block)):
            if program not in PROGRAMS or not words or words[0] not in READING:
                continue
            if not any(HIS.match(word) for word in words):
                yield tuple(_on_the_demo(words))


def _on_the_demo(words: list[str]) -> Iterator[str]:
    """One node for one, two for more; of the demo's own sets the long one is cut."""
    for before, word in zip(["", *words], words, strict=False):
        if before not in {"--hosts", "--limit"}:
            yield word
        elif word.startswith("demo"):
            yield word.replace("001-200", "001-003")
        else:
            yield "demo-acs" + ",demo-stub" * bool(re.search(r"[\[,@]", word))


TYPED = sorted(set(_typed()))


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's nodes, made once."""
    return tmp_path_factory.mktemp("state")


def _evidence(folder: Path) -> None:
    """What the pages' reader has kept of earlier runs."""
    for kept in ("evidence", "site/evidence"):
        (folder / kept).mkdir(parents=True)
        for name, kind in (("gpu007", "acs"), ("gpu008", "healthy")):
            shutil.copy(ROOT / f"tests/evidence/{kind}.txt", folder / kept / f"{name}.evidence")


def test_most_of_what_reads_is_run() -> None:
    assert {words[0] for words in TYPED} == set(READING)


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", TYPED, ids=" ".join)
def test_what_a_page_tells_to_type_ends_as_told(
    words: tuple[str, ...],
    state: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _evidence(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    argv = ["gdr", *words]
    monkeypatch.setattr(sys, "argv", argv)
    piped = io.BytesIO(b"\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-31\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(piped))  # of doctor -
    code = 0
    try:
        Gdr(name="gdr", binary="gdr", namespace=tasks.namespace).run(argv)
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    assert ExitCode(code) not in WRONG, said.err
    assert said.out


SHOWN = [block for block in blocks("README.md", PAGES[0].read_text()) if block.kind == "text"]
ENDS = {"doctor": ExitCode.FAILED, "plan": ExitCode.PENDING, "provision": ExitCode.OK}


@pytest.mark.exhaustive
def test_the_transcripts_of_the_readme_are_those_of_runs(tmp_path: Path) -> None:
    """Each command prints what is shown; [...] stands for lines that are left out before it."""
    told = {block.text.split("\n")[0].split()[2]: block for block in SHOWN}
    assert list(told) == list(ENDS), "in this order: each finds what the one before has left"
    for verb, block in told.items():
        [command] = commands(script(block))
        run = subprocess.run(
            (sys.executable, "-m", "invoke", "--search-root", str(ROOT), *command[1:]),
            cwd=tmp_path,
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == ENDS[verb], run.stderr
        _, _, shown = block.text.partition("\n")
        _, cut, end = shown.rpartition("[...]\n")
        assert end.strip()
        assert run.stdout.endswith(end) if cut else run.stdout == end, run.stdout
