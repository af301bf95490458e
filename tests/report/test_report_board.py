"""The live board: what a terminal shows of work on many hosts."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from toolkit.progress import Silent
from toolkit.report import progress as live_module
from toolkit.report.progress import Board, Live, PlainProgress, listener

ROOT = Path(__file__).parents[2]


def board(busy: int = 3, ended: int = 0, total: int = 10) -> Board:
    """So many at work since 0 s, so many ended after 10 s each."""
    made = Board("applying", total)
    for number in range(ended):
        made.note(f"done{number}", "begun", 0)
        made.done(f"done{number}", "", 10)
    for number in range(busy):
        made.note(f"gpu{number}", f"step {number}", 0)
    return made


def test_there_is_a_line_for_each_busy_host_with_what_it_does() -> None:
    lines = board().lines(65, 100, 24)
    assert lines[2:] == [f"gpu{number}   1:05  step {number}" for number in range(3)]


def test_hosts_are_counted_by_state() -> None:
    made = board(busy=3, ended=4)
    made.done("gpu2", "gpu2: refused", 30)
    assert made.lines(30, 100, 24)[1] == "done 4   in trouble 1   at work 2   waiting 3"


def test_trouble_is_shown_and_the_host_named_once() -> None:
    made = board()
    made.done("gpu1", "gpu1: refused", 5)
    made.done("gpu2", "cut off", 5)
    assert made.lines(5, 100, 24)[2:4] == ["! gpu1: refused", "! gpu2: cut off"]


def test_nothing_is_guessed_from_fewer_than_three_hosts() -> None:
    assert board(ended=2).left_s(10) is None
    assert "left" not in board(ended=2).lines(10, 100, 24)[0]


def test_the_estimate_is_the_mean_over_those_that_wait_and_those_at_work() -> None:
    made = board(busy=2, ended=4)  # 10 s each; 2 at work since 0 s, 4 wait: two turns of two
    assert made.left_s(4) == (10 - 4) + 10 * 4 / 2
    assert made.lines(4, 100, 24)[0].endswith("4 of 10  0:04, about 0:26 left")


def test_hosts_that_take_longer_than_the_mean_make_no_negative_rest() -> None:
    assert board(busy=2, ended=8).left_s(500) == 0


def test_no_rest_is_told_once_all_are_through() -> None:
    assert board(busy=0, ended=10).left_s(20) is None


@pytest.mark.parametrize(
    ("busy", "ended", "total", "left"),
    [
        (1, 3, 10, (10 - 4) + 10 * 6 / 1),  # three are enough
        (0, 3, 5, 10 * 2 / 1),  # between two hosts
        (3, 3, 5, 10 - 4),  # more at work than were announced
        (1, 10, 10, None),
    ],
)
def test_the_estimate_at_its_bounds(busy: int, ended: int, total: int, left: float | None) -> None:
    assert board(busy, ended, total).left_s(4) == left


def test_the_host_that_has_longest_to_go_is_what_is_waited_for() -> None:
    made = board(busy=1, ended=3, total=5)
    made.note("late", "begun", 3)
    assert made.left_s(4) == 10 - (4 - 3)


@pytest.mark.parametrize(("now", "told"), [(59, "0:59"), (3599, "59:59"), (3661, "1:01:01")])
def test_hours_are_told_from_the_first(now: int, told: str) -> None:
    assert f"  {told}  step 0" in board(busy=1).lines(now, 100, 24)[2]


def test_a_line_as_wide_as_the_screen_is_whole() -> None:
    whole = board(busy=1).lines(1, 100, 24)[2]
    assert board(busy=1).lines(1, len(whole), 24)[2] == whole
    assert board(busy=1).lines(1, len(whole) - 1, 24)[2] == f"{whole[:-2]}…"


def test_what_keeps_hosts_waiting_is_shown_until_one_begins() -> None:
    made = board(busy=0)
    made.note("", "outside the window until 22:00", 1)
    assert made.lines(1, 100, 24)[2] == "outside the window until 22:00"
    made.note("gpu9", "begun", 2)
    assert "window" not in "".join(made.lines(2, 100, 24))


def test_a_fleet_larger_than_the_screen_is_cut_and_said_to_be() -> None:
    lines = board(busy=64, total=4000).lines(1, 80, 12)
    assert len(lines) == 12
    assert lines[-1] == "and 55 more at work"


def test_what_a_host_says_cannot_steer_the_terminal() -> None:
    made = Board("applying", 1)
    made.note("gpu\x1b[2J", "\x1b]0;owned\x07[red]", 0)
    line = made.lines(0, 100, 24)[2]
    assert "\x1b" not in line
    assert "[red]" in line  # and is no markup


@given(
    st.integers(1, 200), st.integers(1, 60), st.lists(st.text(max_size=40), max_size=30), st.text()
)
def test_the_board_fits_any_screen(width: int, height: int, hosts: list[str], said: str) -> None:
    made = Board("größe 大", 10)
    for host in hosts:
        made.note(host, said, 0)
        made.done("other", said, 3)
    lines = made.lines(9, width, height)
    assert len(lines) <= height
    assert all(cell_len(line) <= width for line in lines)


_WORK = """
import sys, time
from toolkit.hosts.host import Host
from toolkit.ssh.pool import run_all
from toolkit.report.progress import listener
listen = listener(sys.stderr)
def work(host):
    for step in range(40):
        listen.note(host.name, f"step {step}")
        time.sleep(0.005)
listen.begin("applying", 200)
try:
    run_all([Host(f"gpu{n:03}") for n in range(200)], work, fanout=20, progress=listen)
finally:
    listen.finish()
print("ended", file=sys.stderr)
"""


_STAGES = """
import sys
from toolkit.report.progress import listener
listen = listener(sys.stderr)
for title in ("reading", "applying"):
    listen.begin(title, 1)
    listen.note("gpu001", "at it")
    listen.finish()
    print("what came of", title, file=sys.stderr)
"""


def on_terminal(
    work: str = _WORK, *, interrupt: bool = False, variables: Mapping[str, str] | None = None
) -> tuple[bytes, float]:
    """What such work writes to a terminal of 80 by 24, and how long it took, in seconds."""
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "LINES": "24", "COLUMNS": "80"}
    began, said = time.monotonic(), b""
    with subprocess.Popen(
        (sys.executable, "-c", work),
        cwd=ROOT,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env=environment | dict(variables or {}),
    ) as child:
        os.close(theirs)
        while child.poll() is None or select.select([ours], [], [], 0)[0]:
            try:
                said += os.read(ours, 65536) if select.select([ours], [], [], 0.1)[0] else b""
            except OSError:  # the other end is closed
                break
            if interrupt and b"at work 20" in said:
                child.send_signal(signal.SIGINT)
                interrupt = False
    os.close(ours)
    return said, time.monotonic() - began


_HIDE, _SHOW = b"\x1b[?25l", b"\x1b[?25h"


def test_on_a_terminal_the_board_is_drawn_ten_times_a_second_at_most_and_then_gone() -> None:
    said, took = on_terminal()
    assert b"step 1" in said
    frames = said.count(b"applying  ")
    assert 1 < frames <= took * 10 + 3
    assert said.count(_HIDE) == said.count(_SHOW) == 1
    left = said[said.rindex(b"\x1b[2K") :]
    assert b"applying" not in left
    assert left.rstrip().endswith(b"ended")


def test_after_ctrl_c_the_cursor_is_back() -> None:
    said, _ = on_terminal(interrupt=True)
    assert said.count(_HIDE) == said.count(_SHOW) == 1
    assert b"ended" not in said.split(_SHOW)[0]


def test_the_board_of_a_second_stage_leaves_what_was_printed_between() -> None:
    said, _ = on_terminal(_STAGES)
    between = said[said.index(b"what came of reading") : said.index(b"applying  ")]
    assert between.count(_HIDE) == 1
    assert b"\x1b[1A" not in between, "which goes back over a line"


def test_a_stage_that_broke_off_gives_way_to_the_next() -> None:
    said, _ = on_terminal(_STAGES.replace("    listen.finish()\n", "") + "listen.finish()\n")
    assert said.count(_HIDE) == said.count(_SHOW) == 2
    assert b"reading  " not in said.split(_SHOW)[1]


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("PYTHONIOENCODING", "latin-1")]
)
def test_without_colour_there_is_none_and_who_cannot_draw_a_board_gets_plain_lines(
    name: str, value: str
) -> None:
    said, _ = on_terminal(variables={name: value})
    assert not re.search(rb"\x1b\[[0-9;]*m", said.replace(b"\x1b[0m", b""))
    assert (_HIDE in said) == (name == "NO_COLOR")


class Screen(io.StringIO):
    """A terminal that keeps what it was told."""

    def __init__(self, encoding: str = "utf-8", *, tty: bool = True) -> None:
        super().__init__()
        self._encoding, self._tty = encoding, tty

    @property
    def encoding(self) -> str:  # type: ignore[override] # that of a stream over bytes
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("screen", "term", "quiet", "kind"),
    [
        (Screen(), "xterm", False, Live),
        (Screen("UTF8"), "xterm", False, Live),
        (Screen("latin-1"), "xterm", False, PlainProgress),
        (Screen(""), "xterm", False, PlainProgress),
        (Screen(), "dumb", False, PlainProgress),
        (Screen(tty=False), "xterm", False, PlainProgress),
        (Screen(), "xterm", True, Silent),
    ],
)
def test_what_listens_fits_the_stream(
    monkeypatch: pytest.MonkeyPatch, screen: Screen, term: str, quiet: bool, kind: type
) -> None:
    monkeypatch.setenv("TERM", term)
    assert type(listener(screen, quiet=quiet)) is kind


def test_a_stream_is_not_quiet_unless_that_was_said() -> None:
    assert type(listener(Screen(tty=False))) is PlainProgress


@pytest.mark.parametrize("coloured", [True, False])
def test_the_drawn_board_is_of_its_stage_and_no_wider_nor_higher_than_the_screen(
    monkeypatch: pytest.MonkeyPatch, coloured: bool
) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "60"), ("LINES", "6")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not coloured:
        monkeypatch.setenv("NO_COLOR", "1")
    screen, now = Screen(), [100.0]
    live = Live(screen, clock=lambda: now[0])
    monkeypatch.setattr(live_module, "RATE_HZ", 1e-3)  # drawn when asked, and as it ends
    live.begin("an earlier stage", 3)
    live.finish()
    live.begin("reading", 20)
    now[0] += 7
    for number in range(9):
        live.note(f"gpu{number}", f"[bold]step {number} {'x' * 90}")
    live.done("gpu0", "no route")
    live.done("gpu1")
    lines = live._drawn().plain.split("\n")
    assert len(lines) <= 5
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("reading  ")
    assert "2 of 20" in lines[0] or "2/20" in lines[0], lines[0]
    assert any("[bold]step" in each for each in lines)
    styled = {(s.style, live._drawn().plain[s.start : s.end][:2]) for s in live._drawn().spans}
    assert ("red", "! ") in styled
    assert any(style == "green" and set(text) == {"━"} for style, text in styled)
    live.finish()
    said = screen.getvalue()
    assert "earlier" not in said.split("reading")[-1]
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h") == 2
    assert bool(re.search(r"\x1b\[\d*;?3[12]m", said)) is coloured


def test_plain_lines_begin_anew_with_each_stage_and_are_cut_and_clean() -> None:
    stream, now = io.StringIO(), [50.0]
    lines = PlainProgress(stream, clock=lambda: now[0])
    for title in ("reading", "applying"):
        lines.begin(title, 2)
        lines.note("gpu1", "too soon")
        now[0] += 2
        lines.done("gpu1", f"\x1b[31mno {title} {'x' * 300}")
        now[0] += 9.5
        lines.note("gpu2", "too soon again")
        now[0] += 0.5
        lines.note("", "of all")
        lines.finish()
        now[0] += 99
        lines.done("gpu2", "a thread that goes on after Ctrl-C")
    told = stream.getvalue().split("\n")
    assert [each.partition("x")[0] for each in told] == [
        "reading: 1 of 2 after 2 s; gpu1: \ufffd[31mno reading ",
        "reading: 1 of 2 after 12 s; of all",
        "applying: 1 of 2 after 2 s; gpu1: \ufffd[31mno applying ",
        "applying: 1 of 2 after 12 s; of all",
        "",
    ]
    assert {len(told[0]), len(told[2])} == {200}
