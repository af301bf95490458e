"""A request to enrol is made where it can be answered, once, and by nobody else's leave."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.enrolling import DER, OTHER, FirmwareNode, fleet_of, print_of
from toolkit.errors import NoEvidence, Outcome, Unsupported, UsageError
from toolkit.facts.firmware.secureboot import Enrolment, Mok, SecureBoot
from toolkit.features.enrol.cli import enrol_lines
from toolkit.features.enrol.plan import Enrolling, EnrolStanding, EnrolWish, standing
from toolkit.features.enrol.run import SAFE, look, make_password, request, revoke, script
from toolkit.report.table import Painter
from toolkit.verbs.access import Fleet

PASSWORD = "bcdefghijklm"  # noqa: S105 for nodes that do not exist
Made = Callable[..., FirmwareNode]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(name: str = "gpu01", **firmware: bool | str) -> FirmwareNode:
        return FirmwareNode.made(tmp_path / name, **firmware)  # type: ignore[arg-type] # by name

    return make


def one(outcomes: list[Outcome[Enrolling]]) -> Enrolling:
    [outcome] = outcomes
    return outcome.get()


def requested(fleet: Fleet, password: str = PASSWORD) -> list[Outcome[Enrolling]]:
    return request(fleet, look(fleet, DER), DER, password)


UNKNOWN = Mok(True, True, True, SecureBoot.ON, "", "given", "f", Enrolment.NOT_ENROLLED)
ENROLLED = replace(UNKNOWN, enrolment=Enrolment.ENROLLED)
WAITING = replace(UNKNOWN, enrolment=Enrolment.PENDING)


@pytest.mark.parametrize(
    ("mok", "wish", "stands", "found"),
    [
        pytest.param(replace(WAITING, after=Enrolment.PENDING), EnrolWish.IMPORT,
                     EnrolStanding.WAITS, "requested earlier", id="waited-before-it-was-asked"),
        pytest.param(replace(UNKNOWN, after=Enrolment.PENDING), EnrolWish.IMPORT,
                     EnrolStanding.WAITS, "requested now", id="asked-now"),
        pytest.param(replace(ENROLLED, after=Enrolment.ENROLLED), EnrolWish.IMPORT,
                     EnrolStanding.ENROLLED, "known to firmware", id="known-before"),
        pytest.param(replace(ENROLLED, efi=False, shim=False), EnrolWish.LOOK,
                     EnrolStanding.ENROLLED, "known to firmware", id="known-to-a-kernel-by-bios"),
        pytest.param(replace(UNKNOWN, efi=False), EnrolWish.LOOK,
                     EnrolStanding.NEEDLESS, "booted by BIOS", id="by-bios"),
        pytest.param(ENROLLED, EnrolWish.REVOKE,
                     EnrolStanding.ENROLLED, "enrolled already: mokutil --delete", id="too-late"),
        pytest.param(UNKNOWN, EnrolWish.REVOKE,
                     EnrolStanding.NEEDLESS, "nothing waited", id="nothing-to-revoke"),
    ],
)  # fmt: skip
def test_where_a_certificate_stands(
    mok: Mok, wish: EnrolWish, stands: EnrolStanding, found: str
) -> None:
    told = standing(mok, wish)
    assert (told.standing, told.found.startswith(found)) == (stands, True)


def test_looking_changes_nothing(made: Made) -> None:
    node = made()
    [outcome] = look(fleet_of(gpu01=node), DER)
    assert outcome.get().enrolling.standing is EnrolStanding.MISSING
    assert set(node.calls) == {"--test-key", "--list-new"}


def test_a_request_is_made_and_waits(made: Made) -> None:
    node = made()
    found = one(requested(fleet_of(gpu01=node)))
    assert (found.standing, found.todo) == (EnrolStanding.WAITS, "reboot, and confirm")
    assert node.read("mok/new").split() == [print_of(DER)]
    assert node.read("mok/auth") == f"$6$hash-of-{PASSWORD}\n"
    assert node.read("mok/mode").startswith("-rw-------")


def test_the_password_is_in_no_command_line_and_in_no_file_that_stays(made: Made) -> None:
    node = made()
    requested(fleet_of(gpu01=node))
    assert PASSWORD not in node.read("mok/calls")
    assert PASSWORD in node.scripts[-1]  # by standard input alone
    assert PASSWORD not in node.scripts[0]  # and only once it is needed


def test_roots_own_password_needs_none_of_ours(made: Made) -> None:
    node = made()
    assert one(requested(fleet_of(gpu01=node), "")).standing is EnrolStanding.WAITS
    assert node.read("mok/auth") == "root\n"


def test_a_second_request_changes_nothing(made: Made) -> None:
    node = made()
    fleet = fleet_of(gpu01=node)
    requested(fleet)
    before = node.read("mok/auth")
    found = one(requested(fleet, "ponmlkjihgfe"))
    assert (found.standing, node.read("mok/auth")) == (EnrolStanding.WAITS, before)
    assert found.found == "requested earlier, by the password of that time"
    assert node.calls.count("--import") == 1


def test_an_enrolled_certificate_is_left_alone(made: Made) -> None:
    node = made()
    node.put("mok/list", print_of(DER))
    assert one(requested(fleet_of(gpu01=node))).standing is EnrolStanding.ENROLLED
    assert "--import" not in node.calls


def test_the_request_of_somebody_else_keeps_its_password(made: Made) -> None:
    node = made()
    node.put("mok/new", print_of(OTHER) + "\n")
    [outcome] = requested(fleet_of(gpu01=node))
    assert isinstance(outcome.error, Unsupported)
    assert "another certificate waits" in str(outcome.error)
    assert "--import" not in node.calls


def test_a_request_is_revoked(made: Made) -> None:
    node = made()
    fleet = fleet_of(gpu01=node)
    requested(fleet)
    found = one(revoke(fleet, look(fleet, DER, EnrolWish.REVOKE), DER))
    assert (found.standing, found.found) == (EnrolStanding.NEEDLESS, "the request is revoked")
    assert node.read("mok/new") == ""


def test_what_does_not_wait_is_not_revoked(made: Made) -> None:
    node = made()
    fleet = fleet_of(gpu01=node)
    assert one(revoke(fleet, look(fleet, DER, EnrolWish.REVOKE), DER)).found == "nothing waited"
    assert "--revoke-import" not in node.calls


def test_nobody_elses_request_is_revoked_with_ours(made: Made) -> None:
    node = made()
    node.put("mok/new", f"{print_of(OTHER)}\n{print_of(DER)}\n")
    fleet = fleet_of(gpu01=node)
    [outcome] = revoke(fleet, look(fleet, DER, EnrolWish.REVOKE), DER)
    assert outcome.error is not None
    assert print_of(OTHER) in str(outcome.error)
    assert "--revoke-import" not in node.calls


def test_a_request_made_since_we_looked_keeps_its_password(made: Made) -> None:
    """Between looking and asking lies the operator's yes, and other operators do not wait."""
    node = made()
    fleet = fleet_of(gpu01=node)
    looked = look(fleet, DER)
    node.put("mok/new", print_of(OTHER) + "\n")
    [outcome] = request(fleet, looked, DER, PASSWORD)
    assert isinstance(outcome.error, Unsupported)
    assert f"another certificate waits for the console already: {print_of(OTHER)}" in str(
        outcome.error
    )
    assert "--import" not in node.calls


def test_a_request_made_since_we_looked_is_not_revoked_with_ours(made: Made) -> None:
    node = made()
    fleet = fleet_of(gpu01=node)
    requested(fleet)
    looked = look(fleet, DER, EnrolWish.REVOKE)
    node.put("mok/new", f"{print_of(DER)}\n{print_of(OTHER)}\n")
    [outcome] = revoke(fleet, looked, DER)
    assert outcome.error is not None
    assert print_of(OTHER) in str(outcome.error)
    assert "--revoke-import" not in node.calls


def test_where_only_others_wait_there_is_nothing_to_revoke(made: Made) -> None:
    node = made()
    node.put("mok/new", print_of(OTHER) + "\n")
    fleet = fleet_of(gpu01=node)
    assert one(revoke(fleet, look(fleet, DER, EnrolWish.REVOKE), DER)).found == "nothing waited"
    assert "--revoke-import" not in node.calls


def test_a_request_that_stays_is_told_how_to_go_and_no_enrolled_key_goes_with_it(
    made: Made,
) -> None:
    """mokutil --reset would have MokManager drop every key that is enrolled."""
    node = made()
    fleet = fleet_of(gpu01=node)
    requested(fleet)
    node.put("mok/stuck", "")
    [outcome] = revoke(fleet, look(fleet, DER, EnrolWish.REVOKE), DER)
    assert isinstance(outcome.error, NoEvidence)
    assert str(outcome.error) == "the request still waits"
    assert "--revoke-import" in outcome.error.hint
    assert "--reset" not in outcome.error.hint


@pytest.mark.parametrize(
    ("firmware", "found"),
    [
        pytest.param({"efi": False, "lockdown": "[none] integrity"},
                     "booted by BIOS, or EFI is hidden; the kernel takes modules without signature",
                     id="bios"),
        pytest.param({"shim": False, "secure": False, "lockdown": "[none] integrity"},
                     "no shim started this kernel; the kernel takes modules without signature",
                     id="efi-without-shim"),
    ],
)  # fmt: skip
def test_where_no_key_is_asked_for_none_is_enrolled(
    made: Made, firmware: dict[str, bool | str], found: str
) -> None:
    node = made(**firmware)
    outcome = one(requested(fleet_of(gpu01=node)))
    assert (outcome.standing, outcome.found) == (EnrolStanding.NEEDLESS, found)
    assert "--import" not in node.calls


@pytest.mark.parametrize(
    ("firmware", "said", "hint"),
    [
        pytest.param({"efi": False, "lockdown": "[none]", "sig_enforce": "Y"},
                     "booted by BIOS.*yet module.sig_enforce", "built into it", id="bios"),
        pytest.param({"shim": False}, r"no shim.*yet lockdown \(integrity\)", "db", id="no-shim"),
    ],
)  # fmt: skip
def test_where_mokmanager_cannot_ask_it_is_said(
    made: Made, firmware: dict[str, bool | str], said: str, hint: str
) -> None:
    [outcome] = requested(fleet_of(gpu01=made(**firmware)))
    assert isinstance(outcome.error, Unsupported)
    assert re.search(said, str(outcome.error))
    assert hint in outcome.error.hint


def test_with_secure_boot_off_it_is_said_when_it_counts(made: Made) -> None:
    node = made(secure=False, lockdown="[none] integrity")
    found = one(requested(fleet_of(gpu01=node)))
    assert found.standing is EnrolStanding.WAITS
    assert found.secure_boot is SecureBoot.OFF
    assert found.found.endswith("it counts once that is on")


def test_hidden_firmware_variables_are_no_answer(made: Made) -> None:
    node = made()
    for path in (node.root / "sys/firmware/efi/efivars").iterdir():
        path.unlink()
    [outcome] = requested(fleet_of(gpu01=node))
    assert isinstance(outcome.error, NoEvidence)
    assert "efivarfs" in outcome.error.hint


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param("full", "Failed to enroll new keys", id="refused"),
        pytest.param("lost", "mokutil took the request, and the certificate is not", id="no-room"),
    ],
)
def test_a_request_that_did_not_take_is_no_success(made: Made, state: str, said: str) -> None:
    node = made()
    node.put(f"mok/{state}", "")
    [outcome] = requested(fleet_of(gpu01=node))
    assert isinstance(outcome.error, NoEvidence)
    assert said in str(outcome.error)


def test_without_mokutil_nothing_is_known(made: Made) -> None:
    node = made()
    (node.root / "bin/mokutil").unlink()
    [outcome] = look(fleet_of(gpu01=node), DER)
    assert isinstance(outcome.error, NoEvidence)
    assert "mokutil" in str(outcome.error)


def test_where_root_has_no_such_password_another_is_the_way_out(made: Made) -> None:
    """Most distributions of today keep it by yescrypt, which mokutil does not know."""
    node = made()
    node.put("mok/yescrypt", "")
    [outcome] = requested(fleet_of(gpu01=node), "")
    assert isinstance(outcome.error, NoEvidence)
    assert "Failed to get root password hash" in str(outcome.error)
    assert "leave out --root-pw" in outcome.error.hint


@pytest.mark.parametrize(
    "word", ["short", "with blank", "it's-quoted", "x" * 257, "ünicode-password"]
)
def test_a_password_that_no_console_takes_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="8 to 256 printable ASCII"):
        script("import", DER, word)


def test_our_passwords_are_the_same_on_all_keyboards() -> None:
    words = {make_password() for _ in range(50)}
    assert len(words) == 50
    assert all(set(word) <= set(SAFE) and len(word) == 12 for word in words)
    assert not set(SAFE) & set("aqwzym0123456789")  # which other layouts have elsewhere


def test_the_operator_is_told_what_to_do_at_the_console(made: Made) -> None:
    waiting, known = made("gpu01"), made("gpu02")
    known.put("mok/list", print_of(DER))
    fleet = fleet_of(gpu01=waiting, gpu02=known)
    text = "\n".join(enrol_lines(requested(fleet), Painter(coloured=False)))
    assert re.search(r"^gpu01  waits for the console  Secure Boot: on  requested now", text, re.M)
    assert re.search(r"^gpu02  enrolled ", text, re.M)
    assert "1 node waits" in text
    assert "Enroll MOK > Continue > Yes > the password > Reboot" in text
    assert PASSWORD not in text
