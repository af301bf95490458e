"""From what the operator said to the terms of a rollout: ``--serial 1,10%,50%`` and limits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolkit.errors import UsageError
from toolkit.rollout.plan.batches import Terms

# Not the number of hosts: those that were out of reach when it was planned are not among them,
# and would take the place of others.
NO_LIMIT = 1_000_000


def terms_of(
    hosts: Sequence[str],
    *,
    serial: str = "",
    max_unavailable: str = "",
    max_fail: str = "",
    at_once: int = 64,
) -> Terms:
    """The terms for these hosts, in this order.

    :param serial: "1,10%,50%": sizes of the batches; the last one is repeated. "" for one batch.
    :param max_unavailable: "4" or "10%"; "" for any number.
    :param max_fail: likewise. "" for none in batches, and for any number in one batch.
    :raises UsageError: for what is neither a number nor a share, and for sizes of nothing.
    """
    total = len(hosts)
    if at_once < 1:
        raise UsageError(
            f"--fanout {at_once}: at least 1 host at a time", hint="leave it out for 64"
        )
    failures = 0 if serial else total
    return Terms(
        batches=tuple(batches(hosts, serial)),
        budget=_budget(max_unavailable, total),
        failures=_count("--max-fail", max_fail, total) if max_fail else failures,
        at_once=at_once,
    )


def batches(hosts: Sequence[str], serial: str) -> list[tuple[str, ...]]:
    """The hosts cut into batches; a share is of all of them, and at least one host.

    :raises UsageError: likewise.
    """
    if not serial:
        return [tuple(hosts)] if hosts else []
    sizes = [_size(word.strip(), len(hosts)) for word in serial.split(",")]
    cut: list[tuple[str, ...]] = []
    at = 0
    while at < len(hosts):
        size = sizes[min(len(cut), len(sizes) - 1)]
        cut.append(tuple(hosts[at : at + size]))
        at += size
    return cut


def _size(word: str, total: int) -> int:
    size = _count("--serial", word, total)
    if size or (word.endswith("%") and word != "0%"):
        return max(size, 1)
    raise UsageError(
        f"--serial {word!r}: a batch of no hosts", hint="for example --serial 1,10%,50%"
    )


def _budget(said: str, total: int) -> int:
    if not said:
        return NO_LIMIT
    budget = _count("--max-unavailable", said, total)
    # A share of a small fleet is at least one node, as with Kubernetes' maxUnavailable.
    if said.endswith("%") and said != "0%":
        budget = max(budget, 1)
    if budget < 1:
        raise UsageError(
            f"--max-unavailable {said}: then no node may be touched at all",
            hint="at least 1, or a share like 10%",
        )
    return budget


def _count(option: str, said: str, total: int) -> int:
    """How many hosts "3" or "25%" are, rounded down."""
    share = re.fullmatch(r"([0-9]{1,9})(%?)", said.strip())
    if share is None or (share[2] and int(share[1]) > 100):
        raise UsageError(
            f"{option} {said!r} is neither a number nor a share like 25%", hint="say 4, or 10%"
        )
    return total * int(share[1]) // 100 if share[2] else int(share[1])
