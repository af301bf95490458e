"""Firmware settings of HCAs, read and written under each shell, on cards of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.features.nic.cards import BROADCOM, FIRST, SECOND, NicTree
from tests.scripts.engine import SHELLS
from toolkit.errors import LockedError, StaleError
from toolkit.evidence import State
from toolkit.features.nic import io as reach

pytestmark = pytest.mark.shell
OFF = f"{FIRST}/ATS_ENABLED=0/MAX_ACC_OUT_READ=128"


@pytest.fixture(params=sorted(SHELLS))
def node(request: pytest.FixtureRequest, tmp_path: Path) -> NicTree:
    return NicTree(tmp_path / "node", SHELLS[request.param])


def test_each_card_is_asked_once_by_its_first_function(node: NicTree) -> None:
    look = reach.ask(node)
    assert {key for key in look.frames if key.startswith("nic-")} == {
        f"nic-{FIRST}",
        f"nic-{SECOND}",
    }
    assert f"{BROADCOM} 0x14e4:0x1760" in look.text("nics")
    assert [each for each in node.asked if " set " in each] == []


def test_what_was_agreed_on_is_written_and_read_again(node: NicTree) -> None:
    look = reach.ask(node)
    after = reach.write(node, reach.write_script(look, [OFF]))
    assert node.next(FIRST, "ATS_ENABLED") == "0"
    assert node.next(FIRST, "MAX_ACC_OUT_READ") == "128"
    assert node.next(SECOND, "ATS_ENABLED") == "True(1)"
    assert [reach.failed(each) for each in reach.written(after)] == [""]
    assert "ATS_ENABLED" in reach.again(look, after).text(f"nic-{FIRST}")
    assert not (node.root / "var/lib/gdr-toolkit/lock").is_symlink()


def test_nothing_is_written_where_a_card_says_something_else_by_now(node: NicTree) -> None:
    text = reach.write_script(reach.ask(node), [OFF])
    kept = node.root / "nv" / SECOND
    kept.write_text(kept.read_text().replace("IB(1) ETH(2) ETH(2)", "IB(1) ETH(2) IB(1)"))
    with pytest.raises(StaleError, match="has changed since it was looked at"):
        reach.write(node, text)
    assert node.next(FIRST, "ATS_ENABLED") == "True(1)"


def test_a_tool_that_refuses_is_told_in_its_own_words_and_ends_the_work(node: NicTree) -> None:
    look = reach.ask(node)
    node.put("refuses", "")
    after = reach.write(node, reach.write_script(look, [OFF, OFF.replace(FIRST, SECOND)]))
    [frame] = reach.written(after)
    assert reach.failed(frame) == "Failed to set configuration: Operation not permitted"


def test_the_other_tool_will_do_and_none_is_said(node: NicTree) -> None:
    (node.root / "bin/mlxconfig").rename(node.root / "bin/mstconfig")
    assert reach.ask(node).frames[f"nic-{FIRST}"].source.startswith("mstconfig -d")
    (node.root / "bin/mstconfig").unlink()
    assert reach.ask(node).frames[f"nic-{FIRST}"].state is State.ABSENT


def test_another_run_keeps_it_from_being_written(node: NicTree) -> None:
    text = reach.write_script(reach.ask(node), [OFF], wait_s=0)
    state = node.root / "var/lib/gdr-toolkit"
    state.mkdir(parents=True)
    (state / "lock").symlink_to("11111111-2222-3333-4444-555555555555 1 0 other")
    try:
        reach.write(node, text)
    except LockedError:
        assert node.next(FIRST, "ATS_ENABLED") == "True(1)"
    else:  # what held it was seen to be dead
        assert node.next(FIRST, "ATS_ENABLED") == "0"


def test_a_script_that_was_cut_off_writes_nothing(node: NicTree) -> None:
    text = reach.write_script(reach.ask(node), [OFF])
    for end in (*range(0, len(text), len(text) // 16), text.rindex(" end"), len(text) - 2):
        node.sh(text[:end])  # a shell may well complain of half a function
        assert node.next(FIRST, "ATS_ENABLED") == "True(1)", text[:end][-40:]
