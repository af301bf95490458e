"""Where modules are built: this machine, a tree of it, or a host."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.errors import TransportError, UsageError
from toolkit.facts.modules.build_env import Ground
from toolkit.features.builds.io.executors import DASK, LOCAL, THREADS, refuse_unknown
from toolkit.features.builds.io.sandbox import Job, run_job, written
from toolkit.features.builds.run.scripts import survey
from toolkit.hosts.host import Host
from toolkit.ssh.limits import BULK
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Access
from toolkit.verbs.connect import open_fleet


@dataclass(frozen=True, slots=True)
class Place:
    """A ground, and the way to build in it."""

    title: str  # "this machine"
    root: str  # a tree of this machine; "" for all of it, or for a host
    executor: str  # for open_executor
    survey: Callable[[Sequence[str]], Ground]
    run_job: Callable[[Job], str]
    here: bool = True  # on this machine
    layer: str = ""  # a folder seen above it, with headers that are not installed


@contextmanager
def open_place(
    access: Access, *, on: str = "", root: str = "", executor: str = ""
) -> Iterator[Place]:
    """The place that was named, for the length of the block.

    :param access: how hosts are reached.
    :param on: a host; builds run there, over SSH.
    :param root: a tree of this machine.
    :raises UsageError: both, a tree that is none, or an unknown executor.
    """
    if executor:
        refuse_unknown(executor)
    if on and root:
        raise UsageError("--on and --root name two places", hint="say one of them")
    if executor == THREADS and not on:  # nothing could end what a thread of ours waits for
        raise UsageError(
            "--executor threads is for --on: here Ctrl-C would not end a build",
            hint="leave it out: each build has a process of its own then",
        )
    if root:
        yield _tree(root, executor)
    elif on:
        with _host(access, on, executor) as place:
            yield place
    else:
        yield Place("this machine", "", executor or LOCAL, lambda names: survey("", names), run_job)


def _tree(root: str, executor: str) -> Place:
    folder = Path(root)
    if not (folder / "lib").is_dir() or not (folder / "usr").is_dir():
        raise UsageError(
            f"--root {root} is no tree of a system: it has no lib and no usr",
            hint="mmdebstrap makes one, or: dnf --installroot",
        )
    if folder.resolve() == Path("/"):  # in a tree OFED may be built, which writes to what it finds
        raise UsageError(
            f"--root {root} is this machine itself", hint="leave it out: builds run here then"
        )
    if os.geteuid() != 0:
        raise UsageError("--root needs root: builds run in it by chroot", hint="run it by sudo")
    path = str(folder.resolve())
    return Place(path, path, executor or LOCAL, lambda names: survey(path, names), run_job)


@contextmanager
def _host(access: Access, on: str, executor: str) -> Iterator[Place]:
    if executor.startswith(DASK) or executor == LOCAL:
        raise UsageError(
            f"--on {on} and --executor {executor} do not go together",
            hint="builds on a host run over SSH; leave --executor out",
        )
    builder_alone = replace(access, hosts=on, exclude="", limit="", hosts_file="", room=BULK)
    with open_fleet(builder_alone) as fleet:
        if len(fleet.hosts) != 1:
            raise UsageError(f"--on {on} names {len(fleet.hosts)} hosts", hint="name one")
        builder = _Builder(fleet.hosts[0], fleet.connect)
        try:
            yield Place(on, "", executor or THREADS, builder.survey, builder.run_job, here=False)
        finally:
            builder.close()


class _Builder:
    """A host that builds: a connection each for as many builds as run at once."""

    def __init__(self, host: Host, connect: Callable[[Host], Transport]) -> None:
        self._host, self._connect = host, connect
        self._lock = threading.Lock()
        self._open: list[Transport] = []
        self._closed = False

    def survey(self, kernels: Sequence[str]) -> Ground:
        with self._transport() as transport:
            return survey(transport, kernels)

    def run_job(self, job: Job) -> str:
        with self._transport() as transport, written(job.log) as sink:
            return transport.run(job.script, limit_s=job.limit_s, sink=sink).stdout

    def close(self) -> None:
        """Cut what is under way, after Ctrl-C: a build that cannot print any more ends."""
        with self._lock:
            self._closed = True
            for transport in self._open:
                transport.close()

    @contextmanager
    def _transport(self) -> Iterator[Transport]:
        with self._lock:
            if self._closed:
                raise TransportError(
                    f"{self._host.name}: the run was ended",
                    hint="begin it again; what was built is in the cache",
                )
            transport = self._connect(self._host)
            self._open.append(transport)
        try:
            yield transport
        finally:
            transport.close()
            with self._lock:
                self._open.remove(transport)
