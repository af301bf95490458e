"""Scripts that run on nodes, in POSIX sh: each engine is put together from parts of this folder."""

from pathlib import Path

FOLDER = Path(__file__).parent
