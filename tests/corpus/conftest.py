"""Without the corpus nothing of it is tried, and ``test_present`` says so."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.known import CORPUS

_TESTS = (path.name for path in sorted(Path(__file__).parent.glob("test_*.py")))
collect_ignore = [] if CORPUS.is_dir() else [each for each in _TESTS if each != "test_present.py"]
