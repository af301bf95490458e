"""What other tools printed, given to us as loose files."""

from __future__ import annotations

from toolkit.facts.reading import Reading


class Imported(Reading):
    """What other tools printed, given to us as loose files."""
