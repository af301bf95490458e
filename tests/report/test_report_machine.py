"""What machines read: JSON by its schema, JUnit by its counts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from msgspec.structs import replace

from tests.unit.judged import BARE, HEALTHY, SICK, UNSURE, judged
from toolkit.checks.check import failed
from toolkit.checks.judged import Judged
from toolkit.errors import ExitCode, Outcome, TransportError
from toolkit.report.document import Told, document, document_parts, dumps, picked
from toolkit.report.junit import junit
from toolkit.want import SigningPaths

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())
LOST = TransportError("gpu009: refused", hint="is sshd up?")


def outcomes() -> list[Outcome[Told]]:
    nodes = [Outcome(n.host, Told(judged=n)) for n in (HEALTHY, SICK, UNSURE, BARE)]
    return [*nodes, Outcome("gpu009", error=LOST)]


def made(told: list[Outcome[Told]]) -> dict[str, Any]:
    when = datetime(2026, 11, 21, 12, tzinfo=UTC)
    loaded: dict[str, Any] = json.loads(
        dumps(document("doctor", "peermem", told, ExitCode.UNREACHABLE, when))
    )
    return loaded


def test_attributes_are_picked_by_name_and_told_as_json_has_them() -> None:
    finding = failed("found so", expected="so", details=("one", "two"))
    outcome = Outcome("gpu1", finding, LOST)
    names = "node=host value.status value.details reason=error.hint error.exit_code"
    assert json.loads(json.dumps(picked(outcome, names))) == {
        "node": "gpu1",
        "status": "fail",
        "details": ["one", "two"],
        "reason": "is sshd up?",
        "exit_code": 4,
    }
    whole = picked(Outcome("gpu1", (SigningPaths("/k", "/c"),)), "value")
    assert whole == {"value": [{"key": "/k", "certificate": "/c"}]}


def test_the_document_keeps_its_schema() -> None:
    jsonschema.validate(made(outcomes()), SCHEMA)


def test_the_schema_refuses_what_it_does_not_know() -> None:
    broken = made(outcomes())
    broken["hosts"][0]["verdicts"][0]["status"] = "warning"
    with pytest.raises(jsonschema.ValidationError, match="warning"):
        jsonschema.validate(broken, SCHEMA)


def test_every_host_is_in_the_document_with_its_state() -> None:
    states = {host["name"]: host["state"] for host in made(outcomes())["hosts"]}
    assert states == {
        "gpu001": "ready",
        "gpu002": "slow",
        "gpu003": "unknown",
        "login1": "no GPU",
        "gpu009": "out of reach",
    }


def test_an_error_carries_its_sentence_its_hint_and_its_code() -> None:
    error = made(outcomes())["hosts"][-1]["error"]
    assert error == {
        "kind": "TransportError",
        "message": "gpu009: refused",
        "hint": "is sshd up?",
        "exit_code": 4,
    }


@pytest.mark.parametrize("told", [outcomes(), []], ids=["hosts", "none"])
def test_the_document_in_parts_is_the_same_text(told: list[Outcome[Told]]) -> None:
    what = ("doctor", "peermem", told, ExitCode.UNREACHABLE, datetime(2026, 11, 21, tzinfo=UTC))
    parts = list(document_parts(*what))
    assert "".join(parts) == dumps(document(*what))
    assert len(parts) == len(told) + 2, "one part a host"


def test_undecodable_bytes_of_a_node_do_not_break_the_document() -> None:
    node = judged("a", acs__redirect=failed("\udcff\x00", expected="x"))
    text = dumps(
        document("doctor", "p", [Outcome("a", Told(node))], ExitCode.OK, datetime.now(UTC))
    )
    text.encode("ascii")


def suites(nodes: list[Outcome[Judged]]) -> dict[str, Xml.Element]:
    root = Xml.fromstring(junit(nodes))
    return {str(suite.get("name")): suite for suite in root}


def test_junit_counts_failures_errors_and_skips() -> None:
    nodes = [Outcome(n.host, n) for n in (HEALTHY, SICK, UNSURE, BARE)]
    found = suites([*nodes, Outcome("gpu009", error=LOST)])
    keys = ("tests", "failures", "errors", "skipped")
    counts = {name: tuple(suite.get(key) for key in keys) for name, suite in found.items()}
    assert counts == {
        "gpu001": ("2", "0", "0", "0"),
        "gpu002": ("3", "1", "0", "0"),
        "gpu003": ("3", "0", "1", "0"),
        "login1": ("1", "0", "0", "1"),
        "gpu009": ("1", "0", "1", "0"),
    }


def test_junit_has_an_error_for_a_host_whose_evidence_was_cut_off() -> None:
    cut = replace(HEALTHY, complete=False)
    found = suites([Outcome(cut.host, cut)])[cut.host]
    error = found.find("./testcase[@name='reach']/error")
    assert error is not None
    assert error.get("message") == "its evidence was cut off"
    assert (found.get("tests"), found.get("errors")) == ("3", "1")


def test_junit_survives_characters_that_xml_cannot_hold() -> None:
    node = judged("a", acs__redirect=failed("\x00\x1b \udcff <&>", expected="x"))
    failure = suites([Outcome("a", node)])["a"].find("./testcase/failure")
    assert failure is not None
    assert failure.get("message") == "\ufffd\ufffd \ufffd <&>"
