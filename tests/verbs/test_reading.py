"""Nodes are read while what looks into their evidence is imported."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.evidence.build import node
from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs import reading
from toolkit.verbs.access import Access, Fleet


class Silent:
    """A link and a run's folder, of which nothing is wanted here."""

    path = Path("runs/one")
    closed = 0

    def close(self) -> None:
        Silent.closed += 1

    def keep_evidence(self, *_: object) -> None:
        """Nothing."""


def test_work_that_cannot_be_made_ends_the_threads_and_closes_their_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "read_node", lambda *_: node())
    link = cast("Transport", Silent())
    fleet = Fleet((Host("a"), Host("b")), lambda _: link, Access())

    def make() -> Callable[[str, Evidence], None]:
        raise UsageError("nothing to judge by", hint="none")

    with pytest.raises(UsageError):
        reading.read_meanwhile(fleet, cast("RunFolder", link), make)
    for thread in threading.enumerate():
        if thread.name.startswith("gdr-"):
            thread.join(10)
            assert not thread.is_alive()
    assert Silent.closed == 2
