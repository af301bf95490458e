"""Without the corpus nothing of it is tried, and ``test_present`` says so."""

from __future__ import annotations

from tests.corpus.known import CORPUS

collect_ignore = [] if CORPUS.is_dir() else ["test_captures.py"]
