"""Ctrl-C once, and twice."""

from __future__ import annotations

import os
import signal

import pytest

from toolkit.interrupts import Interrupts


def test_the_first_is_noted_and_the_second_ends() -> None:
    told: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(lambda: told.append("once")) as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert told == ["once"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_change_goes_on_without_its_terminal() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with Interrupts(alone=True) as interrupts:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interrupts.pressed
    assert signal.getsignal(signal.SIGHUP) is before
