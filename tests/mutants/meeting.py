"""A mutant meets its tests, in a copy of the tree."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from dev.run import ROOT
from tests.mutants.atlas import Atlas, words
from tests.mutants.chosen import CHOSEN
from tests.mutants.copies import environment, write
from tests.mutants.living import PIPES, Asked
from tests.mutants.nearest import Known, within
from tests.mutants.rooms import Ended, Fate, Mutant
from tests.mutants.sites import mutated

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)", re.MULTILINE)
_PASSED, _MISUSED, _NONE_RAN = 0, 4, 5  # pytest's exit statuses
_SLOW = 10  # a loaded machine takes so many times longer
_START_S = 120.0  # pytest itself, likewise
_QUICK = ("-q", "--no-header", "--tb=no", "--timeout=90")
_FIRST_S = 4.0  # of processor: the first meeting, which ends most mutants


@dataclass(frozen=True, slots=True)
class Living:
    """A process of pytest with all tests collected, of which a fork meets a mutant."""

    running: subprocess.Popen[bytes]
    asking: IO[bytes]
    telling: IO[bytes]

    @classmethod
    def begin(cls, tree: Path, files: Iterable[str]) -> Living:
        """Import what is tested as it is, from a copy of the tree."""
        (theirs, asking), (telling, ours) = os.pipe(), os.pipe()
        plugins = ["-p", "tests.mutants.living", "-p", "no:cacheprovider", "-p", "no:xdist"]
        argv = [sys.executable, "-m", "pytest", *words(), *_QUICK, *plugins, *files]
        with (tree.parent / "living").open("w") as log:
            running = subprocess.Popen(
                argv,
                cwd=tree,
                env=environment(tree, **{PIPES: f"{theirs} {ours}"}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs, ours),
                start_new_session=True,
            )
        os.close(theirs)
        os.close(ours)
        return cls(running, os.fdopen(asking, "wb", 0), os.fdopen(telling, "rb"))

    def meet(self, asked: Asked) -> tuple[Fate, str] | None:
        """None where a mutant cannot be had this way."""
        with suppress(BrokenPipeError):  # then nothing is told, either
            self.asking.write(asked.line)
        answer = json.loads(self.telling.readline() or b"null")
        return None if answer is None else (Fate(answer[0]), answer[1])

    def end(self) -> None:
        self.asking.close()
        self.telling.close()
        _end(self.running)


@dataclass(frozen=True, slots=True)
class Meeting:
    tree: Path  # a copy that no other mutant lives in
    atlas: Atlas
    seconds: float  # of processor, for the tests of one mutant
    whole: bool = False  # all other tests, too
    living: Living | None = None  # what it kills is killed; all else is met by a process each
    held: set[str] = field(default_factory=set)  # tests that passed without a mutant

    def end(self, mutant: Mutant) -> Ended:
        """What came of one mutant; the copy is as it was."""
        tests = self.atlas.nearest(mutant, self.whole)
        kept, left = within(tests, self.seconds)
        ended = Ended(mutant, Fate.SURVIVED if kept else Fate.UNSEEN, "", len(kept), len(left))
        source = (ROOT / mutant.path).read_text()
        write(self.tree, mutant.path, mutated(source, mutant.site))
        some = kept
        try:
            alive = self._alive(mutant, kept, source)
            if alive is not None:
                ended = replace(ended, fate=Fate.KILLED, by=alive)
            first, later = within(kept, _FIRST_S)
            for some in () if alive is not None else (first, later):
                fate, by = self._run(some) if some else (Fate.SURVIVED, "")
                if fate is not Fate.SURVIVED:
                    ended = replace(ended, fate=fate, by=by)
                    break
        finally:
            write(self.tree, mutant.path, source)
        if ended.killed and not self._holds(ended.by, some):
            return replace(ended, fate=Fate.DOUBTED)
        return ended

    def _alive(self, mutant: Mutant, tests: list[Known], source: str) -> str | None:
        """The test by which a living process kills a mutant of a function's body."""
        if self.living is None or not mutant.site.called or not tests:
            return None
        answer = self.living.meet(
            Asked(
                str(self.tree / mutant.path),
                mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."),
                source,
                tuple(test.name for test in tests),
                _START_S + _SLOW * sum(test.seconds for test in tests),
            )
        )
        return answer[1] or None if answer is not None and answer[0] is Fate.KILLED else None

    def _holds(self, by: str, tests: list[Known]) -> bool:
        """Whether what killed a mutant passes without one; where none is named, its first test."""
        named = [test for test in tests if test.name == by] or tests[:1]
        if named[0].name not in self.held:
            if self._run(named)[0] is not Fate.SURVIVED:
                return False
            self.held.add(named[0].name)
        return True

    def _run(self, tests: list[Known], by_name: bool = True) -> tuple[Fate, str]:
        listed = self.tree.parent / "chosen"
        listed.write_text("\n".join(test.name for test in tests) if by_name else "")
        files = list(dict.fromkeys(test.path for test in tests))
        plugins = ["-p", "tests.mutants.chosen", "-p", "no:cacheprovider", "-p", "no:xdist"]
        argv = [sys.executable, "-m", "pytest", *words(), "-x", *_QUICK, *plugins, *files]
        limit = _START_S + _SLOW * sum(test.seconds for test in tests)
        with (self.tree.parent / "log").open("w+") as log:
            running = subprocess.Popen(
                argv,
                cwd=self.tree,
                env=environment(self.tree, **{CHOSEN: str(listed)}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                status = running.wait(limit)
            except subprocess.TimeoutExpired:
                return Fate.HUNG, ""
            finally:
                _end(running)
            log.seek(0)
            said = log.read()
        if status == _PASSED:
            return Fate.SURVIVED, ""
        if status == _NONE_RAN and by_name:  # the mutant changed the names of these tests
            return self._run(tests, by_name=False)
        if status == _MISUSED:
            raise RuntimeError(f"pytest does not take these words: {said[-600:]}")
        named = _FAILED.search(said)
        by = named[1] if named else said[-300:]
        return (Fate.HUNG if "Timeout >" in said else Fate.KILLED), by


def _end(running: subprocess.Popen[bytes]) -> None:
    """Nothing that a mutant started outlives it."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
