"""What the same tests came to in earlier runs, from the documents that those runs kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.change.exercise_proof import Proof
from toolkit.facts.exercise import Test
from toolkit.predict.estimate import Unit

FILE = "exercise.json"
_LOOKED = 200  # runs, newest first: more are not searched


@dataclass(frozen=True, slots=True)
class Earlier:
    """One test of an earlier run."""

    run: str  # the folder's name
    when: str  # "2026-11-20T09:00:00+00:00"
    same: tuple[str, ...]  # what must be equal for two tests to be the same
    title: str
    value: float
    unit: str
    status: str
    fell_back: bool = False  # what was to be tested was not what happened


def same(test: Test) -> tuple[str, ...]:
    """By what a test is known again: its tool and its ends, whatever its number."""
    ends = [
        f"{role} {end.host} {end.hca} {end.port} {end.buffer} {end.gpu}" for role, end in test.ends
    ]
    return (test.tool, test.kind.value, str(test.size), *ends)


def earlier(runs: Path, hosts: Sequence[str] = ()) -> Iterator[Earlier]:
    """Tests that came to a figure, newest run first.

    :param hosts: only those that one of these was part of; all for none.
    """
    for file in sorted(runs.glob(f"*/{FILE}"), reverse=True)[:_LOOKED]:
        try:
            told = json.loads(file.read_text())
            yield from (each for each in _of_run(file.parent.name, told) if _meant(each, hosts))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # another toolkit's, or cut off: it is no evidence, and nothing rests on it


def _meant(one: Earlier, hosts: Sequence[str]) -> bool:
    named = {words.split(" ")[1] for words in one.same[3:]}
    return not hosts or bool(named & set(hosts))


def _of_run(run: str, told: dict[str, Any]) -> Iterator[Earlier]:
    """Any: a document that may be of another version."""
    for each in told["results"]:
        if each["value"] is None:
            continue
        ends = [
            f"{role} {end['host']} {end['hca']} {end['port']} {end['buffer']} {end['gpu']}"
            for role, end in each["ends"].items()
        ]
        key = (each["tool"], each["kind"], str(each["size"]), *ends)
        title = f"{each['tool']}, {'GPU' if each['gpu'] else 'host'}, {each['kind']}"
        title += " (simulated)" if told.get("simulated") else ""
        fell_back = any(point["proof"] == Proof.REFUTED for point in each.get("points", ()))
        unit = Unit(each["unit"]).value  # of another version: no figure that can be told
        yield Earlier(
            run, str(told["time"]), key, title, float(each["value"]), unit, each["status"],
            fell_back,
        )  # fmt: skip
