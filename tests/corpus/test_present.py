"""Says what was not tried, where the corpus is not beside the checkout."""

from __future__ import annotations

import pytest

from tests import truth
from tests.corpus.bios_captures import CAPTURES
from tests.corpus.expected import EXPECTED
from tests.corpus.known import CORPUS, HERE, POINTS, REDFISH, TESTS


def test_the_captures_that_our_tables_name_are_here() -> None:
    """There may be more: those are counted (test_judged.py)."""
    if not HERE:
        pytest.skip(truth.unrun(TESTS, f"{len(EXPECTED)} captures, {len(CAPTURES)} BMCs"))
    assert [name for name in EXPECTED if not (CORPUS / name).is_file()] == []
    assert [name for name in CAPTURES if not (REDFISH / name).is_dir()] == []
    assert POINTS.is_file()
