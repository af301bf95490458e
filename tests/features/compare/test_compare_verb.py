"""The verb ``compare``: its document and its exit codes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import jsonschema
import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from tests.evidence.build import PROPRIETARY, node
from tests.evidence.frames import DENIED, Override
from tests.features.compare.comparing import NAMES, WHEN, fleet
from toolkit.errors import ExitCode, TransportError
from toolkit.features.compare.cli import compare_, document

SCHEMA = Path(__file__).parents[3] / "docs/compare.schema.json"


def test_the_document_says_the_same_as_the_text() -> None:
    compared = fleet({"gpu007": {"nvidia-version": PROPRIETARY}})
    errors = [("gpu013", TransportError("gpu013: no route to host", hint="is it on?"))]
    told = json.loads(json.dumps(document(compared, errors, ExitCode.UNREACHABLE, WHEN)))
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert told["schema"] == "gdr-toolkit/compare/1"
    assert told["exit_code"] == 4
    (kind,) = told["kinds"]
    assert len(kind["identical"]) == 11
    (odd,) = kind["odd"]
    assert odd["hosts"] == ["gpu007"]
    assert {"topic": "NVIDIA driver", "item": "", "value": "580.126.16 proprietary",
            "norm": "580.126.16 open"} in odd["differences"]  # fmt: skip
    assert told["errors"][0]["host"] == "gpu013"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({}, ExitCode.OK, id="identical"),
        pytest.param({"nvidia-version": PROPRIETARY}, ExitCode.FAILED, id="different"),
        pytest.param({"iommu-groups": DENIED}, ExitCode.UNKNOWN, id="not-read"),
    ],
)
def test_the_exit_code_says_whether_nodes_are_alike(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Override],
    code: ExitCode,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "saved").mkdir()
    for name in NAMES[:3]:
        made = node({"hostname": name + "\n", **(changes if name == "gpu002" else {})})
        (tmp_path / "saved" / f"{name}.evidence").write_text(made.dump())
    with pytest.raises(Exit) if code else nullcontext() as ended:
        compare_(Context(), from_=str(tmp_path / "saved"), profile="peermem", json=True)
    assert code is ExitCode.OK or (ended is not None and ended.value.code == code)
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert told["exit_code"] == code
    assert told["kinds"][0]["hosts"] == NAMES[:3]


def test_one_node_has_none_to_be_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "gpu001.evidence").write_text(node().dump())
    with pytest.raises(Exit) as ended:
        compare_(Context(), from_=str(tmp_path / "gpu001.evidence"), profile="peermem")
    assert ended.value.code == ExitCode.USAGE
    assert "none to be compared with" in capsys.readouterr().err
