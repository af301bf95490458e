"""Whether real machines' captures are here; without them nothing of theirs is tried."""

from __future__ import annotations

import pytest

from tests import truth
from tests.bmc.captures import CAPTURES, OF, OF_CAPTURES, present


def test_the_captures_are_here_or_it_is_said_that_they_are_not() -> None:
    if not CAPTURES.is_dir():
        pytest.skip(truth.unrun(OF_CAPTURES, f"{len(OF)} BMCs"))
    assert set(present()) == set(OF)
