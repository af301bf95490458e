"""DKMS, headers, compilers, and what the next boot would find."""

from __future__ import annotations

from toolkit.facts.reading import Reading


class Builds(Reading):
    """DKMS, headers, compilers, and what the next boot would find."""
