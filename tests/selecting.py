"""Which files can hold a test that pytest's -m asks for: the others need not be imported. Pure.

Every tier but one has tests in a dozen files of five hundred, and each of its processes would
import them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

_NAMED = re.compile(r"\bmark\.(\w+)")
_ON_ALL = re.compile(r"^pytestmark = pytest\.mark\.(\w+)$", re.MULTILINE)  # every test has it


def may_hold(text: str, wanted: str, marks: Iterable[str]) -> bool:
    """Whether a test with some of the marks that a file names would be selected.

    :param text: the file; its tests have no marks from elsewhere (test_project_marks.py).
    :param wanted: -m's expression; "" for all. One with a word that is no mark of ours takes all.
    :param marks: all of ours.
    """
    known = tuple(marks)
    if not wanted or not set(re.findall(r"\w+", wanted)) <= {*known, "and", "or", "not"}:
        return True
    on_all = set(_ON_ALL.findall(text)) & set(known)
    named = sorted(set(_NAMED.findall(text)) & set(known) - on_all)
    return any(
        _selects(wanted, known, (*on_all, *held))
        for count in range(len(named) + 1)
        for held in combinations(named, count)
    )


def _selects(wanted: str, known: Iterable[str], held: Iterable[str]) -> bool:
    names = {name: name in set(held) for name in known}
    return bool(eval(wanted, {"__builtins__": {}}, names))  # noqa: S307 # words checked above
