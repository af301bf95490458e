"""Packages by the distributions' own tools: what these are told, and what becomes of it."""

from __future__ import annotations

import os
import shutil
import stat
from functools import partial
from pathlib import Path

import pytest

from toolkit.errors import ExitCode, Unsupported, UsageError
from toolkit.features.builds.io import package_tools
from toolkit.features.builds.io.package_tools import PackingError, pack_deb, pack_rpm, write
from toolkit.features.builds.plan.packages import PackedFile

# Notes its words, its environment, and all that it was given to pack with mode and time.
TOOL = """#!/bin/sh
printf '%s\\n' "$@" >"$PACKER_LOG/words"
env >"$PACKER_LOG/env"
pwd >"$PACKER_LOG/pwd"
find tree -printf '%p %y %m %T@\\n' | sort >"$PACKER_LOG/tree"
. "$PACKER_LOG/does"
"""
FILES = [PackedFile("DEBIAN/control", b"c\n", 0o644), PackedFile("usr/lib/a.ko", b"k", 0o755)]
TREE = [
    "tree d 755 1234.0000000000",
    "tree/DEBIAN d 755 1234.0000000000",
    "tree/DEBIAN/control f 644 1234.0000000000",
    "tree/usr d 755 1234.0000000000",
    "tree/usr/lib d 755 1234.0000000000",
    "tree/usr/lib/a.ko f 755 1234.0000000000",
]


class Log:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def does(self, text: str) -> None:
        (self.folder / "does").write_text(text)

    def rows(self, name: str) -> list[str]:
        return (self.folder / name).read_text().split("\n")[:-1]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    folder = tmp_path / "log"
    (folder / "bin").mkdir(parents=True)
    for tool in ("dpkg-deb", "rpmbuild"):
        (folder / "bin" / tool).write_text(TOOL.replace("$PACKER_LOG", str(folder)))
        (folder / "bin" / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/x")
    monkeypatch.setenv("DEB_BUILD_OPTIONS", "x")
    return Log(folder)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_deb_is_built_of_files_that_no_clock_touched(log: Log, tmp_path: Path) -> None:
    log.does('for last; do :; done\necho deb >"$last"\n')
    out = tmp_path / "new/out"
    target = out / "a_1_amd64.deb"
    old = os.umask(0o077)
    try:
        assert pack_deb(FILES, target, 1234) == target
    finally:
        os.umask(old)
    assert target.read_text() == "deb\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert names(out) == [target.name]
    [scratch] = log.rows("pwd")
    assert Path(scratch).name.startswith(".gdr-package-")
    assert Path(scratch).parent == out
    assert log.rows("words") == [
        *("--root-owner-group", "-Zgzip", "--build"),
        *(f"{scratch}/tree", f"{scratch}/made.deb"),
    ]
    assert log.rows("tree") == TREE
    seen = dict(row.split("=", 1) for row in log.rows("env"))
    assert seen["HOME"] == scratch
    told = {key: seen[key] for key in ("LC_ALL", "TZ", "SOURCE_DATE_EPOCH", "LD_LIBRARY_PATH")}
    assert told == {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": "1234",
        "LD_LIBRARY_PATH": "/x",
    }
    assert seen["TMPDIR"] == str(tmp_path)
    assert "DEB_BUILD_OPTIONS" not in seen


def test_the_rpms_of_a_spec(log: Log, tmp_path: Path) -> None:
    log.does(
        'for last; do :; done\ncat "$last" >"$(dirname "$0")/../spec"\n'
        "mkdir -p rpms/x86_64\necho b >rpms/x86_64/b.rpm\necho a >rpms/x86_64/a.rpm\n"
    )
    out = tmp_path / "out"
    assert pack_rpm("the spec\n", FILES, out, 1234, "x86_64") == (out / "a.rpm", out / "b.rpm")
    assert (out / "a.rpm").read_text() == "a\n"
    assert names(out) == ["a.rpm", "b.rpm"]
    assert log.rows("spec") == ["the spec"]
    assert log.rows("tree") == TREE
    [scratch] = log.rows("pwd")
    words = log.rows("words")
    assert words[:4] == ["-bb", "--quiet", "--target", "x86_64"]
    assert words[-1] == f"{scratch}/package.spec"
    assert set(words[4:-1:2]) == {"--define"}
    assert dict(each.split(" ", 1) for each in words[5:-1:2]) == {
        "_topdir": f"{scratch}/top",
        "_sourcedir": f"{scratch}/tree",
        "_rpmdir": f"{scratch}/rpms",
        "_dbpath": f"{scratch}/db",
        "_tmppath": scratch,
        "_buildhost": "localhost",
        "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        "use_source_date_epoch_as_buildtime": "1",
        "clamp_mtime_to_source_date_epoch": "1",
        "source_date_epoch_from_changelog": "0",
    }


def test_rpmbuild_that_makes_nothing(log: Log, tmp_path: Path) -> None:
    log.does("")
    with pytest.raises(PackingError, match="ended well and made no package"):
        pack_rpm("", [], tmp_path / "out", 1, "x86_64")


@pytest.mark.parametrize("name", ["a b", "a%b", "a'b", 'a"b', "a$b"])
def test_a_folder_that_rpmbuild_would_not_quote(log: Log, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="rpmbuild takes no folder of such a name"):
        pack_rpm("", [], tmp_path / name, 1, "x86_64")
    assert not (log.folder / "words").exists()
    log.does('for last; do :; done\necho deb >"$last"\n')
    pack_deb(FILES, tmp_path / name / "a.deb", 1)


def test_a_tool_that_refuses(log: Log, tmp_path: Path) -> None:
    log.does("printf 'a\\n\\nb\\nc\\n'; printf 'd\\ne\\nf\\n' >&2; exit 7\n")
    with pytest.raises(PackingError) as raised:
        pack_deb(FILES, tmp_path / "out/a.deb", 1)
    assert str(raised.value) == "dpkg-deb ended with status 7: b; c; d; e; f"
    assert raised.value.exit_code is ExitCode.FAILED
    assert names(tmp_path / "out") == []


def test_a_tool_that_never_ends(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_tools, "_LIMIT_S", 0.05)
    log.does("exec sleep 9\n")
    with pytest.raises(PackingError, match=r"dpkg-deb did not end within 0.05 s"):
        pack_deb([], tmp_path / "a.deb", 1)


@pytest.mark.parametrize(
    ("tool", "package"), [("dpkg-deb", "dpkg"), ("rpmbuild", "rpm (rpm-build on RHEL)")]
)
def test_a_tool_that_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, package: str
) -> None:
    asked: list[str] = []

    def which(_: str, path: str) -> None:
        asked.append(path)

    monkeypatch.setattr(shutil, "which", which)
    monkeypatch.setenv("PATH", "/p")
    target = tmp_path / "a.deb"
    rpm, deb = partial(pack_rpm, "", [], tmp_path, 1, "x86_64"), partial(pack_deb, [], target, 1)
    with pytest.raises(Unsupported, match=f"{tool} is not on this machine") as raised:
        (rpm if tool == "rpmbuild" else deb)()
    assert raised.value.hint == f"install {package}"
    assert asked == ["/p:/usr/sbin:/usr/bin:/sbin:/bin"]


@pytest.mark.parametrize("path", ["/etc/a", "a/../b", "a/./b", "a//b", "", "a b", "a/", "ä", ".."])
def test_what_cannot_be_a_path_in_a_package(log: Log, tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="cannot be a path in a package"):
        pack_deb([PackedFile(path, b"", 0o644)], tmp_path / "out/a.deb", 1)
    assert names(tmp_path / "out") == []
    assert not (log.folder / "words").exists()


@pytest.mark.usefixtures("log")
def test_a_path_that_is_there_twice(tmp_path: Path) -> None:
    with pytest.raises(PackingError, match=r"packages cannot be written to .*/out: File exists"):
        pack_deb([PackedFile("a", b"", 0o644)] * 2, tmp_path / "out/a.deb", 1)


def test_a_package_that_needs_no_tool(tmp_path: Path) -> None:
    target = tmp_path / "out/a.tar"
    (tmp_path / "out").mkdir()
    target.write_text("old")
    assert write(b"new", target) == target
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert names(tmp_path / "out") == ["a.tar"]


@pytest.mark.parametrize("name", ["-a", ".a", "a b", "a" * 252, "a\nb"])
def test_what_cannot_be_the_name_of_a_package(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a package's file"):
        write(b"", tmp_path / name)
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PackingError) as raised:
        write(b"", tmp_path / "file/a.tar")
    assert str(raised.value) == f"packages cannot be written to {tmp_path}/file: File exists"
