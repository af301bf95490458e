"""Without the corpus nothing of it is tried, and ``test_present`` says so."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.known import CORPUS, REDFISH

_TESTS = (path.name for path in sorted(Path(__file__).parent.glob("test_*.py")))
HERE = CORPUS.is_dir() and REDFISH.is_dir()
collect_ignore = [] if HERE else [each for each in _TESTS if each != "test_present.py"]
