"""What each verb prints with --json is one document, as its schema says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests.invoked import gdr
from toolkit.errors import ExitCode

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests/evidence"
DAMAGED = "= begin ok gdr-toolkit/1\n= pci ok /sys\n|\x1b[2J\n= end ok 1\n"


@pytest.mark.parametrize(
    ("words", "schema", "code"),
    [
        pytest.param(("doctor",), "report", ExitCode.FAILED, id="doctor"),
        pytest.param(("doctor", "--next-boot"), "report", ExitCode.FAILED, id="next-boot"),
        pytest.param(("doctor", "--nccl-version", "2.27"), "report", ExitCode.FAILED, id="nccl"),
        pytest.param(("plan",), "report", ExitCode.PENDING, id="plan"),
        pytest.param(("compare",), "compare", ExitCode.FAILED, id="compare"),
        pytest.param(("expect",), "expect", ExitCode.FAILED, id="expect"),
        pytest.param(("drift",), "drift", ExitCode.FAILED, id="drift"),
        pytest.param(("topology",), "topology", ExitCode.UNKNOWN, id="topology"),
        pytest.param(("why",), "why", ExitCode.FAILED, id="why"),
        pytest.param(("why", "peermem.loaded"), "why", ExitCode.FAILED, id="why-check"),
        pytest.param(
            ("why", "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"),
            "why",
            ExitCode.FAILED,
            id="why-line",
        ),
        pytest.param(("predict",), "predict", ExitCode.OK, id="predict"),
        pytest.param(
            ("rehearse", "--driver", "595.71.05"), "rehearse", ExitCode.UNKNOWN, id="rehearse"
        ),
        pytest.param(
            ("predict", "--what-if", "acs=off", "--nodes", "4", "--model-size", "7B"),
            "predict",
            ExitCode.OK,
            id="predict-what-if",
        ),
    ],
)
def test_the_document_of_a_verb_keeps_its_schema(
    words: tuple[str, ...], schema: str, code: ExitCode, tmp_path: Path
) -> None:
    for name in ("healthy", "acs", "kernel"):
        (tmp_path / f"{name}.evidence").write_text((CAPTURES / f"{name}.txt").read_text())
    if schema == "topology":
        (tmp_path / "damaged.evidence").write_text(DAMAGED)
    ended = gdr(*words, "--from", str(tmp_path), "--json", state=tmp_path / "state")
    assert ended.returncode == code, ended.stderr
    told = json.loads(ended.stdout)
    jsonschema.validate(told, json.loads((ROOT / f"docs/{schema}.schema.json").read_text()))
    assert told["schema"] == f"gdr-toolkit/{schema}/1"
    assert "\x1b" not in ended.stdout
