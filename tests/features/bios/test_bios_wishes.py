"""What an operator asks of a BIOS: how it is read, and which attributes and values it means."""

from __future__ import annotations

from types import SimpleNamespace as Told
from typing import Any

import pytest

from tests.unit.biosing import bios
from toolkit.compat.bios import BiosRole
from toolkit.errors import UsageError
from toolkit.facts.firmware.redfish_bios import Attribute
from toolkit.facts.firmware.redfish_registry import AttributeEntry, Kind
from toolkit.features.bios.plan_wishes import (
    BiosRequest,
    BiosWish,
    BlockedWish,
    BlockKind,
    allowed,
    check_word,
    meant_of,
    read_asked,
    targets_of,
    value_for,
)

LONG = "z" * 61
VENDORS = "; an attribute by its vendor's name is raw:NAME=VALUE"
FORM = ": a setting and its value are SETTING=VALUE"
EXAMPLE = "--set acs=off,aspm=off; or --set profile"
SWITCH = "acs=on, off or auto; or the BIOS's own word with raw:NAME=VALUE"


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        pytest.param("abov-4g=on", "--set: no setting 'abov-4g'", f"is it above-4g?{VENDORS}",
                     id="a-slip"),
        pytest.param("ACS_=on", "--set: no setting 'ACS_'", f"is it acs or ats or aspm?{VENDORS}",
                     id="in-capitals"),
        pytest.param(f"{LONG}=on", f"--set: no setting '{LONG[:60]}'",
                     f"settings: {', '.join(BiosRole)}{VENDORS}", id="nothing-near"),
        pytest.param("acs=maybe", "--set: 'maybe' is no value of acs", SWITCH, id="no-switch"),
        pytest.param(f"acs={LONG}", f"--set: '{LONG[:60]}' is no value of acs", SWITCH,
                     id="a-long-word"),
        pytest.param("acs", f"--set 'acs'{FORM}", EXAMPLE, id="no-value"),
        pytest.param(" acs = ", f"--set 'acs ='{FORM}", EXAMPLE, id="an-empty-value"),
        pytest.param("=off", f"--set '=off'{FORM}", EXAMPLE, id="no-name"),
        pytest.param(LONG, f"--set '{LONG[:60]}'{FORM}", EXAMPLE, id="a-long-name"),
        pytest.param("acs=on,acs=off", "--set names acs twice", "once will do", id="twice"),
        pytest.param("payload.mrrs=1,payload.mrrs=2", "--set names payload.mrrs twice",
                     "once will do", id="a-part-twice"),
        pytest.param("raw:A=1,raw:A=1", "--set names A twice", "once will do", id="raw-twice"),
        pytest.param(" , ", "--set names nothing", "--set acs=off, or --set profile",
                     id="nothing"),
        pytest.param(
            "secure-boot=off",
            "--set secure-boot: is a resource of its own with keys behind it, and not changed here",
            "in the BIOS's own screens, or at the BMC: SecureBootEnable of "
            "Systems/ID/SecureBoot, then a reset; with it on, modules must be signed: enrol",
            id="by-hand",
        ),
    ],
)  # fmt: skip
def test_a_wish_that_makes_no_sense_is_refused_with_what_does(
    text: str, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_asked(text)
    assert (str(refused.value), refused.value.hint) == (said, hint)


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        ("profile", BiosRequest(profile=True), []),
        ("acs=off", BiosRequest((BiosWish("off", BiosRole.ACS),)), ["acs=off"]),
        (" acs = off ,, ", BiosRequest((BiosWish("off", BiosRole.ACS),)), ["acs=off"]),
        (
            "profile, payload.mrrs=4096B",
            BiosRequest((BiosWish("4096B", BiosRole.PAYLOAD, "mrrs"),), profile=True),
            ["payload.mrrs=4096B"],
        ),
        ("raw:Foo=a=b", BiosRequest((BiosWish("a=b", attribute="Foo"),)), ["Foo=a=b"]),
        (
            "payload=x,payload.mrrs=y",
            BiosRequest((BiosWish("x", BiosRole.PAYLOAD), BiosWish("y", BiosRole.PAYLOAD, "mrrs"))),
            ["payload=x", "payload.mrrs=y"],
        ),
        *(
            (f"{each}=anything", BiosRequest((BiosWish("anything", each),)), [f"{each}=anything"])
            for each in (
                BiosRole.MMIO_WINDOW, BiosRole.PAYLOAD, BiosRole.LINK_SPEED,
                BiosRole.NUMA_CLUSTERING, BiosRole.POWER_PROFILE, BiosRole.C_STATES,
            )
        ),
    ],
)  # fmt: skip
def test_what_is_asked_is_read_wish_by_wish(text: str, asked: BiosRequest, said: list[str]) -> None:
    assert read_asked(text) == asked
    assert [str(each) for each in asked.wishes] == said


@pytest.mark.parametrize("setting", [*BiosRole])
def test_a_setting_that_is_more_than_a_switch_takes_any_word(setting: BiosRole) -> None:
    valued = {
        BiosRole.MMIO_WINDOW, BiosRole.PAYLOAD, BiosRole.LINK_SPEED, BiosRole.NUMA_CLUSTERING,
        BiosRole.POWER_PROFILE, BiosRole.C_STATES,
    }  # fmt: skip
    for word in ("on", "off", "auto", "Enabled", "Disabled"):
        check_word(setting, word, "x")
    if setting in valued:
        check_word(setting, "anything", "x")
        return
    with pytest.raises(UsageError, match="x: 'anything' is no value of"):
        check_word(setting, "anything", "x")


@pytest.mark.parametrize(
    ("kind", "said", "sent"),
    [
        (Kind.BOOLEAN, "true, false", None),
        (Kind.ENUMERATION, "not told by its registry", None),
        (Kind.STRING, "not told by its registry", "tag"),
        (Kind.UNTOLD, "not told by its registry", "tag"),
    ],
)
def test_any_word_is_sent_only_where_the_bmc_alone_knows_what_it_takes(
    kind: Kind, said: str, sent: str | None
) -> None:
    found = Attribute("AssetTag", "x", entry=AttributeEntry("AssetTag", kind=kind))
    assert allowed(found) == said
    assert value_for(found, BiosWish("tag", attribute="AssetTag")) == sent


def exposed(*parts: str) -> list[Any]:
    return [Told(part=part, name=f"Vendor{part}", attribute=None, row=None) for part in parts]


@pytest.mark.parametrize(
    ("parts", "part", "meant"),
    [
        (("",), "", [""]),
        (("mps",), "", ["mps"]),
        (("mps", "mps"), "", ["mps", "mps"]),
        (("mps", "mrrs"), "", []),
        (("", "mrrs"), "", [""]),
        (("mps", "mrrs"), "mrrs", ["mrrs"]),
        (("mps",), "mrrs", []),
    ],
)
def test_without_a_part_the_switch_is_meant_or_the_only_part(
    parts: tuple[str, ...], part: str, meant: list[str]
) -> None:
    assert [each.part for each in meant_of(exposed(*parts), part)] == meant


@pytest.mark.parametrize(
    ("parts", "part", "block", "reason", "hint"),
    [
        ((), "", BlockKind.NOT_EXPOSED, "this BIOS offers no such setting to its BMC", ""),
        (("status",), "", BlockKind.NOT_EXPOSED, "this BIOS offers no such setting to its BMC", ""),
        (("mrrs", "mps"), "", BlockKind.AMBIGUOUS, "payload is Vendormrrs, Vendormps here",
         "say which: payload.mps or payload.mrrs"),
        (("mps", ""), "x", BlockKind.NOT_EXPOSED, "it has no part 'x'",
         "there is payload, payload.mps"),
    ],
)  # fmt: skip
def test_a_wish_that_means_no_attribute_says_which_there_are(
    parts: tuple[str, ...], part: str, block: BlockKind, reason: str, hint: str
) -> None:
    blocked: list[BlockedWish] = []
    wish = BiosWish("on", BiosRole.PAYLOAD, part)
    assert not [*targets_of(bios(), {BiosRole.PAYLOAD: exposed(*parts)}, [wish], blocked)]
    assert [(e.block, e.reason, e.hint) for e in blocked] == [(block, reason, hint)]
