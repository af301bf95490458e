"""Which settings of which cards are written, which wait, and which are not to be had."""

from __future__ import annotations

import pytest

from toolkit.compat.reader import shipped
from toolkit.errors import ExitCode, UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.features.nic.plan import (
    NicReading,
    NicWish,
    read_wishes,
    reading,
    wanted,
    wishes_back,
)
from toolkit.want import Role

CARD = "0000:19:00.0"
HEAD = f"""
Device #1:
----------

Device type:        ConnectX7
Device:             {CARD}

Configurations:                          Default             Current             Next Boot
"""
ROWS = {
    "ATS_ENABLED": "False(0) True(1) True(1)",
    "PCI_WR_ORDERING": "per_mkey(0) per_mkey(0) per_mkey(0)",
    "LINK_TYPE_P1": "IB(1) ETH(2) ETH(2)",
    "LINK_TYPE_P2": "IB(1) IB(1) IB(1)",
    "ROCE_CC_PRIO_MASK_P1": "255 0 0",
    "ROCE_CC_PRIO_MASK_P2": "255 0 0",
    "HOST_CHAINING_MODE": "DISABLED(0) DISABLED(0) DISABLED(0)",
}


def looked(*wishes: NicWish, nics: str = f"{CARD} 0x15b3:0x1021\n", **rows: str) -> NicReading:
    told = {**ROWS, **rows}.items()
    lines = (f"         {name:<40}{row}\n" for name, row in told if row)
    frames = {
        "nics": Frame("nics", State.OK, "x", nics),
        f"nic-{CARD}": Frame(f"nic-{CARD}", State.OK, "mlxconfig", f"{HEAD}{''.join(lines)}"),
    }
    return reading(Evidence(frames, complete=True), wishes, shipped())


def edits(found: NicReading) -> dict[str, tuple[int, int]]:
    return {each.name: (each.before, each.after) for each in found.plan.edits}


@pytest.mark.parametrize(
    ("role", "ats"), [(Role.BARE_METAL, {"ATS_ENABLED": (1, 0)}), (Role.VM_HOST, {}), (None, {})]
)
def test_the_role_says_which_ats_is_right_and_order_is_left_to_each_region(
    role: Role | None, ats: dict[str, tuple[int, int]]
) -> None:
    found = looked(*wanted(role, {}))
    assert edits(found) == {**ats, "ROCE_CC_PRIO_MASK_P1": (0, 255)}


def test_congestion_control_of_roce_is_nothing_to_a_port_of_infiniband() -> None:
    assert "ROCE_CC_PRIO_MASK_P2" not in edits(looked(*wanted(None, {})))
    untold = looked(*wanted(None, {}), LINK_TYPE_P2="")
    assert "ROCE_CC_PRIO_MASK_P2" in edits(untold), "a card that tells no type has no other"


def test_the_sites_word_goes_before_the_roles() -> None:
    assert "ATS_ENABLED" not in edits(looked(*wanted(Role.BARE_METAL, {"ATS_ENABLED": 1})))


def test_a_name_without_a_port_means_all_ports_and_one_with_it_that_one() -> None:
    both, _ = read_wishes(" LINK_TYPE = ib , ")
    assert edits(looked(*both)) == {"LINK_TYPE_P1": (2, 1)}
    one, _ = read_wishes("LINK_TYPE_P2=eth")
    assert edits(looked(*one)) == {"LINK_TYPE_P2": (1, 2)}


def test_what_was_named_goes_before_the_profile() -> None:
    named, profile = read_wishes("ATS_ENABLED=on,profile")
    assert profile
    assert "ATS_ENABLED" not in edits(looked(*named, *wanted(Role.BARE_METAL, {})))


def test_what_waits_for_a_cold_boot_is_written_once_and_is_pending() -> None:
    wish, _ = read_wishes("ATS_ENABLED=off")
    found = looked(*wish, ATS_ENABLED="False(0) True(1) False(0)")
    assert not found.plan.edits
    assert [(each.now, each.after) for each in found.plan.owed] == [(1, 0)]
    assert (found.exit_code, found.shown) == (ExitCode.PENDING, ExitCode.PENDING)
    assert not found.plan.ready, "nothing is left to be written"


def test_a_setting_that_the_card_has_not_is_named_and_does_not_stop_the_others() -> None:
    wishes, _ = read_wishes("INTERNAL_CPU_OFFLOAD_ENGINE=disabled,ATS_ENABLED=off")
    found = looked(*wishes)
    assert [each.reason for each in found.plan.blocked] == ["this card has no such setting"]
    assert found.plan.ready


def test_a_value_that_could_not_be_put_back_is_not_written_over() -> None:
    wishes, _ = read_wishes("ATS_ENABLED=off,PCI_WR_ORDERING=force_relax")
    found = looked(*wishes, ATS_ENABLED="N/A N/A N/A")
    assert "no number that could be put back" in found.plan.blocked[0].reason
    assert not found.plan.ready
    assert found.exit_code is ExitCode.FAILED
    alone = looked(*read_wishes("ATS_ENABLED=off")[0], ATS_ENABLED="N/A N/A N/A")
    assert (alone.plan.edits, alone.shown) == ((), ExitCode.FAILED)
    asked = looked(*wanted(Role.BARE_METAL, {}), ATS_ENABLED="N/A N/A N/A")
    assert asked.plan.ready, "a profile's wish that is not to be had stops no other"


def test_one_word_a_card_goes_to_the_node() -> None:
    wishes, _ = read_wishes("ATS_ENABLED=off,LINK_TYPE=ib")
    assert looked(*wishes).plan.words == (f"{CARD}/ATS_ENABLED=0/LINK_TYPE_P1=1",)


def test_an_undo_goes_back_to_what_was_first_and_leaves_other_hands_values() -> None:
    wishes, _ = read_wishes("ATS_ENABLED=off")
    kept = looked(*wishes).plan.kept
    back = wishes_back([kept])
    assert edits(looked(*back, ATS_ENABLED="False(0) True(1) False(0)")) == {"ATS_ENABLED": (0, 1)}
    link = wishes_back(['[["0000:19:00.0", "LINK_TYPE_P1", 1, 3]]'])
    strange = looked(*link)
    assert not strange.plan.edits
    assert "not ours" in strange.plan.blocked[0].reason
    assert strange.exit_code is ExitCode.OK


def test_an_undo_of_a_card_that_is_gone_is_not_called_done() -> None:
    gone = looked(*wishes_back(['[["0000:99:00.0", "LINK_TYPE_P1", 1, 3]]']))
    assert [each.reason for each in gone.plan.blocked] == ["this card is not there"]
    assert gone.exit_code is ExitCode.UNKNOWN


@pytest.mark.parametrize("kept", ["5", "[5]", '[["a", "b", null, 1]]', '[[1, 2, "a", 4]]', "[[]]"])
def test_a_journal_that_is_damaged_is_no_wish(kept: str) -> None:
    with pytest.raises(ValueError, match="no list"):
        wishes_back([kept])


@pytest.mark.parametrize(
    "words", ["LINK_TYPE=eth,LINK_TYPE_P1=ib", "LINK_TYPE_P2=1,LINK_TYPE=2", "ATS_ENABLED=7"]
)
def test_what_contradicts_itself_or_is_no_value_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        read_wishes(words)


SWITCHED = {"on": 1, "true": 1, "off": 0, "false": 0}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ATS_ENABLED", SWITCHED),
        ("SRIOV_EN", SWITCHED),
        ("ADVANCED_PCI_SETTINGS", SWITCHED),
        ("PCI_WR_ORDERING", {"per_mkey": 0, "force_relax": 1}),
        ("ROCE_CC_PRIO_MASK_P1", {"all": 255}),
        ("LINK_TYPE_P2", {"ib": 1, "eth": 2}),
        ("MAX_ACC_OUT_READ", {"auto": 0}),
        ("INTERNAL_CPU_OFFLOAD_ENGINE", {"enabled": 0, "disabled": 1}),
    ],
)
def test_each_setting_has_words_for_its_numbers(name: str, words: dict[str, int]) -> None:
    found = {word: read_wishes(f"{name}={word.upper()}")[0][0] for word in words}
    assert found == {word: NicWish(name, value) for word, value in words.items()}


def test_a_named_port_goes_before_the_site_s_word_for_all_ports() -> None:
    named, _ = read_wishes("LINK_TYPE_P1=ib")
    found = looked(*named, NicWish("LINK_TYPE", 2, named=False))
    assert edits(found) == {"LINK_TYPE_P1": (2, 1), "LINK_TYPE_P2": (1, 2)}


def test_cards_of_other_makers_are_named_and_never_written_to() -> None:
    wishes, _ = read_wishes("ATS_ENABLED=off")
    found = looked(*wishes, nics="0000:31:00.0 0x14e4:0x1760\n0000:32:00.0 -:-\n")
    assert not found.cards
    assert "Broadcom" in found.others[0]
    assert not found.plan.edits


def test_a_card_that_does_not_tell_is_unknown_and_never_as_wanted() -> None:
    frames = {
        "nics": Frame("nics", State.OK, "x", f"{CARD} 0x15b3:0x1021\n"),
        f"nic-{CARD}": Frame(f"nic-{CARD}", State.FAILED, "mlxconfig -d", "-E- no\n", 3),
    }
    found = reading(Evidence(frames, complete=True), wanted(Role.BARE_METAL, {}), shipped())
    assert (found.shown, found.exit_code) == (ExitCode.UNKNOWN, ExitCode.UNKNOWN)
    assert found.unread == (f"{CARD}: mlxconfig -d: ended with status 3",)


def test_a_node_without_the_tool_is_told_once_what_to_install() -> None:
    cards = (CARD, "0000:3b:00.0")
    frames = {f"nic-{each}": Frame(f"nic-{each}", State.ABSENT, "mlxconfig") for each in cards}
    nics = "".join(f"{each} 0x15b3:0x1021\n" for each in cards)
    frames["nics"] = Frame("nics", State.OK, "x", nics)
    found = reading(Evidence(frames, complete=True), (), shipped())
    assert found.unread == (
        "2 cards: neither mlxconfig nor mstconfig is there; install mstflint, or mft",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names nothing"),
        ("MAGIC=1", "no setting 'MAGIC'"),
        ("LINK_TYPE=fast", "'fast' is no value of LINK_TYPE"),
        ("ATS_ENABLED", "'' is no value"),
        ("ATS_ENABLED=on,ATS_ENABLED=off", "names ATS_ENABLED twice"),
    ],
)
def test_what_is_no_setting_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_wishes(text)
