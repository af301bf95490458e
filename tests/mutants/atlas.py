"""The map: which tests execute which lines of the toolkit, how long each takes, which pass.

It is kept in pytest's cache, and measured anew for the files of tests that have changed. Lines of a
module that has changed since are not known: there, whoever executed any of its lines counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from coverage.numbits import numbits_to_nums

from dev.run import ROOT, say
from dev.tiers import table
from dev.tools import MARKS
from tests.mutants.copies import copy, environment
from tests.mutants.nearest import Known, alike, order
from tests.mutants.rooms import Mutant
from tests.mutants.tracing import OUTCOMES, TEST
from tests.selecting import may_hold

KEPT = ROOT / ".pytest_cache" / "mutants-2.sqlite"  # another number where another is measured
_BATCH = 24  # files of tests measured at once: what is stopped has lost no more
_SETTINGS = f"""[run]
source = {{tree}}/toolkit
data_file = {{data}}
parallel = true
context = ${{{{{TEST}-}}}}
disable_warnings = no-data-collected, module-not-imported, module-not-measured, no-ctracer
"""
_READS = re.compile(r'^(READS|IMPORTS) = ((?:[\s(]*"[\w/.*]+",?)+)\)?$', re.MULTILINE)
_IMPORT = re.compile(r"^ *(?:from|import) (toolkit[\w.]*)(?: import ([\w, ]*))?", re.MULTILINE)
_SCHEMA = """
create table if not exists file (path text primary key, hash text);
create table if not exists test (
    id integer primary key, name text unique, path text, seconds real, lines integer);
create table if not exists line (path text, test integer, lines text);
create index if not exists line_path on line (path);
"""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a file of tests sees without executing it."""

    text: bool  # the source, else what runs at import
    of: tuple[str, ...]  # patterns of the modules' paths


@dataclass(frozen=True, slots=True)
class Atlas:
    """The map as it is kept."""

    tests: dict[int, Known]
    known: dict[str, str]  # path to the hash of what was measured
    importers: dict[str, tuple[str, ...]]  # module's path to the paths of those that import it
    readers: dict[str, Reads]  # by the path of tests that read sources, or look into all modules

    @classmethod
    def load(cls) -> Atlas:
        with closing(sqlite3.connect(KEPT)) as kept:
            tests = kept.execute("select id, name, seconds, lines from test").fetchall()
            known = dict(kept.execute("select path, hash from file").fetchall())
        read = {
            str(f.relative_to(ROOT)): f.read_text() for f in (ROOT / "tests").rglob("test_*.py")
        }
        return cls({row[0]: Known(*row[1:]) for row in tests}, known, _importers(), readers(read))

    def nearest(self, mutant: Mutant, whole: bool = False) -> list[Known]:
        """The tests that execute a mutant, the nearest first, and those that read its source.

        Behind them those that execute anything of the module. What runs at import is executed by
        all: there, and where no test is known, those of its importers and of its name, too.

        :param whole: with all other tests behind them.
        """
        path, site = mutant.path, mutant.site
        here = self._executing(path)
        fresh = self.known.get(path) == digest(ROOT / path)
        lines = set(site.lines)
        direct = [test for test, done in here if not fresh or lines.intersection(done)]
        # What a cache keeps was executed by the first test that asked for it, and by no other.
        groups = [direct if site.called else [], [test for test, _ in here]]
        reading = {
            test
            for test, reads in self.readers.items()
            if (reads.text or not site.called) and any(map(PurePosixPath(path).match, reads.of))
        }
        if not groups[0]:
            importers = self.importers.get(path, ())
            # A table may be read by a test that executes no line of its module.
            groups.insert(0, [number for number, t in self.tests.items() if t.path in importers])
            groups += [[test for test, _ in each] for each in map(self._executing, importers)]
            groups.append([number for number, t in self.tests.items() if alike(t.path, path)])
        # First, for they take no time: behind long ones none would be left for them.
        groups.insert(0, [number for number, t in self.tests.items() if t.path in reading])
        if whole:
            groups.append(list(self.tests))
        found: dict[Known, None] = {}
        for group in groups:
            found |= dict.fromkeys(order((self.tests[number] for number in group), path))
        return list(found)

    def _executing(self, path: str) -> list[tuple[int, list[int]]]:
        with closing(sqlite3.connect(KEPT)) as kept:
            rows = kept.execute("select test, lines from line where path = ?", (path,)).fetchall()
        return [(test, json.loads(lines)) for test, lines in rows if test in self.tests]


def files_of_tests() -> list[str]:
    """The files that hold tests which count, those said to be long last."""
    told = words()
    wanted = told[told.index("-m") + 1]
    ignored = tuple(word.removeprefix("--ignore=") for word in told if "--ignore=" in word)
    found = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        path, text = str(file.relative_to(ROOT)), file.read_text()
        if not path.startswith(ignored) and may_hold(text, wanted, MARKS):
            found[path] = "\nLONG = True" in text
    return sorted(found, key=lambda path: (found[path], path))


def refresh(workers: int) -> None:
    """Measure the files of tests that are new or changed, and forget those that are gone."""
    paths = files_of_tests()
    KEPT.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(KEPT)) as kept, kept:
        kept.executescript(_SCHEMA)
        known = dict(kept.execute("select path, hash from file").fetchall())
        for gone in [path for path in known if not (ROOT / path).exists()]:
            _forget(kept, gone)
    stale = [path for path in paths if known.get(path) != digest(ROOT / path)]
    if stale:
        measure(stale, workers)


def readers(tests: Mapping[str, str]) -> dict[str, Reads]:
    """The files of tests that say of what they see all: READS the text, IMPORTS the tables."""
    found = {path: _READS.search(text) for path, text in tests.items()}
    return {
        path: Reads(named[1] == "READS", tuple(re.findall(r'"(.+?)"', named[2])))
        for path, named in found.items()
        if named
    }


def _importers() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for file in sorted([*(ROOT / "toolkit").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        by = str(file.relative_to(ROOT))
        for module, names in set(_IMPORT.findall(file.read_text())):
            inside = [f"{module}.{name}" for name in re.findall(r"\w+", names)]
            for each in (module, *inside):
                found.setdefault(f"{each.replace('.', '/')}.py", []).append(by)
    return {path: tuple(by) for path, by in found.items()}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def words() -> list[str]:
    """What pytest is told for the tests that count: the tier "unit", and the simulated BMCs'.

    Both need nothing beside Python; what needs more could be missing where mutants are met.
    """
    step = next(tier for tier in table(()) if tier.name == "unit").steps[0]
    spare = {"tests", "--ignore=tests/bmc", "--no-loadscope-reorder"}  # mutants meet no xdist
    told = [word for word in step.argv[3:] if word not in spare]
    return [*told, "-m", f"{step.marks} and not bmc"]


def measure(paths: Sequence[str], workers: int) -> None:
    """Run test files under coverage, in a copy of the tree, and keep what they executed."""
    with tempfile.TemporaryDirectory(prefix="gdr-mutants-") as scratch:
        tree = copy(Path(scratch))
        (Path(scratch) / "start").mkdir()
        begin = "import coverage; coverage.process_startup()\n"
        (Path(scratch) / "start" / "sitecustomize.py").write_text(begin)
        for number in range(0, len(paths), _BATCH):
            some = paths[number : number + _BATCH]
            say(f"map: {number} of {len(paths)} test files measured; now {some[0]} ...")
            _batch(Path(scratch) / f"batch{number}", tree, some, workers)


def _batch(folder: Path, tree: Path, paths: Sequence[str], workers: int) -> None:
    folder.mkdir()
    settings, outcomes = folder / "rc", folder / "outcomes.json"
    settings.write_text(_SETTINGS.format(tree=tree, data=folder / "data"))
    own = {"COVERAGE_PROCESS_START": str(settings), OUTCOMES: str(outcomes)}
    environ = environment(tree, first=str(folder.parent / "start"), **own)
    own_words = ["-q", "-p", "tests.mutants.tracing", "-p", "no:cacheprovider", "-n", str(workers)]
    argv = [sys.executable, "-m", "pytest", *words(), *own_words, *paths]
    with (folder / "log").open("w") as log:
        subprocess.run(argv, cwd=tree, env=environ, stdout=log, stderr=log, check=False)
    if not outcomes.exists():
        say(f"map: nothing came of {', '.join(paths)}: {(folder / 'log').read_text()[-2000:]}")
        return
    told = json.loads(outcomes.read_text())
    for test in told["ill"]:
        say(f"map: does not pass, and is left out: {test}")
    _keep(folder, tree, paths, told["passed"])


def _keep(folder: Path, tree: Path, paths: Sequence[str], passed: dict[str, float]) -> None:
    executed: dict[str, dict[str, set[int]]] = {test: {} for test in passed}
    for data in folder.glob("data.*"):
        for test, absolute, lines in _read(data):
            if test in passed:
                path = os.path.relpath(absolute, tree)
                executed[test].setdefault(path, set()).update(lines)
    with closing(sqlite3.connect(KEPT)) as kept, kept:
        for path in paths:
            _forget(kept, path)
        measured = [*paths, *(str(f.relative_to(tree)) for f in (tree / "toolkit").rglob("*.py"))]
        hashes = [(path, digest(tree / path)) for path in measured]
        kept.executemany("insert or ignore into file values (?, ?)", hashes)
        for test, where in executed.items():
            whole = sum(map(len, where.values()))
            row = (test, test.partition("::")[0], passed[test], whole)
            into = "insert into test (name, path, seconds, lines) values (?, ?, ?, ?)"
            number = kept.execute(into, row).lastrowid
            rows = [(path, number, json.dumps(sorted(done))) for path, done in where.items()]
            kept.executemany("insert into line values (?, ?, ?)", rows)


def _forget(kept: sqlite3.Connection, path: str) -> None:
    kept.execute("delete from line where test in (select id from test where path = ?)", (path,))
    kept.execute("delete from test where path = ?", (path,))
    kept.execute("delete from file where path = ?", (path,))


def _read(data: Path) -> Iterator[tuple[str, str, list[int]]]:
    """Of coverage's own file (its schema is documented): test, file, lines."""
    with closing(sqlite3.connect(data)) as measured:
        if not measured.execute("select 1 from sqlite_master where name = 'line_bits'").fetchall():
            return  # its process was killed before it measured anything
        rows = measured.execute(
            "select context, path, numbits from line_bits"
            " join context on context.id = context_id join file on file.id = file_id"
        )
        for test, path, bits in rows:
            yield test, path, numbits_to_nums(bits)
