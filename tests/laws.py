"""How often a law is tried: in all cases at night, in a sample where somebody waits.

``GDR_NIGHT=1`` tries all there is to be tried. Without it a run has less than half of it; a quick
run, one that leaves ``pytest.mark.exhaustive`` out as a newcomer's does, has about a tenth.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")
NIGHT = bool(os.environ.get("GDR_NIGHT"))
# Of a hundred examples that a law is tried with at night; conftest.py says which run this is.
SHARES = {"night": 100, "gdr": 40, "quick": 10}
_EVERY = {"night": 1, "gdr": 3, "quick": 8}  # one in so many cases


def sample(cases: Sequence[T], seed: str) -> Sequence[T]:
    """All of these at night, else one in a few, and the last; the same ones for the same seed."""
    return one_in(_EVERY[settings.get_current_profile_name()], cases, seed)


def few(cases: Sequence[T], every: int, seed: str) -> Sequence[T]:
    """All of these; in a quick run one in ``every``, and the last."""
    return one_in(every, cases, seed) if quick() else cases


def one_in(every: int, cases: Sequence[T], seed: str) -> Sequence[T]:
    """One in so many, and the last; the same ones for the same seed."""
    first = random.Random(seed).randrange(every)  # noqa: S311 no secret is made of it
    return [*cases[first:-1:every], *cases[-1:]]


def quick() -> bool:
    """Whether this is a quick run: conftest.py chooses the profile before a test is imported."""
    return settings.get_current_profile_name() == "quick"


def share(times: int) -> int:
    """How often a law is tried that is tried so often at night."""
    return max(1, times * settings().max_examples // SHARES["night"])


def tried(times: int) -> settings:
    """Settings of a law that is tried so often at night, and in other runs their share of it."""
    return settings(max_examples=share(times))
