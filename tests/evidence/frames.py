"""What a test puts in place of a frame of the healthy node."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.evidence import State


@dataclass(frozen=True, slots=True)
class Bad:
    """A frame that was not read in full."""

    state: State
    exit: int = 0
    text: str = ""


ABSENT, DENIED, TIMEOUT = Bad(State.ABSENT), Bad(State.DENIED), Bad(State.TIMEOUT)
MISSING = None  # the evidence has no such frame
Override = str | Bad | None


def failed(status: int, text: str = "") -> Bad:
    return Bad(State.FAILED, status, text)
