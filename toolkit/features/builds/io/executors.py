"""Who carries builds out: processes here, threads that talk to hosts, or a Dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import wait
from typing import ParamSpec, TypeVar

from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.features.builds.io.executor import Crew, WorkerLost

P = ParamSpec("P")
R = TypeVar("R")
Say = Callable[[str], None]

LOCAL, THREADS, DASK, TLS = "local", "threads", "dask://", "tls://"
_ATTEMPTS = 2  # a job whose process died is run once more


@contextlib.contextmanager
def open_crew(spec: str, jobs: int, *, say: Say) -> Iterator[Crew]:
    """The executor that ``spec`` names, for the length of the block.

    What is under way when the block ends by an exception, Ctrl-C among them, is ended too.

    :param spec: "local", "threads", "dask://HOST:PORT", or "tls://HOST:PORT" for Dask by TLS.
    :param jobs: at once; 0 for as many as there are processors, here or in the cluster.
    :param say: hears of workers that died.
    :raises UsageError: an unknown one, or Dask is not installed.
    :raises TransportError: no scheduler answers, or it has no workers.
    """
    if spec.startswith((DASK, TLS)):
        from toolkit.features.builds.io.dask import open_dask  # noqa: PLC0415 only they pay for it

        _, _, address = spec.partition("://")
        with open_dask(address, jobs, encrypted=spec.startswith(TLS)) as crew:
            yield crew
        return
    refuse_unknown(spec)
    at_once = jobs or len(os.sched_getaffinity(0))
    executor = Processes(at_once, say) if spec == LOCAL else ThreadPoolExecutor(at_once)
    try:
        yield Crew(executor, at_once)
    except BaseException:
        # Threads are not waited for: what they wait for is a host, and its connection is cut.
        here = isinstance(executor, Processes)
        if isinstance(executor, Processes):
            executor.stop()
        executor.shutdown(wait=here, cancel_futures=True)
        raise
    executor.shutdown()


def refuse_unknown(spec: str) -> None:
    """What can be said of an executor before it is opened.

    :raises UsageError: there is none of that name.
    """
    if spec not in {LOCAL, THREADS} and not spec.startswith((DASK, TLS)):
        known = "known: local, dask://HOST:PORT, tls://HOST:PORT"
        raise UsageError(f"no executor {spec!r}", hint=known)


class _Slot(Struct, frozen=True):
    """A pool of one, and the process in it."""

    pool: ProcessPoolExecutor
    pid: int


class Processes(Executor):
    """Processes of one machine, each of which dies alone.

    A pool of many breaks as a whole when the kernel kills one of its processes for memory.
    So each slot has a pool of one: the others do not notice, and the job gets a new process.
    """

    def __init__(self, jobs: int, say: Say) -> None:
        self._say = say
        self._stopped = False
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="gdr-build")
        self._lock = threading.Lock()
        self._idle: list[_Slot] = []
        self._busy: list[_Slot] = []

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return self._threads.submit(self._run, partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        with self._lock:
            slots, self._idle = self._idle, []
        for slot in slots:
            slot.pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def stop(self) -> None:
        """End what is under way: each process ends its own children first."""
        with self._lock:
            self._stopped = True
            for slot in [*self._busy, *self._idle]:
                _terminate(slot.pid)

    def _run(self, job: Callable[[], R]) -> R:
        for attempt in range(1, _ATTEMPTS + 1):
            slot = self._take()
            try:
                result = slot.pool.submit(_work, job).result()
            except BrokenProcessPool:
                self._give_back(slot, usable=False)
                if attempt < _ATTEMPTS and not self._stopped:
                    self._say("the process of a build was killed; it is built once more")
            except BaseException:
                self._give_back(slot)
                raise
            else:
                self._give_back(slot)
                return result
        raise WorkerLost(
            "the process that built it was killed, twice",
            hint="look for 'Out of memory' in dmesg; fewer at once: --jobs 1",
        )

    def _take(self) -> _Slot:
        with self._lock:
            if self._stopped:
                raise WorkerLost(
                    "the run was ended", hint="begin it again: what was done is found done"
                )
            slot = self._idle.pop() if self._idle else None
            if slot is not None:
                self._busy.append(slot)
                return slot
        # Spawned, not forked: other threads hold locks while we fork.
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin_worker)
        try:
            slot = _Slot(pool, pool.submit(os.getpid).result())
        except BrokenProcessPool as why:
            raise WorkerLost(
                "a process for builds ended as it was started", hint="is there memory left?"
            ) from why
        with self._lock:
            self._busy.append(slot)
            if self._stopped:  # the others were told before it was there
                _terminate(slot.pid)
        return slot

    def _give_back(self, slot: _Slot, *, usable: bool = True) -> None:
        with self._lock:
            self._busy.remove(slot)
            if usable:
                self._idle.append(slot)
        if not usable:
            slot.pool.shutdown(wait=False)


def _terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _begin_worker() -> None:
    """In a new process: end with whoever started it, and end in good order."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is our parent's, which ends us
    threading.Thread(target=_watch_parent, daemon=True).start()


def _work(job: Callable[[], R]) -> R:
    """In a worker: a job that is told to end takes its process with it.

    The pool would send SystemExit home as a result, and wait for more work.
    """
    try:
        return job()
    except SystemExit:
        os._exit(128 + signal.SIGTERM)


def _leave(*_: object) -> None:
    """SystemExit unwinds the job, which kills its children on the way."""
    raise SystemExit(128 + signal.SIGTERM)


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        _terminate(os.getpid())
