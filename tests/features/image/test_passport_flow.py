"""A passport laid into an image, read from whatever has one, and its signature as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.evidence.build import node
from tests.evidence.frames import ABSENT, Bad, Override
from tests.unit.passports import BORN
from toolkit.errors import UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.passport import PLACE, SIGNATURE, VERIFIED
from toolkit.features.image import run_passport as flow
from toolkit.features.image.io import disk as media_disk
from toolkit.features.image.io import media
from toolkit.features.image.io.media import ImageSource, Medium
from toolkit.features.image.run_passport import (
    make_passport,
    place_passport,
    read_passport,
    signature_of,
    try_signing,
)
from toolkit.node import text_signature
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.passport import known_key, sealed
from toolkit.want import Want


class Wire:
    name = "image"

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        raise AssertionError(script)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("signature", "laid"),
    [
        pytest.param("", {}, id="none"),
        pytest.param("seal\n", {SIGNATURE: "seal\n"}, id="as-it-is"),
        pytest.param("seal", {SIGNATURE: "seal\n"}, id="with-a-newline-behind-it"),
    ],
)
def test_it_is_placed_with_its_signature_beside_it(
    monkeypatch: pytest.MonkeyPatch, signature: str, laid: dict[str, str]
) -> None:
    placed: list[dict[str, str]] = []
    monkeypatch.setattr(flow, "place", lambda _, files: placed.append(files))
    place_passport(Wire(), BORN, signature)
    assert placed == [{PLACE: BORN.json(), **laid}]


def test_it_is_made_of_the_node_and_of_what_is_read_there(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, wire, found = Evidence({}, complete=True), Wire(), Node(node())
    monkeypatch.setattr(flow, "read_parts", lambda way: parts if way is wire else None)
    monkeypatch.setattr(flow, "passport_of", lambda *told: BORN if told == (found, parts) else None)
    assert make_passport(wire, found) is BORN


def test_what_is_signed_and_by_which_key(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Path, str]] = []

    def sign(key: Path, text: str) -> str:
        told.append((key, text))
        return "seal"

    looked: list[Path] = []
    monkeypatch.setattr(text_signature, "sign", sign)
    monkeypatch.setattr(text_signature, "refuse_no_key", looked.append)
    try_signing(Path("/k"))
    assert signature_of(BORN, Path("/k")) == "seal"
    known_key(Path("/keys"))
    assert [key for key, _ in told] == [Path("/k")] * 2
    assert (told[0][1] != BORN.json(), told[1][1]) == (True, BORN.json())
    assert looked == [Path("/keys")]


SIGNED: dict[str, Override] = {"passport": BORN.json(), "passport-sig": "seal\n"}
KEYS = Want(passport_key="/keys")


def born(frames: dict[str, Override], *, claims: str = "") -> Evidence:
    """What a node says; maybe also what only we may say."""
    read = node(frames)
    return read.plus([Frame(VERIFIED, State.OK, "?", claims)]) if claims else read


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("claims", ["", "good bob\n"])
def test_a_signature_is_looked_at_here_whatever_the_node_says(
    monkeypatch: pytest.MonkeyPatch, good: bool, claims: str
) -> None:
    asked: list[tuple[object, ...]] = []

    def check(*told: object) -> tuple[bool, str]:
        asked.append(told)
        return good, "alice"

    monkeypatch.setattr(text_signature, "check", check)
    found = sealed(born(SIGNED, claims=claims), KEYS)
    frame = found.frame(VERIFIED)
    assert (frame.state, frame.source, frame.text) == (
        State.OK, "/keys", f"{'good' if good else 'bad'} alice\n",
    )  # fmt: skip
    assert asked == [(Path("/keys"), BORN.json(), "seal\n")]
    assert found.complete


@pytest.mark.parametrize(
    ("frames", "state", "text"),
    [
        pytest.param(
            {**SIGNED, "passport-sig": ABSENT},
            State.OK,
            "bad the passport is not signed\n",
            id="not-signed",
        ),
        pytest.param(
            {**SIGNED, "passport-sig": Bad(State.DENIED, 1)}, State.DENIED, "", id="not-read"
        ),
        pytest.param({**SIGNED, "passport": ABSENT}, None, "", id="no-passport"),
    ],
)
def test_what_cannot_be_looked_at_is_told_as_it_is(
    frames: dict[str, Override], state: State | None, text: str
) -> None:
    found = sealed(born(frames, claims="good bob\n"), KEYS)
    assert (VERIFIED in found.frames) is (state is not None)
    if state is not None:
        frame = found.frame(VERIFIED)
        assert (frame.key, frame.state, frame.text) == (VERIFIED, state, text)


def test_nothing_is_looked_at_where_no_key_was_named() -> None:
    read = born(SIGNED, claims="good bob\n")
    assert sealed(read, Want()) is read


def test_a_disk_s_is_read_from_a_copy_that_is_mounted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    disk, seen, held = tmp_path / "disk", [], {PLACE: BORN.json().encode()}
    disk.write_bytes(b"x")

    class Staged:
        def read(self, path: str) -> bytes:
            if path not in held:
                raise FileNotFoundError(path)
            return held[path]

    @contextmanager
    def stage(source: ImageSource, *, progress: object) -> Iterator[Staged]:
        seen.append((source, progress))
        yield Staged()

    monkeypatch.setattr(media, "stage", stage)
    monkeypatch.setattr(media_disk, "is_disk", lambda _: True)
    heard = object()
    assert read_passport(disk, heard) == BORN  # type: ignore[arg-type] # it is only handed on
    assert seen == [(ImageSource(Medium.DISK, disk), heard)]
    held.clear()
    with pytest.raises(UsageError, match=f"{disk}: no {PLACE} in it"):
        read_passport(disk)


@pytest.mark.parametrize("spare", [-1, 0])
def test_what_is_too_large_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spare: int
) -> None:
    file = tmp_path / "passport.json"
    file.write_text(BORN.json())
    monkeypatch.setattr(flow, "_LARGEST", file.stat().st_size + spare)
    if spare:
        with pytest.raises(UsageError, match="too large for a passport"):
            read_passport(file)
    else:
        assert read_passport(file) == BORN


def test_a_link_in_a_root_that_leads_out_of_it_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text(BORN.json())
    place = tmp_path / "root" / PLACE.lstrip("/")
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="leads out of the root"):
        read_passport(tmp_path / "root")
    place.unlink()
    with pytest.raises(UsageError, match=f"no {PLACE} in it"):
        read_passport(tmp_path / "root")
    with pytest.raises(UsageError, match="no such file or folder"):
        read_passport(tmp_path / "nowhere")
    place.write_text(BORN.json())
    assert read_passport(tmp_path / "root") == BORN
