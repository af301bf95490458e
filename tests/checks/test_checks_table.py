"""When each check is asked, and what its failure means: another answer is another verdict.

``checks.txt`` has a row for each, in the order of reports. To accept a difference, run this with
GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import os
from pathlib import Path

from toolkit.checks.all import ALL
from toolkit.checks.check import ALL_ROLES, BOTH_PATHS, Check, Tense

IMPORTS = ("toolkit/checks/*.py", "toolkit/checks/*/*.py")
KEPT = Path(__file__).with_name("checks.txt")
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"


def row(check: Check) -> str:
    """What is so for most is not said."""
    facts = [
        check.impact.value,
        "" if check.tense is Tense.NOW else check.tense.value,
        "" if check.paths == BOTH_PATHS else f"path {' '.join(sorted(check.paths))}",
        "" if check.roles == ALL_ROLES else f"role {' '.join(sorted(check.roles))}",
        "" if check.needs_gpu else "also without GPUs",
        "also of images" if check.on_disk else "",
    ]
    return f"{check.id}: {', '.join(each for each in facts if each)}\n"


def test_every_check() -> None:
    text = "".join(map(row, ALL))
    if ACCEPT:
        KEPT.write_text(text)
    assert text == KEPT.read_text()
