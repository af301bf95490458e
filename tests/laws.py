"""How often a law is tried: in all cases where all is wanted, in a sample where somebody waits.

A quick run is one that leaves ``pytest.mark.exhaustive`` out, as a newcomer's does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")


def sample(cases: Sequence[T], every: int, seed: str) -> Sequence[T]:
    """One in ``every`` of these, and the last; the same ones for the same seed."""
    first = random.Random(seed).randrange(every)  # noqa: S311 no secret is made of it
    return [*cases[first:-1:every], *cases[-1:]]


def few(cases: Sequence[T], every: int, seed: str) -> Sequence[T]:
    """All of these; in a quick run the :func:`sample` of them."""
    return sample(cases, every, seed) if quick() else cases


def quick() -> bool:
    """Whether this is a quick run (conftest.py chooses the profile before a test is imported)."""
    return settings().max_examples < settings.get_profile("gdr").max_examples


def tried(times: int) -> settings:
    """Settings of a law that is tried so often, and a tenth of it in a quick run (conftest.py)."""
    usual = settings.get_profile("gdr").max_examples
    return settings(max_examples=max(1, times * settings().max_examples // usual))
