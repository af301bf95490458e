"""What an operator says of BMCs: maps, secrets, and what makes no sense."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.cli.bmc import bmc_access
from toolkit.cli.options import BMC_PASSWORD, BMC_USER, Said
from toolkit.errors import InventoryError, UsageError
from toolkit.hosts.host import Host
from toolkit.redfish.access import BmcAccess, BmcPlace, BmcTrust, Login, read_map
from toolkit.ssh.credentials import read_secret_file

PIN = "ab" * 32


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BMC_USER, raising=False)
    monkeypatch.delenv(BMC_PASSWORD, raising=False)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text("hunter2\nand a note\n")
    file.chmod(0o600)
    return file


def mapped(tmp_path: Path, text: str) -> dict[str, BmcPlace]:
    file = tmp_path / "bmcs"
    file.write_text(text)
    return read_map(file)


def test_a_map_has_sets_comments_and_fingerprints(tmp_path: Path) -> None:
    found = mapped(
        tmp_path,
        f"# rack 1\n\ngpu[001-002] bmc[001-002].oob:8443\nlogin1 [fd00::7]:444 sha256:{PIN} # x\n",
    )
    assert found == {
        "gpu001": BmcPlace("bmc001.oob:8443"),
        "gpu002": BmcPlace("bmc002.oob:8443"),
        "login1": BmcPlace("[fd00::7]:444", PIN),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu1\n", "bmcs:1: 1 words"),
        ("\ngpu1 a b c\n", "bmcs:2: 4 words"),
        ("gpu[1-2] bmc[1-3]\n", "2 hosts and 3 BMCs"),
        ("gpu[1-2] bmc1\n", "2 hosts and 1 BMCs"),
        (f"gpu[1-2] bmc[1-2] {PIN}\n", "one fingerprint for many BMCs"),
        ("gpu1 10.0.0.1 sha1:00\n", "is no SHA-256 fingerprint"),
        ("gpu1 10.0.0.1\ngpu1 10.0.0.2\n", "bmcs:2: gpu1 has two BMCs"),
        ("gpu1 root@10.0.0.1\n", "name the BMC alone"),
        ("gpu1 http://10.0.0.1\n", "over TLS alone"),
        ("gpu1 -oProxy\n", "is not the name of a host"),
        ("gpu[ bmc1\n", "is not the name of a host"),
        ("# nothing\n", "names no BMC"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InventoryError) as told:
        mapped(tmp_path, text)
    assert words in str(told.value)


def test_a_map_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="cannot be read: No such file"):
        read_map(tmp_path / "none")


def test_the_map_goes_over_the_inventory_and_others_have_none() -> None:
    told = BmcAccess(Login("u", "p"), BmcTrust(ca="x"), {"gpu1": BmcPlace("10.0.0.9", PIN)})
    placed = told.placed([Host("gpu1", bmc="10.0.0.1"), Host("gpu2", bmc="10.0.0.2"), Host("gpu3")])
    assert {name: each.address for name, each in placed.items()} == {
        "gpu1": "10.0.0.9",
        "gpu2": "10.0.0.2",
    }
    assert [each.trust.verified for each in placed.values()] == ["pinned", "ca"]


def test_a_password_file_gives_its_first_line(secret: Path) -> None:
    assert read_secret_file(secret) == "hunter2"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_password_that_others_can_read_or_write_is_none(secret: Path, mode: int) -> None:
    secret.chmod(mode)
    with pytest.raises(UsageError, match="others may read it") as told:
        read_secret_file(secret)
    assert "hunter2" not in f"{told.value}{told.value.hint}"


def test_a_link_counts_as_what_it_leads_to(secret: Path) -> None:
    link = secret.with_name("link")
    link.symlink_to(secret)
    assert read_secret_file(link) == "hunter2"
    secret.chmod(0o644)
    with pytest.raises(UsageError, match="others may read it"):
        read_secret_file(link)


def test_no_file_an_empty_file_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch(0o600)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, words in (("none", "No such file"), ("empty", "is empty"), ("pipe", "is no file")):
        with pytest.raises(UsageError, match=words):
            read_secret_file(tmp_path / name)


def test_nothing_said_asks_no_bmc() -> None:
    assert bmc_access(Said({})) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("bmc_map", "m"), ("bmc_insecure", True), ("bmc_pin", PIN), ("bmc_pass_fd", "0")],
)
def test_who_says_how_says_who(name: str, value: str | bool) -> None:
    option = name.replace("_", "-")
    with pytest.raises(UsageError, match=f"--{option} without a user"):
        bmc_access(Said({name: value}))


def test_without_a_password_it_is_said_where_one_may_lie() -> None:
    with pytest.raises(UsageError, match="no password for the BMCs") as told:
        bmc_access(Said({"bmc_user": "ops"}))
    assert BMC_PASSWORD in told.value.hint


def test_a_password_of_the_environment_is_taken_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BMC_USER, "ops")
    monkeypatch.setenv(BMC_PASSWORD, "hunter2")
    told = bmc_access(Said({}))
    assert told is not None
    assert told.login == Login("ops", "hunter2")
    assert BMC_PASSWORD not in os.environ
    assert "hunter2" not in repr(told)


def test_a_password_of_a_file(secret: Path) -> None:
    told = bmc_access(Said({"bmc_user": "ops", "bmc_password_file": str(secret)}))
    assert told is not None
    assert told.login.password == "hunter2"  # noqa: S105 the fixture's


def test_a_password_of_a_descriptor(secret: Path) -> None:
    with secret.open() as opened:
        told = bmc_access(Said({"bmc_user": "ops", "bmc_pass_fd": str(opened.fileno())}))
    assert told is not None
    assert told.login.password == "hunter2"  # noqa: S105 the fixture's


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"bmc_insecure": True, "bmc_pin": PIN}, "beside what BMCs are known by"),
        ({"bmc_insecure": True, "bmc_ca": "/dev/null"}, "holds no CA certificate"),
        ({"bmc_pin": "zz"}, "is no SHA-256 fingerprint"),
        ({"bmc_ca": "/nonexistent"}, "cannot be read"),
        ({"bmc_timeout": "0"}, "at least 1 second"),
        ({"bmc_timeout": "soon"}, "not a whole number"),
        ({"bmc_map": "/nonexistent"}, "cannot be read"),
        ({"bmc_pass_fd": "0"}, "--bmc-pass-fd and --bmc-password-file"),
    ],
)
def test_what_makes_no_sense_is_refused(
    secret: Path, more: dict[str, str | int | bool], words: str
) -> None:
    said = {"bmc_user": "ops", "bmc_password_file": str(secret), **more}
    with pytest.raises(UsageError, match=words):
        bmc_access(Said(said))


def test_all_that_was_said_is_heeded(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.redfish.access.check_ca", str)  # whatever it holds
    (tmp_path / "map").write_text("gpu1 bmc1\n")
    said: dict[str, str | int | bool]
    said = {"bmc_user": "ops", "bmc_password_file": str(secret), "bmc_ca": "/ca"}
    login, pins = Login("ops", "hunter2"), (PIN, "cd" * 32)
    assert bmc_access(Said(said)) == BmcAccess(login, BmcTrust(ca="/ca"), {}, 120)
    more = {"bmc_pin": f"{PIN},,{pins[1]}", "bmc_timeout": "1", "bmc_map": str(tmp_path / "map")}
    places = {"gpu1": BmcPlace("bmc1")}
    assert bmc_access(Said({**said, **more})) == BmcAccess(
        login, BmcTrust(pins, ca="/ca"), places, 1
    )
    with pytest.raises(UsageError, match="beside what BMCs are known by"):
        bmc_access(Said({**said, "bmc_insecure": True}))


@pytest.mark.parametrize("name", ["bmc_timeout", "bmc_pass_fd"])
def test_what_has_a_usual_value_says_nothing_of_bmcs(name: str) -> None:
    assert bmc_access(Said({name: "-1"})) is None


def test_who_asks_no_bmc_does_not_pay_for_redfish() -> None:
    words = "import sys, toolkit.cli; print('sushy' in sys.modules or 'requests' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
