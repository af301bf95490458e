"""Versions that an upgrade names, and whether its packages may be installed."""

from __future__ import annotations

from msgspec import Struct


class Upgrade(Struct, frozen=True):
    """What would be another version; "" for what stays as it is."""

    driver: str = ""  # "595.58.03"
    ofed: str = ""  # "26.04-1.0.0"
    kernel: str = ""  # kernel release
    firmware: str = ""  # of HCAs: "28.43.2566"
    untried: bool = False  # that kernel is the default before it was booted


def read_packages(value: object) -> bool:
    """The table [packages]: whether those of an upgrade may be installed.

    :raises ValueError: it is of another shape.
    """
    told = value.get("install") if isinstance(value, dict) and set(value) == {"install"} else None
    if not isinstance(told, bool):
        raise ValueError("packages must have install = true or install = false, and nothing else")
    return told
