"""Doctor with more than one node: what differs between them is told, and counts where it slows."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.evidence.build import INFINIBAND, node
from tests.invoked import here
from toolkit.errors import ExitCode

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())
SLOWER = INFINIBAND.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1)
OLDER = INFINIBAND.replace("fw_ver:28.43.2026", "fw_ver:28.43.2024")


@pytest.mark.parametrize(
    ("infiniband", "told"),
    [
        pytest.param(INFINIBAND, ([], ExitCode.OK), id="alike"),
        pytest.param(SLOWER, (["between.rate"], ExitCode.FAILED), id="slower"),
        pytest.param(OLDER, (["between.firmware"], ExitCode.OK), id="a-mix-of-versions"),
    ],
)
def test_what_differs_between_nodes_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    infiniband: str,
    told: tuple[list[str], ExitCode],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    saved = tmp_path / "saved"
    saved.mkdir()
    for name, own in (("gpu001", INFINIBAND), ("gpu002", infiniband), ("gpu003", INFINIBAND)):
        text = node({"hostname": f"{name}\n", "infiniband": own}).dump()
        (saved / f"{name}.evidence").write_text(text)
    words = ("--profile", "peermem", "--json")
    code = here(monkeypatch, "doctor", "--from", str(saved), *words)
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    assert found["exit_code"] == code
    failing = [each["id"] for each in found["between"] if each["status"] == "fail"]
    assert (failing, code) == told
    here(monkeypatch, "doctor", "--from", str(saved / "gpu002.evidence"), *words)
    assert "between" not in json.loads(capsys.readouterr().out)
