"""Hosts that processes share end as they do in one process, whatever becomes of the processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.invoked import FORKS
from tests.ssh.sharing import (
    Deeds,
    children_ignored,
    no_disk,
    no_memory,
    share,
    stopped_amid_a_message,
    stopped_at_a_fork,
)
from toolkit.errors import LoginError, Outcome
from toolkit.ssh.pool import Abandoned, NotBegun
from toolkit.ssh.shards import WorkerEnded

Found = tuple[list[Outcome[int]], int]


def shared(log: Path, *names: str, fanout: int = 4, **more: object) -> Found:
    """The outcomes of these hosts, and the process that heard them; no other process is left."""
    ours, its = FORKS.Pipe(duplex=False)
    log.touch()
    process = FORKS.Process(target=share, args=(its, names, Deeds(log, fanout)), kwargs=more)
    process.start()
    its.close()
    try:
        return cast("Found", ours.recv())
    finally:
        process.join()


def test_each_host_has_its_outcome_in_its_place_and_no_more_are_asked_at_once_than_may_be(
    tmp_path: Path,
) -> None:
    names = [f"busy{number}" for number in range(12)]
    names[5] = "bad"
    found, here = shared(tmp_path / "log", *names, fanout=5)
    assert [each.host for each in found] == names
    assert [names[turn] for turn, each in enumerate(found) if not each.ok] == ["bad"]
    assert isinstance(found[5].error, LoginError)
    assert len({each.value for each in found if each.ok} - {here}) == 2
    log = (tmp_path / "log").read_text()
    at_once = [log[:end].count("(") - log[:end].count(")") for end in range(len(log) + 1)]
    assert max(at_once) == 5


def test_no_host_is_taken_twice(tmp_path: Path) -> None:
    names = [f"once{number}" for number in range(2000)]
    found, _ = shared(tmp_path / "log", *names, fanout=16)
    assert [each.host for each in found] == names
    assert sorted((tmp_path / "log").read_text().split()) == sorted(names)


def test_a_process_that_is_killed_is_named_and_the_other_goes_on(tmp_path: Path) -> None:
    names = ["deadly", *(f"n{number}" for number in range(20))]
    found, _ = shared(tmp_path / "log", *names, fanout=2)
    assert isinstance(found[0].error, WorkerEnded)
    assert "was killed by SIGKILL while it had this node" in str(found[0].error)
    assert all(each.ok for each in found[1:])


def test_once_none_is_left_the_rest_was_not_begun(tmp_path: Path) -> None:
    found, _ = shared(tmp_path / "log", "deadly1", "deadly2", "n1", "n2", fanout=2)
    assert all(isinstance(each.error, WorkerEnded) for each in found[:2])
    assert [str(each.error) for each in found[2:]] == [
        f"{name}: not begun: the process that was to ask it ended" for name in ("n1", "n2")
    ]


def test_after_too_many_failures_no_process_begins_a_further_host(tmp_path: Path) -> None:
    names = ["bad1", "bad2", *(f"slow{number}" for number in range(500))]
    found, _ = shared(tmp_path / "log", *names, fanout=3, max_fail="1")
    assert isinstance(found[-1].error, NotBegun)
    assert "2 hosts had failed by then" in str(found[-1].error)


def test_none_outlives_the_process_that_hears_them(tmp_path: Path) -> None:
    _, its = FORKS.Pipe(duplex=False)
    names = [f"endless{number}" for number in range(4)]
    (tmp_path / "log").touch()
    process = FORKS.Process(target=share, args=(its, names, Deeds(tmp_path / "log", 4)))
    process.start()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: len(children.read_text().split()) == 2)
    shards = [Path(f"/proc/{each}/stat") for each in children.read_text().split()]
    process.kill()
    process.join()
    until(lambda: not any(each.exists() and ") Z " not in each.read_text() for each in shards))


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.mark.parametrize("begun", [2, 4])
def test_ctrl_c_leaves_no_process_and_says_of_each_host_how_far_it_got(
    tmp_path: Path, begun: int
) -> None:
    names = [f"endless{number}" for number in range(9)]
    found, _ = shared(tmp_path / "log", *names, stop_after=begun)
    kinds = [type(each.error) for each in found]
    assert kinds == [Abandoned] * kinds.count(Abandoned) + [NotBegun] * kinds.count(NotBegun)
    assert begun <= kinds.count(Abandoned) <= 4


def test_ctrl_c_while_a_process_is_begun_ends_the_run(tmp_path: Path) -> None:
    names = [f"endless{number}" for number in range(4)]
    found, _ = shared(tmp_path / "log", *names, before=stopped_at_a_fork)
    assert {type(each.error) for each in found} <= {Abandoned, NotBegun}


def test_ctrl_c_amid_a_message_ends_the_run(tmp_path: Path) -> None:
    found, _ = shared(tmp_path / "log", "long", "endless", before=stopped_amid_a_message)
    assert {type(each.error) for each in found} <= {Abandoned, NotBegun}


def test_how_one_ended_is_told_though_whoever_started_us_ignores_its_children(
    tmp_path: Path,
) -> None:
    found, _ = shared(tmp_path / "log", "deadly", "n1", fanout=2, before=children_ignored)
    assert "was killed by SIGKILL" in str(found[0].error)
    assert found[1].ok


@pytest.mark.parametrize("before", [no_memory, no_disk])
def test_where_no_process_can_be_started_this_one_asks_them_all(
    tmp_path: Path, before: Callable[[], None]
) -> None:
    found, here = shared(tmp_path / "log", "n1", "n2", before=before)
    assert [each.value for each in found] == [here, here]
