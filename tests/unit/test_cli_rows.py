"""What verbs make of the words that were typed, each a row: numbers, pairs, secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.evidence.build import node
from tests.unit.rollout_world import frames
from toolkit.built.io.openssl import PIN
from toolkit.cli.options import Said
from toolkit.errors import UsageError
from toolkit.features.predict import cli
from toolkit.features.predict.plan.totals import TrainingJob
from toolkit.features.predict.show import _gain, _node, why
from toolkit.ssh.transport import Result
from toolkit.upgrade import Upgrade
from toolkit.verbs.cli import signing
from toolkit.verbs.cli.session import Session
from toolkit.verbs.cli.upgrade import upgrade_of, with_packages


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [
        ("1", 1), ("64k", 65536), ("1M", 1 << 20), ("2G", 2 << 30), ("1MiB", 1 << 20),
        ("3b", 3), ("1024G", 1 << 40), ("1025G", None), ("0", None), ("0K", None), ("M", None),
        ("-1", None), ("1T", None), ("1 M", None), ("12345678901234", None), ("x1M", None),
    ],
)  # fmt: skip
def test_sizes_of_messages(size: str, bytes_: int | None) -> None:
    if bytes_ is None:
        with pytest.raises(UsageError, match="is no size of a message"):
            cli._asked(Said({"size": size}))
    else:
        asked = cli._asked(Said({"size": size}))
        assert (asked.load.size, asked.load.depth, asked.job) == (bytes_, 128, None)


@pytest.mark.parametrize(
    ("depth", "right"),
    [
        ("1", True), ("128", True), (str(1 << 40), True),
        ("0", False), ("-1", False), (str(1 + (1 << 40)), False),
    ],
)  # fmt: skip
def test_depths_of_a_queue(depth: str, right: bool) -> None:
    said = Said({"size": "1M", "depth": depth})
    if right:
        assert cli._asked(said).load.depth == int(depth)
    else:
        with pytest.raises(UsageError, match="is no number of messages"):
            cli._asked(said)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"nodes": "16"}, "together"),
        ({"model_size": "70B"}, "together"),
        ({"nodes": "1", "model_size": "70B"}, "two nodes and one step"),
        ({"nodes": "2", "model_size": "70B", "steps": "0"}, "two nodes and one step"),
        ({"nodes": "x", "model_size": "70B"}, "whole number"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(words: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        cli._job(Said(dict(words)))


def test_a_job_is_its_nodes_parameters_and_steps() -> None:
    assert cli._job(Said({})) is None
    told: dict[str, str | int | bool] = {"nodes": "2", "model_size": "7B"}
    assert cli._job(Said(told)) == TrainingJob(2, 7e9, 100_000)
    assert cli._job(Said({**told, "steps": "1"})) == TrainingJob(2, 7e9, 1)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (0.0, 0.0, "="), (0.0, 1.0, "new"), (100.0, 100.4, "="), (100.0, 100.6, "+1%"),
        (100.0, 99.6, "="), (100.0, 99.4, "-1%"), (10.0, 25.0, "+150%"), (10.0, 5.0, "-50%"),
    ],
)  # fmt: skip
def test_what_a_wish_gains(old: float, new: float, told: str) -> None:
    assert _gain(old, new) == told


def figure(value: float, limit: str) -> SimpleNamespace:
    return SimpleNamespace(value=value, limit=limit, low=value, high=value, unit="GB/s",
                           figure=f"{value:g} GB/s")  # fmt: skip


@pytest.mark.parametrize(
    ("read", "ring", "told"),
    [
        ((48.0, "wire"), "wire", "limited by wire"),
        ((45.6, "wire"), "wire", "limited by wire"),
        ((45.5, "root"), "wire", "limited by wire; reads of GPU memory 4"),
        ((48.0, "wire"), "NVLink", "limited by wire; ring by NVLink"),
        ((48.0, "root"), "root", "limited by wire"),
    ],
)
def test_what_limits_is_named_once(read: tuple[float, str], ring: str, told: str) -> None:
    pair = SimpleNamespace(
        with_gdr=figure(48.0, "wire"), read=figure(*read), collective=figure(9.0, ring)
    )
    found = why(pair)  # type: ignore[arg-type] # all that it reads
    assert found.startswith(told)
    assert found.count(";") == told.count(";")


@pytest.mark.parametrize(
    ("words", "key", "environ", "told"),
    [
        ({"sign_pin_fd": "7"}, "k", "env", "fd 7"),
        ({"sign_pin_fd": "0"}, "k", "", "fd 0"),
        ({"ask_sign_pin": True}, "k", "env", "passphrase or PIN of k: , sign-pin-fd"),
        ({}, "k", "env", "env"),
        ({}, "plain", "env", None),
        ({}, "", "env", None),
        ({}, "k", "", None),
        ({}, "k", None, None),
        ({"sign_pin_fd": "-1"}, "k", "env", "env"),
    ],
)
def test_where_the_secret_of_a_key_comes_from(
    monkeypatch: pytest.MonkeyPatch,
    words: dict[str, str | int | bool], key: str, environ: str | None, told: str | None,
) -> None:  # fmt: skip
    def read(what: str | int, *, option: str = "") -> str:
        return f"fd {what}" if isinstance(what, int) else f"{what}, {option}"

    monkeypatch.setattr("toolkit.verbs.cli.session.read_secret", read)
    monkeypatch.setattr(signing, "takes_secret", lambda name: name == "k")
    monkeypatch.setenv(PIN, environ or "")
    if environ is None:
        monkeypatch.delenv(PIN)
    session = SimpleNamespace(said=Said(words))
    assert signing._secret(session, key) == told  # type: ignore[arg-type] # all that it reads


def test_what_is_remarkable_of_a_certificate_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[object] = []

    def open_signing(*told: object, **more: object) -> SimpleNamespace | None:
        heard.append((told, more))
        certificate = SimpleNamespace(remarks=("it ends soon",))
        return SimpleNamespace(signer=SimpleNamespace(certificate=certificate))

    monkeypatch.setattr(signing, "open_signing", open_signing)
    monkeypatch.setattr(signing, "_secret", lambda *_: "pin")
    now = datetime(2026, 11, 24, tzinfo=UTC)

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = replace(Session.begin("plan", Said({"sign_key": "k", "sign_cert": "c"})), now=now)
    assert signing.signing_of(session) is not None
    assert heard == [(("k", "c", "pin"), {"now": now})]
    assert capsys.readouterr().err == "note: it ends soon\n"
    monkeypatch.setattr(signing, "open_signing", lambda *_, **__: None)
    assert signing.signing_of(session) is None


@pytest.mark.parametrize(("blocked", "told"), [(("", ""), 40.0), (("", "no peermem"), 10.0)])
def test_one_pair_without_gpudirect_bounds_the_ring_of_all(
    blocked: tuple[str, ...], told: float
) -> None:
    found: Any = SimpleNamespace(nearest=[SimpleNamespace(blocked=each) for each in blocked])
    total: Any = SimpleNamespace(with_gdr=40.0, without_gdr=10.0)
    known: Any = _node(found, total)
    assert known == told


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({}, Upgrade()),
        ({"driver": "595.58"}, Upgrade(driver="595.58")),
        ({"driver": "595.58.03"}, Upgrade(driver="595.58.03")),
        ({"ofed": "26.04"}, Upgrade(ofed="26.04-1.0.0")),
        ({"ofed": "26.04-1.1.0"}, Upgrade(ofed="26.04-1.1.0")),
        ({"kernel": "6.8.0-90-generic"}, Upgrade(kernel="6.8.0-90-generic")),
        ({"firmware": "28.43.2566"}, Upgrade(firmware="28.43.2566")),
        ({"driver": "595"}, None), ({"driver": "v595.58"}, None), ({"driver": "595.58 "}, None),
        ({"ofed": "26"}, None), ({"ofed": "26.04-"}, None), ({"ofed": "126.04"}, None),
        ({"firmware": "28.43.256"}, None), ({"kernel": "newest"}, None),
    ],
)  # fmt: skip
def test_an_upgrade_is_named_by_versions_or_refused_with_one(
    words: dict[str, str], named: Upgrade | None
) -> None:
    said = Said(dict(words))
    if named is not None:
        assert upgrade_of(said) == named
        return
    ((name, value),) = words.items()
    with pytest.raises(UsageError, match=f"^--{name} '{value}' is no ") as why:
        upgrade_of(said)
    assert any(each.isdigit() for each in why.value.hint)


def test_a_node_is_asked_for_the_packages_that_an_upgrade_needs_and_for_nothing_else() -> None:
    class Repositories:
        name, asked, told = "gpu1", list[str](), frames("= packages ok apt", "|asked nvidia-open")

        def run(self, script: str, **_: object) -> Result:
            self.asked.append(script)
            return Result(0, self.told, "")

        def close(self) -> None: ...

    wire, before = Repositories(), node()
    assert with_packages(Upgrade(), wire, before) is before
    assert wire.asked == []
    wire.told = frames("= packages ok apt", "|asked nvidia-open", "= dmesg ok x", "|y")
    found = with_packages(Upgrade(driver="595.58"), wire, before)
    assert wire.asked[0].rstrip().endswith("\noffered nvidia-open")
    assert found.text("packages") == "asked nvidia-open\n"
    assert found.text("dmesg") == before.text("dmesg"), "and nothing else is taken from it"
    wire.told = frames()
    assert with_packages(Upgrade(driver="595.58"), wire, before).frames == before.frames
