"""Trees of demo nodes: laid out, packed, and copied."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

from toolkit.demo.tree import SHARED, NodeTree, clone


def tree() -> NodeTree:
    made = NodeTree()
    made.line("etc/a", "one")
    made.text("sys/b", "same\n")
    made.text("sys/deep/c", "same\n")
    made.text("proc/d", "same\n")
    made.text("sys/e", "other\n")
    made.program("usr/bin/run", "#!/bin/sh\n")
    made.link("etc/link", "../proc/d")
    made.folders.add("var/empty")
    return made


def test_a_tree_is_laid_out(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        tree().write(tmp_path)
    finally:
        os.umask(old)
    assert (tmp_path / "etc/a").read_text() == "one\n"
    assert (tmp_path / "var/empty").is_dir()
    assert (tmp_path / "etc/link").readlink() == Path("../proc/d")
    run = tmp_path / "usr/bin/run"
    assert stat.S_IMODE(run.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "etc/a").stat().st_mode) == 0o644
    # Most of /sys says the same few things.
    assert (tmp_path / "sys/b").samefile(tmp_path / "sys/deep/c")
    assert not (tmp_path / "sys/b").samefile(tmp_path / "proc/d")
    assert (tmp_path / "sys/e").read_text() == "other\n"
    assert (tmp_path / "proc/d").read_text() == "same\n"


def test_a_copy_shares_what_never_changes_in_place(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep/target"
    shared = sorted(SHARED)[0]
    for top in (shared, "etc"):
        (source / top / "below").mkdir(parents=True)
        (source / top / "file").write_text(top)
        (source / top / "below/file").write_text("deep")
        (source / top / "below/link").symlink_to("/nowhere")
    (source / "top").write_text("x")
    (source / "top").chmod(0o711)
    (source / "root").symlink_to("etc")
    os.utime(source / "etc/file", (7, 7))
    clone(source, target)
    for top, alike in ((shared, True), ("etc", False)):
        for file in ("file", "below/file"):
            assert (target / top / file).read_text() == (source / top / file).read_text()
            assert (target / top / file).samefile(source / top / file) is alike
        assert (target / top / "below/link").readlink() == Path("/nowhere")
    assert (target / "etc/file").stat().st_mtime == 7
    assert stat.S_IMODE((target / "top").stat().st_mode) == 0o711
    assert not (target / "top").samefile(source / "top")
    assert (target / "root").readlink() == Path("etc")


def test_what_is_shared_is_what_the_system_lays_out() -> None:
    assert set(SHARED) == {"boot", "lib", "sys", "usr", ".node"}


def test_a_tree_is_packed() -> None:
    with tarfile.open(fileobj=io.BytesIO(tree().archive())) as archive:
        held = {each.name: each for each in archive}
        assert set(held) == {*tree().files, *tree().links}
        assert held["etc/link"].issym()
        assert held["etc/link"].linkname == "../proc/d"
        file = archive.extractfile("sys/deep/c")
        assert file is not None
        assert file.read() == b"same\n"


def test_links_are_relative_as_the_kernel_makes_them() -> None:
    made = NodeTree()
    made.relative_link("sys/class/net/a", "sys/devices/b")
    made.data("x", b"\0")
    made.folder("y")
    assert made.links == {"sys/class/net/a": "../../devices/b"}
    assert made.files == {"x": b"\0"}
    assert made.folders == {"y"}
