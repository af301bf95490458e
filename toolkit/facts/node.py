"""One machine, read lazily from its evidence; it remembers what it cited."""

from __future__ import annotations

from toolkit.evidence import Evidence


class Node:
    """One machine."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.cited: list[str] = []

    @property
    def live(self) -> bool:
        """Running, rather than an image: it has a boot id."""
        return "boot-id" in self._evidence.frames
