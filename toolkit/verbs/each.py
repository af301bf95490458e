"""The same work on every host of a fleet, over one connection each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.ssh.pool import Interrupted, run_all
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet

T = TypeVar("T")
Work = Callable[[Host, Transport], T]


def on_each(
    fleet: Fleet,
    title: str,
    work: Work[T],
    *,
    hosts: Sequence[Host] | None = None,
    failed: Callable[[Outcome[T]], bool] = lambda outcome: not outcome.ok,
) -> list[Outcome[T]]:
    """Do ``work`` on each host; after Ctrl-C the outcomes say how far each one got.

    :param hosts: those of the fleet that are meant; all of them unless given.
    :param failed: what counts for ``--max-fail``.
    """
    chosen = fleet.hosts if hosts is None else tuple(hosts)
    progress = fleet.access.progress

    def connected(host: Host) -> T:
        transport = fleet.connect(host)
        try:
            return work(host, transport)
        finally:
            transport.close()

    progress.begin(title, len(chosen))
    try:
        return run_all(
            chosen,
            connected,
            fanout=fleet.access.fanout,
            progress=progress,
            max_fail=fleet.access.max_fail or None,
            failed=failed,
        )
    except Interrupted as stopped:
        return list(stopped.outcomes)
    finally:
        progress.finish()


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
