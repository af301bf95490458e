"""The check reference, docs/checks.md, written from the checks themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from toolkit.checks.check import BOTH_PATHS, Check
from toolkit.report.listings import home

HEAD = """\
# Checks

Written from the checks by `./invokew docs`; edit their docstrings, not this page.

Each check is one question about a node, and is answered with `pass`, `fail`, `unknown`
(it could not be read; that is never a pass) or `n/a` with the reason. What a failure
means is its impact:

| impact | a failure means |
|---|---|
| sick | hardware or firmware is failing: drain the node, no setting mends it |
| broken | GPUDirect cannot work |
| slow | it works, and slower than the hardware can |
| fragile | it works now, and will not after the next boot, update or restart |

The tense says when the property holds: now, or at the next boot. On a terminal,
`./invokew explain CHECK` prints the same.
"""


def page(checks: Iterable[Check]) -> str:
    """The whole page: an overview, then the checks by topic, both in the order of reports."""
    ordered = tuple(checks)
    rows = [f"| [{c.id}](#{_anchor(c.id)}) | {_plain(c.title)} | {c.impact} |" for c in ordered]
    parts = [HEAD, "| check | holds when | impact |\n|---|---|---|\n" + "\n".join(rows) + "\n"]
    topics = sorted(ordered, key=lambda check: _first(ordered, _topic(check)))
    for topic, members in groupby(topics, key=_topic):
        parts.append(f"## {topic}\n")
        parts += [_section(check) for check in members]
    return "\n".join(parts)


def _section(check: Check) -> str:
    paths = "both" if check.paths == BOTH_PATHS else ", ".join(sorted(check.paths))
    lines = [
        f"### {check.id}\n",
        f"{_plain(check.title)}\n",
        *([f"{_plain(check.why)}\n"] if check.why else []),
        f"- impact: {check.impact}; tense: {check.tense}; paths: {paths}",
        f"- fix: {_plain(check.fix)}",
        f"- source: {_plain(check.source)}",
        f"- code: [{home(check)}](../{home(check)})\n",
    ]
    return "\n".join(lines)


def _topic(check: Check) -> str:
    return check.id.partition(".")[0]


def _first(checks: tuple[Check, ...], topic: str) -> int:
    return next(n for n, check in enumerate(checks) if _topic(check) == topic)


def _anchor(name: str) -> str:
    """The fragment that forges make of a heading: lower case, without dots."""
    return re.sub(r"[^a-z0-9_-]", "", name.lower())


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands: no emphasis, tags or table bars in it."""
    return re.sub(r"([\\*<>|`\[\]]|\b_|_\b|(?<!\w)_)", r"\\\1", text)
