"""Figures of earlier runs that answer a prediction, and those that do not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from toolkit.facts.rdma.exercise import Buffer, End, Kind, Role, Test
from toolkit.facts.rdma.perftest import MeasuredPair
from toolkit.features.exercise.plan_proof import same
from toolkit.features.exercise.run import FILE, earlier, measured
from toolkit.features.page.show.seen import Path as Path_
from toolkit.features.page.show.seen import in_short

GPU = "0000:18:00.0"


def end(host: str, buffer: Buffer = Buffer.DMABUF) -> End:
    return End(host, "mlx5_0", buffer=buffer, gpu=GPU if buffer.gpu else "")


def kept(runs: Path, day: str, value: float, **changes: object) -> None:
    """A run that was kept, as ``exercise`` writes it, with one test between gpu1 and gpu2."""
    values: dict[str, object] = {"tool": "ib_write_bw", "kind": Kind.DEEP, "unit": "GB/s"}
    values |= {"drive": end("gpu1"), "serve": end("gpu2"), **changes}
    simulated = values.pop("simulated", False)
    ends = {}
    for role in (Role.SERVE, Role.DRIVE):  # as a test tells its ends
        told = values.pop(role)
        assert isinstance(told, End)
        ends[role] = {
            name: str(getattr(told, name)) for name in ("host", "hca", "port", "buffer", "gpu")
        }
    result: Mapping[str, object] = {
        "value": value,
        "status": "pass",
        "size": 1 << 20,
        "gpu": True,
        "ends": ends,
        **values,
    }
    folder = runs / f"{day}T09-00-00-exercise"
    folder.mkdir(parents=True)
    told = {"time": f"{day}T09:00:00+00:00", "results": [result], "simulated": simulated}
    (folder / FILE).write_text(json.dumps(told))


def test_the_newest_figure_counts_for_both_ends(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-19", 40.0)
    kept(tmp_path, "2026-11-20", 46.5)
    figure = MeasuredPair(GPU, "mlx5_0", 46.5, "ib_write_bw", "2026-11-20")
    assert measured(tmp_path, ["gpu1", "gpu2"]) == {"gpu1": (figure,), "gpu2": (figure,)}
    assert measured(tmp_path, ["gpu2"]) == {"gpu2": (figure,)}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"tool": "ib_send_lat", "unit": "us"}, id="a-latency"),
        pytest.param({"tool": "ib_read_bw"}, id="another-direction"),
        pytest.param({"kind": Kind.SHALLOW}, id="a-shallow-queue"),
        pytest.param({"serve": end("gpu2", Buffer.HOST)}, id="host-memory-at-one-end"),
        pytest.param({"serve": end("gpu1")}, id="within-one-node"),
        pytest.param({"points": [{"proof": "refuted", "words": "host memory"}]}, id="a-fallback"),
    ],
)
def test_what_does_not_answer_the_prediction_is_left_out(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    kept(tmp_path, "2026-11-20", 46.5, **changes)
    assert measured(tmp_path, ["gpu1", "gpu2"]) == {}


def test_a_figure_of_a_simulated_node_is_called_so(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-20", 46.5, simulated=True)
    told = measured(tmp_path, ["gpu1"])["gpu1"]
    assert told[0].tool == "ib_write_bw (simulated)"
    path = Path_(((GPU, "mlx5_0"),), "48.2 GB/s", "wire", "", "", "")
    assert in_short(path, told) == "46.5 GB/s (simulated)"
    assert in_short(path, ()) == ""


def test_a_buffer_of_another_version_is_left_out(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-20", 46.5)
    (file,) = tmp_path.glob(f"*/{FILE}")
    assert measured(tmp_path, ["gpu1"])
    file.write_text(file.read_text().replace("by dma-buf", "by tape", 1))
    assert measured(tmp_path, ["gpu1"]) == {}


def test_a_unit_of_another_version_is_no_figure(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-20", 46.5, unit="furlongs")
    assert list(earlier(tmp_path)) == []


def test_where_nothing_was_kept_nothing_is_measured(tmp_path: Path) -> None:
    assert measured(tmp_path / "none", ["gpu1"]) == {}


def test_a_kept_test_is_known_again(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-20", 46.5)
    (one,) = earlier(tmp_path)
    test = Test(1, "ib_write_bw", Kind.DEEP, 1 << 20, 128, 5, 0, end("gpu1"), end("gpu2"))
    assert one.same == same(test)
