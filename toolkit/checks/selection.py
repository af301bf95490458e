"""The checks of one run: what --only and --skip mean."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from toolkit.checks.agreement import RULES
from toolkit.checks.all import ids_of, named
from toolkit.checks.check import Check
from toolkit.errors import UsageError
from toolkit.want import Selection


def selection(only: str, skip: str, own: Sequence[Check] = ()) -> Selection:
    """The checks of one run: --only and --skip, ids or the beginnings of ids, parted by commas.

    :param own: a site's.
    :raises UsageError: for a name that none has, and where no check is left.
    """
    found = Selection(_meant("--only", only, own), _meant("--skip", skip, own))
    if not any(map(found.has, ids_of(own))):
        if not skip:  # such as between.mtu, which needs the nodes to be judged
            raise UsageError(
                f"--only {only} leaves no check of a node", hint="name one of them too: rdma, pcie"
            )
        raise UsageError(
            f"--only {only} and --skip {skip} leave no check" if only else "--skip leaves no check",
            hint="name fewer of them with --skip",
        )
    return found


def _meant(option: str, names: str, own: Sequence[Check]) -> frozenset[str]:
    found: set[str] = set()
    selectable = [*ids_of(own), *(each.id for each in RULES)]
    for name in filter(None, (each.strip() for each in names.split(","))):
        start = name[:-1] if name.endswith("*") else f"{name}."
        ids = {each for each in selectable if each == name or each.startswith(start)}
        if not ids:
            known = {each.partition(".")[0] for each in selectable} | {*selectable}
            last = name.rstrip(".*").rpartition(".")[2]
            near = [last] if last in known else get_close_matches(name.rstrip(".*"), known, n=1)
            if near:
                raise UsageError(f"{option}: no check {name!r}", hint=f"did you mean {near[0]}?")
            named(name, own)
        found |= ids
    if names and not found:
        raise UsageError(f"{option} {names!r} names no check", hint="the verb checks lists them")
    return frozenset(found)
