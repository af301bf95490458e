"""What will come of builds for a kernel that is not installed: for a person, and as a document.

The schema of the document is docs/preflight.schema.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from toolkit import __version__
from toolkit.errors import ExitCode
from toolkit.features.builds.plan.preflight import Answer, Outlook, Preflight, Reason
from toolkit.features.builds.show.build import Unread, unread_rows
from toolkit.report.document import Json
from toolkit.report.table import Ink, Painter, clean
from toolkit.report.text import errors

SCHEMA = "gdr-toolkit/preflight/1"
_INK = {Answer.WILL: Ink.GREEN, Answer.WILL_NOT: Ink.RED, Answer.UNKNOWN: Ink.YELLOW}


def report(found: Preflight, paint: Painter, unread: Unread = ()) -> str:
    """Each part with its answer, and below it what the answer rests on."""
    lines: list[str] = []
    kernel = ""
    for each in found.outlooks:
        if each.kernel != kernel:
            kernel = each.kernel
            lines += [clean(kernel)]
        lines += _outlook(each, paint)
    lines.append("")
    lines += errors(((each.host, each.error) for each in unread), paint)  # each ends in a blank
    counted = Counter(each.answer for each in found.outlooks)
    said = ", ".join(f"{counted[answer]} {answer}" for answer in Answer if counted[answer])
    return "\n".join([*lines, said or "nothing would be built"])


def _outlook(outlook: Outlook, paint: Painter) -> list[str]:
    answer = paint(str(outlook.answer), _INK[outlook.answer])
    lines = [f"  {clean(outlook.part)} {clean(outlook.package)}".rstrip() + f": {answer}"]
    for each in outlook.reasons:
        lines.append(f"    {clean(each.found)} ({clean(each.source)}; {each.confidence})")
        if each.hint:
            lines.append(f"    next: {clean(each.hint)}")
    return lines


def document(
    found: Preflight, code: ExitCode, now: datetime, unread: Unread = ()
) -> Mapping[str, Json]:
    """The same for machines."""
    return {
        "schema": SCHEMA,
        "toolkit": __version__,
        "time": now.astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(code),
        "place": found.place,
        "headers": list(found.headers),
        "answer": found.answer.value,
        "parts": [_part(each) for each in found.outlooks],
        "errors": unread_rows(unread),
    }


def _part(outlook: Outlook) -> Json:
    return {
        "kernel": outlook.kernel,
        "part": outlook.part.value,
        "package": outlook.package,
        "answer": outlook.answer.value,
        "tried": outlook.tried,
        "reasons": [_reason(each) for each in outlook.reasons],
    }


def _reason(reason: Reason) -> Json:
    return {
        "answer": reason.answer.value if reason.answer else "",
        "found": reason.found,
        "source": reason.source,
        "confidence": reason.confidence.value,
        "next": reason.hint,
    }
