"""Which nodes make a gate, and what it holds."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tests import invoked
from tests.evidence.board import BOARD, GPUS
from tests.evidence.build import node
from tests.evidence.frames import DENIED
from toolkit.checks.all import BY_ID
from toolkit.errors import ExitCode, NoEvidence, ToolkitError, TransportError, UsageError
from toolkit.facts.node.node import Node
from toolkit.features.gate import cli
from toolkit.features.gate.plan import Expected, alike, expected

ROOT = Path(__file__).parents[3]


def table(**frames: str) -> tuple[Expected, ...]:
    return expected(Node(node(frames)))


def test_every_gpu_port_bridge_and_module_of_the_path_has_its_rows() -> None:
    rows = {each.what: each for each in table()}
    assert rows["GPU 0000:18:00.0"].path == "/sys/bus/pci/devices/0000:18:00.0/device"
    assert rows["port mlx5_0/1"].wanted == "4: ACTIVE"
    assert rows["ACS of 0000:17:00.0"].path.startswith("/sys/bus/pci/devices/0000:17:00.0/config@")
    assert rows["module nvidia_peermem on nvidia"].kind == "there"
    assert rows["argument iommu"].wanted == "iommu=pt"
    assert rows["memlock of slurmd"].kind == "locks"
    numbers = rows["Xid since boot"].wanted.split(",")
    assert "79" in numbers  # fallen off the bus
    assert "31" not in numbers  # an application's own fault


def test_each_row_names_a_check_that_tells_more() -> None:
    assert {each.check for each in table()} <= set(BY_ID)


def test_a_gpu_without_a_link_and_a_bridge_without_acs_have_no_row_for_it() -> None:
    fenced = BOARD.but(GPUS[0], now=("2.5 GT/s PCIe", 0))
    rows = {each.what for each in expected(Node(node(board=fenced)))}
    every = {each.what for each in table()}
    assert every - rows == {f"lanes of GPU {GPUS[0]}"}


def test_of_several_rows_that_differ_the_first_by_its_text_is_told() -> None:
    rows = [Expected("is", "c", what, "p", "1") for what in ("x", "b", "z")]
    with pytest.raises(UsageError, match="two differs from one in 3 rows, such as b"):
        alike({"one": (), "two": tuple(rows)})


@pytest.mark.parametrize("hosts", [{}, {"gpu1": TransportError("gpu1: no route")}])
def test_where_no_node_could_be_read_no_gate_is_written(
    hosts: dict[str, ToolkitError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_evidence", lambda _: hosts)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "gate.sh"
    code = invoked.here(monkeypatch, "gate", "--hosts", "gpu1", "--out", str(file))
    assert code == (ExitCode.UNREACHABLE if hosts else ExitCode.OK)
    assert not file.exists()


def test_a_gate_is_made_from_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    saved, file = tmp_path / "gpu1.txt", tmp_path / "gate.sh"
    saved.write_text(node().dump())
    assert invoked.here(monkeypatch, "gate", "--from", str(saved), "--out", str(file)) == 0
    assert "# As gpu1.txt on " in file.read_text()


def test_nodes_that_differ_have_no_gate_in_common() -> None:
    one, other = table(), table(**{"kernel-release": "5.15.0-171-generic\n"})
    assert alike({"a": one, "b": one}) == one
    with pytest.raises(UsageError, match=r"b differs from a in \d+ rows, such as kernel"):
        alike({"a": one, "b": other})


def test_what_was_not_read_makes_no_gate() -> None:
    with pytest.raises(NoEvidence):
        expected(Node(node({"module-state": DENIED})))


def test_a_bar_in_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot stand in a gate"):
        _ = Expected("has", "", "argument", "/proc/cmdline", "pci=a|b").line


def test_a_node_that_fails_makes_none_and_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "gate.sh"
    done = invoked.gdr("gate", "--hosts", "demo-acs", "--out", str(file), state=tmp_path / "state")
    assert done.returncode == ExitCode.FAILED
    assert "acs.redirect" in done.stdout
    assert not file.exists()


def test_nodes_alike_make_one_that_may_be_run(tmp_path: Path) -> None:
    file = tmp_path / "gate.sh"
    words = ("--hosts", "demo001,demo011", "--out", str(file), "--json")
    done = invoked.gdr("gate", *words, state=tmp_path / "state")
    assert done.returncode == ExitCode.OK, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads((ROOT / "docs/gate.schema.json").read_text()))
    assert told["hosts"] == ["demo001", "demo011"]
    assert all(row["what"] in file.read_text() for row in told["rows"])
    assert file.stat().st_mode & 0o777 == 0o755
    assert file.read_text().startswith("#!/bin/sh\n# As demo")
