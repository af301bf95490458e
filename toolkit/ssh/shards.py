"""The same work on very many hosts, shared by processes forked before anything is connected.

One process runs one thread at a time, whatever the cores. Here each has threads and connections
of its own, takes the next host that nobody has, and tells this process what came of it: only
this one speaks to the operator, and only it heeds Ctrl-C.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from typing import Generic, NoReturn, TypeVar

from toolkit.errors import ExitCode, Outcome, ToolkitError
from toolkit.hosts.host import Host
from toolkit.progress import Progress
from toolkit.ssh.pool import LONGEST_SLEEP_S, Books, attempt, opened, run_all

T = TypeVar("T")
Tell = Callable[[int, Outcome[T] | None], None]  # of a host's place; None: it was begun
_PLACE = 8  # bytes of it


class WorkerEnded(ToolkitError):
    """The process that had this node ended before it said what it found."""

    exit_code = ExitCode.UNKNOWN
    usual = "again, with this node alone; dmesg tells whether memory ran out"


def run_apart(
    count: int,
    hosts: Sequence[Host],
    work: Callable[[Host], T],
    *,
    fanout: int,
    progress: Progress | None = None,
    max_fail: int | str | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    begun: Callable[[], None] = lambda: None,
) -> list[Outcome[T]]:
    """As ``run_all``, by so many processes, while there is no other thread.

    :param work: what it returns is sent; what else it leaves in memory is lost.
    :param fanout: of all of them together, and no fewer than there are processes.
    :param meanwhile: is called before: what it imports is there for all of them.
    :param begun: is called once there are processes, and may start a thread.
    :raises Interrupted, UsageError: likewise.
    """
    books: Books[T] = opened(hosts, fanout, progress, max_fail)
    meanwhile()
    gc.freeze()  # who looks for garbage would make each page its own
    with contextlib.ExitStack() as stack:
        turns = _turns(stack, len(hosts))
        shards = _Shards(books, turns)
        try:
            for number in range(0 if turns < 0 else count):
                threads = fanout // count + (number < fanout % count)
                shards.begin(partial(_work_off, turns, hosts, work, threads))
            begun()
            if not shards.pids:
                return run_all(hosts, work, fanout=fanout, progress=progress, max_fail=max_fail)
            shards.hear()
            books.halt = books.halt or "the process that was to ask it ended"
        except KeyboardInterrupt:
            shards.end()
            raise books.interrupted() from None
        finally:
            shards.end()
    return books.all()


def _turns(stack: contextlib.ExitStack, count: int) -> int:
    """A file of all places, of which each is read once; -1 where no disk has room for it.

    The kernel guards a file's offset. Of a memfd two read the same turn now and then.
    """
    with contextlib.suppress(OSError):
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 the stack closes it
        stack.enter_context(file)
        places = b"".join(turn.to_bytes(_PLACE, "big") for turn in range(count))
        if file.write(places) == len(places):
            file.seek(0)
            return file.fileno()
    return -1


class _Shards(Generic[T]):
    """The processes, each by the pipe on which it tells."""

    def __init__(self, books: Books[T], turns: int) -> None:
        self._books = books
        self._turns = turns
        self.pids: dict[Connection, int] = {}
        self._has: dict[int, Connection] = {}  # who is at work on the host of this place
        self._stopped = False
        # Who started us may have it ignored, and then nobody can tell how one ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def begin(self, serve: Callable[[Tell[T]], None]) -> None:
        """One more; where there is no memory for it, the others have all hosts."""
        ours, its = Pipe(duplex=False)
        # Ctrl-C is ours to heed: a process that is begun meanwhile never sees it.
        old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            pid = os.fork()
            if not pid:
                _end_after(serve, its, (ours, *self.pids))
            self.pids[ours] = pid
        except OSError:
            ours.close()
        finally:
            its.close()  # first: Ctrl-C comes by the next call, and we would wait for ourselves
            signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def hear(self) -> None:
        """What they tell, until none is left."""
        while self.pids:
            for pipe in wait([*self.pids], LONGEST_SLEEP_S):  # see run_all of the pause
                self._hear(pipe)  # type: ignore[arg-type] # each is one of ours

    def end(self) -> None:
        """Whatever they do; what they told before counts."""
        self._stopped = True
        for pid in self.pids.values():
            os.kill(pid, signal.SIGKILL)
        self.hear()

    def _hear(self, pipe: Connection) -> None:
        books = self._books
        try:
            turn, outcome = pipe.recv()
        except (EOFError, OSError):
            self._lose(pipe)
            return
        except BaseException:  # Ctrl-C: it may be amid a message, and what follows is none
            self._stopped = True
            self._lose(pipe)
            raise
        if outcome is None:
            self._has[turn] = pipe
            books.begun.add(turn)
            books.progress.note(books.hosts[turn].name, "begun")
            return
        del self._has[turn]
        self._note(turn, outcome)

    def _note(self, turn: int, outcome: Outcome[T]) -> None:
        self._books.end(turn, outcome)
        self._books.progress.done(outcome.host, str(outcome.error or ""))
        if self._books.halt:
            os.lseek(self._turns, 0, os.SEEK_END)  # nobody finds a further one

    def _lose(self, pipe: Connection) -> None:
        """One has ended; with it what it had begun and told nothing of."""
        pid = self.pids.pop(pipe)
        pipe.close()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for turn in [turn for turn, its in self._has.items() if its is pipe]:
            del self._has[turn]
            host = self._books.hosts[turn].name
            why = WorkerEnded(f"{host}: {how_ended(pid, code)} while it had this node")
            if not self._stopped:
                self._note(turn, Outcome(host, error=why))


def how_ended(pid: int, code: int) -> str:
    """:param code: less than none for a signal, as Python has it."""
    named = {each.value: each.name for each in signal.Signals}
    how = f"killed by {named.get(-code, -code)}" if code < 0 else f"ended with {code}"
    return f"process {pid} was {how}"


def _end_after(
    serve: Callable[[Tell[T]], None], pipe: Connection, others: tuple[Connection, ...]
) -> NoReturn:
    """In a process of its own: until no host is left, or nobody hears us.

    :param others: ends of pipes that it has from the process that hears.
    """
    turn_to = threading.Lock()

    def tell(turn: int, outcome: Outcome[T] | None) -> None:
        told = pickle.dumps((turn, outcome), pickle.HIGHEST_PROTOCOL)
        with turn_to:
            try:
                pipe.send_bytes(told)
            except OSError:
                os._exit(1)  # whoever asked is gone

    code = 1
    try:
        for each in others:
            each.close()  # or ours would not break with that process
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        threading.Thread(target=_end_unheard, args=(pipe,), daemon=True).start()
        serve(tell)
        code = 0
    finally:
        os._exit(code)  # what the other process has open, and at its end, is not ours


def _end_unheard(pipe: Connection) -> None:
    """With the process that hears us, were it killed: what waits for a node says nothing."""
    heard = select.poll()
    heard.register(pipe.fileno(), 0)  # errors are told whatever is asked for
    heard.poll()
    os._exit(1)


def _work_off(
    turns: int,
    hosts: Sequence[Host],
    work: Callable[[Host], T],
    threads: int,
    tell: Tell[T],
) -> None:
    """Do it on hosts that nobody has yet, by so many threads."""

    def one_by_one() -> None:
        while place := os.read(turns, _PLACE):
            turn = int.from_bytes(place, "big")
            tell(turn, None)
            tell(turn, attempt(hosts[turn], work))

    every = [threading.Thread(target=one_by_one, daemon=True) for _ in range(threads)]
    for each in every:
        each.start()
    for each in every:
        each.join()
