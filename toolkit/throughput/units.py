"""Bandwidths as tools print them: perftest's "MB/s" is 2^20 bytes, OSU's is 10^6, Gb/s are bits."""

from __future__ import annotations

_MIB = 1 << 20


def from_gbits(gbits: float) -> float:
    """GB/s of Gb/s."""
    return gbits / 8


def to_gbits(gigabytes: float) -> float:
    return gigabytes * 8


def from_mib(mebibytes: float) -> float:
    """GB/s of MiB/s: what perftest prints without --report_gbits, as "MB/sec"."""
    return mebibytes * _MIB / 1e9


def to_mib(gigabytes: float) -> float:
    return gigabytes * 1e9 / _MIB


def from_mb(megabytes: float) -> float:
    """GB/s of MB/s of 10^6 bytes: OSU's."""
    return megabytes / 1e3
