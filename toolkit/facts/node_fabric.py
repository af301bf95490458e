"""RDMA ports beyond their state, and what the driver says of its GPUs."""

from __future__ import annotations

from toolkit.facts.reading import Reading


class Fabric(Reading):
    """RDMA ports beyond their state, and what the driver says of its GPUs."""
