"""Deliberate defects, one at a time in a copy of the tree; is each caught, and by which test?

    python -m tests.sabotage                the table of tests/sabotage/defects.py, row by row
    python -m tests.sabotage --only undo    rows whose file or reason has that word
    python -m tests.sabotage --list         which they are; nothing runs

Ends with 1 where one is not caught: then a test is missing. Mutants (tests.mutants) are made by
chance and of Python alone; these are what a person would break, of the scripts on nodes above all.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from dev.run import say
from tests.mutants.copies import copy, environment, write
from tests.sabotage.defects import DEFECTS, Defect

LIMIT_S = 900


def caught(tree: Path, defect: Defect) -> str:
    """The first test that falls over it, and at what; "" where none does."""
    file = f"toolkit/{defect.file}"
    sound = (tree / file).read_text()
    write(tree, file, sound.replace(defect.before, defect.after))
    words = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", defect.tests]
    words += ["-k", defect.only] if defect.only else []
    try:
        done = subprocess.run(
            [str(tree / ".venv/bin/python"), "-m", "pytest", *words],
            cwd=tree, env=environment(tree), capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{defect.tests}: not done after {LIMIT_S} s"
    finally:
        write(tree, file, sound)
    if done.returncode not in {0, 1, 5}:  # 5: no test of that name, so that none falls
        raise SystemExit(f"{defect}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}")
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    at = re.search(r"^E +(.+)", done.stdout, re.M)
    return f"{found[1]}\t{at[1] if at else ''}" if found else ""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", metavar="WORD", help="rows that have that word")
    parser.add_argument("--list", action="store_true", help="name the rows, run none")
    asked = parser.parse_args(words)
    chosen = [each for each in DEFECTS if asked.only in str(each)]
    if asked.list:
        print("\n".join(map(str, chosen)))
        return 0
    missed = 0
    with tempfile.TemporaryDirectory(prefix="gdr-mutants-") as folder:
        tree = copy(Path(folder))
        for number, defect in enumerate(chosen, start=1):
            by = caught(tree, defect)
            missed += not by
            say(f"{number}/{len(chosen)} {defect}")
            print(f"{'caught' if by else 'NOT CAUGHT'}\t{defect}\t{by}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
