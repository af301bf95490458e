"""The verb: what it prints, what it ends with, and where the password goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.unit.enrolling import DER, FirmwareNode, fleet_of, print_of
from toolkit.cli import main
from toolkit.errors import ExitCode, Outcome
from toolkit.features.enrol import cli
from toolkit.features.enrol.run import EnrolReading, look
from toolkit.ssh.pool import Abandoned
from toolkit.verbs.access import Fleet

ROOT = Path(__file__).parents[3]


@pytest.fixture
def node(tmp_path: Path) -> FirmwareNode:
    return FirmwareNode.made(tmp_path / "node")


@pytest.fixture
def run(node: FirmwareNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    @contextmanager
    def opened(_: object) -> Iterator[Fleet]:
        yield fleet_of(gpu01=node)

    monkeypatch.setattr(cli, "fleet", opened)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    certificate = tmp_path / "site.der"
    certificate.write_bytes(DER)
    return Run(certificate, monkeypatch)


class Run:
    """``gdr enrol --hosts gpu01 --certificate site.der WORDS``; the exit code."""

    def __init__(self, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._certificate, self._monkeypatch = certificate, monkeypatch

    def __call__(self, *words: str, certificate: bool = True) -> int:
        given = ("--certificate", str(self._certificate)) if certificate else ()
        argv = ["gdr", "enrol", "--hosts", "gpu01", *given, *words]
        self._monkeypatch.setattr("sys.argv", argv)
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0


def password_fd(word: str) -> str:
    reader, writer = os.pipe()
    os.write(writer, f"{word}\n".encode())
    os.close(writer)
    return str(reader)


def test_check_tells_what_would_be_requested(
    run: Run, node: FirmwareNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--check") == ExitCode.PENDING
    assert "gpu01  not enrolled" in capsys.readouterr().out
    assert "--import" not in node.calls


def test_a_request_waits_and_says_for_what(
    run: Run, node: FirmwareNode, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("--yes", "--password-fd", password_fd("mnopqrst")) == ExitCode.PENDING
    told = capsys.readouterr()
    assert "Enroll MOK > Continue > Yes" in told.out
    assert node.read("mok/auth") == "$6$hash-of-mnopqrst\n"
    assert "mnopqrst" not in told.out + told.err
    kept = "".join(each.read_text() for each in (tmp_path / "state").rglob("*") if each.is_file())
    assert "waits for the console" in kept
    assert "mnopqrst" not in kept


def test_a_password_made_here_is_told_to_a_terminal_alone(
    run: Run, node: FirmwareNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--yes") == ExitCode.USAGE
    assert "nobody is there to be told the password" in capsys.readouterr().err
    assert "--import" not in node.calls


def test_a_password_made_here_is_told_once(
    run: Run,
    node: FirmwareNode,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert run("--yes", "--quiet") == ExitCode.PENDING
    told = capsys.readouterr()
    [line] = [line for line in told.err.split("\n") if line.startswith("password for MokManager")]
    word = line.split()[-1]
    assert node.read("mok/auth") == f"$6$hash-of-{word}\n"
    assert word not in told.out
    assert all(
        word not in each.read_text() for each in (tmp_path / "state").rglob("*") if each.is_file()
    )


def test_nothing_is_asked_where_all_is_enrolled(
    run: Run, node: FirmwareNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.put("mok/list", print_of(DER))
    assert run() == ExitCode.OK
    assert "gpu01  enrolled" in capsys.readouterr().out


def test_the_document_keeps_its_schema(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--check", "--json") == ExitCode.PENDING
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads((ROOT / "docs/report.schema.json").read_text()))
    assert told["hosts"][0]["enrolment"] == {
        "standing": "not enrolled",
        "found": "not enrolled; the kernel demands signatures (lockdown (integrity))",
        "secure_boot": "on",
        "todo": "enrol it",
    }


def test_revoked_is_done(run: Run, node: FirmwareNode) -> None:
    run("--yes", "--root-pw")
    assert node.read("mok/new")
    assert run("--revoke") == ExitCode.OK
    assert node.read("mok/new") == ""


@pytest.mark.parametrize("words", [("--yes", "--root-pw"), ("--revoke",)], ids=["ask", "revoke"])
def test_ctrl_c_amid_looking_changes_nothing(
    run: Run, node: FirmwareNode, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    if "--revoke" in words:
        run("--yes", "--root-pw")
    before = node.read("mok/new")

    def stopped(*told: Any) -> list[Outcome[EnrolReading]]:
        gone = Abandoned("gpu02: interrupted while at work")
        return [*look(*told), Outcome("gpu02", error=gone)]

    monkeypatch.setattr(cli, "look", stopped)
    assert run(*words) == ExitCode.INTERRUPTED
    assert node.read("mok/new") == before


@pytest.mark.parametrize(
    "words",
    [("--dkms-key",), ("--root-pw", "--password-fd", "0")],
    ids=["two-certificates", "two-passwords"],
)
def test_what_makes_no_sense_is_refused(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words) == ExitCode.USAGE


def test_one_certificate_has_to_be_named(run: Run) -> None:
    assert run(certificate=False) == ExitCode.USAGE
