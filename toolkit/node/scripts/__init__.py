"""Scripts that run on nodes, in POSIX sh: each engine is put together from parts of this folder."""

from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent


def assembled(parts: Iterable[str], *calls: str, before: str = "") -> str:
    """One script of parts of this folder. Its calls stand last: cut off, it does nothing.

    :param before: lines of sh that go first.
    """
    texts = [(FOLDER / part).read_text("utf-8") for part in parts]
    return "#!/bin/sh\n" + before + "\n".join([*texts, *(f"{call}\n" for call in calls)])
