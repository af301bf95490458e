"""Which BMCs were not read, are another machine's, or were read with nobody to vouch for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolkit.checks.judged import ELSEWHERE, NOT_READ, UNVERIFIED, Judged
from toolkit.hosts import fold
from toolkit.report.table import Ink, Painter, clean, labelled

_ANYBODY = "with any certificate (--bmc-insecure): what they say, anybody may have said"


def _remarks(told: str, *, some: bool) -> Iterator[tuple[str, str]]:
    """Title and words of what there is to be told.

    :param some: whether any host has a BMC: who gave one for some may have meant all.
    """
    if not told and some:
        yield "no BMC given", "judged by what the system shows alone"
    elif told.startswith(NOT_READ):
        yield "BMC not read", told.removeprefix(NOT_READ)
    elif ELSEWHERE in told:
        why = told.partition(ELSEWHERE)[2].removesuffix(UNVERIFIED)
        yield "BMC of another machine", f"{why}; left out: look at the inventory, or --bmc-map"
    if told.endswith(UNVERIFIED):
        yield "BMC not verified", _ANYBODY


def bmc_lines(judged: Sequence[Judged], paint: Painter) -> list[str]:
    """A paragraph for the hosts whose BMC has the same to be told of; [] for none."""
    abouts = {one.host: dict(one.about).get("bmc", "") for one in judged}
    groups: dict[tuple[str, str], list[str]] = {}
    for host, told in abouts.items():
        for each in _remarks(told, some=any(abouts.values())):
            groups.setdefault(each, []).append(host)
    lines: list[str] = []
    for (title, text), hosts in groups.items():
        lines.append(f"{paint(title.ljust(33), Ink.YELLOW)} {clean(fold(hosts))}")
        lines += [*labelled("found", clean(text)), ""]
    return lines
