"""Standard output and error that no reader can end: a run goes on without them, and tells why.

A reader that has seen enough, a full disk, a terminal that is gone: what a verb does to nodes,
and the code it ends with, must not hang on who reads it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TextIO, cast


class Patient:
    """A stream whose writes never fail; what could not be written is in ``trouble``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.trouble: OSError | None = None
        if isinstance(stream, TextIOWrapper):
            # What a locale has no letter for is escaped; to refuse it would end the run.
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> object:
        """Whatever else a stream has."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as why:
            self._lost(why)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as why:
            self._lost(why)

    def _lost(self, why: OSError) -> None:
        """From now on nothing is written: Python would try again what it holds, and at exit."""
        self.trouble = self.trouble or why
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(null, self._stream.fileno())
            os.close(null)


@contextmanager
def patient_streams() -> Iterator[None]:
    """Both streams such, while the block lasts; at its end, a word on what was not written."""
    if isinstance(sys.stdout, Patient):
        yield
        return
    old = sys.stdout, sys.stderr
    out, err = (_patient(number, each) for number, each in enumerate(old, 1))
    sys.stdout, sys.stderr = cast("TextIO", out), cast("TextIO", err)
    try:
        yield
    finally:
        out.flush()
        # A reader that left in order knows that it did.
        if out.trouble is not None and out.trouble.errno != errno.EPIPE:
            why = out.trouble.strerror
            print(f"note: standard output was not written whole: {why}", file=sys.stderr)
        err.flush()
        sys.stdout, sys.stderr = old


def _patient(number: int, stream: TextIO | None) -> Patient:
    """:param stream: None where whoever started us has closed the descriptor."""
    if stream is None:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:  # else a file that we open would come to be what is printed to
            os.dup2(null, number)
            os.close(null)
        stream = os.fdopen(number, "w", encoding="utf-8", closefd=False)
    return Patient(stream)
