"""Sessions that are open when a run ends: each is closed, and none holds the others up."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from toolkit.interrupts import terminable
from toolkit.redfish.session import SessionRegistry


class Door:
    """Something open, which notes that it was closed."""

    def __init__(self, hangs: threading.Event | None = None) -> None:
        self.slammed = threading.Event()
        self._hangs = hangs

    def slam(self) -> None:
        if self._hangs is not None:
            self._hangs.wait(60)
        self.slammed.set()


def test_what_is_open_is_closed_and_what_was_left_is_not() -> None:
    stays, leaves = Door(), Door()
    with SessionRegistry() as doors:
        for each in (stays, leaves):
            with doors.entering(each):
                pass
        with doors.leaving(leaves):
            pass
    assert stays.slammed.is_set()
    assert not leaves.slammed.is_set()


def test_a_login_under_way_is_waited_for_and_undone() -> None:
    doors, door, inside, go = SessionRegistry(), Door(), threading.Event(), threading.Event()

    def enters() -> None:
        with doors.entering(door):
            inside.set()
            go.wait(60)

    thread = threading.Thread(target=enters)
    thread.start()
    assert inside.wait(60)
    threading.Timer(0.2, go.set).start()
    doors.close()
    thread.join(60)
    assert door.slammed.is_set()


def test_a_logout_under_way_is_waited_for_and_not_cut() -> None:
    doors, door, leaving, gone = SessionRegistry(), Door(), threading.Event(), threading.Event()
    with doors.entering(door):
        pass

    def leaves() -> None:
        with doors.leaving(door):
            leaving.set()
            time.sleep(0.3)
            gone.set()

    thread = threading.Thread(target=leaves)
    thread.start()
    assert leaving.wait(60)
    doors.close()
    assert gone.is_set()
    assert not door.slammed.is_set()
    thread.join(60)


def test_a_login_that_failed_leaves_nothing_to_close() -> None:
    door = Door()
    with SessionRegistry() as doors, pytest.raises(ZeroDivisionError), doors.entering(door):
        raise ZeroDivisionError
    assert not door.slammed.is_set()


def test_nothing_is_opened_once_all_is_closing() -> None:
    doors = SessionRegistry()
    doors.close()
    with pytest.raises(KeyboardInterrupt), doors.entering(Door()):
        pytest.fail("nobody may log in any more")


def test_one_that_hangs_holds_no_other_up() -> None:
    end = threading.Event()
    hangs, quick = Door(end), Door()
    doors = SessionRegistry()
    for each in (hangs, quick):
        with doors.entering(each):
            pass
    begun = time.monotonic()
    doors.close()
    assert quick.slammed.is_set()
    assert time.monotonic() - begun < 30
    end.set()


def test_sigterm_is_as_ctrl_c_while_the_block_lasts_and_as_before_after_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminable():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
