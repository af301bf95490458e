"""Builds as they run: a line for each with its step, below one bar for all."""

from __future__ import annotations

import threading
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

from toolkit.progress import Progress as Listener
from toolkit.progress import Silent
from toolkit.report.live import Lines
from toolkit.report.table import clean, wants_colour


def builds_listener(stream: TextIO, *, quiet: bool = False) -> Listener:
    """The listener that fits the stream; a silent one when ``quiet``."""
    if quiet:
        return Silent()
    return Rows(stream) if stream.isatty() else Lines(stream)


class Rows:
    """A bar for all, and a row for each build that runs; all gone when the stage is over."""

    def __init__(self, stream: TextIO) -> None:
        console = Console(file=stream, no_color=not wants_colour(stream))
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            Elapsed(),
            TextColumn("{task.fields[said]}", markup=False),
            console=console,
            transient=True,
            refresh_per_second=4,
        )
        self._lock = threading.Lock()
        self._all: TaskID | None = None
        self._rows: dict[str, TaskID] = {}

    def begin(self, title: str, total: int) -> None:
        self._all = self._progress.add_task(clean(title), total=total, said="")
        self._progress.start()

    def note(self, host: str, text: str) -> None:
        said = clean(text)[:40]
        with self._lock:
            row = self._rows.get(host)
            if row is None:
                self._rows[host] = self._progress.add_task(clean(host)[:60], total=1, said=said)
            else:
                self._progress.update(row, said=said)

    def done(self, host: str, trouble: str = "") -> None:
        with self._lock:
            row = self._rows.pop(host, None)
        if row is not None:
            self._progress.remove_task(row)
        if self._all is None:
            return
        self._progress.advance(self._all)
        if trouble:
            self._progress.update(self._all, said=clean(f"{host}: {trouble}")[:60])

    def finish(self) -> None:
        self._progress.stop()
