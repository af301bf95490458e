"""Ctrl-C once, and twice."""

from __future__ import annotations

import os
import signal
import threading
from _thread import interrupt_main
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from toolkit.interrupts import Interrupts, heeded, terminable


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
    """Begun under nohup, or not: it is ignored meanwhile, and as it was thereafter."""
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        heard.append(number)

    before = signal.signal(signal.SIGHUP, hear)
    try:
        with Interrupts(alone=True) as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupts.pressed
        assert signal.getsignal(signal.SIGHUP) is hear
        assert not heard
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_ends_a_process_is_as_ctrl_c_and_what_is_ignored_stays_so() -> None:
    before, term = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.getsignal(signal.SIGTERM)
    try:
        with terminable():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is term
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_beside_the_main_one_leaves_signals_alone() -> None:
    def work() -> object:
        with Interrupts(), terminable():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() is signal.getsignal(signal.SIGTERM)


def test_who_waits_for_another_thread_heeds_a_signal_that_wakes_nobody() -> None:
    never: Future[None] = Future()

    def waits() -> None:
        threading.Timer(0.3, interrupt_main).start()
        heeded(never)

    with pytest.raises(KeyboardInterrupt):  # nothing else ends it: there is no result
        waits()
