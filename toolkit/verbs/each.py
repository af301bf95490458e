"""The same work on every host of a fleet, over one connection each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.groups import Wants
from toolkit.hosts.host import Host
from toolkit.ssh.pool import Interrupted, run_all
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.want import Want

if TYPE_CHECKING:  # nodes are asked while what judges them is imported
    from toolkit.checks.judged import Judged
    from toolkit.facts.text.foreign import Foreign
    from toolkit.plan.bundle import Bundle

T = TypeVar("T")
Work = Callable[[Host, Transport], T]
H = TypeVar("H", bound=Hashable)
# Nodes from which processes are started, for that costs as much processor as judging two hundred;
# and for each of them at least so many.
MANY, EACH = 512, 64
SHARE = 32  # nodes of a live run for each process: 64 in one take 84 MiB, in two 69 each at most
KEPT_S = 60.0  # for an operator who reads a plan and agrees
_RECALLED = 64  # tuples of judgements that may come again, and are kept alive for it


def on_hosts(
    fleet: Fleet,
    title: str,
    work: Callable[[Host], T],
    *,
    hosts: Sequence[Host] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    processes: int = 1,
) -> list[Outcome[T]]:
    """Do ``work`` for each host; after Ctrl-C the outcomes say how far each one got.

    :param hosts: those of the fleet that are meant; all of them unless given.
    :param meanwhile: is called in this thread once the first hosts were begun.
    :param processes: that share the hosts, see ``run_apart``.
    """
    chosen = fleet.hosts if hosts is None else tuple(hosts)
    progress = fleet.access.progress
    begin, run = partial(progress.begin, title, len(chosen)), run_all
    if processes > 1:
        from toolkit.ssh.shards import run_apart  # noqa: PLC0415 only very many nodes pay for it

        run = partial(run_apart, processes, begun=begin)  # a terminal's has a thread
    else:
        begin()
    try:
        return run(
            chosen,
            work,
            fanout=fleet.access.fanout,
            progress=progress,
            max_fail=fleet.access.max_fail or None,
            meanwhile=meanwhile,
        )
    except Interrupted as stopped:
        return list(stopped.outcomes)
    finally:
        progress.finish()


def on_each(
    fleet: Fleet,
    title: str,
    work: Work[T],
    *,
    hosts: Sequence[Host] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    processes: int = 1,
) -> list[Outcome[T]]:
    """The same over a connection to each host."""

    def connected(host: Host) -> T:
        transport = fleet.connect(host)
        try:
            return work(host, transport)
        finally:
            fleet.leave(host, transport)

    return on_hosts(fleet, title, connected, hosts=hosts, meanwhile=meanwhile, processes=processes)


def processes_for(fleet: Fleet, wants: Wants) -> int:
    """So many share the hosts; 1 where that costs more than it brings, or cannot be."""
    access = fleet.access
    here = fleet.bmcs or fleet.slurm or access.inside or wants.of("").own or fleet.demo
    if here or threading.active_count() > 1:  # what they open or have to say is this process's
        return 1
    cores = len(os.sched_getaffinity(0))
    return max(min(cores, len(fleet.hosts) // SHARE, access.fanout), 1)


class Kept:
    """Links to hosts that were looked at, for who comes to them next.

    Not of more hosts than are reached at once, nor where each link is the scheduler's to allow.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._connect = fleet.connect
        self._links: dict[str, tuple[Transport, float]] = {}
        few = fleet.slurm is None and len(fleet.hosts) <= fleet.access.fanout
        self.fleet = replace(fleet, connect=self._again, leave=self._keep) if few else fleet

    def _again(self, host: Host) -> Transport:
        link, since = self._links.pop(host.name, (None, 0.0))
        if link is None:
            return self._connect(host)
        if time.monotonic() - since > KEPT_S:
            link.close()  # and it connects anew: a link that is gone is known once a script fails
        return link

    def _keep(self, host: Host, transport: Transport) -> None:
        self._links[host.name] = transport, time.monotonic()

    def close(self, but: Iterable[str] = ()) -> None:
        """Those that nobody has taken."""
        for name in set(self._links).difference(but):
            self._links.pop(name)[0].close()


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


def spread_saved(
    sources: Sequence[Path],
    aside: list[Foreign],
    wants: Wants,
    make: Callable[[], Callable[[str, Evidence, Want], T]],
) -> Iterator[Outcome[T]] | None:
    """What each node of some files comes to, by processes that each ``make`` what works on one.

    :param aside: is given what was not understood.
    :returns: None where they would cost more than they bring, or cannot be started.
    """
    from toolkit.verbs.saved import evidence_files, name_saved, read_all  # noqa: PLC0415 see above

    count = sum(len(evidence_files(each)) for each in sources)
    processes = min(len(os.sched_getaffinity(0)), count // EACH)
    if processes < 2 or count < MANY or wants.of("").own:  # a site's checks stay in this process
        return None
    from toolkit.verbs.workers import Workers, spread  # noqa: PLC0415 only very many nodes pay for it

    try:
        workers = Workers(make, processes)
    except OSError:
        return None  # no memory, or no place for a socket: then it takes longer

    def each_of() -> Iterator[Outcome[T]]:
        with workers:
            yield from spread(read_all(sources, aside, name_saved), wants, workers, processes)

    return each_of()


class Alike(Struct, frozen=True):
    """What was seen of it so far. May be called from many threads: a dict takes one at a time."""

    _kept: dict[Hashable, Hashable] = field(default_factory=dict)
    # By identity, with the tuple itself so that nothing else has its place.
    _parts: dict[int, tuple[object, tuple[Hashable, ...]]] = field(default_factory=dict)

    def once(self, value: H) -> H:
        """The value, or the equal one that is kept already."""
        return cast("H", self._kept.setdefault(value, value))

    def each(self, values: tuple[H, ...]) -> tuple[H, ...]:
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
            verdicts=self.each(judged.verdicts),
            about=self.each(judged.about),
            known=self.each(judged.known),
            chosen=self.each(judged.chosen),
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
