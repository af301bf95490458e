"""What verify saw, for machines: docs/verify.schema.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.errors import ExitCode
from toolkit.report.document import Json

SCHEMA = "gdr-toolkit/verify/1"


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the suite on one host."""

    host: str
    name: str  # of the function: "test_node" asks the checks, others ask in other words
    check: str  # "" where it is no check's
    status: str  # pass, fail, unknown, n/a, waived; error: it could not be asked
    message: str = ""  # of whatever is no pass


def verified_document(
    profile: str, cases: Sequence[Case], code: ExitCode, when: datetime
) -> dict[str, Json]:
    """The whole document; ``when`` in any zone, written in UTC."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "verb": "verify",
        "profile": profile,
        "time": when.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "summary": dict(sorted(Counter(each.status for each in cases).items())),
        "cases": [
            {
                "host": each.host,
                "name": each.name,
                "check": each.check or None,
                "status": each.status,
                "message": each.message,
            }
            for each in cases
        ],
    }
