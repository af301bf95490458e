"""--tar: a root in an archive, unpacked whole, packed again with the same bytes every time."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
from pathlib import Path

import pytest

from tests.images.disks import call, digest
from tests.images.little import little_root, mounts, names
from toolkit.errors import ApplyError, ToolkitError, Unsupported, UsageError
from toolkit.features.image.io.index import TreeChange, TreeDifference
from toolkit.features.image.io.media import ImageSource, Medium, stage

pytestmark = pytest.mark.builds

SMALL = ("dev", "etc", "proc", "run", "sys", "tmp")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The little root as an archive that nothing compresses."""
    home = tmp_path_factory.mktemp("packed")
    little_root(home / "root")
    words = ("--xattrs", "--xattrs-include=*", "-C", home / "root", "-f", home / "in.tar", ".")
    call("tar", "-c", *words)
    return home / "in.tar"


def source(path: Path, out: Path) -> ImageSource:
    return ImageSource(Medium.TAR, path, out)


def change(path: Path, out: Path) -> tuple[TreeDifference, ...]:
    with stage(source(path, out)) as on:
        assert on.run("echo new >/etc/new; sleep 0.01; mkdir -p /opt/b /opt/a\n").exit == 0
        return on.commit()


def test_all_that_a_root_has_comes_through(packed: Path, tmp_path: Path) -> None:
    before = digest(packed)
    found = change(packed, tmp_path / "out.tar")
    assert [each.path for each in found] == ["/etc/new", "/opt", "/opt/a", "/opt/b"]
    assert {each.change for each in found} == {TreeChange.ADDED}
    assert digest(packed) == before
    assert names(tmp_path) == ["out.tar"]
    assert mounts(tmp_path) == []
    (tmp_path / "unpacked").mkdir()
    words = ("--xattrs", "--xattrs-include=*", "-C", tmp_path / "unpacked")
    call("tar", "-x", *words, "-f", tmp_path / "out.tar")
    etc = tmp_path / "unpacked/etc"
    assert (etc / "one").stat().st_ino == (etc / "two").stat().st_ino
    assert ((etc / "one").stat().st_uid, (etc / "one").stat().st_gid) == (12, 34)
    assert stat.S_ISCHR((etc / "device").lstat().st_mode)
    assert stat.S_ISFIFO((etc / "pipe").lstat().st_mode)
    assert os.getxattr(etc / "os-release", "trusted.of-a-test") == b"kept"
    assert (etc / "a name, odd: ä").read_text() == "odd\n"
    assert stat.S_IMODE((etc.parent / "tmp").stat().st_mode) == 0o1777


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz", ".tar.zst"])
def test_equal_input_gives_equal_bytes(packed: Path, tmp_path: Path, suffix: str) -> None:
    given = tmp_path / f"in{suffix}"
    _repack(packed, given)
    change(given, tmp_path / f"one{suffix}")
    change(given, tmp_path / f"two{suffix}")
    assert digest(tmp_path / f"one{suffix}") == digest(tmp_path / f"two{suffix}")


def _repack(packed: Path, given: Path) -> None:
    tools = {".gz": "gzip", ".xz": "xz", ".zst": "zstd", ".bz2": "bzip2"}
    tool = tools.get(given.suffix)
    call("sh", "-c", f'{tool or "cat"} <"$1" >"$2"', "sh", packed, given)


def test_nothing_in_it_is_newer_than_its_input_or_than_was_asked(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(packed, tmp_path / "out.tar")
    with tarfile.open(packed) as old, tarfile.open(tmp_path / "out.tar") as new:
        newest = max(int(each.mtime) for each in old)
        assert max(each.mtime for each in new) <= newest
        assert [each.name for each in new] == sorted(each.name for each in new)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    change(packed, tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar") as new:
        assert {each.mtime for each in new} == {1000000000}


def archive(path: Path, *members: tuple[str, str, str]) -> Path:
    """Members by name, kind ("file", "folder", "link", "hard") and target."""
    kinds = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE}
    kinds |= {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}
    with tarfile.open(path, "w") as made:
        for name, kind, target in (*((each, "folder", "") for each in SMALL), *members):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kinds[kind], target, 0o755
            member.size = 4 if kind == "file" else 0
            made.addfile(member, io.BytesIO(b"bad\n"))
    return path


@pytest.mark.parametrize(
    ("members", "words"),
    [
        pytest.param((("/etc/x", "file", ""),), "/etc/x leads out of it", id="absolute"),
        pytest.param((("etc/../../x", "file", ""),), "etc/../../x leads out", id="above"),
        pytest.param((("x", "hard", "../../y"),), "x leads out of it", id="hard-link"),
        pytest.param(
            (("up", "link", "../.."), ("up/x", "file", "")),
            "up/x leads out of it, by the link up to ../..",
            id="through-a-link",
        ),
        pytest.param(
            (("a", "link", "/tmp"), ("b", "link", "a/c"), ("b/x", "file", "")),
            "b/x leads out of it, by the link b to a/c",
            id="through-two-links",
        ),
        pytest.param((("oci-layout", "file", ""),), "holds layers of a container", id="layers"),
    ],
)
def test_what_would_come_to_lie_outside_is_refused(
    tmp_path: Path, members: tuple[tuple[str, str, str], ...], words: str
) -> None:
    given = archive(tmp_path / "in.tar", *members)
    with pytest.raises(Unsupported) as told, stage(source(given, tmp_path / "out.tar")):
        pass
    assert words in str(told.value)
    assert names(tmp_path) == ["in.tar"]


def test_an_archive_by_bzip2_is_read(packed: Path, tmp_path: Path) -> None:
    _repack(packed, tmp_path / "in.tar.bz2")
    assert change(tmp_path / "in.tar.bz2", tmp_path / "out.tar")


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    given = archive(
        tmp_path / "in.tar",
        *(("usr", "folder", ""), ("usr/lib", "folder", ""), ("lib", "link", "usr/lib")),
        *(("lib/x", "file", ""), ("abs", "link", "/etc/passwd"), ("up", "link", "../..")),
    )
    with stage(source(given, tmp_path / "out.tar")) as on:
        assert on.read("/usr/lib/x") == b"bad\n"
        on.commit()
    with tarfile.open(tmp_path / "out.tar") as new:
        assert new.getmember("./abs").linkname == "/etc/passwd"


def test_what_it_is_packed_with_is_looked_for_first(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the modules have been built."""
    real = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, path: None if name == "zstd" else real(name, path=path)
    )
    with pytest.raises(Unsupported, match="zstd: not on this machine") as told:
        change(packed, tmp_path / "out.tar.zst")
    assert "zstd" in told.value.hint
    assert names(tmp_path) == []


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.zst"])
def test_an_archive_that_was_cut_is_no_image(packed: Path, tmp_path: Path, suffix: str) -> None:
    given = tmp_path / f"in{suffix}"
    _repack(packed, given)
    os.truncate(given, given.stat().st_size // 2)
    with pytest.raises((UsageError, ApplyError)), stage(source(given, tmp_path / "out.tar")):
        pass
    assert names(tmp_path) == [given.name]


def test_what_was_there_stays_until_the_new_one_is_whole(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tar"
    out.write_text("the old one\n")
    with stage(source(packed, out)) as on:
        on.write("/etc/new", b"")
    assert out.read_text() == "the old one\n"


@pytest.mark.parametrize(
    ("out", "words"),
    [
        pytest.param(None, "where the result goes is not said", id="nowhere"),
        pytest.param("out.zip", "what to pack it with is not known", id="no-tar"),
        pytest.param("none/out.tar", "is no place for a file", id="no-folder"),
    ],
)
def test_where_it_goes_is_checked_first(
    packed: Path, tmp_path: Path, out: str | None, words: str
) -> None:
    place = None if out is None else tmp_path / out
    with pytest.raises(ToolkitError, match=words), stage(ImageSource(Medium.TAR, packed, place)):
        pass
