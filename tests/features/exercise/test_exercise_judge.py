"""What came of tests: the ratio, the suspect, and a fallback that looks fast."""

from __future__ import annotations

import pytest

from tests.features.exercise.exercising import (
    SAID,
    captured,
    changed,
    end_frames,
    look,
    measured,
    planned,
    table,
    view,
)
from toolkit.checks.check import Status
from toolkit.errors import ExitCode
from toolkit.evidence import State
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Kind, Measured, Role, Test
from toolkit.features.exercise.plan_judge import JudgedTest, exit_code, judge, shown
from toolkit.features.exercise.plan_proof import ProofState, by_nccl, by_ucx
from toolkit.throughput.estimate import Unit

PASS, FAIL, UNKNOWN, _ = Status
FULL = 45900.0  # MB/s (2^20): 48.1 GB/s
NODES = {name: Node(captured("healthy")) for name in ("gpu1", "gpu2")}
REDIRECTED = {**NODES, "gpu2": Node(captured("acs"))}
NCCL = (SAID / "composed-nccl-tests.txt").read_text().replace("      2    419", "      0    419")


def asked(kind: Kind, *, gpu: bool, tool: str = "ib_write_bw") -> Test:
    return next(
        each
        for each in planned(view("gpu1"), view("gpu2")).tests
        if (each.kind, each.gpu, each.tool) == (kind, gpu, tool)
    )


DEEP, HOST = asked(Kind.DEEP, gpu=True), asked(Kind.DEEP, gpu=False)
SHALLOW, HOST_SHALLOW = asked(Kind.SHALLOW, gpu=True), asked(Kind.SHALLOW, gpu=False)


def one(found: Measured, **more: float) -> JudgedTest:
    [result] = judge([found], NODES, **more)
    return result


def test_at_the_prediction_it_passes_and_every_point_is_shown() -> None:
    result = one(measured(DEEP, table(DEEP, FULL)))
    assert result.status is PASS
    assert result.ratio == pytest.approx(1.0, abs=0.05)
    assert {each.proof for each in result.points} == {ProofState.SHOWN}
    assert len(result.points) == 4, "memory and ports of both ends"


@pytest.mark.parametrize(("share", "status"), [(0.82, PASS), (0.78, FAIL)])
def test_the_threshold_is_four_fifths(share: float, status: Status) -> None:
    result = one(measured(HOST, table(HOST, round(FULL * share))))
    assert result.status is status


def test_another_threshold_is_as_good() -> None:
    found = measured(HOST, table(HOST, FULL * 0.7))
    assert one(found, threshold=0.6).status is PASS
    ratio = one(found).ratio or 0.0
    assert one(found, threshold=ratio).status is PASS, "the bound itself is reached"


def test_what_the_operator_expects_goes_before_the_prediction() -> None:
    found = measured(HOST, table(HOST, FULL / 2))
    assert one(found, wanted=20.0).status is PASS
    assert one(found, wanted=40.0).status is FAIL
    shallow = measured(HOST_SHALLOW, table(HOST_SHALLOW, 26000))
    assert one(shallow, wanted=0.1).ratio == one(shallow).ratio, "that is of deep tests"


def test_another_port_that_moved_the_bytes_is_a_fallback_however_fast() -> None:
    good = measured(DEEP, table(DEEP, FULL))
    other = end_frames(DEEP, Role.DRIVE, table(DEEP, FULL), device="mlx5_7")
    result = one(changed(good, Role.DRIVE, other))
    assert result.status is FAIL
    assert "a silent fallback" in result.suspect
    assert "mlx5_7 moved them" in result.suspect


def test_no_port_that_moved_the_bytes_is_one_too() -> None:
    good = measured(DEEP, table(DEEP, FULL))
    small = end_frames(DEEP, Role.DRIVE, table(DEEP, FULL * 100))
    idle = tuple(
        each
        if not each.key.endswith("counters-after")
        else small[3].__class__(each.key, each.state, each.source, small[3].text, each.exit)
        for each in small
    )
    result = one(changed(good, Role.DRIVE, idle))
    assert result.status is FAIL
    assert "they went another way" in result.suspect


def test_counters_that_were_not_read_refute_nothing() -> None:
    good = measured(DEEP, table(DEEP, FULL))
    without = tuple(
        each
        for each in end_frames(DEEP, Role.SERVE, table(DEEP, FULL))
        if "counters" not in each.key
    )
    result = one(changed(good, Role.SERVE, without))
    assert result.status is PASS
    assert [each.proof for each in result.points].count(ProofState.OPEN) == 1


@pytest.mark.parametrize(
    ("words", "memory"),
    [
        pytest.param(table(DEEP, FULL, memory="host"), "host memory", id="host"),
        pytest.param(
            table(DEEP, FULL).replace("CUDA_MEM_DEVICE", "CUDA_MEM_MANAGED"),
            "managed",
            id="managed",
        ),
        pytest.param(table(DEEP, FULL, cuda="9A:00"), "it took the GPU at 9A:00", id="another-gpu"),
    ],
)
def test_memory_that_was_not_the_gpus_is_a_fallback(words: str, memory: str) -> None:
    result = one(measured(DEEP, words))
    assert result.status is FAIL
    assert memory in result.suspect


def test_the_end_that_listens_is_held_to_its_memory_as_well() -> None:
    """Writes land there, and the end that connects knows nothing of it."""
    result = one(measured(DEEP, table(DEEP, FULL), serve=table(DEEP, FULL, memory="host")))
    assert result.status is FAIL
    assert result.suspect == "a silent fallback: gpu2: its buffer lay in host memory"
    silent = one(measured(DEEP, table(DEEP, FULL), serve=""))
    assert "gpu2: it does not say where its buffer lay" in {
        each.words for each in silent.points if each.proof is ProofState.OPEN
    }


def test_one_message_in_flight_shows_acs_that_a_deep_queue_hides() -> None:
    found = [
        measured(DEEP, table(DEEP, FULL)),
        measured(SHALLOW, table(SHALLOW, 6000)),
    ]
    deep, shallow = judge(found, REDIRECTED)
    assert deep.status is PASS
    assert shallow.status is FAIL
    assert shallow.suspect.startswith("ACS redirect: gpu2: 0000:17:00.0")


def test_an_iommu_that_translates_is_a_suspect_at_either_end() -> None:
    nodes = {**NODES, "gpu1": Node(captured("rocky"))}
    [slow] = judge([measured(DEEP, table(DEEP, 500))], nodes)
    assert (slow.status, slow.suspect) == (FAIL, "an IOMMU that translates")


def test_host_memory_on_the_same_ports_tells_the_wire_from_the_gpu() -> None:
    slow = measured(DEEP, table(DEEP, FULL / 2))
    _, gpu = judge([measured(HOST, table(HOST, FULL)), slow], NODES)
    assert gpu.suspect.startswith("the way between GPU and HCA: host memory reaches 48.1 GB/s")
    _, wire = judge([measured(HOST, table(HOST, FULL / 2)), slow], NODES)
    assert wire.suspect == "the wire or the HCA: host memory is as slow"
    _, alone = judge([measured(HOST, table(HOST, 0.0)), slow], NODES)
    assert alone.suspect == "", "host memory came to nothing, which tells neither"


def test_a_shallow_test_far_below_host_memory_fails_though_the_model_allows_it() -> None:
    found = [
        measured(HOST_SHALLOW, table(HOST_SHALLOW, 26000)),
        measured(SHALLOW, table(SHALLOW, 13500)),
    ]
    _, shallow = judge(found, NODES)
    assert shallow.ratio is not None
    assert shallow.ratio > 0.8
    assert shallow.status is FAIL
    assert "ACS redirect does that" in shallow.suspect
    near = [found[0], measured(SHALLOW, table(SHALLOW, 16000))]
    assert judge(near, NODES)[1].status is PASS, "0.62 of host memory"


def test_a_cable_that_errs_is_the_first_suspect() -> None:
    slow = measured(DEEP, table(DEEP, FULL / 2))
    erring = end_frames(DEEP, Role.SERVE, table(DEEP, FULL / 2), errors=12)
    result = one(changed(slow, Role.SERVE, erring))
    assert result.suspect == "the wire: symbol_error grew by 12 on gpu2 mlx5_0"


REGISTER = "allocated GPU buffer of a 1 address at 0x1\nCouldn't allocate MR with error=14\n"


def test_gpu_memory_that_cannot_be_registered_is_broken_not_unknown() -> None:
    result = one(measured(DEEP, REGISTER))
    assert (result.status, result.value) == (FAIL, None)
    assert "no peer memory" in result.found


def test_the_end_that_listens_is_asked_why_nobody_answered() -> None:
    gone = (SAID / "4.5.refused.txt").read_text()
    result = one(measured(DEEP, gone, serve=REGISTER))
    assert result.status is FAIL
    assert result.found.startswith("gpu2: GPU memory could not be registered")


@pytest.mark.parametrize(
    ("status", "words"), [(4, "ACS or a translating IOMMU"), (12, "cable, fabric or ACS"), (9, "")]
)
def test_a_transfer_that_failed_fails_and_its_status_names_the_suspect(
    status: int, words: str
) -> None:
    """The end that listens but lost the other: that is no cause."""
    text = (SAID / "4.5.completion.txt").read_text().replace("status 9", f"status {status}")
    result = one(measured(DEEP, text, serve="ethernet_read_keys: Couldn't read remote address\n"))
    assert result.status is FAIL
    assert f"Failed status {status}" in result.found
    assert words in result.suspect


def test_no_result_is_unknown_and_a_zero_is_none() -> None:
    assert one(measured(HOST, "")).status is UNKNOWN
    assert one(measured(HOST, table(HOST, 0.0))).status is UNKNOWN


def test_a_tool_that_hung_is_unknown_whatever_it_had_said() -> None:
    good = measured(HOST, table(HOST, FULL))
    frames = end_frames(HOST, Role.DRIVE, "half a line", state=State.TIMEOUT)
    result = one(changed(good, Role.DRIVE, frames))
    assert result.status is UNKNOWN
    assert "abandoned" in result.found


@pytest.mark.parametrize("state", [State.FAILED, State.TIMEOUT])
def test_a_tool_that_ended_badly_behind_its_figure_never_passes(state: State) -> None:
    good = measured(HOST, table(HOST, FULL))
    frames = end_frames(HOST, Role.DRIVE, table(HOST, FULL), state=state)
    result = one(changed(good, Role.DRIVE, frames))
    assert (result.status, result.value is None) == (UNKNOWN, False)
    [point] = (each for each in result.points if each.proof is ProofState.OPEN)
    assert point.words.startswith("gpu1: ib_write_bw: ")


def test_an_end_whose_evidence_is_missing_is_said_to_be() -> None:
    good = measured(HOST, table(HOST, FULL))
    result = one(Measured(good.test, {}))
    assert result.status is UNKNOWN
    assert "not here" in result.found


def test_latency_is_better_where_it_is_less() -> None:
    test = asked(Kind.LATENCY, gpu=False, tool="ib_send_lat")
    text = (SAID / "4.5.send_lat.txt").read_text()
    for typical, status in (("1.50", PASS), ("3.90", FAIL)):
        assert one(measured(test, text.replace("5080.26", typical))).status is status


def test_nothing_that_predicts_is_unknown_not_passed() -> None:
    [result] = judge([measured(HOST, table(HOST, FULL))], {})
    assert (result.status, result.ratio) == (UNKNOWN, None)
    assert result.value is not None
    assert [shown(value, Unit.GBS) for value in (9.999, 10.0)] == ["10 GB/s", "10.0 GB/s"]


def test_nccl_is_held_to_its_own_word() -> None:
    assert [each.proof for each in by_nccl(NCCL)] == [ProofState.SHOWN]
    [staged] = by_nccl(NCCL.replace("/GDRDMA", ""))
    assert staged.proof is ProofState.REFUTED
    assert "1 of 1 channels went through host memory" in staged.words
    [silent] = by_nccl("nothing of NCCL's\n")
    assert silent.proof is ProofState.OPEN


def _collective() -> Test:
    seen = look(tools="all_reduce_perf /x\n")
    return planned(view("gpu1", seen=seen), view("gpu2", seen=seen)).tests[0]


def test_a_collective_through_host_memory_fails_at_any_speed() -> None:
    test = _collective()
    assert one(measured(test, NCCL)).status is PASS
    assert one(measured(test, NCCL.replace("/GDRDMA", ""))).status is FAIL
    assert one(measured(test, "mpirun: no such file\n")).status is UNKNOWN


def test_values_that_arrived_wrong_fail_it() -> None:
    wrong = (SAID / "composed-nccl-tests.txt").read_text()
    result = one(measured(_collective(), wrong))
    assert result.status is FAIL
    assert "values that arrived were wrong" in result.suspect


@pytest.mark.parametrize(
    ("lanes", "proof"),
    [
        pytest.param((("rc_mlx5", "mlx5_0"),), ProofState.SHOWN, id="the-hca"),
        pytest.param((("tcp", "eth0"),), ProofState.REFUTED, id="tcp"),
        pytest.param((("rc_mlx5", "mlx5_3"),), ProofState.REFUTED, id="another-hca"),
        pytest.param((), ProofState.OPEN, id="silent"),
    ],
)
def test_ucx_says_by_what_it_went(lanes: tuple[tuple[str, str], ...], proof: ProofState) -> None:
    assert [each.proof for each in by_ucx(lanes, HOST)] == [proof]


def test_the_exit_code_is_the_worst_and_nothing_is_not_well() -> None:
    good, bad = measured(HOST, table(HOST, FULL)), measured(HOST, table(HOST, FULL / 3))
    nothing = measured(HOST, "")
    assert exit_code(judge([good], NODES)) is ExitCode.OK
    assert exit_code(judge([good, nothing], NODES)) is ExitCode.UNKNOWN
    assert exit_code(judge([nothing, bad, good], NODES)) is ExitCode.FAILED
    assert exit_code(()) is ExitCode.UNKNOWN
