"""What NCCL's RAS answers: each form that its versions print, and answers that are cut."""

from __future__ import annotations

import json
import re

import pytest

from toolkit.facts.nccl.ras import RasKind, RasLook, RasRank, RasTrouble, is_ras, read_ras

HEAD = (
    "NCCL version 2.30.7 compiled with CUDA 13.0\n"
    "CUDA runtime version 13000, driver version 13000\n"
)
TABLE = (
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
)
COMM = "0xcf264af53edbe986"


def row(group: int, comms: int, ranks: int, status: str = "RUNNING", errors: str = "OK") -> str:
    nodes = f"{2:8d}  {'7-8':>8}  {ranks:8d}  {16:8d}"
    return f"{group:5d}  {comms:8d}  {nodes}  {status:>8}  {errors:>6}\n"


def answer(rows: str = "", errors: str = "", warnings: str = "") -> str:
    """As client_support.cc puts one together."""
    return (
        f"{HEAD}\nJob summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"
        "(total)   per node  per process    (total)  (total)\n"
        "      2          8            1         16       16\n\n"
        f"Communicators... (2.051s)\n=============\n\n{TABLE}{rows or row(0, 8, 16)}"
        f"\nErrors\n======\n\n{errors}Warnings\n========\n\n{warnings}"
    )


def titled(kind: str) -> str:
    return f"#0-0 ({COMM[2:]}) {kind}\n"


PROCESS = "  Process 3487 on node 10.0.0.2 managing GPU 5 (NVML 1)\n\n"
LOST = RasRank("10.0.0.2", 3487, "5 (NVML 1)")
RANK = "GPU 5 managed by process 3487 on node 10.0.0.2\n"
FORMS = [
    pytest.param(
        "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n" + PROCESS,
        "", (RasKind.DEAD, ""), "1 job process is considered dead", [LOST], id="dead",
    ),
    pytest.param(
        "INCOMPLETE\n  Missing communicator data from 1 job process\n" + PROCESS,
        "", (RasKind.INCOMPLETE, ""), "Missing communicator data from 1", [LOST], id="process",
    ),
    pytest.param(
        f"{titled('INCOMPLETE')}  Missing communicator data from 1 rank\n  Rank 13 -- {RANK}\n",
        "", (RasKind.INCOMPLETE, COMM), "from 1 rank", [RasRank("10.0.0.2", 3487, "5", 13)],
        id="rank-2.26",
    ),
    pytest.param(
        f"{titled('INCOMPLETE')}  Missing communicator data from 2 ranks\n"
        "  The missing ranks: 3,13\n\n",
        "", (RasKind.INCOMPLETE, COMM), "The missing ranks: 3,13", [], id="rank-2.24",
    ),
    pytest.param(
        f"{titled('ERROR')}  Asynchronous error on 1 rank\n"
        f"  Rank 3 reported System error -- {RANK}\n",
        "", (RasKind.ERROR, COMM), "rank 3 reported System error",
        [RasRank("10.0.0.2", 3487, "5", 3)], id="error",
    ),
    pytest.param(
        "", f"{titled('MISMATCH')}  Communicator ranks have different AllReduce operation counts\n"
        f"  15 ranks have launched up to operation 6650\n"
        f"  Rank 3 has launched up to operation 6649 -- {RANK}\n",
        (RasKind.MISMATCH, COMM), "different AllReduce operation counts; 15 ranks have launched",
        [RasRank("10.0.0.2", 3487, "5", 3)], id="counts-2.26",
    ),
    pytest.param(
        "", f"{titled('MISMATCH')}  Communicator ranks have different collective operation counts\n"
        "  13 ranks have launched up to operation 665\n"
        "  3 ranks have launched up to operation 66\n"
        f"  Rank 1 -- {RANK}  Rank 2 -- [process information not found]\n\n",
        (RasKind.MISMATCH, COMM), "3 ranks have launched up to operation 66",
        [RasRank("10.0.0.2", 3487, "5", 1), RasRank("", -1, "", 2)], id="counts-2.24",
    ),
    pytest.param(
        "", f"{titled('MISMATCH')}  Communicator ranks have different status\n"
        "  14 ranks have status RUNNING\n  Rank 3,7 has status UNKNOWN\n\n",
        (RasKind.MISMATCH, COMM), "Rank 3,7 has status UNKNOWN", [], id="status-2.24",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("errors", "warnings", "found", "words", "who"), FORMS)
def test_each_form_of_the_text(
    errors: str, warnings: str, found: tuple[RasKind, str], words: str, who: list[RasRank]
) -> None:
    timeout = (
        "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n"
    )
    (look,) = read_ras(answer("", errors, timeout + warnings))
    (trouble,) = look.troubles
    assert (trouble.kind, trouble.communicator, list(trouble.who)) == (*found, who)
    assert words in trouble.words
    assert "timeouts" not in trouble.words


def test_the_table_counts_communicators_and_tells_of_those_that_were_aborted() -> None:
    (look,) = read_ras(
        answer(row(0, 1, 16, "ABORT") + row(1, 8, 4, "FINALIZE", "INCOMPLETE,ERROR"))
    )
    (trouble,) = look.troubles
    assert (look.communicators, look.ranks, look.whole) == (9, 16, True)
    assert (trouble.kind, trouble.words) == (RasKind.ERROR, "1 of 16 ranks aborted")
    none = answer().replace(TABLE + row(0, 8, 16), "No communicator data collected!\n")
    assert read_ras(none) == (RasLook(0, 0, ()),)


def rank(number: int, count: int = 40, **status: object) -> dict[str, object]:
    state = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False}
    return {
        "rank": number, "host": f"10.0.0.{1 + number // 8}", "pid": 100 + number,
        "cuda_dev": number % 8, "nvml_dev": number % 8,
        "status": {**state, "abort_flag": False, **status},
        "collective_counts": {"Broadcast": 3, "AllReduce": count},
    }  # fmt: skip


def missing(number: int, *, dead: bool = False, mute: bool = True) -> dict[str, object]:
    status = {"unresponsive": mute, "considered_dead": dead}
    told = rank(number)
    return {**{key: told[key] for key in list(told)[:5]}, "status": status}


def document(*ranks: dict[str, object], lost: tuple[dict[str, object], ...] = ()) -> str:
    communicator = {
        "hash": COMM, "secondary_hash": "0x1:0x2", "size": len(ranks) + len(lost),
        "ranks_count": len(ranks), "missing_ranks_count": len(lost),
        "ranks": list(ranks), "missing_ranks": list(lost),
    }  # fmt: skip
    told = {
        "nccl_version": "2.29.7", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
        "timestamp": "2026-11-28 13:06:53", "communicators_count": 1,
        "communicators": [communicator],
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
    }  # fmt: skip
    return json.dumps(told, indent=2) + "\n"


SOUND = [rank(number) for number in range(15)]


@pytest.mark.parametrize(
    ("text", "kind", "words", "host"),
    [
        (document(*SOUND, lost=(missing(15),)), RasKind.INCOMPLETE, "no answer: 1 rank", 2),
        (document(*SOUND, lost=(missing(3, dead=True),)), RasKind.DEAD, "dead: 1 rank", 1),
        (document(*SOUND, rank(15, async_error=2)), RasKind.ERROR, "system error: 1 rank", 2),
        (document(*SOUND, rank(15, init_state=99)), RasKind.ERROR, "error, result 99", 2),
        *(
            (document(*SOUND, rank(15, init_state=code)), RasKind.ERROR, f"error, {words}: 1", 2)
            for code, words in (
                *((1, "unhandled CUDA error"), (3, "internal error"), (4, "invalid argument")),
                *((5, "invalid usage"), (6, "remote process error"), (8, "result 8")),
            )
        ),
        (
            document(*SOUND, rank(15, 39)),
            *(RasKind.MISMATCH, "count of AllReduce: 40 on 15 ranks, 39 on 1 rank", 2),
        ),
        (
            document(*SOUND, lost=(missing(15, mute=False),)),
            *(RasKind.MISMATCH, "status: RUNNING on 15 ranks, NOCOMM on 1 rank", 2),
        ),
    ],
)
def test_json_says_what_the_text_would(text: str, kind: RasKind, words: str, host: int) -> None:
    (look,) = read_ras(text)
    found = {each.kind: each for each in look.troubles}[kind]
    assert words in found.words
    assert [each.host for each in found.who] == [f"10.0.0.{host}"]
    # 2.28.7 to 2.28.9 print no comma there.
    older = re.sub(r'("nvml_dev": \d+),(\s+"status": \{\s+"unresp)', r"\1\2", text)
    assert ('missing_ranks_count": 0' in text) or older != text
    assert read_ras(older) == (look,)


def test_a_rank_that_was_aborted_is_an_error() -> None:
    (look,) = read_ras(document(*SOUND, rank(15, abort_flag=True)))
    assert [each.kind for each in look.troubles] == [RasKind.ERROR, RasKind.MISMATCH]
    assert read_ras(document(*SOUND)) == (RasLook(1, 15, ()),)


def test_a_rank_that_is_still_at_it_is_no_error() -> None:
    (look,) = read_ras(document(*(rank(number, async_error=7) for number in range(15))))
    assert look == RasLook(1, 15, ())


def event(kind: str, text: bool, *, known: bool = True) -> str:
    if text:
        peer = "Process 7 on node 10.0.0.2 managing GPUs 0,1 " if known else "10.0.0.2<4711> "
        return f"[2026-11-28 13:07:07] {kind}: {peer}no keep-alive for 20 s\n"
    told = {"host": "10.0.0.2", "pid": 7, "cuda_devs": [0, 1], "nvml_devs": [0, 1]}
    peer_of: object = told if known else {"addr": "10.0.0.2<4711>"}
    lead = {"timestamp": "2026-11-28 13:07:07", "group": "TRACE", "event": kind}
    return json.dumps({**lead, "peer": peer_of, "details": ""}, indent=2) + "\n"


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_of_the_monitor_the_last_word_of_a_process_counts(text: bool, known: bool) -> None:
    def told(*kinds: str) -> tuple[RasTrouble, ...]:
        lines = "".join(event(kind, text, known=known) for kind in kinds)
        assert is_ras(lines)
        (look,) = read_ras(lines)
        return look.troubles

    assert [each.kind for each in told("PEER_NEW", "PEER_DEAD")] == [RasKind.DEAD]
    assert [each.kind for each in told("PEER_TIMEOUT_DEAD")] == [RasKind.DEAD]
    for silence in ("UNRESPONSIVE", "KEEPALIVE_TIMEOUT", "SEND_STUCK", "INIT_TIMEOUT"):
        (found,) = told(f"PEER_{silence}")
        assert (found.kind, found.who[0].host) == (RasKind.INCOMPLETE, "10.0.0.2")
    assert told("PEER_UNRESPONSIVE", "PEER_RECOVERED") == ()


def test_a_number_that_no_process_has_makes_the_answer_a_cut_one() -> None:
    text = '{"event": "PEER_DEAD", "peer": {"pid": 1e999, "host": "a"}}\n'
    assert [(each.whole, each.troubles) for each in read_ras(text)] == [(False, ())]


def test_answers_stand_behind_each_other_and_the_last_may_be_cut() -> None:
    for text in (answer(), document(*SOUND)):
        assert is_ras(text)
        assert len(read_ras(text * 3)) == 3
        for cut in range(60, len(text) - 1, 37):
            *before, last = read_ras(text + text[:cut])
            assert (len(before), last.troubles) == (1, ())
            assert last.whole is ("Warnings\n" in text[:cut]), text[:cut]
    assert not is_ras("# nThread 1\nNCCL version 2.27.3+cuda12.8\n")
