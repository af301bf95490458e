"""NUMA nodes. Source: /sys/devices/system/node/online (Documentation/admin-guide/mm)."""

from __future__ import annotations

import re

from toolkit.errors import Unparsable

_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def count_nodes(text: str) -> int:
    """How many nodes a list names: "0" is one, "0-1" two, "0,8" two.

    :raises Unparsable: for a list of another form.
    """
    count = 0
    for part in text.strip().split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise Unparsable("/sys/devices/system/node/online", text.strip(), 1)
        count += int(found[2] or found[1]) - int(found[1]) + 1
    return count
