"""The script that requests an enrolment, under each shell that nodes have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from tests.unit.enrolling import DER, OTHER, FirmwareNode, print_of
from toolkit.facts.firmware.secureboot import parse_mok
from toolkit.features.enrol.plan import EnrolStanding, EnrolWish, standing
from toolkit.features.enrol.run import ask

pytestmark = pytest.mark.shell
PASSWORD = "bcdefghijklm"  # noqa: S105 for nodes that do not exist


@pytest.fixture(params=sorted(SHELLS))
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FirmwareNode:
    return FirmwareNode.made(tmp_path / "node", shell=SHELLS[request.param])


def test_look_request_and_revoke(node: FirmwareNode) -> None:
    before = parse_mok(ask(node, "look", DER))
    assert before.fingerprint == print_of(DER)
    assert standing(before, EnrolWish.LOOK).standing is EnrolStanding.MISSING
    assert standing(parse_mok(ask(node, "import", DER, PASSWORD)), EnrolWish.IMPORT).pending
    assert node.read("mok/auth") == f"$6$hash-of-{PASSWORD}\n"
    assert parse_mok(ask(node, "look", DER)).waiting == (print_of(DER),)
    revoked = standing(parse_mok(ask(node, "revoke", DER)), EnrolWish.REVOKE)
    assert revoked.standing is EnrolStanding.NEEDLESS
    assert node.read("mok/new") == ""


def test_the_certificate_of_dkms_is_read_where_it_lies(node: FirmwareNode) -> None:
    node.put("var/lib/dkms/mok.pub", DER)
    mok = parse_mok(ask(node, "look", None))
    assert (mok.path, mok.fingerprint) == ("/var/lib/dkms/mok.pub", print_of(DER))


@pytest.mark.parametrize("action", ["import", "revoke"])
def test_where_others_wait_nothing_is_done(node: FirmwareNode, action: str) -> None:
    node.put("mok/new", print_of(OTHER) + "\n")
    mok = parse_mok(ask(node, action, DER, PASSWORD if action == "import" else ""))
    assert mok.others == (print_of(OTHER),)
    assert set(node.calls) == {"--test-key", "--list-new"}


def test_nothing_is_left_behind(node: FirmwareNode, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(node, "import", DER, PASSWORD)
    folder = node.read("mok/mode").split()[-1].strip()
    assert folder.endswith("/hash")
    assert not Path(folder).exists()
    assert not Path(folder).parent.exists()
