"""Who reads what a verb prints has no say in what it does, nor in the code it ends with."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invoked import ROOT, gdr
from tests.laws import sample
from toolkit.safe_file import try_folder

LONG = True
GDR = f"{shlex.quote(sys.executable)} -m toolkit.cli"
PROVISION = "provision --hosts demo-iommu,demo-stub --yes --reboot"


def shell(words: str, state: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A line of bash: ``gdr`` in it is ours."""
    script = f'set -o pipefail; gdr() {{ {GDR} "$@"; }}; {words}'
    ours = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(state), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        encoding="utf-8",
        env=ours | env,
        cwd=state,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where evidence of nodes lies on which a check fails."""
    state = tmp_path_factory.mktemp("seen")
    (state / "evidence").mkdir()
    for kind in ("acs", "stub"):
        shutil.copy(ROOT / f"tests/evidence/{kind}.txt", state / f"evidence/demo-{kind}.evidence")
    return state


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two nodes were changed, and nobody read a word of it."""
    state = tmp_path_factory.mktemp("changed")
    ended = shell(f"umask 022; gdr {PROVISION} | true", state, PYTHONUNBUFFERED="1")
    assert ended.returncode == 0, ended.stderr
    return state


def test_a_change_is_made_whole_though_its_reader_has_gone(changed: Path) -> None:
    shown = gdr("runs", "--json", state=changed)
    (run,) = json.loads(shown.stdout)["runs"]
    assert [each["phase"] for each in run["hosts"]] == ["done"] * 2


@pytest.mark.parametrize("reader", ["| head -c 1", ">&-", "2>&1 | head -c 1", "2>&- | head -c 1"])
def test_a_look_ends_with_its_verdict_whoever_reads_it(seen: Path, reader: str) -> None:
    ended = shell(f"gdr doctor --from evidence --verbose {reader}", seen)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("more", ["", "--json", "--verbose"])
def test_a_full_disk_is_told_and_changes_no_verdict(seen: Path, more: str) -> None:
    ended = shell(f"gdr doctor --from evidence {more} > /dev/full", seen)
    assert ended.returncode == 2
    told = "note: standard output was not written whole: No space left on device"
    assert told in ended.stderr.split("\n")
    assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("verb", ["topology --from evidence", "checks", "--help doctor"])
def test_what_ends_well_does_so_on_a_full_disk(seen: Path, verb: str) -> None:
    ended = shell(f"gdr {verb} > /dev/full && gdr {verb} | head -c 1", seen)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


LOOKS = {
    "budget": 0,
    "build --hosts demo-acs --check": 2,
    "bundle --from evidence --out made": 0,
    "capture --hosts demo-acs --out again": 0,
    "checks": 0,
    "compare --from evidence": 2,
    "demo": 0,
    "doctor --hosts demo-acs": 2,
    "doctor -": 64,
    "drift --from evidence": 2,
    "exercise --past": 0,
    "expect --from evidence": 0,
    "explain acs.redirect": 0,
    "history --hosts demo-acs": 0,
    "hosts --hosts demo-acs,demo-stub": 0,
    "iommu --hosts demo-acs --check": 3,
    "kubernetes --from evidence --apply --image a/b@sha256:" + "0" * 64: 0,
    "predict --from evidence": 0,
    "rehearse --from evidence --driver 595.71.05": 0,
    "plan --from evidence": 7,
    "provision --hosts demo-acs,demo-stub --check": 7,
    "provision --hosts demo-acs,demo-stub --yes --reboot": 0,
    "reload --hosts demo-acs --check": 7,
    "report --from evidence --html page": 2,
    "rollback --hosts demo-acs": 0,
    "runs": 0,
    "runs --verify": 0,
    "topology --from evidence": 0,
    "undo 2026-11-21T22-00-00-provision": 64,
    "verify --hosts demo-acs": 2,
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", sample([*LOOKS], "streams"))
def test_no_verb_minds_a_full_output_and_a_closed_input(
    seen: Path, tmp_path: Path, words: str
) -> None:
    shutil.copytree(seen / "evidence", tmp_path / "evidence")
    ended = gdr(*words.split(), state=tmp_path, cwd=tmp_path, full=True)
    assert ended.returncode == LOOKS[words], ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_a_closed_output_is_no_place_for_a_file_of_ours(seen: Path) -> None:
    """What is opened first would have the number of the closed one, and be printed into."""
    ended = shell("gdr doctor --from evidence --json --junit j.xml >&-; cat j.xml", seen)
    assert ended.stdout.startswith("<?xml")


FILES = {
    "doctor --from evidence": (2, ("junit", "sarif", "ctrf")),
    "topology --from evidence/demo-acs.evidence": (0, ("svg", "html")),
    "report --from evidence": (2, ("html",)),
    "provision --hosts demo-acs --check": (7, ("junit", "sarif", "ctrf")),
}


@pytest.mark.parametrize("verb", FILES)
def test_a_report_on_a_full_disk_is_told_and_changes_no_code(seen: Path, verb: str) -> None:
    code, options = FILES[verb]
    full = (word for each in options for word in (f"--{each}", "/dev/full"))
    ended = gdr(*verb.split(), *full, state=seen, cwd=seen)
    assert ended.returncode == code, ended.stderr
    for each in options:
        assert f"note: --{each} /dev/full was not written: No space left" in ended.stderr


def test_no_node_is_touched_where_a_report_cannot_be_written(tmp_path: Path) -> None:
    """Of whoever may write to any folder that he can, /proc is the one that takes no file."""
    for each in ("junit", "sarif", "ctrf"):
        ended = gdr(*PROVISION.split(), f"--{each}", "/proc/it", state=tmp_path)
        assert ended.returncode == 64
        assert f"error: --{each} /proc/it: No such file or directory" in ended.stderr
        assert " next: name a file" in ended.stderr
    assert not (tmp_path / "gdr-toolkit/runs").exists()


@pytest.mark.parametrize(
    "verb",
    [
        "bundle --hosts demo-acs",
        "capture --hosts demo-acs",
        "playbook --hosts demo-acs",
        "kubernetes --apply --from none --image a/b@sha256:" + "0" * 64,
        "image --root none --tar none.tar",
        "build --package tar",
    ],
)
def test_no_node_is_read_where_out_cannot_be_written(tmp_path: Path, verb: str) -> None:
    ended = gdr(*verb.split(), "--out", "/proc/it/x.tar", state=tmp_path, cwd=tmp_path)
    assert ended.returncode == 64, ended.stderr
    assert "error: --out /proc/it/x.tar: " in ended.stderr
    assert not (tmp_path / "gdr-toolkit/runs").exists()


def test_a_trial_of_out_leaves_nothing(tmp_path: Path) -> None:
    try_folder(tmp_path / "new" / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_cannot_be_kept_is_its_hosts_error(seen: Path) -> None:
    """No file may be larger than 1 KiB here, as on a disk that is full."""
    ended = shell("ulimit -f 1; gdr bundle --from evidence --out made --json", seen)
    assert ended.returncode == 3, ended.stderr
    hosts = json.loads(ended.stdout)["hosts"]
    assert hosts
    assert all("cannot be written" in str(each["error"]) for each in hosts)
    assert not list((seen / "made").iterdir()), "half a bundle would run"


def test_a_report_goes_to_standard_output_and_pipes(seen: Path) -> None:
    asked = "gdr doctor --from evidence --quiet --junit /dev/stdout"
    for words in (f"{asked} | cat", f"{asked} > both; cat both"):
        told, _, rest = shell(words, seen).stdout.partition("<?xml")
        assert "demo-acs" in told, "it is written behind what was printed"
        assert rest.rstrip().endswith("</testsuites>")
    whole = "until [ -e whole ]; do sleep 0.05; done; cat piped"
    asked = "gdr doctor --from evidence --junit >(cat > piped; touch whole)"
    ended = shell(f"{asked}; {whole}", seen)
    assert ended.stdout.rstrip().endswith("</testsuites>")


def test_what_a_run_keeps_is_for_its_user_alone(changed: Path) -> None:
    ended = shell("umask 022; gdr capture --hosts demo-acs", changed)
    assert ended.returncode == 0, ended.stderr
    runs, taken = changed / "gdr-toolkit/runs", changed / "evidence"
    kept = [runs, taken, *runs.rglob("*"), *taken.rglob("*")]
    modes = {str(each): each.stat().st_mode & 0o777 for each in kept}
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}


def test_a_capture_that_could_not_be_kept_is_none(seen: Path) -> None:
    """The file of one node is there already as what no file can replace."""
    (seen / "kept/demo-acs.evidence").mkdir(parents=True)
    asked = ("capture", "--hosts", "demo-acs,demo-stub", "--out", "kept")
    ended = gdr(*asked, state=seen, cwd=seen)
    assert ended.returncode == 3, ended.stderr
    assert "demo-acs.evidence: cannot be written: Is a directory" in ended.stdout
    assert (seen / "kept/demo-stub.evidence").is_file()
