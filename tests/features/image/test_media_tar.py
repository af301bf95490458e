"""An archive with a root in it: what is refused before it is unpacked, and what is packed."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.features.image.rooming import Tools, lay_tools, opened
from toolkit.errors import ApplyError, Unsupported, UsageError
from toolkit.features.image.io import tar
from toolkit.features.image.io.namespace import MountRoom
from toolkit.features.image.io.tar import Tar


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mtime: int = 5
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mtime = kind, link, mtime
    made.uid, made.gid, made.mode = os.getuid(), os.getgid(), 0o755
    return made


def link(name: str, target: str) -> tarfile.TarInfo:
    return member(name, tarfile.SYMTYPE, target)


def hard(name: str, target: str) -> tarfile.TarInfo:
    return member(name, tarfile.LNKTYPE, target)


def packed(*members: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for each in members:
            archive.addfile(each)
    return made.getvalue()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    return lay_tools(tmp_path / "tools", monkeypatch)


@pytest.fixture
def room(tools: Tools) -> Iterator[MountRoom]:
    with opened(tools) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "aside"
    made.mkdir()
    return made


def brought(room: MountRoom, folder: Path, data: bytes) -> Path:
    path = folder.parent / "in"
    path.write_bytes(data)
    return Tar(path, folder.parent / "out.tar").bring(room, folder)


def test_every_member_is_unpacked(room: MountRoom, folder: Path) -> None:
    folders = [member("./etc", tarfile.DIRTYPE), member("a", tarfile.DIRTYPE)]
    links = [link("lib", "usr/lib"), link("./a/up", "../etc"), hard("etc/two", "./etc/one")]
    tree = brought(room, folder, packed(*folders, member("etc/one", mtime=77), *links))
    assert tree == folder / "root"
    assert (tree / "etc/one").stat().st_mtime == 77
    assert (tree / "etc/two").samefile(tree / "etc/one")
    assert (tree / "lib").readlink() == Path("usr/lib")


@pytest.mark.parametrize(
    ("suffix", "tool"), [("gzip", "gzip"), ("xz", "xz"), ("zstd", "zstd"), ("bzip2", "bzip2")]
)
def test_what_it_was_packed_by_is_seen_from_its_bytes(
    room: MountRoom, tools: Tools, folder: Path, suffix: str, tool: str
) -> None:
    magic = next(magic for magic, name in tar._UNPACK if name == suffix)
    assert magic.startswith(
        {"gzip": b"\x1f\x8b", "xz": b"\xfd7zXZ", "zstd": b"\x28\xb5\x2f\xfd", "bzip2": b"BZh"}[
            suffix
        ]
    )
    data = packed(member("etc", tarfile.DIRTYPE))
    # One of our own, which any machine has: what follows the magic number is the archive.
    tools.add(tool, f'for last; do :; done\nexec tail -c +{len(magic) + 1} "$last"\n')
    tools.add("tar", 'for each; do [ "$each" = -x ] && exit 0; done; exit 1\n')
    brought(room, folder, magic + data)
    [called] = tools.calls(tool)
    assert called == f"{tool} -dc {folder.parent}/in"


def test_members_of_a_packed_archive_are_looked_at(room: MountRoom, folder: Path) -> None:
    done = subprocess.run(
        ["gzip", "-c"], input=packed(member("/etc")), capture_output=True, check=True
    )
    with pytest.raises(Unsupported, match="/etc leads out of it"):
        brought(room, folder, done.stdout)


def test_a_packed_archive_that_is_damaged_behind_its_end(room: MountRoom, folder: Path) -> None:
    done = subprocess.run(
        ["gzip", "-c"], input=packed(member("etc")), capture_output=True, check=True
    )
    with pytest.raises(ApplyError, match="/in: gzip ended with status 1: gzip: "):
        brought(room, folder, done.stdout[:-4])


REFUSED = [
    ((member("/etc"),), "/etc leads out of it"),
    ((member("a/../../b"),), "a/../../b leads out of it"),
    ((hard("a", "/etc/shadow"),), "a leads out of it"),
    ((hard("a", "../b"),), "a leads out of it"),
    ((link("a", "/etc"), member("a/b")), "a/b leads out of it, by the link a to /etc"),
    ((link("a", ".."), member("a/b")), "a/b leads out of it, by the link a to .."),
    ((link("d/a", "../.."), member("d/a/b")), "d/a/b leads out of it, by the link d/a to ../.."),
    ((link("a", "b"), link("b", ".."), member("a/c")), "a/c leads out of it, by the link a to b"),
    ((link("a", "b"), link("b", "/x"), member("a/c")), "a/c leads out of it, by the link a to b"),
    ((link("a", "b"), link("b", "a"), member("a/c")), "a/c leads out of it, by the link a to b"),
    ((link("a", ".."), hard("c", "a/b")), "c leads out of it, by the link a to .."),
    ((member("manifest.json"),), "layers of a container image .manifest.json., not one root"),
    ((member("./oci-layout"),), "layers of a container image"),
    ((member("index.json"),), "layers of a container image"),
]


@pytest.mark.parametrize(("members", "says"), REFUSED)
def test_what_would_come_to_lie_outside(
    room: MountRoom, folder: Path, members: tuple[tarfile.TarInfo, ...], says: str
) -> None:
    with pytest.raises(Unsupported, match=says):
        brought(room, folder, packed(*members))
    assert list((folder / "root").iterdir()) == []


TAKEN = [
    (link("a", "/etc"), member("b")),
    (link("a", ".."),),
    (member("d", tarfile.DIRTYPE), link("a", "d"), member("a/b")),
    (member("d", tarfile.DIRTYPE), link("d/a", "../d"), member("d/a/b")),
    (member("d", tarfile.DIRTYPE), link("e", "d"), link("a", "e"), member("a/b")),
    (link("a", ".."), member("a"), member("b/manifest.json")),
    (member("..a"), member("a..")),
]


@pytest.mark.parametrize("members", TAKEN)
def test_what_stays_within(
    room: MountRoom, tools: Tools, folder: Path, members: tuple[tarfile.TarInfo, ...]
) -> None:
    tools.add("tar", "exit 0\n")
    brought(room, folder, packed(*members))
    assert len(tools.calls("tar")) == 1


def test_a_long_chain_of_links_is_as_good_as_one_that_leads_out(
    room: MountRoom, folder: Path
) -> None:
    chain = [link(f"l{at}", f"l{at + 1}") for at in range(70)]
    with pytest.raises(Unsupported, match="l0/x leads out of it"):
        brought(room, folder, packed(*chain, member("l0/x")))


def test_an_archive_that_is_cut(room: MountRoom, folder: Path) -> None:
    with pytest.raises(UsageError, match="/in: cannot be read as a tar archive: "):
        brought(room, folder, packed(member("etc"))[:300])


PACKERS = [
    ("out.tar", ""),
    ("out.tar.gz", "gzip -n"),
    ("out.tgz", "gzip -n"),
    ("out.tar.xz", "xz -T2"),
    ("out.txz", "xz -T2"),
    ("out.tar.zst", "zstd -q -T2"),
]


@pytest.mark.parametrize(("name", "tool"), PACKERS)
@pytest.mark.parametrize("epoch", ["", "1234"])
def test_the_words_that_pack_it(
    tools: Tools,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    tool: str,
    epoch: str,
) -> None:
    if epoch:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    for each in ("tar", *tool.split()[:1]):
        tools.add(each, 'for each; do case "$each" in */result) : >"$each" ;; esac; done\n')
    (tmp_path / "in").write_bytes(
        packed(member("etc", mtime=9), member("b", mtime=88), member("c"))
    )
    folder = tmp_path / "aside"
    folder.mkdir()
    out = tmp_path / name
    with opened(tools) as room:
        keeper = Tar(tmp_path / "in", out)
        assert keeper.target == out
        keeper.bring(room, folder)
        keeper.pack(room, folder, ())
    unpack, pack = tools.calls("tar")
    xattrs = "--numeric-owner --acls --xattrs --xattrs-include=*"
    root = folder / "root"
    assert unpack == f"tar -x -p --same-owner {xattrs} -C {root} -f {tmp_path}/in"
    by = f" -I {tool}" if tool else ""
    assert pack == (
        "tar -c --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,"
        f"delete=ctime {xattrs} --mtime=@{epoch or 88} --clamp-mtime --sort=name{by} "
        f"-C {root} -f {folder}/result ."
    )
    assert tools.calls("umount") == [f"umount -n -R {folder}/view"]
    assert tools.calls("sync") == [f"sync {folder}/result"]
    assert (folder / "result").stat().st_mode & 0o7777 == 0o644
    keeper.put(folder)
    assert out.exists()
    assert not (folder / "result").exists()


def test_what_its_tools_are_is_asked_before(
    tools: Tools, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def demand(name: str, wanted: Iterator[str]) -> None:
        asked.append((name, list(wanted)))
        raise Unsupported("x")

    monkeypatch.setattr(tar, "demand", demand)
    path = folder / "in"
    path.write_bytes(b"BZh" + bytes(99))
    for out, wanted in (("a.tar.xz", ["tar", "bzip2", "xz"]), ("a.tar", ["tar", "bzip2"])):
        with opened(tools) as room, pytest.raises(Unsupported):
            Tar(path, folder / out).bring(room, folder)
        assert asked.pop() == (str(path), wanted)


@pytest.mark.parametrize(
    ("path", "out", "says", "hint"),
    [
        ("none", "o.tar", "none: is no file", "--tar names"),
        (".", "o.tar", ": is no file", "--tar names"),
        ("in", None, "in: where the result goes is not said", "--out NAME.tar"),
        ("in", "d.tar", "d.tar: is no place for a file", ""),
        ("in", "none/o.tar", "none/o.tar: is no place for a file", ""),
        ("in", "o.zip", "o.zip: what to pack it with is not known", ".tar.gz .tgz"),
    ],
)
def test_places_that_are_none(
    tmp_path: Path, path: str, out: str | None, says: str, hint: str
) -> None:
    (tmp_path / "in").touch()
    (tmp_path / "d.tar").mkdir()
    with pytest.raises(UsageError, match=says) as raised:
        Tar(tmp_path / path, tmp_path / out if out else None)
    assert hint in raised.value.hint


def test_a_date_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").touch()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH is 'today'"):
        Tar(tmp_path / "in", tmp_path / "o.tar")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "")
    assert Tar(tmp_path / "in", tmp_path / "o.tar").way.startswith("a new archive")
