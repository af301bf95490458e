"""What the same tests came to in earlier runs, from the documents that those runs kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from toolkit.features.exercise.plan.past import Earlier, parse_kept
from toolkit.untrusted import read_json

FILE = "exercise.json"
_LOOKED = 200  # runs, newest first: more are not searched


def earlier(runs: Path, hosts: Sequence[str] = ()) -> Iterator[Earlier]:
    """Tests that came to a figure, newest run first.

    :param hosts: only those that one of these was part of; all for none.
    """
    for file in sorted(runs.glob(f"*/{FILE}"), reverse=True)[:_LOOKED]:
        try:
            told = read_json(file.read_text("utf-8"))
            yield from (each for each in parse_kept(file.parent.name, told) if _meant(each, hosts))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # another toolkit's, or cut off: it is no evidence, and nothing rests on it


def _meant(one: Earlier, hosts: Sequence[str]) -> bool:
    return not hosts or any(part.host in hosts for part in one.same.parts)
