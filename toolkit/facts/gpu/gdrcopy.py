"""GDRCopy: its kernel module, and its own test.

Source: NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c, gdrdrv_proc_params_read; tests/sanity.cpp.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.lines import named_lines

_FLAVORS = {"opensource": Flavor.OPEN, "proprietary": Flavor.PROPRIETARY}
_PARAMS = "proc/driver/gdrdrv/params"


class GdrDrv(Struct, frozen=True):
    """The gdrdrv module as it runs."""

    loaded: bool
    version: str = ""  # "2.5.1"; "" where it does not tell
    flavor: Flavor | None = None  # the driver it was built for; told since 2.5
    device: bool = False  # /dev/gdrdrv is there


def parse_gdrcopy(text: str) -> GdrDrv:
    """Read the probe's "sys/module/gdrdrv/version:2.5.1" lines; none where it is not loaded.

    :raises Unparsable: at a flavour of driver that GDRCopy does not know.
    """
    values: dict[str, str] = {}
    for path, line in named_lines(text, "gdrdrv"):
        if path == _PARAMS:
            name, _, value = line.partition(":")
            values[name.strip()] = value.strip()
        else:
            values[path.rpartition("/")[2] if path.startswith("sys/") else path] = line.strip()
    word = values.get("Built for NVIDIA driver flavor", "")
    if word and word not in _FLAVORS:
        raise Unparsable("/proc/driver/gdrdrv/params", word)
    return GdrDrv(
        values.get("initstate") == "live",
        values.get("version") or values.get("Version", ""),
        _FLAVORS.get(word),
        "dev/gdrdrv" in values,
    )


def built_for(description: str) -> Flavor | None:
    """The driver's flavour in modinfo's "GDRCopy kernel-mode driver built for ..."; None if not."""
    found = re.search(r"built for (\w+) NVIDIA driver", description)
    return _FLAVORS.get(found[1]) if found else None


class Sanity(Struct, frozen=True):
    """What gdrcopy_sanity counted."""

    total: int
    passed: int
    failed: int
    waived: int  # not possible here: "basic_with_tokens" on newer GPUs
    refused: str = ""  # what it says where gdrdrv cannot be opened, which ends it
    copied: str = ""  # "18577.5 MB/s", by gdrcopy_copybw, which pins GPU memory and maps it


_SANITY = re.compile(
    r"^Total: (\d+), Passed: (\d+), Failed: (\d+), Waived: (\d+)\s*$", re.MULTILINE
)


_COPIED = re.compile(r"^write BW: ([\d.]+) ?MB/s$", re.MULTILINE)
_NOT_OPENED = re.compile(
    r"\bgdr_open(?:\(\) failed|.{0,200}?\berror\b.*)| `?\(?g\)? ?!= .{0,200}?failed"
    r"|Error getting the gdrdrv driver version .*"
)
_ONE = re.compile(
    r"^(?:&&&& (PASSED|FAILED|WAIVED) \w+|(Assertion \".{0,300}?gdr_.{0,300}?\" failed) .*)$", re.M
)


def parse_sanity(text: str) -> Sanity:
    """Read gdrcopy_sanity's summary line, or gdrcopy_copybw's; what stands around does not count.

    Sources: NVIDIA/gdrcopy tests/copybw.cpp, and tests/common.hpp, gdr_open_safe, for what they
    say without gdrdrv.

    :raises Unparsable: where there is neither.
    """
    if found := _SANITY.search(text):
        total, passed, failed, waived = map(int, found.groups())
        return Sanity(total, passed, failed, waived)
    if refused := _NOT_OPENED.search(text):
        return Sanity(0, 0, 0, 0, refused[0].strip())
    if speed := _COPIED.search(text):
        return Sanity(0, 0, 0, 0, copied=f"{speed[1]} MB/s")
    # It was cut: of those that are told nobody knows whether they are all.
    told = [each[1] or "FAILED" for each in _ONE.finditer(text)]
    if not told:
        raise Unparsable("gdrcopy_sanity", text.strip().split("\n", 1)[0])
    return Sanity(0, told.count("PASSED"), told.count("FAILED"), told.count("WAIVED"))
