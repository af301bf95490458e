"""How honest the tests are: small faults set into the toolkit at random; does any test fall?

    python -m tests.mutants --seed 7 --count 100           the score by room, and the survivors
    python -m tests.mutants --seed 7 --room reach --json   of one room, for machines
    python -m tests.mutants --seed 7 --list                which they are; nothing runs

A mutant meets the unit tests that execute its line, the nearest first; what none of them kills
survives. A survivor is a hole in the tests, or it means the same: a person says which.
The first run makes a map of what each test executes, which takes longer than the tier itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

from dev.run import ROOT, say
from tests.mutants import rooms
from tests.mutants.atlas import Atlas, refresh
from tests.mutants.copies import copy
from tests.mutants.meeting import Living, Meeting
from tests.mutants.nearest import within
from tests.mutants.rooms import Ended, Mutant

FILES = {str(f.relative_to(ROOT)): f for f in sorted((ROOT / "toolkit").rglob("*.py"))}
ROOMS = sorted({rooms.room(path) for path in FILES} - {""})


def _asked(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, required=True, help="chooses the mutants")
    parser.add_argument("--count", type=int, default=100, help="how many in all [100]")
    parser.add_argument("--least", type=int, default=8, help="how many of each room at least [8]")
    parser.add_argument("--room", default="", choices=ROOMS, metavar="ROOM", help="of one alone")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once [2]")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of processor, for one mutant's tests [60]"
    )
    parser.add_argument("--whole", action="store_true", help="then the other unit tests, too")
    parser.add_argument(
        "--live", action="store_true", help="first in forks of one process, which takes seconds"
    )
    parser.add_argument("--after", type=int, default=0, help="go on behind so many of them")
    parser.add_argument("--list", action="store_true", help="name the mutants, run none")
    parser.add_argument("--json", action="store_true", help="for machines")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    asked = _asked(words)
    sources = {path: file.read_text() for path, file in FILES.items()}
    chosen = rooms.choose(sources, asked.count, asked.seed, asked.least)
    chosen = [each for each in chosen if asked.room in ("", rooms.room(each.path))]
    whole, chosen = len(chosen), chosen[asked.after :]
    if asked.list:
        print("\n".join(map(str, chosen)))
        return 0
    refresh(asked.jobs)
    ended = []
    for each in _all(chosen, asked):
        ended.append(each)
        say(f"{asked.after + len(ended)} of {whole}: {each.fate}: {each.mutant}")
    ended.sort(key=lambda each: (each.mutant.path, each.mutant.site.line))
    print(json.dumps(_document(ended), indent=2) if asked.json else rooms.table(ended))
    return 0


def _all(chosen: list[Mutant], asked: argparse.Namespace) -> Iterator[Ended]:
    """Each mutant, met in one of as many copies as there are jobs."""
    atlas, free = Atlas.load(), SimpleQueue[Meeting]()
    seconds = float("inf") if asked.whole else asked.seconds

    def meet(mutant: Mutant) -> Ended:
        meeting = free.get()
        try:
            return meeting.end(mutant)
        finally:
            free.put(meeting)

    with tempfile.TemporaryDirectory(prefix="gdr-mutants-") as scratch:
        met = [within(atlas.nearest(each), seconds)[0] for each in chosen if asked.live]
        files = sorted({test.path for tests in met for test in tests})
        with ExitStack() as ended, ThreadPoolExecutor(asked.jobs) as crew:
            for number in range(asked.jobs):
                tree = copy(Path(scratch, str(number)))
                living = Living.begin(tree, files) if files else None
                if living is not None:
                    ended.callback(living.end)
                free.put(Meeting(tree, atlas, seconds, asked.whole, living))
            yield from crew.map(meet, chosen)


def _document(ended: list[Ended]) -> dict[str, object]:
    rows = [
        {
            "room": rooms.room(each.mutant.path),
            "file": each.mutant.path,
            "line": each.mutant.site.line,
            "kind": each.mutant.site.kind,
            "before": each.mutant.site.before,
            "after": each.mutant.site.after,
            "fate": each.fate,
            "by": each.by,
            "tests": each.tests,
            "left": each.left,
        }
        for each in ended
    ]
    scores = {
        name: {"killed": killed, "of": of} for name, (killed, of) in rooms.score(ended).items()
    }
    return {"rooms": scores, "mutants": rows}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
