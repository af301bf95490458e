"""What our runs left on a node, told by the probe from what the engine itself wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.engine import (
    LIMITS,
    MODPROBE_D,
    SHELLS,
    Tree,
    bundle_of,
    digest,
    make_tree,
    sent,
)
from tests.scripts.shells import parts
from toolkit.evidence import Evidence
from toolkit.facts.modules.placed_files import parse_left

pytestmark = pytest.mark.shell
FIRST, THEN = "softdep x pre: y\n", "softdep x pre: z\n"


def _left(tree: Tree) -> dict[str, str]:
    probe = parts("frames.sh", "probe.sh").rpartition("\nprobe")[0]
    ran = tree.run(f"{probe}\nbegin_frames\ntake left runs left\nend_frames\n")
    assert (ran.exit, ran.stderr) == (0, "")
    return parse_left(Evidence.parse(ran.stdout).text("left"))


@pytest.fixture(params=sorted(SHELLS))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return make_tree(tmp_path / "node", SHELLS[request.param])


def test_the_latest_run_counts_and_one_that_was_taken_back_does_not(tree: Tree) -> None:
    assert _left(tree) == {}
    assert tree.run(sent(bundle_of({MODPROBE_D: FIRST, LIMITS: "* - memlock\n"}))).exit == 0
    assert tree.run(sent(bundle_of({MODPROBE_D: THEN}, remove=(LIMITS,)))).exit == 0
    assert _left(tree) == {MODPROBE_D: digest(THEN), LIMITS: "absent"}
    assert tree.rollback("last").exit == 0
    assert _left(tree) == {MODPROBE_D: digest(FIRST), LIMITS: digest("* - memlock\n")}


def test_what_others_change_since_does_not_change_what_we_left(tree: Tree) -> None:
    assert tree.run(sent(bundle_of({MODPROBE_D: FIRST}))).exit == 0
    tree.write(MODPROBE_D, "# mine now\n")
    assert _left(tree) == {MODPROBE_D: digest(FIRST)}
