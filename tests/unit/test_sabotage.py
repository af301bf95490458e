"""Each deliberate defect of tests/sabotage still applies to the source, and names its tests."""

from __future__ import annotations

import pytest

from dev.run import ROOT
from tests.sabotage.defects import DEFECTS, Defect


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_the_text_is_there_exactly_once_and_the_tests_exist(defect: Defect) -> None:
    assert (ROOT / "toolkit" / defect.file).read_text().count(defect.before) == 1
    assert defect.before != defect.after
    assert (ROOT / defect.tests).is_file()


def test_there_are_as_many_as_promised_and_none_twice() -> None:
    assert len({(each.file, each.before, each.after) for each in DEFECTS}) == len(DEFECTS) >= 40
