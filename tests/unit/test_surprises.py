"""What a shell, a disk or a locale may surprise us with: one sentence, and the right code."""

from __future__ import annotations

import shlex
import shutil
import sqlite3
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.invoked import ROOT, gdr
from tests.laws import few, sample
from tests.unit.test_streams import shell
from toolkit.errors import UsageError
from toolkit.rollout.history import PastRun, Unread, read_runs
from toolkit.rollout.journal import FILE, About, Event, Journal
from toolkit.ssh.credentials import read_secret

LONG = True
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


@pytest.mark.parametrize("number", [2**31, 2**70, -5, 999_999])
def test_a_descriptor_that_is_none_is_told(number: int) -> None:
    with pytest.raises(UsageError, match=f"file descriptor {number}: ") as why:
        read_secret(number)
    assert "</path/to/secret" in why.value.hint


DESCRIPTORS = product(
    ("--pass-fd", "--become-pass-fd", "--bmc-pass-fd"), ("99999999999999", "-5", "77")
)


@pytest.mark.parametrize(("option", "number"), few([*DESCRIPTORS], 4, "descriptors"))
def test_a_verb_says_so_of_its_descriptor(tmp_path: Path, option: str, number: str) -> None:
    words = f"gdr doctor --hosts 127.0.0.1 --bmc-user ops {option}={number} --fanout 1"
    ended = shell(words + (" --pass-fd 3 3<<<x" if "bmc" in option else ""), tmp_path)
    assert ended.returncode == 64, ended.stderr
    assert ended.stderr.startswith(f"error: file descriptor {number}: ")


def journal(runs: Path, name: str) -> Path:
    folder = runs / name
    with Journal.create(folder, About("provision", "op@here", "2026-11-21T22:00:00+00:00")) as made:
        made.take_turn("op@here")
        made.add_batches([["gpu1"]])
        made.add(Event("gpu1", "done"))
        made.end_turn("ended", 0)
    return folder / FILE


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE run SET words = '{'",
        "UPDATE run SET words = '[]'",
        "UPDATE run SET who = NULL",
        "UPDATE turn SET code = 'many'",
        "UPDATE event SET phase = CAST(x'fffe' AS TEXT)",
        "DELETE FROM run",
        "DROP TABLE event",
    ],
)
def test_a_run_with_a_corrupt_row_is_named_and_the_others_are_listed(
    tmp_path: Path, harm: str
) -> None:
    journal(tmp_path, "2026-11-21T22-00-00-provision")
    file = journal(tmp_path, "2026-11-22T22-00-00-provision")
    with sqlite3.connect(file) as base:
        base.execute(harm)
    bad, good = read_runs(tmp_path)
    assert isinstance(bad, Unread)
    assert bad.id == "2026-11-22T22-00-00-provision"
    assert isinstance(good, PastRun)


def test_a_claim_that_is_no_text_is_no_end(tmp_path: Path) -> None:
    file = journal(tmp_path, "2026-11-21T22-00-00-provision")
    (file.parent / "hosts").write_bytes(b"\xff\xfe")
    assert isinstance(next(read_runs(tmp_path)), PastRun)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = tmp_path_factory.mktemp("seen")
    (state / "evidence").mkdir()
    shutil.copy(ROOT / "tests/evidence/acs.txt", state / "evidence/demo-acs.evidence")
    return state


@pytest.mark.parametrize(
    "setup",
    ["export XDG_STATE_HOME=/proc/nowhere", "export XDG_STATE_HOME=/dev/null", "ulimit -f 0"],
    ids=["read-only", "no folder", "full"],
)
def test_a_state_folder_that_takes_nothing_costs_the_record_alone(seen: Path, setup: str) -> None:
    ended = shell(f"{setup}; gdr doctor --from evidence; echo $?; gdr runs; echo $?", seen)
    assert ended.stdout.split("\n")[-4:-1] == ["2", "no run has left a journal yet", "0"]
    assert "note: nothing was kept of this run: " in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("at", "starts"),
    [
        *(
            (at, "from toolkit.cli")
            for at in ("toolkit.report.document", "toolkit.verbs.cli.hosts")
        ),
        *((at, "from dev.__main__") for at in ("invoke", "invoke.config")),
    ],
)
def test_ctrl_c_while_it_starts_is_a_word_and_a_code(at: str, starts: str) -> None:
    code = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["gdr", "hosts", "--hosts", "demo"]
{starts} import main
main()
"""
    words = [sys.executable, "-c", code]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


def test_who_imports_us_keeps_his_own_ctrl_c() -> None:
    code = "import signal, toolkit.cli; assert signal.getsignal(2) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


SAID = (
    "doctor --from evidence --verbose",
    "topology --from evidence",
    "plan --from 'evidence' --diff",
    "doctor --from 'evidence/nü.evidence'",
    "doctor --from evidence --site sïte.toml",
    "report --from evidence --html fleet.html",
    "explain iommu.passthrough",
    "checks",
    "--help doctor",
    "hosts --hosts nüde",
)


@pytest.mark.parametrize("words", sample(SAID, "letters"))
def test_a_locale_without_letters_ends_no_verb(seen: Path, words: str) -> None:
    (seen / "sïte.toml").write_text('# für alle\nrole = "bare-metal"\n', "utf-8")
    ended = shell(f"gdr {words}", seen, **ASCII)
    plain = gdr(*shlex.split(words), state=seen, cwd=seen, LC_ALL="C.UTF-8")
    assert ended.returncode == plain.returncode, ended.stderr
    assert ended.returncode not in {1, 70, 120}
    assert "Traceback" not in ended.stderr
    assert ended.stdout.isascii()
    assert ended.stderr.isascii()
