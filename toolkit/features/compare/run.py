"""Lay nodes side by side; change nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from toolkit.checks.comparison import Sheet, Sheets
from toolkit.errors import Outcome
from toolkit.evidence import Evidence
from toolkit.groups import Wants
from toolkit.hosts.host import Host
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_each, on_saved
from toolkit.verbs.reading import read_node


def sheets_of(fleet: Fleet, wants: Wants, folder: RunFolder) -> list[Outcome[Sheet]]:
    """Ask every node once; of its evidence, kept in the run's folder, only a sheet remains."""
    sheets, turn = Sheets(wants), threading.Lock()

    def work(host: Host, transport: Transport) -> Sheet:
        evidence = read_node(fleet, host, transport)
        folder.keep_evidence(host.name, evidence)
        with turn:
            return sheets.make(host.name, evidence)

    return on_each(fleet, "reading", work)


def sheets_of_saved(saved: Iterable[tuple[str, Evidence]], wants: Wants) -> list[Outcome[Sheet]]:
    """The same of evidence that was saved earlier; one node's at a time is held."""
    return on_saved(saved, Sheets(wants).make)
