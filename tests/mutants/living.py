"""A plugin of pytest: the tests are collected once, and a fork of that process meets each mutant.

A mutant lies in the copy of the tree, for what reads it or begins a process; here the code of the
functions that live already becomes the mutant's. What runs at import is not had that way: of such
a mutant nothing is told, and a process of its own meets it (``meeting.py``).

One line of JSON asks, by ``Asked``; one line answers: [fate, test], or null. That a mutant survives
here is no proof: what an import has made of the function already is as it was.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.mutants.rooms import Fate

PIPES = "MUTANTS_PIPES"  # in the environment: two descriptors, of what is asked and told
_OPTIMIZED = 0x1  # of a function's code, and of no class's
_BY_ITSELF, _FELL = 3, 1  # exit statuses of a fork
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Asked:
    file: str  # of the copy; it holds the mutant
    module: str
    before: str  # its text without the mutant
    tests: tuple[str, ...]  # in this order
    seconds: float  # on the clock, before it hangs

    @property
    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def functions(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The functions of a module and of its classes, by name and line; not those within them."""
    for each in code.co_consts:
        if isinstance(each, CodeType) and each.co_flags & _OPTIMIZED:
            yield (each.co_qualname, each.co_firstlineno), each
        elif isinstance(each, CodeType):
            yield from functions(each)


def exchanged(file: str, before: str, after: str) -> bool:
    """Whether all functions that differ between two texts of a module are the second's by now."""
    olds, news = (
        list(functions(compile(text, file, "exec", dont_inherit=True))) for text in (before, after)
    )
    if [key[0] for key, _ in olds] != [key[0] for key, _ in news]:
        return False
    # A mutant may have fewer lines: what stands below it differs in its place alone.
    differing = {key: new for (key, old), (_, new) in zip(olds, news, strict=True) if old != new}
    missing = set(differing)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == file:
            key = (each.__code__.co_qualname, each.__code__.co_firstlineno)
            if key in differing:
                each.__code__ = differing[key]
                missing.discard(key)
    return bool(differing) and not missing


class _Fallen:
    """The first test that falls."""

    by = ""

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.by = self.by or (report.nodeid if report.failed else "")


def _meet(session: pytest.Session, asked: Asked, told: int) -> int:
    """In the fork: the exit status."""
    importlib.import_module(asked.module)
    after = Path(asked.file).read_text(encoding="utf-8")
    if after != asked.before and not exchanged(asked.file, asked.before, after):
        return _BY_ITSELF
    here = {item.nodeid: item for item in session.items}
    items = [here[name] for name in asked.tests if name in here]
    if len(items) < len(asked.tests):
        return _BY_ITSELF
    fallen = _Fallen()
    session.config.pluginmanager.register(fallen)
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if fallen.by:
            os.write(told, fallen.by.encode())
            return _FELL
    return 0


def _answer(session: pytest.Session, asked: Asked) -> tuple[Fate, str] | None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = _FELL  # whatever ends it otherwise is the mutant's doing
        try:
            os.setpgid(0, 0)
            for each in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), each)
            status = _meet(session, asked, writing)
        finally:
            os._exit(status)
    os.close(writing)
    end, done, status = time.monotonic() + asked.seconds, 0, 0
    while not done and time.monotonic() < end:
        time.sleep(_POLL_S)
        done, status = os.waitpid(child, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # nothing that a mutant started outlives it
    if not done:
        os.waitpid(child, 0)
    by = os.read(reading, 65536).decode() if done else ""
    os.close(reading)
    if not done:
        return Fate.HUNG, ""
    code = os.waitstatus_to_exitcode(status)
    if code == _BY_ITSELF:
        return None
    return (Fate.KILLED if code else Fate.SURVIVED), by


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    gc.unfreeze()  # conftest.py froze what was imported: those functions are looked for
    gc.disable()
    asking, telling = map(int, os.environ[PIPES].split())
    with os.fdopen(asking) as lines:
        for line in lines:
            words = json.loads(line)
            asked = Asked(**{**words, "tests": tuple(words["tests"])})
            sys.stdout.flush()
            os.write(telling, json.dumps(_answer(session, asked)).encode() + b"\n")
    return True
