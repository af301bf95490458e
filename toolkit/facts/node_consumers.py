"""Who would use GPUDirect: NCCL, UCX, MPI, and their settings."""

from __future__ import annotations

from toolkit.facts.reading import Reading


class Consumers(Reading):
    """Who would use GPUDirect: NCCL, UCX, MPI, and their settings."""
