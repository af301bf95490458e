"""The verb ``verify``: the suite with our exit codes, and every case by name if asked."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import jsonschema

from tests.invoked import ROOT, gdr
from toolkit.checks.all import ALL


def verify(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The verb as an operator runs it, in a folder of theirs."""
    return gdr("verify", *words, state=folder / "state", cwd=folder)


def test_verbose_names_every_case_with_its_ending(tmp_path: Path) -> None:
    done = verify(tmp_path, "--hosts", "demo-nogpu", "--verbose")
    assert done.returncode == 0, done.stdout + done.stderr
    for check in ALL:
        assert f"test_node[toolkit://demo-nogpu-{check.id}] " in done.stdout
    assert "test_the_boot_id[toolkit://demo-nogpu] PASSED" in done.stdout
    assert re.search(r"SKIPPED \[\d+\] .*: no NVIDIA GPU on the PCI bus\n", done.stdout)


def test_without_it_only_what_failed_is_named(tmp_path: Path) -> None:
    done = verify(tmp_path, "--hosts", "demo-stub", "--profile", "peermem")
    assert done.returncode == 2
    assert "FAILED" in done.stdout
    assert "test_node[toolkit://demo-stub-peermem.stub]" in done.stdout
    assert "PASSED" not in done.stdout


def test_a_node_without_the_passport_that_is_demanded_is_not_ready_in_junit_either(
    tmp_path: Path,
) -> None:
    done = verify(tmp_path, "--hosts", "demo-nogpu", "--passport", "--junit", "first.xml")
    assert done.returncode == 2, done.stdout + done.stderr
    cases = ElementTree.parse(tmp_path / "first.xml").iter("testcase")
    [failed] = [each for each in cases if each.find("failure") is not None]
    assert failed.get("name") == "test_node[toolkit://demo-nogpu-image.passport]"
    assert "no passport" in (failed.findtext("failure") or "")


def test_json_tells_every_case_and_nothing_else(tmp_path: Path) -> None:
    done = verify(tmp_path, "--hosts", "demo-stub", "--profile", "peermem", "--json")
    assert done.returncode == 2, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads((ROOT / "docs/verify.schema.json").read_text()))
    cases = {(each["name"], each["check"]): each for each in told["cases"]}
    assert {check for _, check in cases if check} == {each.id for each in ALL}
    assert cases["test_node", "peermem.stub"]["status"] == "fail"
    assert "stub" in cases["test_node", "peermem.stub"]["message"]
    assert cases["test_the_boot_id", None] == {
        "host": "demo-stub", "name": "test_the_boot_id", "check": None, "status": "pass",
        "message": "",
    }  # fmt: skip
    assert sum(told["summary"].values()) == len(told["cases"])


def test_a_host_that_cannot_be_asked_is_an_error_in_every_case(tmp_path: Path) -> None:
    done = verify(tmp_path, "--hosts", "root@127.0.0.1:1", "--json")
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads((ROOT / "docs/verify.schema.json").read_text()))
    assert {each["status"] for each in told["cases"]} == {"error"}
    assert told["exit_code"] == done.returncode == 4


def test_no_document_where_nobody_was_named(tmp_path: Path) -> None:
    done = verify(tmp_path, "--json")
    assert (done.returncode, done.stdout) == (64, "")
    assert "error: " in done.stderr or "ERROR: " in done.stderr


def test_the_named_checks_alone_are_cases(tmp_path: Path) -> None:
    words = ("--hosts", "demo-stub", "--only", "peermem.stub,rdma.port", "--skip", "rdma")
    done = verify(tmp_path, *words, "--json")
    assert done.returncode == 2, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads((ROOT / "docs/verify.schema.json").read_text()))
    assert [(each["name"], each["check"]) for each in told["cases"]] == [
        ("test_node", "peermem.stub")
    ]
    assert (told["checks"]["judged"], told["checks"]["of"]) == (1, len(ALL))
