"""Modules as they are in their files: symbols, their versions, signatures."""

from __future__ import annotations

from toolkit.facts.reading import Reading


class Files(Reading):
    """Modules as they are in their files: symbols, their versions, signatures."""
