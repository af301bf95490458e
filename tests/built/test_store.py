"""The cache of builds believes nothing that it has not verified, and loses nothing half-way."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolkit.built.delivery_cache import find, kept, to_built, to_entry
from toolkit.built.io.store import (
    MANIFEST,
    Damaged,
    Entry,
    Store,
    default_folder,
    digest_of,
    read_entry,
)
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.errors import ExitCode, UsageError

INPUTS = Inputs(
    Part.PEERMEM,
    "nvidia-peermem",
    "535.261.03",
    "6.1.0-49-amd64",
    "x86_64",
    source="a" * 64,
    headers="b" * 64,
    compiler="gcc-12 (Debian 12.2.0-14) 12.2.0",
    symvers="c" * 64,
    flags="",
    recipe="d" * 64,
)
BUILT = Built(
    INPUTS, (BuiltFile("make.log", b"CC [M]\n"), BuiltFile("nvidia-peermem.ko", b"\x7fELF" * 999))
)
MODULE = "nvidia-peermem.ko"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def _place(store: Store) -> Path:
    return store.folder / INPUTS.digest


def test_a_build_comes_back_as_it_was_kept(store: Store) -> None:
    store.keep(to_entry(BUILT))
    assert find(store, INPUTS).built == BUILT
    assert list(kept(store)) == [BUILT]


def test_what_was_never_kept_is_not_there(store: Store) -> None:
    assert find(store, INPUTS).built is None
    assert find(store, INPUTS).trouble == ""


def test_the_digest_of_the_store_is_that_of_the_inputs(store: Store) -> None:
    assert digest_of(to_entry(BUILT).about) == INPUTS.digest


@pytest.mark.parametrize("name", sorted(INPUTS.__struct_fields__))
def test_each_input_makes_another_build(store: Store, name: str) -> None:
    store.keep(to_entry(BUILT))
    value = Part.GDRDRV if name == "part" else "other"
    other = replace(INPUTS, **{name: value})
    assert find(store, other).built is None


def test_what_is_not_used_since_that_very_moment_goes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.keep(to_entry(BUILT))
    [row] = store.rows()
    monkeypatch.setattr(time, "time", lambda: row.used + 86399.0)
    assert store.prune(1) == ()
    monkeypatch.setattr(time, "time", lambda: row.used + 86400.0)
    assert [each.digest for each in store.prune(1)] == [INPUTS.digest]


def test_a_manifest_names_files_in_order_whatever_was_built_first(store: Store) -> None:
    store.keep(replace(to_entry(BUILT), files=BUILT.files[::-1]))
    told = json.loads((_place(store) / MANIFEST).read_text())
    assert [each["name"] for each in told["files"]] == ["make.log", MODULE]
    told["files"].reverse()
    (_place(store) / MANIFEST).write_text(json.dumps(told))
    assert find(store, INPUTS).built == BUILT


@pytest.mark.parametrize("digest", ["", "..", "a" * 63, "A" * 64, f"{'a' * 64}/x"])
def test_what_is_no_digest_leads_nowhere(store: Store, digest: str) -> None:
    for asked in (store.look, store.hold):
        with pytest.raises(ValueError, match="is no digest"):
            asked(digest)


def test_the_folder_is_for_us_alone(store: Store) -> None:
    assert store.folder.stat().st_mode & 0o077 == 0


def _flip(place: Path) -> None:
    data = bytearray((place / MODULE).read_bytes())
    data[100] ^= 1
    (place / MODULE).write_bytes(data)


def _truncate(place: Path) -> None:
    (place / MODULE).write_bytes((place / MODULE).read_bytes()[:100])


def _link(place: Path) -> None:
    shutil.copy(place / MODULE, place.parent / "elsewhere")
    (place / MODULE).unlink()
    (place / MODULE).symlink_to(place.parent / "elsewhere")


def _pipe(place: Path) -> None:
    (place / MODULE).unlink()
    os.mkfifo(place / MODULE)


def _inputs(place: Path) -> None:
    told = json.loads((place / MANIFEST).read_text())
    told["inputs"]["compiler"] = "another"
    (place / MANIFEST).write_text(json.dumps(told))


def _escape(place: Path) -> None:
    told = json.loads((place / MANIFEST).read_text())
    told["files"][0]["name"] = "../../etc/passwd"
    (place / MANIFEST).write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(_flip, "is not the file that was kept", id="one-bit"),
        pytest.param(_truncate, "has 100 bytes and should have 3996", id="truncated"),
        pytest.param(lambda place: (place / MODULE).unlink(), "differ in", id="missing"),
        pytest.param(lambda place: (place / "x.ko").touch(), "differ in x.ko", id="foreign"),
        pytest.param(
            lambda place: [(place / f"{each}.ko").touch() for each in "gdbfaec"],
            "differ in a.ko, b.ko, c.ko, d.ko, e.ko, f.ko, g.ko",
            id="seven-foreign",
        ),
        pytest.param(_link, "Too many levels of symbolic links", id="link"),
        pytest.param(_pipe, "is no file", id="pipe"),
        pytest.param(_inputs, "that of another build", id="other-inputs"),
        pytest.param(_escape, "names files that we never keep", id="escape"),
        pytest.param(
            lambda place: (place / MANIFEST).write_text("{"), "cannot be read", id="no-json"
        ),
        pytest.param(
            lambda place: (place / MANIFEST).write_text('{"schema": "x/9"}'),
            "of another kind, 'x/9'",
            id="schema",
        ),
        pytest.param(
            lambda place: (place / MANIFEST).unlink(), "No such file", id="no-manifest"
        ),
    ],
)  # fmt: skip
def test_a_damaged_entry_is_noticed_and_put_aside(
    store: Store, damage: Callable[[Path], object], said: str
) -> None:
    store.keep(to_entry(BUILT))
    damage(_place(store))
    found = find(store, INPUTS)
    assert found.built is None
    assert said in found.trouble
    assert not _place(store).exists()
    assert [each.name[:64] for each in (store.folder / ".damaged").iterdir()] == [INPUTS.digest]
    store.keep(to_entry(BUILT))  # and its place is free
    assert find(store, INPUTS).built == BUILT


def test_names_that_leave_the_folder_are_not_kept(store: Store) -> None:
    for name in ("../x", "a/b", ".hidden", MANIFEST, ""):
        with pytest.raises(ValueError, match="cannot be kept"):
            store.keep(Entry(to_entry(BUILT).about, (BuiltFile(name, b""),)))
    assert store.rows() == ()


def test_an_entry_stays_unless_it_is_to_be_replaced(store: Store) -> None:
    store.keep(to_entry(BUILT))
    other = replace(BUILT, files=(BuiltFile("nvidia-peermem.ko", b"new"),))
    store.keep(to_entry(other))
    assert find(store, INPUTS).built == BUILT
    store.keep(to_entry(other), replace=True)
    assert find(store, INPUTS).built == other


def test_a_full_disk_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.built.io.store.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.keep(to_entry(BUILT))
    assert sorted(each.name for each in store.folder.iterdir()) == [".damaged", ".locks"]


def test_a_full_disk_is_told_where_an_entry_was_to_be_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one is still there, and is not what was asked for."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    store.keep(to_entry(BUILT))
    monkeypatch.setattr("toolkit.built.io.store.os.fsync", full)
    other = replace(BUILT, files=(BuiltFile("nvidia-peermem.ko", b"new"),))
    with pytest.raises(OSError, match="No space left"):
        store.keep(to_entry(other), replace=True)
    assert find(store, INPUTS).built == BUILT


@pytest.mark.parametrize("left", [BUILT, None], ids=["replaced", "pruned"])
def test_what_changes_while_it_is_read_is_not_called_damaged(
    store: Store, monkeypatch: pytest.MonkeyPatch, left: Built | None
) -> None:
    """Another process replaces or prunes the entry: the new one is never put aside."""
    changes = [lambda: store.keep(to_entry(BUILT), replace=True) if left else store.prune(0)]

    def change(place: Path, digest: str) -> Entry:
        if changes:
            changes.pop()()
            raise Damaged("nvidia-peermem.ko: No such file or directory")
        return read_entry(place, digest)

    store.keep(to_entry(BUILT))
    monkeypatch.setattr("toolkit.built.io.store.read_entry", change)
    found = find(store, INPUTS)
    assert (found.built, found.trouble) == (left, "")
    assert list((store.folder / ".damaged").iterdir()) == []


def test_what_changes_at_each_look_is_read_twice_at_most(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def change(place: Path, digest: str) -> Entry:
        looks.append(digest)
        store.keep(to_entry(BUILT), replace=True)
        raise Damaged("nvidia-peermem.ko: No such file or directory")

    store.keep(to_entry(BUILT))
    monkeypatch.setattr("toolkit.built.io.store.read_entry", change)
    assert find(store, INPUTS).trouble.endswith("No such file or directory; put aside")
    assert len(looks) == 2


def test_prune_needs_no_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    store.keep(to_entry(BUILT))
    monkeypatch.setattr("toolkit.built.io.store.tempfile.mkdtemp", full)
    assert [row.digest for row in store.prune(0)] == [INPUTS.digest]
    assert sorted(each.name for each in store.folder.iterdir()) == [".damaged", ".locks"]


def test_what_could_not_be_removed_is_not_told_as_removed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    store.keep(to_entry(BUILT))
    monkeypatch.setattr(Path, "rename", refuse)
    assert store.prune(0) == ()
    assert [row.digest for row in store.rows()] == [INPUTS.digest]


def test_prune_removes_what_nobody_used(store: Store) -> None:
    store.keep(to_entry(BUILT))
    other = Built(replace(INPUTS, kernel="6.12.1"), BUILT.files)
    store.keep(to_entry(other))
    old = time.time() - 40 * 86400
    os.utime(_place(store) / MANIFEST, (old, old))
    assert [row.value("kernel") for row in store.rows()] == ["6.12.1", INPUTS.kernel]
    assert store.prune(41) == ()
    assert [row.digest for row in store.prune(30)] == [INPUTS.digest]
    assert list(kept(store)) == [other]


def test_taking_an_entry_keeps_it_from_being_pruned(store: Store) -> None:
    store.keep(to_entry(BUILT))
    old = time.time() - 40 * 86400
    os.utime(_place(store) / MANIFEST, (old, old))
    assert find(store, INPUTS).built == BUILT
    assert store.prune(30) == ()


def test_prune_leaves_alone_what_is_being_built(store: Store) -> None:
    store.keep(to_entry(BUILT))
    with store.hold(INPUTS.digest) or pytest.fail("nobody else holds it"):
        assert store.prune(0) == ()
    assert [row.digest for row in store.prune(0)] == [INPUTS.digest]


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="can be written by others") as why:
        Store(tmp_path)
    assert why.value.exit_code is ExitCode.USAGE


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be used: (File exists|Not a directory)"):
        Store(tmp_path / "file")


def test_a_file_system_without_locks_is_said_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lustre, where it is mounted without flock: many a home folder of a cluster."""

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(UsageError, match="cannot be used: Function not implemented") as why:
        Store(tmp_path / "cache")
    assert why.value.hint == "name another one with --cache DIR"


@pytest.mark.root
def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(UsageError, match="belongs to user 12345, not to us"):
        Store(folder)


def test_the_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "gdr-toolkit/builds"


def test_inputs_that_we_do_not_know_are_no_build() -> None:
    assert to_built(Entry((("part", "peermem"), ("odd", "x")), ())) is None
    assert to_built(Entry((("part", "tape"),), ())) is None
