"""What our client makes of a BMC: the frames that checks rest on, and nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bmc.bysushy import sushy_on, system_of
from tests.bmc.client import bmc_on, by_key
from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.personas import CHANGES, PERSONAS
from tests.bmc.tls import Certificate
from toolkit.errors import BmcLogin, BmcRefused
from toolkit.evidence import Evidence, State
from toolkit.redfish.access import BmcTrust
from toolkit.redfish.http import BmcLimits
from toolkit.redfish.registry import RegistryCache

EVERY = sorted(PERSONAS)


@pytest.mark.parametrize("name", EVERY)
def test_the_settings_in_force_are_those_of_the_machine(name: str, simulate: Simulate) -> None:
    bmc = simulate(name)
    with bmc_on(bmc) as ours:
        frames = by_key(ours.read(RegistryCache()))
    assert json.loads(frames["bmc-bios"].text)["Attributes"] == bmc.machine.active
    assert frames["bmc-system"].state is State.OK
    assert frames["bmc-bios-pending"].state is State.OK


@pytest.mark.parametrize("name", EVERY)
def test_sushy_alone_reads_the_same(name: str, simulate: Simulate) -> None:
    bmc = simulate(name)
    bmc.machine.pending |= CHANGES[name]
    with bmc_on(bmc) as ours:
        frames = by_key(ours.read(RegistryCache()))
    with sushy_on(bmc) as root:
        bios = system_of(root).bios
        assert json.loads(frames["bmc-bios"].text)["Attributes"] == bios.attributes
        waiting = json.loads(frames["bmc-bios-pending"].text)["Attributes"]
        assert waiting.items() >= CHANGES[name].items()
        if name != "gigabyte":  # which announces no pending resource, and sushy looks no further
            assert waiting == bios.pending_attributes


@pytest.mark.parametrize("name", EVERY)
def test_reading_writes_nothing_and_leaves_no_session(name: str, simulate: Simulate) -> None:
    bmc = simulate(name)
    with bmc_on(bmc) as ours:
        ours.read(RegistryCache())
        assert ours.http.line.connected == 1
    assert (bmc.log.writes, bmc.sessions, bmc.logins) == ((), 0, 1)


def test_where_a_bmc_has_no_sessions_the_password_goes_with_each_request(
    simulate: Simulate,
) -> None:
    bmc = simulate("dell", session_service=False)
    with bmc_on(bmc) as ours:
        assert by_key(ours.read(RegistryCache()))["bmc-bios"].state is State.OK
    assert bmc.log.of("POST") == ()
    with pytest.raises(BmcLogin), bmc_on(bmc, password="wrong") as ours:  # noqa: S106 # wrong
        ours.read(RegistryCache())


@pytest.mark.parametrize("name", EVERY)
def test_the_frames_survive_being_saved(name: str, simulate: Simulate) -> None:
    bmc = simulate(name)
    with bmc_on(bmc) as ours:
        evidence = Evidence({}, complete=True).plus(ours.read(RegistryCache()))
    assert Evidence.parse(evidence.dump()) == evidence


def test_what_is_said_of_the_bmc_itself(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        about = by_key(ours.read(RegistryCache()))["bmc"].text
    lines = dict(line.split(" ", 1) for line in about.splitlines())
    assert lines["address"] == bmc.address
    assert lines["verified"] == "ca"
    assert (lines["vendor"], lines["model"]) == ("Dell Inc.", "PowerEdge R750")
    assert lines["bios"]
    assert lines["bmc"]
    assert lines["registry-id"].startswith("BiosAttributeRegistry")


def test_a_pinned_certificate_needs_no_authority(simulate: Simulate) -> None:
    bmc = simulate("hpe", certificate=Certificate.SELF_SIGNED)
    with bmc_on(bmc, trust=BmcTrust(pins=("0" * 64, bmc.fingerprint))) as ours:
        assert "verified pinned" in by_key(ours.read(RegistryCache()))["bmc"].text


def test_without_verification_it_is_said(simulate: Simulate) -> None:
    bmc = simulate("hpe", certificate=Certificate.EXPIRED)
    with bmc_on(bmc, trust=BmcTrust(insecure=True)) as ours:
        assert "verified no" in by_key(ours.read(RegistryCache()))["bmc"].text


def test_a_registry_is_fetched_once_for_equal_machines(simulate: Simulate, tmp_path: Path) -> None:
    bmc, twin = simulate("dell"), simulate("dell")
    texts = []
    for each, cache in ((bmc, RegistryCache(tmp_path)), (twin, RegistryCache(tmp_path))):
        with bmc_on(each) as ours:
            texts.append(by_key(ours.read(cache))["bmc-bios-registry"].text)
    assert texts[0] == texts[1] != ""
    assert bmc.log.of("GET", "Registr")
    assert twin.log.of("GET", "Registr") == ()


def test_a_session_that_ended_is_entered_once_more(simulate: Simulate) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        ours.read(RegistryCache())
        bmc.expire()
        frames = by_key(ours.active())
    assert frames["bmc-bios"].state is State.OK
    assert (bmc.logins, bmc.sessions) == (2, 0)


def test_a_session_that_ends_each_time_is_not_entered_for_ever(simulate: Simulate) -> None:
    bmc = simulate("dell", session_timeout_s=-1)
    with (
        pytest.raises(Exception, match=r"refuses to let us in|401, also in a new session"),
        bmc_on(bmc) as ours,
    ):
        ours.read(RegistryCache())
    assert bmc.logins <= 2


def test_the_hash_of_a_password_is_no_evidence(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.machine.active |= {
        "SHA256SetupPassword": "19D28380D586B21F",
        "SHA256SetupPasswordSalt": 'a"b',
        "PasswordStatus": "Unlocked",
        "SetupPassword": None,
        "Password_0257": "of a Supermicro",
        "IscsiDev1Con1ChapSecret": "of a disk's portal",
        "Slot15_CHAPSecret": "likewise",
    }
    with bmc_on(bmc) as ours:
        attributes = json.loads(by_key(ours.read(RegistryCache()))["bmc-bios"].text)["Attributes"]
    assert attributes["SHA256SetupPassword"] == attributes["SHA256SetupPasswordSalt"] == "hidden"
    others = ("Password_0257", "Slot15_CHAPSecret", "IscsiDev1Con1ChapSecret")
    assert {attributes[each] for each in others} == {"hidden"}
    assert (attributes["PasswordStatus"], attributes["SetupPassword"]) == ("Unlocked", None)


@pytest.mark.parametrize("locked", [True, False])
def test_of_lockdown_only_its_own_word_is_taken(simulate: Simulate, locked: bool) -> None:
    bmc = simulate("dell", lockdown=locked)
    with bmc_on(bmc) as ours:
        frame = by_key(ours.read(RegistryCache()))["bmc-bios-lockdown"]
    word = "Enabled" if locked else "Disabled"
    assert json.loads(frame.text) == {"Lockdown.1.SystemLockdown": word}


def test_who_has_no_word_for_lockdown_is_not_taken_for_open(simulate: Simulate) -> None:
    with bmc_on(simulate("hpe")) as ours:
        assert by_key(ours.read(RegistryCache()))["bmc-bios-lockdown"].state is State.ABSENT


def test_the_registry_of_a_locked_machine_is_not_that_of_an_open_one(
    simulate: Simulate, tmp_path: Path
) -> None:
    cache = RegistryCache(tmp_path)
    texts = []
    for locked in (True, False):
        with bmc_on(simulate("dell", lockdown=locked)) as ours:
            texts.append(by_key(ours.read(cache))["bmc-bios-registry"].text)
    assert texts[0] != texts[1]


def test_a_registry_that_fails_spoils_nothing(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.STATUS, "GET", "/Registries", code=500, times=9)
    with bmc_on(bmc) as ours:
        frames = by_key(ours.read(RegistryCache()))
    registry = frames["bmc-bios-registry"]
    assert (registry.state, registry.exit) == (State.FAILED, 500)
    assert frames["bmc-bios"].state is State.OK


def test_what_a_bmc_calls_things_cannot_forge_a_frame(simulate: Simulate) -> None:
    bmc = simulate("dell")
    system, bios = bmc.persona.tree[bmc.persona.system], bmc.persona.tree[bmc.persona.bios]
    system["Model"] = "x\n= end ok 1\n"
    bios["AttributeRegistry"] = "y\n= bmc-bios ok z\n|{}"
    with bmc_on(bmc) as ours:
        evidence = Evidence({}, complete=True).plus(ours.read(RegistryCache()))
    assert Evidence.parse(evidence.dump()) == evidence


def test_a_secure_boot_resource_that_fails_spoils_nothing(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.fails(Kind.STATUS, "GET", "/SecureBoot", code=403, times=9)
    with bmc_on(bmc) as ours:
        frames = by_key(ours.read(RegistryCache()))
    assert frames["bmc-secureboot"].state is State.DENIED
    assert frames["bmc-bios"].state is State.OK


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Kind.HTML, State.FAILED),
        (Kind.GARBAGE, State.FAILED),
        (Kind.REDIRECT, State.FAILED),
        (Kind.HANG, State.TIMEOUT),
        (Kind.STATUS, State.DENIED),
    ],
)
@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/SecureBoot", "bmc-secureboot"),
        ("/Registries", "bmc-bios-registry"),
        ("/DellAttributes", "bmc-bios-lockdown"),
    ],
)
def test_what_stands_beside_the_settings_spoils_nothing_however_it_fails(
    simulate: Simulate, path: str, key: str, kind: Kind, told: State
) -> None:
    bmc = simulate("dell")
    bmc.fails(kind, "GET", path, code=401, times=99, location="https://elsewhere.invalid/")
    with bmc_on(bmc, limits=BmcLimits(5, 1, 20)) as ours:
        frames = by_key(ours.read(RegistryCache()))
    assert frames[key].state is told
    assert frames[key].text.startswith(bmc.address)
    others = {each.state for each in frames.values() if each.key != key}
    assert others == {State.OK}
    assert bmc.sessions == 0


def test_who_may_not_read_one_thing_leaves_no_session(simulate: Simulate) -> None:
    """A BMC that answers 401 where 403 is meant has the first session still."""
    bmc = simulate("dell")
    bmc.fails(Kind.STATUS, "GET", "/Bios", code=401, times=99)
    with pytest.raises(BmcRefused, match="401, also in a new session") as why, bmc_on(bmc) as ours:
        ours.read(RegistryCache())
    assert why.value.status == 401
    assert (bmc.logins, bmc.sessions) == (2, 0)


def test_a_password_that_was_changed_meanwhile_is_tried_once_more_and_no_further(
    simulate: Simulate,
) -> None:
    bmc = simulate("dell")
    with bmc_on(bmc) as ours:
        bmc.fails(Kind.STATUS, "GET", "/SecureBoot", code=401, times=99)
        bmc.fails(Kind.STATUS, "POST", "/Sessions", code=401, times=99)
        with pytest.raises(BmcLogin):
            ours.read(RegistryCache())
    assert len(bmc.log.of("POST", "/Sessions")) == 2
