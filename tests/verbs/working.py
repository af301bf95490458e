"""Work for processes beside the one of the test: what they are given, and how they may end."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from errno import ENOSPC
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

from tests.evidence.build import INFINIBAND, node
from tests.evidence.machines.held import TODAY
from toolkit.errors import TransportError
from toolkit.evidence import Evidence
from toolkit.groups import SiteWants
from toolkit.hosts.host import Host
from toolkit.rollout import runs
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Transport
from toolkit.verbs import each, reading
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.doctor import Gathered, examine
from toolkit.verbs.workers import Work
from toolkit.want import Selection, Want

OLDER = INFINIBAND.replace("fw_ver:28.43.2026", "fw_ver:28.43.2024")


class Link:
    """A way to a node, of which nothing is wanted here."""

    def close(self) -> None:
        """Nothing."""


def telling() -> Work[str]:
    """Tells the node's name and host name; the node that is called "deadly" ends its process."""

    def work(name: str, evidence: Evidence, want: Want) -> str:
        del want
        if name == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name} is {evidence.text('hostname').strip()}"

    return work


def unable() -> Work[str]:
    """Cannot even begin."""
    raise ImportError("no such module")


def _no_room(*_: object, **__: object) -> None:
    raise OSError(ENOSPC, "No space left on device")


def examined(pipe: Connection, cores: int, base: Path, *, full: bool) -> None:
    """Sends what ``doctor`` finds with so many cores, two nodes for each; of them n3 is silent.

    :param full: the disk is, once the run's folder is made.
    """
    if full:
        vars(runs)["write_file"] = _no_room
    os.sched_getaffinity = lambda _: set(range(cores))
    each.SHARE = 2

    def read_node(fleet: Fleet, host: Host, _: object) -> Evidence:
        del fleet
        if host.name == "n3":
            raise TransportError("n3: no answer")
        pids.joinpath(str(os.getpid())).touch()
        return node({"infiniband": OLDER} if host.name == "n4" else {})

    reading.read_node = read_node  # type: ignore[assignment] # no node is there to be asked
    pids = base.with_name(f"pids-{cores}")
    pids.mkdir()
    fleet = Fleet(
        tuple(Host(f"n{at}") for at in range(6)), lambda _: cast("Transport", Link()), Access()
    )
    wants, folder = SiteWants(Want()), RunFolder(base, "doctor", datetime(2026, 1, 1, tzinfo=UTC))
    gathered = Gathered(wants)
    found = examine(fleet, wants, TODAY, folder, gathered=gathered)
    between = sorted(f"{each.rule.id} {each.status}" for each in gathered.verdicts(Selection()))
    kept = sorted(each.name for each in folder.path.glob("*"))
    pipe.send((found, between, kept, folder.trouble, (pids / str(os.getpid())).exists()))
