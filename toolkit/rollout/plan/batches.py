"""Which hosts are begun next, and why none is any more. Decides; does nothing.

    terms       batches in their order, and three limits
    standing    where each host is: in hand, done, failed, or down for another reason
    advance     terms and standing -> the hosts to begin now, or the reason to begin none

Three laws hold after every step. What is unavailable (in hand, failed or down) is never more
than the budget. A batch begins once the one before it has ended. The first of several batches
is the canary: when a host of it fails, nobody else is touched, whatever the limits allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import UsageError
from toolkit.hosts.host import fold
from toolkit.plural import counted

# Not the number of hosts: those that were out of reach when it was planned are not among them,
# and would take the place of others.
NO_LIMIT = 1_000_000


class Phase(StrEnum):
    """What is about to be done on a host, or how it ended. Written before the act."""

    PLANNED = "planned"  # something is to be done, when its turn comes
    NOTHING = "nothing to do"
    LOST = "out of reach"  # when it was planned; its turn never came
    BEGUN = "begun"  # its turn has come; nothing was done yet
    DRAINING = "draining"
    DRAINED = "drained"  # the command went well
    UNTAKEN = "untaken"  # not out of service by us: its jobs went on, or others have it
    APPLYING = "applying"
    REBOOTING = "rebooting"
    LOOKING = "looking"
    UNDRAINING = "undraining"
    DONE = "done"
    FAILED = "failed"


ENDED = frozenset({Phase.DONE, Phase.NOTHING})
_NOT_OUT = frozenset({Phase.UNTAKEN, *ENDED})
_SERVICE = frozenset({Phase.DRAINING, Phase.DRAINED, Phase.UNDRAINING, *_NOT_OUT})
_ACTS = frozenset({Phase.APPLYING, Phase.REBOOTING})
NOT_BEGUN = frozenset({Phase.PLANNED, Phase.LOST})


class Terms(Struct, frozen=True):
    """What the operator allows."""

    batches: tuple[tuple[str, ...], ...]  # hosts' names, each once
    budget: int  # so many nodes may be unavailable at once
    failures: int  # begin no further host once more than so many have failed
    at_once: int  # so many hosts in hand at most

    @property
    def canary(self) -> tuple[str, ...]:
        """The hosts that must succeed before any other is touched; none in a single batch."""
        return self.batches[0] if len(self.batches) > 1 else ()


class Standing(Struct, frozen=True):
    """Where the hosts are; those in none of the sets wait for their turn."""

    in_hand: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()  # unavailable, and not ours: out of reach, broken off

    @property
    def unavailable(self) -> frozenset[str]:
        return self.in_hand | self.failed | self.down


class Next(Struct, frozen=True):
    """The hosts to begin now; where there are none, why no further one will be."""

    begin: tuple[str, ...] = ()
    halt: str = ""  # one clause; "" while it goes on, and once all is done


def advance(terms: Terms, now: Standing) -> Next:
    """The next step.

    Hosts that are down already are taken first, and cost nothing more, as long as all that
    count as unavailable are within the budget.
    """
    if halt := _halt(terms, now):
        return Next(halt=halt)
    waiting = _waiting(terms, now)
    begin = tuple(_choose(terms, now, waiting))
    if waiting and not begin and not now.in_hand:
        count = len(now.unavailable)
        nodes = counted(count, "node", "is", "are")
        return Next(halt=f"{nodes} unavailable, and no more than {terms.budget} may be")
    return Next(begin)


def begun(now: Standing, hosts: Iterable[str]) -> Standing:
    """The turn of ``hosts`` has come."""
    names = frozenset(hosts)
    return replace(now, in_hand=now.in_hand | names, down=now.down - names)


def ended(now: Standing, host: str, *, well: bool) -> Standing:
    """A host in hand is through."""
    left = replace(now, in_hand=now.in_hand - {host})
    if well:
        return replace(left, done=left.done | {host})
    return replace(left, failed=left.failed | {host})


def over(terms: Terms, now: Standing) -> bool:
    """Whether every host of every batch has ended."""
    through = now.done | now.failed
    return all(through.issuperset(batch) for batch in terms.batches)


def _halt(terms: Terms, now: Standing) -> str:
    canaries = now.failed & set(terms.canary)
    if canaries:
        return f"the canary {fold(canaries)} failed"
    if len(now.failed) > terms.failures:
        which = fold(now.failed)
        hosts = counted(len(now.failed), "host", "has", "have")
        return f"{hosts} failed, and no more than {terms.failures} may: {which}"
    return ""


def _waiting(terms: Terms, now: Standing) -> list[str]:
    """Those of the first batch that has not ended whose turn has not come."""
    through = now.done | now.failed
    for batch in terms.batches:
        if not through.issuperset(batch):
            begun = through | now.in_hand  # once: it is as long as the fleet
            return [host for host in batch if host not in begun]
    return []


def _choose(terms: Terms, now: Standing, waiting: list[str]) -> Iterator[str]:
    room = terms.at_once - len(now.in_hand)
    left = terms.budget - len(now.unavailable)
    if left < 0:  # some that count as down may serve: then even they cost one
        return
    for host in sorted(waiting, key=lambda host: host not in now.down):  # stable
        free = host in now.down
        if room <= 0 or not (free or left > 0):
            return
        room -= 1
        left -= not free
        yield host


class Step(Struct, frozen=True):
    """One phase of one host, as a journal has it."""

    host: str
    phase: Phase
    boot_id: str = ""


class Past(Struct, frozen=True):
    """One host's steps so far, oldest first."""

    steps: tuple[Step, ...] = ()

    @property
    def last(self) -> Phase:
        """Where it was left; planned, where nothing is known of it."""
        return self.steps[-1].phase if self.steps else Phase.PLANNED

    @property
    def begun(self) -> bool:
        """Its turn had come, and it has not ended well."""
        return self.last not in ENDED | NOT_BEGUN

    @property
    def drained(self) -> bool:
        """It is out of service for certain: nothing was done since that might give it back."""
        return self._service is Phase.DRAINED

    @property
    def maybe_out(self) -> bool:
        """It may be out of service by our doing, and nobody knows that it was given back."""
        return self._service not in _NOT_OUT | {None}

    @property
    def _service(self) -> Phase | None:
        """The latest step that concerns service."""
        found = [step.phase for step in self.steps if step.phase in _SERVICE]
        return found[-1] if found else None

    @property
    def may_be_booting(self) -> bool:
        """A reboot was the last thing that we did to it, and it has not been well since."""
        return self._last_act is not None and self._last_act.phase is Phase.REBOOTING

    def booted(self, boot_id: str) -> bool:
        """Whether the node left the boot that our last act was to end; see flow.witness."""
        last = self._last_act
        if last is None or last.phase is not Phase.REBOOTING:
            return False
        return last.boot_id not in {"", boot_id}

    @property
    def _last_act(self) -> Step | None:
        acts = [step for step in self.steps if step.phase in _ACTS]
        return acts[-1] if acts else None


def pasts(steps: Iterable[Step]) -> dict[str, Past]:
    """The steps by host."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.host, []).append(step)
    return {host: Past(tuple(each)) for host, each in found.items()}


def standing(past: dict[str, Past], lost: Sequence[str] = ()) -> Standing:
    """Where a rollout begins, or goes on.

    What had been begun is unavailable, and has its turn again; what is done is not repeated.

    :param lost: hosts that cannot be reached now.
    """
    done = frozenset(host for host, each in past.items() if each.last is Phase.DONE)
    down = frozenset(host for host, each in past.items() if each.begun)
    return Standing(done=done, down=(down | frozenset(lost)) - done)


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
    if size := _count("--serial", word, total, share_least=1):
        return size
    raise UsageError(
        f"--serial {word!r}: a batch of no hosts", hint="for example --serial 1,10%,50%"
    )


def _budget(said: str, total: int) -> int:
    if not said:
        return NO_LIMIT
    if budget := _count("--max-unavailable", said, total, share_least=1):
        return budget
    raise UsageError(
        f"--max-unavailable {said}: then no node may be touched at all",
        hint="at least 1, or a share like 10%",
    )


def _count(option: str, said: str, total: int, *, share_least: int = 0) -> int:
    """How many hosts "3" or "25%" are, rounded down.

    :param share_least: what a share of a small fleet is at least, as with Kubernetes'
        maxUnavailable; one of 0% is none.
    """
    share = re.fullmatch(r"([0-9]{1,9})(%?)", said.strip())
    if share is None or (share[2] and int(share[1]) > 100):
        raise UsageError(
            f"{option} {said!r} is neither a number nor a share like 25%", hint="say 4, or 10%"
        )
    count = int(share[1])
    if not share[2] or not count:
        return count
    return max(share_least, total * count // 100)
