"""The captures, judged and held against their ground truth: ``python -m tests.corpus.table``."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase

from tests.corpus.expected import EXPECTED, Case
from tests.corpus.known import CORPUS
from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import UsageError
from toolkit.flow.runs import read_saved
from toolkit.want import Want

TODAY = date(2026, 11, 21)


class Right(StrEnum):
    """How our verdicts stand to what the source established."""

    RIGHT = "right"
    OPEN = "open"  # nothing false was said, and not what is to be said either
    WRONG = "wrong"
    UNJUDGED = "not judgeable"  # and nothing false was said


@dataclass(frozen=True, slots=True)
class Line:
    """One capture."""

    file: str
    right: Right
    why: str  # what decided it
    alarms: tuple[str, ...] = ()  # failures that are none

    @property
    def kind(self) -> str:
        return self.file.partition("/")[0]


def judged(file: str) -> Judged:
    """The capture as ``doctor --from`` judges it.

    :raises UsageError: where it is not imported.
    """
    ((name, evidence),) = read_saved(CORPUS / file)
    return judge_node(name, evidence, Want(), TODAY)


def held(file: str, case: Case) -> Line:
    """One capture against its row."""
    try:
        one = judged(file)
    except UsageError as why:
        return Line(file, Right.UNJUDGED if case.refused else Right.OPEN, str(why))
    return against(file, case, one)


def against(file: str, case: Case, one: Judged) -> Line:
    """Verdicts against a row."""
    alarms = tuple(_told(each) for each in one.having(Status.FAIL) if not _meant(each, case))
    if alarms:
        return Line(file, Right.WRONG, alarms[0], alarms)
    return _of_faults(file, case, one) if case.fails else _of_health(file, case, one)


def _of_faults(file: str, case: Case, one: Judged) -> Line:
    """Where something is wrong: does a check say so, and for the right reason?"""
    reason = next((each for each in one.having(Status.FAIL) if _is_reason(each, case)), None)
    if reason is not None:
        return Line(file, Right.RIGHT, _told(reason))
    for each in one.having(Status.PASS):
        if each.check.id in case.fails:
            return Line(file, Right.WRONG, f"passes: {_told(each)}")
    return Line(file, Right.OPEN, f"no failure of {', '.join(case.fails)}")


def _of_health(file: str, case: Case, one: Judged) -> Line:
    """Where nothing is wrong: is that seen, and not just nothing?"""
    if case.unjudged:
        return Line(file, Right.UNJUDGED, case.unjudged)
    passes = [each for each in one.having(Status.PASS) if _among(each, case.passes)]
    if case.passes and not passes:
        return Line(file, Right.OPEN, f"no pass of {', '.join(case.passes)}")
    return Line(file, Right.RIGHT, _told(passes[0]) if passes else "no false alarm")


def _among(verdict: Verdict, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(verdict.check.id, pattern) for pattern in patterns)


def _is_reason(verdict: Verdict, case: Case) -> bool:
    finding = verdict.finding
    told = " ".join((finding.found, finding.expected, *finding.details))
    return _among(verdict, case.fails) and bool(re.search(case.words, told))


def _meant(verdict: Verdict, case: Case) -> bool:
    return verdict.check.id in case.tolerated or _is_reason(verdict, case)


def _told(verdict: Verdict) -> str:
    return f"{verdict.check.id}: {verdict.finding.found}"


def lines() -> list[Line]:
    return [held(file, case) for file, case in EXPECTED.items()]


def main() -> None:
    if not CORPUS.is_dir():
        sys.exit(f"the corpus is not beside the checkout: {len(EXPECTED)} cases not run")
    all_lines = lines()
    for line in all_lines:
        print(f"{line.right:<14} {line.file:<52} {line.why[:110]}")
    print(f"\n{'kind':<14}" + "".join(f"{right:>15}" for right in Right))
    counts = Counter((line.kind, line.right) for line in all_lines)
    for kind in dict.fromkeys(line.kind for line in all_lines):
        print(f"{kind:<14}" + "".join(f"{counts[kind, right]:>15}" for right in Right))
    total = Counter(line.right for line in all_lines)
    print(f"{'all':<14}" + "".join(f"{total[right]:>15}" for right in Right))


if __name__ == "__main__":
    main()
