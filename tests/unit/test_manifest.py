"""What an entry of the cache should be, by the manifest that lies in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit import __version__
from toolkit.built.io.store import (
    MANIFEST,
    Damaged,
    Entry,
    digest_of,
    keepable,
    read_entry,
    read_manifest,
    write_manifest,
)
from toolkit.built.plan.model import BuiltFile
from toolkit.redfish.http import refused
from toolkit.redfish.reader import attributes_place, lockdown_words, one_line

ABOUT = (("kernel", "6.1"), ("a", "b"))
ENTRY = Entry(ABOUT, (BuiltFile("b.ko", b"two"), BuiltFile("a.ko", b"one")))


def lay(place: Path) -> str:
    place.mkdir()
    (place / MANIFEST).write_bytes(write_manifest(ENTRY))
    for each in ENTRY.files:
        (place / each.name).write_bytes(each.data)
    return digest_of(ABOUT)


def test_what_a_manifest_says() -> None:
    text = write_manifest(ENTRY)
    told = json.loads(text)
    assert datetime.fromisoformat(told.pop("made")).tzinfo is not None
    assert text.endswith(b"\n}\n")
    assert told == {
        "schema": "gdr-toolkit/cache/1",
        "toolkit": __version__,
        "inputs": {"kernel": "6.1", "a": "b"},
        "files": [
            {"name": "a.ko", "size": 3, "sha256": sha256(b"one").hexdigest()},
            {"name": "b.ko", "size": 3, "sha256": sha256(b"two").hexdigest()},
        ],
    }
    found = read_manifest(text)
    assert found.about == ABOUT
    assert found.sums == tuple((each.name, 3, each.sha256) for each in reversed(ENTRY.files))


def test_an_entry_is_what_its_manifest_says(tmp_path: Path) -> None:
    digest = lay(tmp_path / "e")
    assert digest == sha256(b'{"a":"b","kernel":"6.1"}').hexdigest()
    found = read_entry(tmp_path / "e", digest)
    assert (found.about, found.files) == (ABOUT, tuple(reversed(ENTRY.files)))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda e: (e / "a.ko").write_bytes(b"ono"), "a.ko is not the file that was kept"),
        (lambda e: (e / "a.ko").write_bytes(b"long"), "a.ko has 4 bytes and should have 3"),
        (lambda e: (e / "a.ko").unlink(), "its manifest and its folder differ in a.ko"),
        (lambda e: (e / "z").touch(), "its manifest and its folder differ in z"),
        (lambda e: (e / MANIFEST).unlink(), f"{MANIFEST}: No such file or directory"),
        (lambda e: (e / MANIFEST).write_text("{}"), "its manifest cannot be read"),
        (lambda e: (e / MANIFEST).write_text("x"), "its manifest cannot be read"),
        (lambda e: (e / MANIFEST).write_text("[]"), "its manifest cannot be read"),
        (
            lambda e: (e / "a.ko").unlink() or os.mkfifo(e / "a.ko"),  # type: ignore[func-returns-value]  # both are done
            "a.ko is no file",
        ),
        (
            lambda e: ((e / "a.ko").unlink(), (e / "a.ko").symlink_to("b.ko")),
            "a.ko: Too many levels of symbolic links",
        ),
    ],
)
def test_an_entry_that_is_damaged(
    tmp_path: Path, harm: Callable[[Path], object], says: str
) -> None:
    digest = lay(tmp_path / "e")
    harm(tmp_path / "e")
    with pytest.raises(Damaged) as raised:
        read_entry(tmp_path / "e", digest)
    assert str(raised.value) == says


def test_an_entry_of_another_build(tmp_path: Path) -> None:
    lay(tmp_path / "e")
    with pytest.raises(Damaged, match="is that of another build"):
        read_entry(tmp_path / "e", digest_of((("kernel", "6.2"),)))


def told(**more: object) -> bytes:
    row = {"schema": "gdr-toolkit/cache/1", "inputs": {}, "files": []}
    return json.dumps(row | more).encode()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (told(schema="x" * 50), f"its manifest is of another kind, {'x' * 40!r}"),
        (told(inputs=[]), "its manifest cannot be read"),
        (told(files=[{}]), "its manifest cannot be read"),
        (
            told(files=[{"name": "../x", "size": 1, "sha256": ""}]),
            "its manifest names files that we never keep",
        ),
    ],
)
def test_a_manifest_that_is_none(text: bytes, says: str) -> None:
    with pytest.raises(Damaged) as raised:
        read_manifest(text)
    assert str(raised.value) == says


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("a.ko", True),
        ("make.log", True),
        (MANIFEST, False),
        ("a/b", False),
        (".a", False),
        ("", False),
    ],
)
def test_names_that_are_kept(name: str, kept: bool) -> None:
    assert keepable([name]) is kept
    assert keepable(["a.ko", name]) is kept
    assert keepable([])


def answer(status: int, body: object) -> Any:
    return SimpleNamespace(
        status_code=status,
        json=lambda: body,
        text=json.dumps(body),
        content=json.dumps(body).encode(),
        headers={},
    )


def error(*infos: dict[str, object], **more: object) -> dict[str, object]:
    return {"error": {"@Message.ExtendedInfo": list(infos), **more}}


@pytest.mark.parametrize(
    ("status", "body", "says", "codes"),
    [
        (400, {}, "400 Bad Request", ()),
        (799, {}, "799 ", ()),
        (
            400,
            error(
                {"MessageId": "Base.1.8.PropertyNotWritable", "Message": "first\n one"},
                {"MessageId": "Base.1.8.PropertyNotWritable", "Message": "second"},
                {"Message": "second"},
            ),
            "400 first one; second",
            ("PropertyNotWritable",),
        ),
        (
            400,
            {"error": {"code": "Base.1.0.GeneralError", "message": "told"}},
            "400 told",
            ("GeneralError",),
        ),
        (400, error({"MessageId": "A.1.0.B", "Message": "x" * 400}), "400 " + "x" * 300, ("B",)),
        (400, error({"Message": "a"}, {}, {"Message": "b"}), "400 a; b", ()),
        (400, error({"MessageId": "A.1.0.B"}), "400 B", ("B",)),
        (
            400,
            error({"Message": "%1 is no %2; %3", "MessageArgs": ["x", 7]}),
            "400 x is no 7; %3",
            (),
        ),
        (400, {"@Message.ExtendedInfo": {"Message": "one alone"}}, "400 one alone", ()),
    ],
)
def test_a_bmc_refuses_in_its_own_words(
    status: int, body: object, says: str, codes: tuple[str, ...]
) -> None:
    found = refused("bmc1", "change", answer(status, body))
    assert str(found) == f"bmc1: change: {says}"
    assert (found.status, found.codes) == (status, codes)


def manager(oem: object, path: str = "/redfish/v1/Managers/1/") -> Any:
    return SimpleNamespace(body={"Links": {"Oem": oem}}, path=path)


def listed(*paths: str) -> dict[str, object]:
    return {"X": {"DellAttributes": [{"@odata.id": each} for each in paths]}}


@pytest.mark.parametrize(
    ("oem", "place"),
    [
        (listed("/a/System.1", "/a/1/", "/b/1"), "/a/1/"),
        (listed("/a/System.1", "/a/2"), "/a/System.1"),
        (listed(), ""),
        ({"X": {"Others": [{"@odata.id": "/x"}]}}, ""),
        ({"X": {"DellAttributes": {"@odata.id": "/x"}}}, ""),
        ({"X": [], "Y": listed("/y")["X"]}, "/y"),
        ([], ""),
        (None, ""),
    ],
)
def test_where_a_bmc_keeps_settings_of_its_own(oem: object, place: str) -> None:
    assert attributes_place(manager(oem)) == place


def test_words_of_lockdown() -> None:
    rows = {"Lockdown.1.SystemLockdown": "Enabled", "X.LockDown": 1, "Other": "Enabled"}
    assert lockdown_words({"Attributes": rows}) == {"Lockdown.1.SystemLockdown": "Enabled"}
    assert lockdown_words({"Attributes": []}) == {}
    assert one_line(" a\n b ") == "a b"
