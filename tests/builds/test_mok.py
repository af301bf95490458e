"""A key is enrolled as the toolkit says: by real mokutil, real shim, and MokManager's own menu."""

from __future__ import annotations

import pytest

from tests.builds.secure_guest import PASSWORD, Story
from toolkit.evidence import Evidence
from toolkit.facts.firmware.secureboot import Enrolment, Mok, SecureBoot, parse_mok
from toolkit.features.enrol.plan import AT_THE_CONSOLE, EnrolStanding, EnrolWish, standing

pytestmark = [pytest.mark.builds, pytest.mark.uefi]


def told(story: Story, name: str) -> Mok:
    return parse_mok(Evidence.parse(story.parts[name]))


def test_before_the_certificate_is_missing(story: Story) -> None:
    mok = told(story, "look")
    assert (mok.efi, mok.shim, mok.secure_boot) == (True, True, SecureBoot.ON)
    found = standing(mok, EnrolWish.LOOK)
    assert found.standing is EnrolStanding.MISSING
    assert story.parts["list-new look"].split("%%")[0].strip() == ""


def test_a_request_is_in_the_firmware(story: Story) -> None:
    mok = told(story, "import")
    assert standing(mok, EnrolWish.IMPORT).standing is EnrolStanding.WAITS
    assert mok.after is Enrolment.PENDING
    assert "CN=Site modules" in story.parts["list-new import"].replace("CN = ", "CN=")


def test_a_revoked_request_is_gone(story: Story) -> None:
    mok = told(story, "revoke")
    assert mok.waiting == (mok.fingerprint,)
    assert standing(mok, EnrolWish.REVOKE).found == "the request is revoked"
    assert "Fingerprint" not in story.parts["list-new revoke"]


def test_it_can_be_requested_again(story: Story) -> None:
    mok = told(story, "again")
    assert mok.waiting == ()
    assert (mok.enrolment, mok.after) == (Enrolment.NOT_ENROLLED, Enrolment.PENDING)


def test_what_the_operator_is_told_leads_through_the_menu(story: Story) -> None:
    """The guest was led by these words; had one been wrong, it would still be waiting there."""
    way = AT_THE_CONSOLE[1].split(" > ")
    assert way == ["Enroll MOK", "Continue", "Yes", "the password", "Reboot"]
    assert standing(told(story, "enrolled"), EnrolWish.LOOK).standing is EnrolStanding.ENROLLED


def test_the_password_was_told_to_nobody_else(story: Story) -> None:
    assert not any(PASSWORD in text for text in story.parts.values())
