"""What stands beside: GDRCopy, GPUDirect Storage, containers."""

from __future__ import annotations

from toolkit.facts.reading import Reading


class Companions(Reading):
    """What stands beside: GDRCopy, GPUDirect Storage, containers."""
