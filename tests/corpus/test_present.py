"""Says what was not tried, where the corpus is not beside the checkout."""

from __future__ import annotations

import pytest

from tests.corpus.expected import EXPECTED
from tests.corpus.known import CORPUS, POINTS, REDFISH


def test_the_corpus_is_here() -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"corpus not present: {len(EXPECTED)} cases not run")
    assert [name for name in EXPECTED if not (CORPUS / name).is_file()] == []


def test_published_measurements_are_here() -> None:
    if not CORPUS.is_dir():
        pytest.skip("published measurements not present: the accuracy table not recomputed")
    assert POINTS.is_file()


def test_the_captures_of_bmcs_are_here() -> None:
    if not REDFISH.is_dir():
        pytest.skip("captures of BMCs not present: their truth table not run")
    assert sorted(path.name for path in REDFISH.iterdir() if path.is_dir()) == [
        "dell",
        "hpe",
        "lenovo",
        "nvidia_gb200",
    ]
