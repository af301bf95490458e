"""Which boot a kernel log is of: the present one, or one before it.

Sources: systemd src/journal/journalctl.c (of 249) and journalctl(1), -b and --boot: a number below
nought counts back from this boot, one above it forward from the oldest, 32 digits are a boot's own
name; "-- Boot ID --", before 245 "-- Reboot --", stands between two. init/version.c: "Linux
version" is the first line of each boot.
"""

from __future__ import annotations

import re

_OTHER = re.compile(
    r"journalctl\b(?:.*\s)?(?:-[a-zA-Z]*b ?|--boot[= ])(?:-0*[1-9]\d*|[1-9]\d*(?!\S)|[0-9a-f]{32})"
)
_BETWEEN = re.compile(r"^-- (?:Reboot|Boot [0-9a-f]{32}) --[ \t]*$", re.MULTILINE)
_BEGINS = re.compile(
    r"^(?:\S.*? (\S+) kernel: )?(?:<\d+>)?(?:\[ *0\.000000\](?:\[ *[TC]\d+\])? )?"
    r"Linux version \d.*$",
    re.MULTILINE,
)
_HOST = re.compile(r"^\S.*? (\S+) kernel: ", re.MULTILINE)


def of_other_boot(command: str) -> bool:
    """Whether a command asked for the log of a boot that is not the present one."""
    return _OTHER.search(command) is not None


def last_boot(text: str) -> tuple[str, str]:
    """What a log has of earlier boots, and of its last; what begins a boot is of that.

    A log of several machines is left as it is.
    """
    at = max((each.end() + 1 for each in _BETWEEN.finditer(text)), default=0)
    for each in _BEGINS.finditer(text):
        host = _HOST.search(text)
        if each.start() > at and (each[1] is None or host is None or each[1] == host[1]):
            at = each.start()
    return (text[:at], text[at:]) if text[:at].strip() else ("", text)
