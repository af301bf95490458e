"""The same work on every host of a fleet, over one connection each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, cast

from toolkit.checks.judged import Judged
from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.ssh.pool import Interrupted, run_all
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet

if TYPE_CHECKING:
    from toolkit.plan.bundle import Bundle

T = TypeVar("T")
Work = Callable[[Host, Transport], T]
H = TypeVar("H", bound=Hashable)
_RECALLED = 1024  # tuples of judgements that may come again


def on_hosts(
    fleet: Fleet, title: str, work: Callable[[Host], T], *, hosts: Sequence[Host] | None = None
) -> list[Outcome[T]]:
    """Do ``work`` for each host; after Ctrl-C the outcomes say how far each one got.

    :param hosts: those of the fleet that are meant; all of them unless given.
    """
    chosen = fleet.hosts if hosts is None else tuple(hosts)
    progress = fleet.access.progress
    progress.begin(title, len(chosen))
    try:
        return run_all(
            chosen,
            work,
            fanout=fleet.access.fanout,
            progress=progress,
            max_fail=fleet.access.max_fail or None,
        )
    except Interrupted as stopped:
        return list(stopped.outcomes)
    finally:
        progress.finish()


def on_each(
    fleet: Fleet, title: str, work: Work[T], *, hosts: Sequence[Host] | None = None
) -> list[Outcome[T]]:
    """The same over a connection to each host."""

    def connected(host: Host) -> T:
        transport = fleet.connect(host)
        try:
            return work(host, transport)
        finally:
            transport.close()

    return on_hosts(fleet, title, connected, hosts=hosts)


def on_saved(
    saved: Iterable[tuple[str, Evidence]], work: Callable[[str, Evidence], T]
) -> list[Outcome[T]]:
    """Do ``work`` on evidence that was saved earlier: host's name and evidence, no host."""
    outcomes: list[Outcome[T]] = []
    for name, evidence in saved:
        try:
            outcomes.append(Outcome(name, work(name, evidence)))
        except ToolkitError as why:
            outcomes.append(Outcome(name, error=why))
    return outcomes


@dataclass(frozen=True, slots=True)
class Alike:
    """What was seen of it so far. May be called from many threads: a dict takes one at a time."""

    _kept: dict[Hashable, Hashable] = field(default_factory=dict)
    # By identity, with the tuple itself so that nothing else has its place.
    _parts: dict[int, tuple[object, tuple[Hashable, ...]]] = field(default_factory=dict)

    def once(self, value: H) -> H:
        """The value, or the equal one that is kept already."""
        return cast("H", self._kept.setdefault(value, value))

    def _each(self, values: tuple[H, ...]) -> tuple[H, ...]:
        """Each of them once; of a judgement that was recalled the very tuple comes again."""
        found = self._parts.get(id(values))
        if found is None or found[0] is not values:
            if len(self._parts) >= _RECALLED:
                self._parts.clear()
            found = self._parts[id(values)] = values, tuple(map(self.once, values))
        return cast("tuple[H, ...]", found[1])

    def judged(self, judged: Judged) -> Judged:
        """The same judgement, so that a thousand nodes take little more memory than a few."""
        return replace(
            judged,
            verdicts=self._each(judged.verdicts),
            about=self._each(judged.about),
            known=self._each(judged.known),
            chosen=self._each(judged.chosen),
        )

    def bundle(self, bundle: Bundle | None) -> Bundle | None:
        """The same bundle: its engine is one for all, and most of its files are."""
        if bundle is None:
            return None
        return replace(
            bundle,
            contents=tuple(map(self.once, bundle.contents)),
            steps=tuple(map(self.once, bundle.steps)),
            engine=self.once(bundle.engine),
        )
