"""What earlier runs measured, as lines and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from toolkit.features.exercise.plan.past import Earlier
from toolkit.features.exercise.show.exercise import shown
from toolkit.report.document import Json
from toolkit.report.table import columns
from toolkit.throughput.estimate import Unit

SCHEMA = "gdr-toolkit/exercise-past/1"


def past_lines(found: Sequence[Earlier]) -> list[str]:
    """A table, newest run first."""
    rows = [
        (
            one.when[:16].replace("T", " "),
            one.status,
            one.title,
            shown(one.value, Unit(one.unit)),
            ", ".join(f"{part.host} {part.hca}" for part in one.same.parts),
        )
        for one in found
    ]
    return columns([("when", "", "test", "measured", "between"), *rows])


def past_document(found: Sequence[Earlier], now: datetime) -> dict[str, Json]:
    """The whole document (docs/exercise-past.schema.json).

    :param now: when it was asked, of a time zone.
    """
    past: list[Json] = [_row(one) for one in found]
    return {"schema": SCHEMA, "time": now.isoformat(timespec="seconds"), "past": past}


def _row(one: Earlier) -> dict[str, Json]:
    ends: list[Json] = [dict(asdict(part)) for part in one.same.parts]
    return {
        "run": one.run,
        "time": one.when,
        "tool": one.same.tool,
        "kind": one.same.kind,
        "size": one.same.size,
        "gpu": one.gpu,
        "ends": ends,
        "status": one.status,
        "value": one.value,
        "unit": one.unit,
        "simulated": one.simulated,
        "fell_back": one.fell_back,
    }
