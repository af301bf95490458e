"""Tests are found without a tool, a cache or a network: nothing is done before one runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dev.run import ROOT
from tests.corpus.known import HERE, TESTS
from tests.laws import one_in, quick

# Told of by the interpreter itself, so that nothing can be started past it.
LONG = True
WATCH = """
import sys
from pathlib import Path
DOES = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
        "socket.connect", "socket.getaddrinfo"}
def tell(event, words):
    if event in DOES:
        with Path(__file__).with_name("done").open("a") as file:
            print(event, words, file=file)
sys.addaudithook(tell)
"""


# The files of the tiers that use tools are among the tenth, and the one that builds most.
# Files that are named are collected even where their captures, beside this checkout, are not.
THERE = [each for each in (ROOT / "tests").rglob("test_*.py") if HERE or each not in TESTS]
FILES = sorted(str(path.relative_to(ROOT)) for path in THERE)
BORN = "tests/images/test_born.py"
TENTH = [*{*one_in(10, FILES, "collected"), BORN}]


def test_to_collect_every_test_starts_builds_and_fetches_nothing(tmp_path: Path) -> None:
    files = TENTH if quick() else ["tests"]
    (tmp_path / "watch_all.py").write_text(WATCH)
    home, done = tmp_path / "home", tmp_path / "done"
    collected = subprocess.run(
        (
            *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-q", *files),
            *("-p", "watch_all", "-p", "no:cacheprovider"),
        ),
        cwd=ROOT,
        env={"HOME": str(home), "PATH": str(tmp_path / "no-tools"), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr
    assert BORN in collected.stdout
    assert not done.exists(), done.read_text()
    assert not home.exists(), sorted(home.rglob("*"))
