"""Frames of the healthy node, for the facts of ``node_files``."""

from __future__ import annotations

from tests.evidence.frames import Override

FRAMES: dict[str, Override] = {}
