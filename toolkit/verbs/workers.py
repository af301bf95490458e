"""Processes that work on the evidence of many nodes, beside the one that was started.

Forked from a server that has imported the judgement once, and is none of ours: threads of this
process may hold locks, and to spawn each anew costs half a second of processor a worker. Each
has a pipe, works on what it reads there, and ends with it. A file is named, and read by who
works on it; what was not a file goes over the pipe. Results come in the order of the nodes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from msgspec import Struct, field

from toolkit.errors import Outcome, ToolkitError
from toolkit.evidence import Evidence
from toolkit.groups import Wants
from toolkit.ssh.shards import WorkerEnded, how_ended
from toolkit.verbs.saved import read_node_file
from toolkit.want import Want

T = TypeVar("T")
Work = Callable[[str, Evidence, Want], T]
Source = Evidence | Path
Node = tuple[str, Want, Source]
_CHUNK = 16  # nodes that are given at a time: what they share is sent once
_ENDS_S = 5.0  # for a process that was told to end, or whose pipe is closed
_FORKS = get_context("forkserver")
_JUDGEMENT = ("toolkit.checks.judged", "toolkit.checks.agreement")


class _Stop(Struct, frozen=True):
    """What ends the whole run, as it does where one process reads."""

    error: ToolkitError


Told = list[Outcome[T] | _Stop]


class _Worker(Struct):
    """One process, and what it was told of already."""

    process: ForkServerProcess
    pipe: Connection
    wants: dict[int, Want] = field(default_factory=dict)  # by identity

    @property
    def end(self) -> str:
        """How it ended."""
        self.process.join(_ENDS_S)
        return how_ended(self.process.pid or 0, self.process.exitcode or 0)


class Workers:
    """So many processes.

    :param make: gives, in each of them, what works on a node; a function of a module, or a
        ``partial`` of one.
    :raises OSError: none could be started.
    """

    def __init__(self, make: Callable[[], Work[Any]], count: int) -> None:
        self._make = make
        self._free: SimpleQueue[_Worker | None] = SimpleQueue()
        self._every: list[_Worker] = []
        self._stopped = False
        function = getattr(make, "func", make)
        _FORKS.set_forkserver_preload([function.__module__, *_JUDGEMENT])
        for _ in range(count):
            self._free.put(self._begun())
        first = self._every[0]
        try:
            first.pipe.send(({}, []))
            first.pipe.recv()
        except (EOFError, OSError) as why:  # a program without a guard around its own main, for one
            self.__exit__()
            raise OSError(f"{first.end} before it could begin") from why

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        for each in tuple(self._every):
            each.process.terminate()
        for each in tuple(self._every):
            each.process.join(_ENDS_S)
            each.pipe.close()

    def _begun(self) -> _Worker:
        ours, its = _FORKS.Pipe()
        process = _FORKS.Process(target=_serve, args=(its, self._make), daemon=True)
        # Ctrl-C is ours to heed: a process that is begun meanwhile never sees it. The tracker,
        # which the first one would begin, lets signals through when it has begun: it comes before.
        resource_tracker.ensure_running()
        old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
            its.close()
        worker = _Worker(process, ours)
        self._every.append(worker)
        return worker

    def taken(self) -> _Worker | None:
        """One that is free, for ``ask``; None where none is left."""
        worker = self._free.get()
        if worker is None:
            self._free.put(None)  # for whoever waits beside us
        return worker

    def ask(self, worker: _Worker | None, nodes: list[Node]) -> Told[Any]:
        """What each of these nodes comes to; then the worker is free again."""
        if worker is None:
            return _lost(nodes, "no process is left that could, and none could be started")
        new = {id(want): want for _, want, _ in nodes if id(want) not in worker.wants}
        asked = [(name, id(want), source) for name, want, source in nodes]
        try:
            worker.pipe.send((new, asked))
            told: Told[Any] = worker.pipe.recv()
        except (EOFError, OSError):
            why = worker.end
            self._every.remove(worker)
            self._replace()
            return _lost(nodes, f"{why} while it had this node")
        worker.wants |= new
        self._free.put(worker)
        return told

    def _replace(self) -> None:
        with contextlib.suppress(OSError):
            if not self._stopped:
                self._free.put(self._begun())
        if not self._every:
            self._free.put(None)


def _lost(nodes: list[Node], why: str) -> Told[Any]:
    return [Outcome(name, error=WorkerEnded(f"{name}: not judged: {why}")) for name, _, _ in nodes]


def spread(
    saved: Iterable[tuple[str, Source]], wants: Wants, workers: Workers, count: int
) -> Iterator[Outcome[Any]]:
    """What each node comes to, in their order.

    Of two chunks of nodes that one worker has, the earlier one is first: what is told of the
    first node alone is told with it.

    :raises ToolkitError: as where one process reads: the first node that cannot be read ends it.
    """
    waiting: deque[Future[Told[Any]]] = deque()
    stopped: ToolkitError | None = None
    chunks = _chunks((name, wants.of(name), source) for name, source in saved)
    with ThreadPoolExecutor(count, thread_name_prefix="gdr-worker") as threads:
        try:
            while stopped is None and (chunk := next(chunks, None)) is not None:
                if isinstance(chunk, ToolkitError):
                    stopped = chunk  # what stands before it may have an error of its own
                else:
                    waiting.append(threads.submit(workers.ask, workers.taken(), chunk))
                while waiting and waiting[0].done():
                    yield from _each(waiting.popleft())
            while waiting:
                yield from _each(waiting.popleft())
        except BaseException:
            workers.__exit__()  # the threads wait for what they answer
            raise
    if stopped is not None:
        raise stopped


def _each(told: Future[Told[Any]]) -> Iterator[Outcome[Any]]:
    for each in told.result():
        if isinstance(each, _Stop):
            raise each.error
        yield each


def _chunks(nodes: Iterable[Node]) -> Iterator[list[Node] | ToolkitError]:
    """Some nodes at a time; what kept the next one from being read is the last of all."""
    chunk: list[Node] = []
    try:
        for each in nodes:
            chunk.append(each)
            if len(chunk) == _CHUNK:
                yield chunk
                chunk = []
    except ToolkitError as why:
        yield chunk
        yield why
    else:
        yield chunk


def _serve(pipe: Connection, make: Callable[[], Work[Any]]) -> None:
    """In a worker: until nobody is there any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wants: dict[int, Want] = {}
    with contextlib.suppress(EOFError, BrokenPipeError):
        work = make()
        while True:
            new, nodes = pipe.recv()
            wants |= new
            told = [_worked(work, name, wants[number], source) for name, number, source in nodes]
            pipe.send_bytes(pickle.dumps(told, pickle.HIGHEST_PROTOCOL))
    os._exit(0)


def _worked(work: Work[T], name: str, want: Want, source: Source) -> Outcome[T] | _Stop:
    try:
        try:
            evidence = read_node_file(source) if isinstance(source, Path) else source
        except ToolkitError as why:
            return _Stop(why)
        return Outcome(name, work(name, evidence, want))
    except ToolkitError as why:
        return Outcome(name, error=why)
    except Exception as why:  # of this node alone: a bug of ours
        bug = f"{name}: a bug of ours: {type(why).__name__}: {why}"
        return Outcome(name, error=ToolkitError(bug, hint="report it, with this node's evidence"))
