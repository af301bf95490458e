"""Which tests a mutant meets, the nearest first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Known:
    """One test, as it ran when the map was made."""

    name: str  # pytest's node id
    seconds: float  # of processor
    lines: int  # of the toolkit that it executes

    @property
    def path(self) -> str:
        return self.name.partition("::")[0]


def order(tests: Iterable[Known], path: str) -> list[Known]:
    """Named like the module first, then those that execute the fewest lines of the toolkit."""

    def rank(test: Known) -> tuple[bool, int, float, str]:
        return (not alike(test.path, path), test.lines, test.seconds, test.name)

    return sorted(tests, key=rank)


def within(tests: Sequence[Known], seconds: float) -> tuple[list[Known], list[Known]]:
    """Those that have time, in order, one at least; and the rest."""
    kept: list[Known] = []
    left: list[Known] = []
    spent = 0.0
    for test in tests:
        if kept and spent + test.seconds > seconds:
            left.append(test)
            continue
        kept.append(test)
        spent += test.seconds
    return kept, left


def alike(test: str, module: str) -> bool:
    """Whether a file of tests bears the name of a module, with or without its room's."""
    words = set(PurePosixPath(test).stem.removeprefix("test_").split("_"))
    parts = PurePosixPath(module)
    named = set(parts.stem.split("_"))
    return named <= words | {parts.parent.name, ""}
