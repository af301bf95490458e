"""One file of a fleet: captured over SSH here, judged without any host there."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

from tests import invoked
from toolkit.errors import ExitCode


def gdr(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return invoked.gdr(*words, "--quiet", state=place / "state", cwd=place)


def test_what_was_said_of_a_fleet_is_said_again_elsewhere(tmp_path: Path) -> None:
    made = gdr(
        tmp_path, "capture", "--hosts", "demo-healthy,demo-acs", "--incident", "ticket.tar.gz"
    )
    assert made.returncode == ExitCode.OK, made.stderr
    with tarfile.open(tmp_path / "ticket.tar.gz") as opened:
        report = opened.extractfile("report.json")
        assert report is not None
        then = json.loads(report.read())
    now = gdr(tmp_path, "doctor", "--from", "ticket.tar.gz", "--json")
    assert now.returncode == ExitCode.FAILED, "demo-acs is ill by design"
    again = json.loads(now.stdout)
    assert [each["name"] for each in again["hosts"]] == ["demo-acs", "demo-healthy"]
    by_name = {each["name"]: each for each in then["hosts"]}
    assert {each["name"]: each for each in again["hosts"]} == by_name
    assert then["exit_code"] == again["exit_code"]


def test_a_scrubbed_incident_names_nobody(tmp_path: Path) -> None:
    made = gdr(tmp_path, "capture", "--hosts", "demo-healthy", "--scrub", "--incident", "t.tar.gz")
    assert made.returncode == ExitCode.OK, made.stderr
    with tarfile.open(tmp_path / "t.tar.gz") as opened:
        members = {name: opened.extractfile(name) for name in opened.getnames()}
        texts = {name: member.read().decode() for name, member in members.items() if member}
    assert set(texts) == {"about.txt", "evidence/node001.evidence", "report.json"}
    assert not [name for name, text in texts.items() if "demo-healthy" in text]


def test_nor_does_it_name_a_host_that_was_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        '[[waivers]]\ncheck = "acs.redirect"\nreason = "demo-noroot waits"\nuntil = 2099-01-01\n'
    )
    hosts = ("--hosts", "demo-healthy,demo-noroot", "--site", "site.toml")
    made = gdr(tmp_path, "capture", *hosts, "--scrub", "--incident", "t.tar.gz")
    assert made.returncode == ExitCode.UNREACHABLE, made.stderr
    assert "demo-noroot" in made.stdout, "the operator is told which one it was"
    with tarfile.open(tmp_path / "t.tar.gz") as opened:
        texts = [
            each.read().decode() for each in map(opened.extractfile, opened.getnames()) if each
        ]
    assert len(texts) == 4
    assert not [text for text in texts if "demo-noroot" in text]
