"""What a node tells of its firmware and of the certificate, before anything is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.enrolling import DER, OTHER, FirmwareNode, fleet_of, print_of
from toolkit.errors import NoEvidence, ToolkitError
from toolkit.evidence import Evidence
from toolkit.facts.firmware.secureboot import parse_mok
from toolkit.features.enrol.plan import EnrolStanding, EnrolWish, standing
from toolkit.features.enrol.run import ask, look, script

PASSWORD = "bcdefghijklm"  # noqa: S105 for nodes that do not exist
Made = Callable[..., FirmwareNode]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(**firmware: bool | str) -> FirmwareNode:
        return FirmwareNode.made(tmp_path / "gpu01", **firmware)  # type: ignore[arg-type] # by name

    return make


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        pytest.param({"var/lib/dkms/mok.pub": DER}, "/var/lib/dkms/mok.pub", id="dkms"),
        pytest.param(
            {"var/lib/dkms/mok.pub": OTHER, "var/lib/shim-signed/mok/MOK.der": DER},
            "/var/lib/shim-signed/mok/MOK.der", id="ubuntu",
        ),
        pytest.param(
            {"var/lib/dkms/mok.pub": OTHER, "etc/pki/site.der": DER,
             "etc/dkms/framework.conf": b'mok_certificate="/nowhere/x.der"\n',
             "etc/dkms/framework.conf.d/site.conf": b'mok_certificate="/etc/pki/site.der"\n'},
            "/etc/pki/site.der", id="configured",
        ),
    ],
)  # fmt: skip
def test_the_certificate_that_dkms_signs_with(
    made: Made, files: dict[str, bytes], chosen: str
) -> None:
    node = made()
    for path, data in files.items():
        node.put(path, data)
    mok = parse_mok(ask(node, "look", None))
    assert (mok.path, mok.fingerprint) == (chosen, print_of(DER))


@pytest.mark.parametrize(
    ("line", "chosen"),
    [
        pytest.param("mok_certificate=/etc/pki/site.der # ours", "/etc/pki/site.der", id="remark"),
        pytest.param("mok_certificate=/etc/pki/site.der  ", "/etc/pki/site.der", id="blanks"),
        pytest.param('mok_certificate="/etc/pki/new.der"', "", id="one-that-is-yet-to-be-made"),
    ],
)
def test_no_certificate_stands_in_for_the_one_that_dkms_was_told_of(
    made: Made, line: str, chosen: str
) -> None:
    node = made()
    node.put("etc/pki/site.der", DER)
    node.put("var/lib/dkms/mok.pub", OTHER)
    node.put("etc/dkms/framework.conf", f"{line}\n")
    assert parse_mok(ask(node, "look", None)).path == chosen


def test_a_node_that_needs_no_key_needs_none_of_dkms(made: Made) -> None:
    [outcome] = look(fleet_of(gpu01=made(efi=False, lockdown="[none] integrity")), None)
    assert outcome.get().enrolling.standing is EnrolStanding.NEEDLESS


@pytest.mark.parametrize("program", ["mktemp", "base64"])
def test_a_node_without_room_for_the_certificate_is_told_apart(made: Made, program: str) -> None:
    node = made()
    answer = node.run(f"{program}() {{ return 1; }}\n{script('import', DER, PASSWORD)}")
    with pytest.raises(NoEvidence, match="could not be copied") as refused:
        parse_mok(Evidence.parse(answer.stdout))
    assert "room in /tmp" in refused.value.hint
    assert node.calls == []
    assert not Path("/certificate.der").exists()


@pytest.mark.parametrize("key", ["sig-enforce", "lockdown"])
def test_a_refused_answer_is_not_that_no_signatures_are_demanded(made: Made, key: str) -> None:
    text = made(efi=False, lockdown="[none]").run(script("look", DER, "")).stdout
    refused = re.sub(rf"(?m)^= {key} ok (.*)\n\|.*$", rf"= {key} denied \1", text)
    assert refused != text
    with pytest.raises(NoEvidence, match="permission denied"):
        parse_mok(Evidence.parse(refused))


def test_a_node_without_a_key_of_dkms_is_told_apart(made: Made) -> None:
    [outcome] = look(fleet_of(gpu01=made()), None)
    assert "no certificate that DKMS signs with" in str(outcome.error)


def test_a_lost_connection_is_never_taken_for_an_answer(made: Made) -> None:
    text = made().run(script("look", DER, "")).stdout
    assert (
        standing(parse_mok(Evidence.parse(text)), EnrolWish.LOOK).standing is EnrolStanding.MISSING
    )
    for cut in range(0, len(text) - 1, 7):
        with pytest.raises(ToolkitError):
            standing(parse_mok(Evidence.parse(text[:cut])), EnrolWish.LOOK)


def test_an_answer_whose_end_is_missing_is_never_whole(made: Made) -> None:
    """Though every frame came: the last may be one that was cut at a line's end."""
    whole = ask(made(), "look", DER)
    assert parse_mok(whole).path
    with pytest.raises(NoEvidence, match="did not run to its end"):
        parse_mok(replace(whole, complete=False))
