"""Which BMCs were not read, and which were read with nobody to vouch for them."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.checks.judged import NOT_READ, UNVERIFIED, Judged
from toolkit.hosts import fold
from toolkit.report.table import Ink, Painter, clean, labelled

_ANYBODY = "with any certificate (--bmc-insecure): what they say, anybody may have said"


def bmc_lines(judged: Sequence[Judged], paint: Painter) -> list[str]:
    """A paragraph for the hosts whose BMC has the same to be told of; [] for none."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in judged:
        told = dict(one.about).get("bmc", "")
        if told.startswith(NOT_READ):
            why = told.removeprefix(NOT_READ)
            groups.setdefault(("BMC not read", why), []).append(one.host)
        elif told.endswith(UNVERIFIED):
            groups.setdefault(("BMC not verified", _ANYBODY), []).append(one.host)
    lines: list[str] = []
    for (title, text), hosts in groups.items():
        lines.append(f"{paint(title.ljust(33), Ink.YELLOW)} {clean(fold(hosts))}")
        lines += [*labelled("found", clean(text)), ""]
    return lines
