"""Says what was not tried, where the corpus is not beside the checkout."""

from __future__ import annotations

import pytest

from tests.corpus.known import CORPUS, COVERED


def test_the_corpus_is_here() -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"corpus not present: {len(COVERED)} cases not run")
    assert [name for name in COVERED if not (CORPUS / name).is_file()] == []
