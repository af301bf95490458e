"""A site's own rows of the catalogue of failures."""

from __future__ import annotations

import pytest

from toolkit.checks.kernel.build_failures import cause_of
from toolkit.compat.reader import Compat, shipped

ROW = {
    "id": "make-failed", "kind": "dkms", "pattern": "Bad return status", "cause": "ours",
    "action": "ask us", "source": "our wiki", "confidence": "H",
}  # fmt: skip


def overlaid(**changed: str) -> Compat:
    return shipped().overlaid({"build_failures": [{**ROW, **changed}]})


def test_a_site_replaces_a_row_by_its_id() -> None:
    found = cause_of(["Error! Bad return status for module build on kernel: 6.8"], overlaid())
    assert found is not None
    assert found[0].cause == "ours"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pattern": "("}, r"compat.build_failures: make-failed: pattern: "),
        ({"kind": "weather"}, r"row 1: kind must be one of headers, compiler"),
    ],
)
def test_a_row_that_is_not_well_made_is_refused(changed: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        overlaid(**changed)
