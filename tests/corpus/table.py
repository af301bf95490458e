"""The captures, judged and held against their ground truth: ``python -m tests.corpus.table``."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tests.corpus.expected import EXPECTED, Case
from tests.corpus.known import CORPUS, index
from toolkit.checks.check import Status, Verdict
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import ToolkitError
from toolkit.verbs.saved import read_saved
from toolkit.want import Want

TODAY = date(2026, 11, 21)


class Right(StrEnum):
    """How our verdicts stand to what the source established."""

    RIGHT = "right"
    OPEN = "open"  # nothing false was said, and not what is to be said either
    LACKS = "lacks"  # what the file does not tell was said to be lacking, and nothing false
    WRONG = "wrong"
    UNJUDGED = "not judgeable"  # inventory, and nothing false was said
    REFUSED = "refused"  # not read at all: of no form that is imported

    @property
    def counted(self) -> str:
        """One of right, wrong and silent."""
        return self.value if self in {Right.RIGHT, Right.WRONG} else "silent"


class Line(Struct, frozen=True):
    """One capture."""

    file: str
    right: Right
    why: str  # what decided it
    alarms: tuple[str, ...] = ()  # failures that are none

    @property
    def kind(self) -> str:
        return _kind(self.file)

    @property
    def blind(self) -> bool:
        """A broken machine passes: worse than any false alarm."""
        return self.right is Right.WRONG and not self.alarms


def judged(file: str) -> Judged:
    """The capture as ``doctor --from`` judges it.

    :raises ToolkitError: where it is not imported.
    """
    ((name, evidence),) = read_saved(CORPUS / file)
    if isinstance(evidence, ToolkitError):
        raise evidence
    return judge_node(name, evidence, Want(), TODAY)


def held(file: str, case: Case) -> Line:
    """One capture against its row; of what is refused the row says why it tells too little."""
    line = _weighed(file, partial(against, file, case, word=word_of(file)))
    return replace(line, why=case.refused) if line.right is Right.REFUSED else line


def word_of(file: str) -> str:
    """The index's word for a capture."""
    return index()[file]["verdict"]


def unlisted(file: str, word: str) -> Line:
    """One capture that came after the table, against the index's word for it."""
    return _weighed(file, partial(by_word, file, word))


def _weighed(file: str, weigh: Callable[[Judged], Line]) -> Line:
    try:
        one = judged(file)
    except ToolkitError as why:
        return Line(file, Right.REFUSED, str(why))
    return weigh(one)


def by_word(file: str, word: str, one: Judged) -> Line:
    """Verdicts against a word alone, in doubt against us: it names no check and no reason.

    What fails on a broken machine may do so for another reason, and is open until the table
    has a row; a pass there beside no failure is wrong. Health has to be seen, traps too.
    """
    fails = tuple(_told(each) for each in one.having(Status.FAIL))
    passes = tuple(_told(each) for each in one.having(Status.PASS))
    if word.startswith("bad-") and fails:
        return Line(file, Right.OPEN, f"for its own reason? {fails[0]}")
    if word.startswith("bad-") and passes:
        return Line(file, Right.WRONG, f"passes: {passes[0]}")
    if word == "good" or word.startswith(("bad-", "trap-")):
        right = Right.WRONG if fails else Right.RIGHT if passes else Right.OPEN
        return Line(file, right, (*fails, *passes, "no verdict")[0], fails)
    return Line(file, Right.UNJUDGED, f"{word}: nothing to be right or wrong about")


def against(file: str, case: Case, one: Judged, word: str = "") -> Line:
    """Verdicts against a row.

    :param word: the index's: what it calls neutral, and of which the row claims nothing, is
        inventory.
    """
    failing = {each.check.id: each for each in one.having(Status.FAIL)}
    wanted = _wanted(case)
    alarms = tuple(_told(e) for name, e in failing.items() if not _says(e, wanted.get(name)))
    if alarms:
        return Line(file, Right.WRONG, alarms[0], alarms)
    passing = {each.check.id: each for each in one.having(Status.PASS)}
    for name in wanted:
        if name in passing:
            return Line(file, Right.WRONG, f"passes: {_told(passing[name])}")
    missing = [f"no failure of {name}" for name in wanted if name not in failing]
    missing += [f"no pass of {name}" for name in case.passes if name not in passing]
    if missing:
        return Line(file, Right.OPEN, missing[0])
    if case.lacks:
        return _lacking(file, case, one, word)
    if word == "neutral" and not case.claims:
        return Line(file, Right.UNJUDGED, "inventory: nothing to be right or wrong about")
    seen = [*(failing[name] for name in wanted), *(passing[name] for name in case.passes)]
    return Line(file, Right.RIGHT, _told(seen[0]) if seen else "no false alarm")


def _lacking(file: str, case: Case, one: Judged, word: str) -> Line:
    """Whether each check that cannot tell says what it lacks: of a trap that is all there is."""
    open_ = {each.check.id: each for each in one.having(Status.UNKNOWN)}
    for name, words in case.lacks.items():
        if name not in open_ or not _says(open_[name], words):
            said = _told(open_[name]) if name in open_ else "no such verdict"
            return Line(file, Right.OPEN, f"{name} does not say what it lacks: {said}")
    right = Right.RIGHT if word.startswith("trap-") else Right.LACKS
    return Line(file, right, _told(open_[next(iter(case.lacks))]))


def _wanted(case: Case) -> dict[str, str]:
    """Each check that has to fail, with the words that it has to say."""
    return ({case.fails: case.words} if case.fails else {}) | dict(case.also)


def _says(verdict: Verdict, words: str | None) -> bool:
    finding = verdict.finding
    told = " ".join((finding.found, finding.expected, finding.hint, *finding.details))
    return words is not None and bool(re.search(words, told))


def _told(verdict: Verdict) -> str:
    return f"{verdict.check.id}: {verdict.finding.found}"


def lines() -> list[Line]:
    """Every capture of the index: the table's, then those that came after it."""
    ours = [held(file, case) for file, case in EXPECTED.items()]
    later = {file: row for file, row in index().items() if file not in EXPECTED}
    return ours + [unlisted(file, row["verdict"]) for file, row in later.items()]


def _kind(file: str) -> str:
    return file.partition("/")[0]


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
