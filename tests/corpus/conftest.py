"""Without the corpus nothing of it is tried, and ``test_present`` says so."""

from __future__ import annotations

from tests.corpus.known import HERE, TESTS

collect_ignore = [] if HERE else [each.name for each in TESTS]
