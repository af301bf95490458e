"""The nodes that a verb is about: as their evidence was saved, or as they tell it now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from toolkit.errors import Outcome
from toolkit.evidence import Evidence
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.each import on_saved
from toolkit.verbs.reading import read_each
from toolkit.verbs.saved import read_saved

T = TypeVar("T")


def each_node(
    session: Session, work: Callable[[str, Evidence], T], *, title: str = "reading"
) -> list[Outcome[T]]:
    """Do ``work`` on what ``--from`` has, with no host; else on every node, asked once.

    :param work: has the host's name and its evidence, and may be called from many threads.
    """
    if source := session.said.text("from_"):
        return on_saved(read_saved(Path(source)), work)
    with fleet(session.said) as opened:
        return read_each(opened, session.folder, work, title=title)
