"""Progress on standard error: a board on a terminal, a line now and then elsewhere.

What a terminal shows of work on many hosts: a bar, counts by state, a line a busy host. Pure.

The estimate is of hosts that ended: their mean time, over the hosts that wait and those at work.
It is not given before three have ended, since the first says little about the rest.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TextIO

from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live as Display
from rich.text import Text

from toolkit.progress import Progress as Listener
from toolkit.progress import Silent
from toolkit.report.table import clean, wants_colour

PATIENCE_S = 2.0  # what is over sooner needs no progress
EVERY_S = 10.0  # between plain lines
RATE_HZ = 10  # redraws of the board
_ENOUGH = 3  # hosts that ended, before the rest is guessed from them
_TROUBLES = 3  # the last so many are shown
_BAR = 24  # cells
_NAME = 40  # cells of a name, at most: of a host, or of what is built


class _Busy(Struct):
    began: float
    said: str


class Board(Struct):
    """The state of one stage. Times are seconds of one clock; its owner sees to locking."""

    title: str = ""
    total: int = 0
    begun: float = 0.0
    ended: int = 0
    troubled: int = 0
    remark: str = ""  # of the run, not of a host
    _busy: dict[str, _Busy] = field(default_factory=dict)  # by host, in the order they began
    _took: float = 0.0  # seconds, of all that ended and whose beginning was seen
    _timed: int = 0
    _troubles: deque[str] = field(default_factory=lambda: deque(maxlen=_TROUBLES))

    def note(self, host: str, text: str, now: float) -> None:
        """A host, or for "" the run, has something to say."""
        if not host:
            self.remark = text
        elif (busy := self._busy.get(host)) is not None:
            busy.said = text
        else:
            self._busy[host] = _Busy(now, text)
            self.remark = ""  # what kept hosts waiting is over

    def done(self, host: str, trouble: str, now: float) -> None:
        """A host is through."""
        self.ended += 1
        if (busy := self._busy.pop(host, None)) is not None:
            self._took += now - busy.began
            self._timed += 1
        if trouble:
            self.troubled += 1
            told = trouble if trouble.startswith(host) else f"{host}: {trouble}"
            self._troubles.append(told)

    def left_s(self, now: float) -> float | None:
        """Seconds until all are through, as far as can be told; None where it cannot."""
        if self._timed < _ENOUGH or self.ended >= self.total:
            return None
        mean = self._took / self._timed
        waiting = max(0, self.total - self.ended - len(self._busy))
        rest = max((mean - (now - each.began) for each in self._busy.values()), default=0.0)
        return max(rest, 0.0) + mean * waiting / max(1, len(self._busy))

    def lines(self, now: float, width: int, height: int) -> list[str]:
        """At most ``height`` lines of at most ``width`` cells, the oldest work first."""
        waiting = max(0, self.total - self.ended - len(self._busy))
        told = [f"done {self.ended - self.troubled}", f"in trouble {self.troubled}"]
        counts = "   ".join([*told, f"at work {len(self._busy)}", f"waiting {waiting}"])
        lines = [self._bar(now), counts]
        lines += [f"! {each}" for each in self._troubles]
        lines += [self.remark] if self.remark else []
        room = max(0, height - len(lines))
        busy = list(self._busy.items())
        if len(busy) > room:
            room = max(0, room - 1)
        wide = max((min(_NAME, cell_len(clean(host))) for host, _ in busy[:room]), default=0)
        for host, each in busy[:room]:
            name = set_cell_size(clean(host), wide)
            lines.append(f"{name}  {_clock(now - each.began):>5}  {each.said}")
        if len(busy) > room:
            lines.append(f"and {len(busy) - room} more at work")
        return [_fitted(clean(line), width) for line in lines[:height]]

    def _bar(self, now: float) -> str:
        share = min(1.0, self.ended / self.total) if self.total else 0.0
        full = int(share * _BAR)
        left = self.left_s(now)
        told = f", about {_clock(left)} left" if left is not None else ""
        bar = "━" * full + "╌" * (_BAR - full)
        return (
            f"{self.title}  {bar}  {self.ended} of {self.total}  {_clock(now - self.begun)}{told}"
        )


def _clock(seconds: float) -> str:
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    if hours:
        return f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return f"{rest // 60}:{rest % 60:02}"


def _fitted(line: str, width: int) -> str:
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"


def listener(stream: TextIO, *, quiet: bool = False) -> Listener:
    """The listener that fits the stream; a silent one when ``quiet``."""
    if quiet:
        return Silent()
    return Live(stream) if stream.isatty() and _moves(stream) else PlainProgress(stream)


def _moves(stream: TextIO) -> bool:
    """Whether the terminal knows how to go back over its lines, and what a bar is made of."""
    drawable = "utf" in (stream.encoding or "").lower()
    return drawable and not Console(file=stream).is_dumb_terminal


class Live:
    """The board of the stage, redrawn ten times a second at most; gone when the stage is over."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        console = Console(file=stream, no_color=not wants_colour(stream), highlight=False)
        self._board, self._clock, self._lock = Board(), clock, threading.Lock()
        self._console = console
        self._live = self._display()

    def _display(self) -> Display:
        """For one stage: a display remembers how many lines to go back over, those of others."""
        return Display(
            console=self._console,
            get_renderable=self._drawn,
            transient=True,
            refresh_per_second=RATE_HZ,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, title: str, total: int) -> None:
        with self._lock:
            self._board = Board(title, total, self._clock())
        self._live.stop()
        self._live = self._display()
        self._live.start()

    def note(self, host: str, text: str) -> None:
        with self._lock:
            self._board.note(host, text, self._clock())

    def done(self, host: str, trouble: str = "") -> None:
        with self._lock:
            self._board.done(host, trouble, self._clock())

    def finish(self) -> None:
        self._live.stop()

    def _drawn(self) -> Text:
        size = self._console.size
        with self._lock:
            # One line is left for the cursor, without which a terminal scrolls at each redraw.
            lines = self._board.lines(self._clock(), size.width, max(1, size.height - 1))
        drawn = Text("\n".join(lines), no_wrap=True, overflow="crop")
        drawn.highlight_regex(r"(?m)^! .*$", "red")
        drawn.highlight_regex("━+", "green")
        return drawn


class PlainProgress:
    """A line when a stage takes longer than two seconds, then one every ten."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._lock = threading.Lock()
        self._title, self._total, self._ended = "", 0, 0
        self._begun = self._next = 0.0

    def begin(self, title: str, total: int) -> None:
        with self._lock:
            self._title, self._total, self._ended = title, total, 0
            self._begun = self._clock()
            self._next = self._begun + PATIENCE_S

    def note(self, host: str, text: str) -> None:
        self._tick(f"{host}: {text}" if host else text)

    def done(self, host: str, trouble: str = "") -> None:
        with self._lock:
            self._ended += 1
        self._tick(f"{host}: {trouble or 'done'}")

    def finish(self) -> None:
        """No more lines: after Ctrl-C threads go on for a moment, beyond the last line."""
        with self._lock:
            self._next = math.inf

    def _tick(self, said: str) -> None:
        with self._lock:
            now = self._clock()
            if now < self._next:
                return
            self._next = now + EVERY_S
            after = now - self._begun
            line = f"{self._title}: {self._ended} of {self._total} after {after:.0f} s; {said}"
            print(clean(line)[:200], file=self._stream, flush=True)
