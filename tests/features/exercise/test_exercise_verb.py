"""The verb on simulated nodes: what it asks, prints, keeps, judges again and remembers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests import invoked
from toolkit.errors import ExitCode
from toolkit.rollout.journal import Journal

LONG = True
ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/exercise.schema.json").read_text())
PAST = json.loads((ROOT / "docs/exercise-past.schema.json").read_text())
Gdr = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def gdr(tmp_path_factory: pytest.TempPathFactory) -> Gdr:
    state = tmp_path_factory.mktemp("state")

    def run(*words: str, verb: str = "exercise") -> subprocess.CompletedProcess[str]:
        return invoked.gdr(verb, *words, state=state)

    return run


@pytest.fixture(scope="module")
def ran(gdr: Gdr) -> tuple[dict[str, Any], Path]:
    """One run between a healthy node and one whose switch redirects; and its folder."""
    done = gdr("--hosts", "demo-healthy,demo-acs", "--seconds", "1", "--json")
    assert done.returncode == ExitCode.FAILED, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    return told, Path(done.stderr.split("kept in ")[1].splitlines()[0])


def test_a_deep_queue_passes_where_one_message_in_flight_names_the_switch(
    ran: tuple[dict[str, Any], Path],
) -> None:
    results = {(e["tool"], e["gpu"], e["kind"]): e for e in ran[0]["results"]}
    assert results["ib_write_bw", True, "deep queue"]["status"] == "pass"
    shallow = results["ib_write_bw", True, "one in flight"]
    assert shallow["status"] == "fail"
    assert shallow["suspect"].startswith("ACS redirect: demo-acs: 0000:17:00.0")
    assert results["ib_write_bw", False, "one in flight"]["status"] == "pass"


def test_simulated_figures_are_called_so(ran: tuple[dict[str, Any], Path], gdr: Gdr) -> None:
    told, folder = ran
    assert told["simulated"] is True
    kept = json.loads((folder / "exercise.json").read_text())
    assert kept == told


def test_the_counters_of_both_ports_show_that_they_moved_it(
    ran: tuple[dict[str, Any], Path],
) -> None:
    for result in ran[0]["results"]:
        shown = [point["words"] for point in result["points"] if point["proof"] == "shown"]
        assert len([each for each in shown if "mlx5_0 of demo-" in each]) == 2, result


def test_a_kept_run_is_judged_again_with_no_host(
    ran: tuple[dict[str, Any], Path], gdr: Gdr
) -> None:
    told, folder = ran
    again = gdr("--from", str(folder), "--json")
    assert again.returncode == ExitCode.FAILED, again.stderr
    document = json.loads(again.stdout)
    jsonschema.validate(document, SCHEMA)
    same = ("number", "status", "value", "ratio", "suspect", "points")
    assert [[e[key] for key in same] for e in document["results"]] == [
        [e[key] for key in same] for e in told["results"]
    ]
    milder = gdr("--from", str(folder), "--threshold", "0.3")
    assert milder.returncode == ExitCode.FAILED, "one message in flight is far below host memory"
    assert "  0.45" in milder.stdout


def test_what_was_measured_before_is_told(ran: tuple[dict[str, Any], Path], gdr: Gdr) -> None:
    done = gdr("--hosts", "demo-acs", "--past")
    assert done.returncode == ExitCode.OK
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + len(ran[0]["results"])
    words = ("ib_write_bw, GPU, one in flight (simulated)", "fail")
    assert any(all(word in line for word in words) for line in lines)
    assert "no run has measured" in gdr("--hosts", "gpu77", "--past").stdout
    assert "7 measurements: exercise --past" in gdr("--hosts", "demo-acs", verb="history").stdout


def test_what_was_measured_before_is_told_to_machines(
    ran: tuple[dict[str, Any], Path], gdr: Gdr
) -> None:
    done = gdr("--hosts", "demo-acs", "--past", "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, PAST)
    assert {each["run"] for each in told["past"]} == {ran[1].name}
    same = ("tool", "kind", "size", "gpu", "status", "value", "unit")
    assert [[e[key] for key in same] for e in told["past"]] == [
        [e[key] for key in same] for e in ran[0]["results"]
    ]
    assert all(each["simulated"] for each in told["past"])
    first = ran[0]["results"][0]["ends"]
    assert [(e["role"], e["host"], e["gpu"]) for e in told["past"][0]["ends"]] == [
        (role, end["host"], end["gpu"]) for role, end in first.items()
    ]
    nobody = json.loads(gdr("--hosts", "gpu77", "--past", "--json").stdout)
    assert nobody["past"] == []


def test_check_shows_the_commands_and_moves_nothing(gdr: Gdr) -> None:
    done = gdr("--hosts", "demo-healthy,demo-rocky", "--check")
    assert done.returncode == ExitCode.PENDING
    assert "demo-healthy$ CUDA_VISIBLE_DEVICES=GPU-" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "kept in" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--hosts", "demo[1-3]"), ExitCode.USAGE, "between two hosts"),
        (("--hosts", "demo[1-3]", "--pairs", "some"), ExitCode.USAGE, "ring, rail, all, bisect"),
        (("--hosts", "demo-acs", "--pairs", "all"), ExitCode.USAGE, "two hosts or more"),
        (("--hosts", "demo-acs", "--fabric", "none"), ExitCode.USAGE, "of the pairs of a set"),
        (
            ("--hosts", "demo[1-2]", "--pairs", "all", "--fabric", "README.md"),
            *(ExitCode.USAGE, "no HCA at a switch"),
        ),
        (
            ("--hosts", "demo[1-3]", "--pairs", "all", "--max-unavailable", "1", "--yes"),
            ExitCode.USAGE,
            "a pair takes two nodes",
        ),
        (("--hosts", "demo-acs", "--max-unavailable", "2"), ExitCode.USAGE, "--pairs bisect"),
        (
            ("--hosts", "demo", "--pairs", "all", "--register"),
            ExitCode.USAGE,
            "--register runs",
        ),
        (("--from", "/nowhere", "--pairs", "all"), ExitCode.USAGE, "--from runs none"),
        (("--hosts", "demo-acs", "--html", "pairs.html"), ExitCode.USAGE, "--pairs all"),
        (("--hosts", "demo-healthy", "--seconds", "0"), ExitCode.USAGE, "--seconds 0"),
        (("--hosts", "demo-healthy", "--seconds", "x"), ExitCode.USAGE, "not a whole number"),
        (("--hosts", "demo-healthy", "--threshold", "nan"), ExitCode.USAGE, "--threshold 'nan'"),
        (("--hosts", "demo-healthy", "--threshold", "80"), ExitCode.USAGE, "more than all of it"),
        (("--hosts", "demo-healthy", "--expect", "-3"), ExitCode.USAGE, "--expect '-3'"),
        (("--from", "/nowhere"), ExitCode.USAGE, "/nowhere"),
        (("--from", "/nowhere", "--past"), ExitCode.USAGE, "--past and --from"),
        (("--from", "tests/evidence/healthy.txt"), ExitCode.USAGE, "tells of no test"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    gdr: Gdr, words: tuple[str, ...], code: ExitCode, said: str
) -> None:
    done = gdr(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def better_before(told: dict[str, Any], runs: Path) -> None:
    """Three runs of the days before, between the two ends of which the next test is."""
    text = json.dumps(told).replace("demo-healthy", "demo021x").replace("demo-acs", "demo021")
    before = json.loads(text.replace("demo021x", "demo-acs"))
    for each in before["results"]:
        each["value"] *= 0.5 if each["unit"] == "us" else 1.5
    for day in range(1, 4):
        folder = runs / f"2026-01-0{day}T09-00-00-exercise"
        folder.mkdir()
        before["time"] = f"2026-01-0{day}T09:00:00+00:00"
        (folder / "exercise.json").write_text(json.dumps(before))


def test_the_pairs_of_a_set_are_run_told_kept_and_judged_again(
    ran: tuple[dict[str, Any], Path], gdr: Gdr
) -> None:
    words = ("--pairs", "ring", "--seconds", "1", "--json")
    better_before(ran[0], ran[1].parent)
    done = gdr("--hosts", "demo-acs,demo021,demo-noroot", *words)
    assert done.returncode == ExitCode.UNREACHABLE, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    assert told["pairs"]["left"] == {"demo-noroot": "sudo wants a password"}
    status = {each["number"]: each["status"] for each in told["results"]}
    fewer = [each for each in told["declined"] if status[each["number"]] == "pass"]
    assert fewer, "told though it passes"
    assert {(e["runs"], e["since"]) for e in fewer} == {(3, "2026-01-01")}
    assert told["simulated"] is True
    pairs = told["pairs"]
    assert (pairs["nodes"], pairs["ends"], pairs["rounds"], pairs["possible"]) == (2, 2, 1, 1)
    [ends] = pairs["open"]
    assert sorted(ends) == ["demo-acs mlx5_0", "demo021 mlx5_0"], "either may be it"
    folder = done.stderr.split("kept in ")[1].splitlines()[0]
    with Journal.open(Path(folder)) as journal:  # whom else it names is claimed in vain
        assert {*sum(journal.story().batches, ())} == {"demo-acs", "demo021"}
    page = Path(folder) / "pairs.html"
    again = gdr("--from", folder, "--json", "--html", str(page))
    assert again.returncode == ExitCode.FAILED, again.stderr
    document = json.loads(again.stdout)
    jsonschema.validate(document, SCHEMA)
    assert 'data-p="1.68 us"' in page.read_text()
    assert "Simulated: no data was moved" in page.read_text()
    assert document["pairs"]["open"] == pairs["open"]
    past = gdr("--hosts", "demo-acs", "--past").stdout
    assert past.count("demo021 mlx5_0") == 8 + 3 * len(ran[0]["results"])


def test_where_no_pair_can_be_run_nothing_is_begun(gdr: Gdr) -> None:
    done = gdr("--hosts", "demo-noroot,demo-acs", "--pairs", "all")
    assert done.returncode == ExitCode.UNKNOWN
    assert done.stdout.splitlines()[0] == "0 runs in 0 rounds"
    assert "left out   demo-noroot: sudo wants a password" in done.stdout
    assert "kept in" not in done.stderr


def test_the_pairs_of_a_set_are_told_before_with_what_is_predicted(gdr: Gdr) -> None:
    done = gdr("--hosts", "demo[021-023]", "--pairs", "all", "--check")
    assert done.returncode == ExitCode.PENDING
    lines = done.stdout.splitlines()
    assert lines[0] == "3 runs in 3 rounds"
    assert "demo022 mlx5_0 - demo023 mlx5_0  48.1 GB/s" in done.stdout
    assert max(map(len, lines)) <= 100


def test_a_node_without_gpus_is_measured_with_host_memory(gdr: Gdr) -> None:
    done = gdr("--hosts", "demo-nogpu", "--seconds", "1", "--quiet")
    assert done.returncode == ExitCode.OK, done.stdout
    assert "simulated: no data was moved" in done.stdout
    assert "GPU memory is not tried: no GPU" in done.stdout
    assert "within one node" in done.stdout
