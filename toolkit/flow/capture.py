"""Save the evidence of nodes, for a ticket or for judging it again elsewhere."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import Outcome, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.scrub import scrub
from toolkit.flow.access import Fleet
from toolkit.flow.each import on_each
from toolkit.flow.runs import safe_name
from toolkit.hosts import Host
from toolkit.reach.collect import collect
from toolkit.reach.transport import Transport


def capture(fleet: Fleet, out: Path, *, scrubbed: bool) -> list[Outcome[Path]]:
    """Write one ``NAME.evidence`` a host into ``out``; scrubbed ones are numbered, not named.

    :raises UsageError: ``out`` cannot be made or written to.
    """
    _make(out)
    numbers = {host.name: at for at, host in enumerate(fleet.hosts, start=1)}

    def work(host: Host, transport: Transport) -> Path:
        evidence = collect(transport)
        if not scrubbed:
            return _write(out / f"{safe_name(host.name)}.evidence", evidence)
        return _write(out / f"node{numbers[host.name]:03d}.evidence", scrub(evidence, host.name))

    return on_each(fleet, "capturing", work)


def save(name: str, evidence: Evidence, out: Path, *, scrubbed: bool) -> Path:
    """Write the evidence of one node that was put together from loose files.

    :raises UsageError: ``out`` cannot be made or written to.
    """
    _make(out)
    if scrubbed:
        return _write(out / "node001.evidence", scrub(evidence, name))
    return _write(out / f"{safe_name(name)}.evidence", evidence)


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as why:
        raise UsageError(f"{out}: {why.strerror}") from why


def _write(file: Path, evidence: Evidence) -> Path:
    try:
        file.write_bytes(evidence.dump().encode("utf-8", "surrogateescape"))
    except OSError as why:
        raise UsageError(f"{file}: {why.strerror}") from why
    return file
