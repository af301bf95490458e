"""What a start imports: a verb's code is imported when it is chosen, and no sooner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNTED = """
import sys
from toolkit.cli import main
sys.argv = ["gdr", *sys.argv[1:]]
code = 0
try:
    main()
except SystemExit as end:
    code = end.code
print(code or 0, *sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "most", "without"),
    [
        ("--help", 20, "jinja2 sushy elftools rich paramiko"),
        ("--version", 20, "jinja2 sushy elftools rich paramiko"),
        ("--help doctor", 20, "jinja2 sushy elftools rich paramiko"),
        ("explain peermem.stub", 275, "sushy rich paramiko"),
        ("doctor --from tests/evidence/acs.txt --quiet", 365, "sushy"),
    ],
)
def test_a_start_imports_no_more_than_it_needs(
    words: str, most: int, without: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", COUNTED, *words.split()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        check=False,
    )
    code, *modules = ended.stderr.splitlines()[-1].split()
    assert code in {"0", "2"}, ended.stderr
    assert {*without.split()} & {*modules} == set()
    ours = [each for each in modules if each.partition(".")[0] == "toolkit"]
    assert len(ours) <= most, sorted(ours)
