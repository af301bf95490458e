"""Drift for Prometheus: the file is one that the collector takes, and never stale."""

from __future__ import annotations

import os
import stat
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.features.drift.test_drift import drift
from tests.features.drift.test_drift_report import captured
from tests.invoked import gdr
from tests.unit.exposition import Key, parse
from tests.unit.planning import TRANSLATED
from toolkit.errors import ExitCode, Outcome, TransportError, UsageError
from toolkit.features.drift.plan import Cell, Drift, DriftLine, DriftStanding, DriftTopic
from toolkit.features.drift.show import PREFIX, STATES, exposition, failed
from toolkit.report.prometheus import Remembered, remembered
from toolkit.verbs.textfile import open_textfile, read_textfile, textfile_at

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
AT = int(NOW.timestamp())
NEVER = Remembered()
OUT_OF_REACH: Outcome[Drift] = Outcome("gpu002", error=TransportError("gpu002: no route"))
ODD = 'a"b\\c\nd,e}f \udcff é'


def key(metric: str, **labels: str) -> Key:
    return metric, tuple(sorted(labels.items()))


def told(*outcomes: Outcome[Drift], before: Remembered = NEVER) -> dict[Key, int]:
    return parse(exposition(outcomes, ExitCode.FAILED, NOW, before))


def test_what_is_written_keeps_the_format() -> None:
    outcomes = [*captured(), Outcome("well", drift({}))]
    found = parse(exposition(outcomes, ExitCode.FAILED, NOW, NEVER))
    assert found[key("gdr_drift_host_state", host="stub", state="drift")] == 1
    assert found[key("gdr_drift_host_state", host="well", state="as wanted")] == 1
    assert found[key("gdr_drift_exit_code")] == ExitCode.FAILED


def test_each_host_is_in_one_state() -> None:
    found = told(Outcome("gpu001", drift(TRANSLATED)), OUT_OF_REACH)
    for host, state in (("gpu001", "drift"), ("gpu002", "out of reach")):
        of_host = {
            each: found[key("gdr_drift_host_state", host=host, state=each)] for each in STATES
        }
        assert of_host == {each: int(each == state) for each in STATES}


def test_a_drifted_column_has_a_sample_and_one_as_wanted_has_none() -> None:
    found = told(Outcome("gpu001", drift(TRANSLATED)))
    labels = {"host": "gpu001", "topic": "property", "name": "IOMMU domains of HCAs"}
    for column in ("on disk", "in effect"):
        one = key("gdr_drift_property", **labels, column=column, standing="drift")
        assert found[one] == 1
    names = {dict(each[1]).get("name") for each in found if each[0] == "gdr_drift_property"}
    assert "nvidia-peermem" not in names
    assert found[key("gdr_drift_reboot_owed", host="gpu001")] == 1


def test_odd_names_are_escaped_and_a_line_that_comes_twice_is_one_sample() -> None:
    odd = DriftLine(DriftTopic.WORK, ODD, "done", Cell("x", DriftStanding.UNKNOWN), Cell())
    found = told(Outcome(ODD, Drift((odd, odd))))
    name = ODD.replace("\udcff", "?")
    labels = {"topic": "work", "name": name, "column": "on disk", "standing": "unknown"}
    assert found[key("gdr_drift_property", host=name, **labels)] == 1


def test_a_label_from_a_node_is_not_endless() -> None:
    long = DriftLine(DriftTopic.WORK, "x" * 100_000, "done", Cell("x", DriftStanding.DRIFT), Cell())
    assert len(exposition([Outcome("gpu001", Drift((long,)))], ExitCode.FAILED, NOW, NEVER)) < 5000


def test_a_host_out_of_reach_keeps_only_when_it_was_last_read() -> None:
    before = Remembered(AT - 7200, {"gpu002": AT - 3600})
    found = told(Outcome("gpu001", drift({})), OUT_OF_REACH, before=before)
    read = "gdr_drift_host_read_timestamp_seconds"
    assert found[key(read, host="gpu001")] == AT
    assert found[key(read, host="gpu002")] == AT - 3600
    assert key("gdr_drift_reboot_owed", host="gpu002") not in found
    assert found[key("gdr_drift_run_success")] == 0
    assert found[key("gdr_drift_run_timestamp_seconds")] == AT
    assert found[key("gdr_drift_success_timestamp_seconds")] == AT - 7200


def test_evidence_that_was_cut_off_is_no_success() -> None:
    found = told(Outcome("gpu001", Drift(complete=False)))
    assert found[key("gdr_drift_run_success")] == 0
    assert key("gdr_drift_success_timestamp_seconds") not in found


def test_a_run_remembers_what_an_earlier_one_wrote() -> None:
    text = exposition([Outcome(ODD, drift({}))], ExitCode.OK, NOW, NEVER)
    assert remembered(text, PREFIX) == Remembered(AT, {ODD.replace("\udcff", "?"): AT})
    assert remembered("", PREFIX) == NEVER
    assert remembered("\x00 gdr_drift_success_timestamp_seconds x\n", PREFIX) == NEVER


def test_a_failed_run_leaves_no_value_of_a_host() -> None:
    found = parse(failed(NOW, Remembered(AT - 60, {"gpu001": AT - 60})))
    assert {name for name, _ in found} == {
        "gdr_drift_host_read_timestamp_seconds",
        "gdr_drift_run_success",
        "gdr_drift_run_timestamp_seconds",
        "gdr_drift_success_timestamp_seconds",
    }
    assert found[key("gdr_drift_run_success")] == 0


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        pytest.param("# HELP a b\n# TYPE a gauge\na 1 1700000000000\n", "no line", id="a-time"),
        pytest.param("# HELP a b\n# TYPE a gauge\na 1\na 2\n", "twice", id="a-sample-twice"),
        pytest.param('# HELP a b\n# TYPE a gauge\na{b="\n"} 1\n', "no line", id="a-raw-newline"),
        pytest.param("a 1\n", "outside", id="no-type"),
        pytest.param("# HELP a b\n# TYPE a gauge\na 1", "newline", id="no-last-newline"),
    ],
)
def test_the_grammar_refuses_what_the_collector_would(bad: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(bad)


def write_textfile(file: Path, text: str) -> None:
    with open_textfile(file) as opened:
        opened.write(text)


def test_the_file_is_put_in_place_whole_and_readable(tmp_path: Path) -> None:
    file = tmp_path / "gdr.prom"
    before = os.umask(0o077)
    try:
        write_textfile(file, "one\n")
        inode = file.stat().st_ino
        write_textfile(file, "two\n")
    finally:
        os.umask(before)
    assert read_textfile(file) == "two\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert file.stat().st_ino != inode, "a reader of the old file sees it whole"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "gdr.prom"
    with pytest.raises(UsageError, match="No such file or directory"):
        write_textfile(gone, "text\n")
    assert read_textfile(gone) == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("gdr.txt", r"reads \*\.prom alone", id="not-prom"),
        pytest.param("missing/gdr.prom", "there is no folder", id="no-folder"),
        pytest.param("folder.prom", "is not a file", id="a-folder"),
    ],
)
def test_a_place_that_nobody_would_read_is_refused_at_once(
    name: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "folder.prom").mkdir()
    with pytest.raises(UsageError, match=why):
        textfile_at(str(tmp_path / name))


def _run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return gdr("drift", *words, state=tmp_path / "state")


def test_a_run_that_fails_takes_back_what_an_earlier_one_told(tmp_path: Path) -> None:
    (tmp_path / "gpu001.evidence").write_text((ROOT / "tests/evidence/rocky.txt").read_text())
    file = tmp_path / "gdr.prom"
    first = _run(tmp_path, "--from", str(tmp_path / "gpu001.evidence"), "--textfile", str(file))
    assert first.returncode == ExitCode.FAILED, first.stderr
    state = key("gdr_drift_host_state", host="gpu001", state="drift")
    was = parse(file.read_text())
    assert was[state] == 1
    then = _run(tmp_path, "--from", str(tmp_path / "missing"), "--textfile", str(file))
    assert then.returncode == ExitCode.USAGE
    found = parse(file.read_text())
    assert state not in found
    assert found[key("gdr_drift_run_success")] == 0
    success = key("gdr_drift_success_timestamp_seconds")
    assert found[success] == was[success]
