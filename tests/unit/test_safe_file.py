"""What we write is whole or not there, and goes through nothing that another user planted."""

from __future__ import annotations

import ast
import errno
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.invoked import ROOT
from toolkit.safe_file import (
    _group_of_one,
    open_beside,
    others_may_write,
    private_folder,
    write_file,
)

NOBODYS = 54321

# Modules that write files by other means, and why they may. All others have write_file.
MAY = {
    "toolkit/safe_file.py": "is the primitive itself, and a lock, which holds nothing",
    "toolkit/features/image/boot/folder.py": "makes a folder of a random name, for us alone",
    "toolkit/rollout/claims.py": "writes a file that it holds locked, in the run's own folder",
    "toolkit/ssh/connection.py": "a temporary file without a name",
    "toolkit/ssh/shards.py": "a temporary file without a name",
    "toolkit/ssh/credentials.py": "the terminal, to ask for a password",
    "toolkit/features/image/boot/emulated.py": "a folder of a random name, for us alone",
    "toolkit/features/builds/io/headers.py": "a folder of a random name, for us alone",
    "toolkit/rollout/journal.py": "SQLite writes it, in the run's own folder",
    "toolkit/rollout/budget_store.py": "SQLite writes it, in the folder of runs",
    "toolkit/rollout/hooks.py": "a temporary file without a name",
    "toolkit/ssh/known_hosts.py": "adds a line to the file that ssh reads",
    "toolkit/features/image/boot/qemu.py": "a file of a random name, for us alone",
    "toolkit/verbs/archives.py": "a temporary file without a name",
    "toolkit/verbs/inside_archives.py": "a temporary file without a name",
    "toolkit/verbs/inside_image.py": "a folder of a random name, never through a link of the image",
    "toolkit/features/image/io/aside.py": "makes a folder of a random name, for us alone",
    "toolkit/features/image/io/inside.py": "writes in images, whose links it never follows",
    "toolkit/features/image/io/tree.py": "writes in the folder aside, for us alone",
    "toolkit/features/builds/io/package_tools.py": "a folder of a random name, for us alone",
    "toolkit/node/text_signature.py": "a folder of a random name, for us alone",
    "toolkit/built/signing.py": "a folder of a random name, for us alone",
    "toolkit/built/io/store.py": "writes in a folder of a random name, in a cache that is ours",
    "toolkit/features/image/boot/throwaway.py": "a folder of a random name, for us alone",
    "toolkit/features/builds/io/sandbox.py": "adds to a build's log, in the run's own folder",
    "toolkit/verbs/connect.py": "makes a folder of a random name, for us alone",
    "toolkit/features/ansible/run.py": "makes a folder of a random name, named when whole",
    "toolkit/suites/run.py": "makes a folder of a random name, for us alone",
    "toolkit/cli/streams.py": "opens /dev/null in the place of an output that is closed",
    "toolkit/cli/verb.py": "a file of a random name, for a report of a bug",
}
_METHODS = {"write_text", "write_bytes", "touch", "copyfile", "copy", "copy2", "copytree"}
_MAKERS = {"mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory"}
# What may be one of these: of the other files none needs to be parsed.
_NAMED = re.compile(
    "|".join((r"\b(write_\w+|touch|open|fdopen|FileIO)\(", "shutil|sqlite3", *_MAKERS))
)
_WRITING = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}


def _writes(tree: ast.AST) -> Iterator[int]:
    """The lines that open a file for writing, as far as the text tells."""
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name = call.func.id if isinstance(call.func, ast.Name) else name
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        owner = of.id if isinstance(of, ast.Name) else ""
        words = {each.attr for each in ast.walk(call) if isinstance(each, ast.Attribute)}
        given = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
        modes = [each.value for each in given if isinstance(each, ast.Constant)]
        writing = any(isinstance(each, str) and each[:1] in {*"wax"} for each in modes)
        writing |= any(isinstance(each, str) and "+" in each for each in modes)
        if (
            (name in _METHODS and (owner == "shutil" or name.startswith(("write_", "touch"))))
            or name in _MAKERS
            or (name in {"open", "FileIO", "fdopen"} and owner not in {"tarfile"} and writing)
            or (name == "open" and owner == "os" and words & _WRITING)
            or (owner == "sqlite3" and name == "connect")
        ):
            yield call.lineno


def test_nobody_else_opens_a_file_for_writing() -> None:
    found = {}
    for file in sorted((ROOT / "toolkit").rglob("*.py")):
        name = str(file.relative_to(ROOT))
        if name.startswith("toolkit/demo/"):  # simulated nodes, in a folder that is ours
            continue
        source = file.read_text("utf-8")
        if _NAMED.search(source) and (lines := list(_writes(ast.parse(source)))):
            found[name] = lines
    others = {name: lines for name, lines in found.items() if name not in MAY}
    assert not others, "write_file of toolkit/safe_file.py writes files"
    assert found.keys() == MAY.keys(), "what writes no more needs no leave"


@pytest.mark.parametrize(
    "line",
    ["p.write_text('')", "p.open('w')", "open(p, 'ab')", "os.open(p, os.O_RDWR)",
     "p.open(mode='x')", "shutil.copyfile(a, b)", "tempfile.mkdtemp()", "sqlite3.connect(p)",
     "FileIO(log, 'w')"],
)  # fmt: skip
def test_the_law_sees_what_it_is_about(line: str) -> None:
    assert list(_writes(ast.parse(line)))


@pytest.mark.parametrize("line", ["p.open('rb')", "p.read_text('w')", "os.open(p, os.O_RDONLY)"])
def test_the_law_lets_be_who_reads(line: str) -> None:
    assert not list(_writes(ast.parse(line)))


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_file_is_put_in_place_whole(tmp_path: Path) -> None:
    file = tmp_path / "it"
    with open_beside(file, 0o600) as beside:
        beside.write("one\n")
        beside.write(b"two\n")
        assert not file.exists()
    assert file.read_text() == "one\ntwo\n"
    assert beside.size == 8
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert names(tmp_path) == {"it"}


def test_what_breaks_off_leaves_the_old_one_and_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "it"
    write_file(file, "old")
    beside = open_beside(file)
    with pytest.raises(TypeError), beside:
        beside.write(b"new" + None)  # type: ignore[operator] # breaks off
    open_beside(file).drop()
    assert (file.read_text(), names(tmp_path)) == ("old", {"it"})
    dropped = open_beside(file)
    dropped.drop()
    dropped.write("late")
    dropped.finish()
    assert (file.read_text(), names(tmp_path), dropped.size) == ("old", {"it"}, 0)


def test_a_full_disk_leaves_the_old_one_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes, and closes it later or never."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    write_file(tmp_path / "it", "old")
    beside = open_beside(tmp_path / "it")
    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError, match="full"):
        beside.write("new")
    assert names(tmp_path) == {"it"}
    beside.finish()
    assert (tmp_path / "it").read_text() == "old"


@pytest.mark.parametrize("flush", [True, False])
def test_what_must_be_on_the_disk_is_flushed_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, flush: bool
) -> None:
    flushed: list[str] = []
    open_at = Path("/proc/self/fd")
    monkeypatch.setattr("os.fsync", lambda it: flushed.append(str((open_at / str(it)).readlink())))
    file = open_beside(tmp_path / "it")
    beside = str(tmp_path / file.beside)
    file.finish(flush=flush)
    assert flushed == ([beside, str(tmp_path)] if flush else [])


def test_a_file_of_ours_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "it"
    file.write_text("old")
    file.chmod(0o640)
    write_file(file, "new", 0o666)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_what_lies_beside_is_not_written_through(tmp_path: Path) -> None:
    """Under a name that can be foreseen, another could have left a link."""
    seen = set()
    for _ in range(3):
        beside = open_beside(tmp_path / "it")
        seen |= names(tmp_path)
        beside.drop()
    assert len(seen) == 3


def test_a_link_of_ours_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "latest"
    link.symlink_to("real/it")
    write_file(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "real/it").read_text() == "text"


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_file(tmp_path / "a", "text")


@pytest.mark.root
@pytest.mark.parametrize("what", ["link", "pipe"])
def test_what_another_planted_is_refused(tmp_path: Path, what: str) -> None:
    shared, goal = tmp_path / "shared", tmp_path / "goal"
    shared.mkdir()
    shared.chmod(0o1777)
    it = shared / "it"
    os.mkfifo(it) if what == "pipe" else it.symlink_to(goal)
    os.lchown(it, NOBODYS, NOBODYS)
    with pytest.raises(OSError, match="in a folder that all may write to"):
        write_file(it, "text")
    assert not goal.exists()
    assert names(shared) == {"it"}


@pytest.mark.root
def test_a_file_that_another_planted_is_replaced_and_its_mode_is_not_kept(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    planted = tmp_path / "it"
    planted.write_text("")
    planted.chmod(0o666)
    os.chown(planted, NOBODYS, NOBODYS)
    write_file(planted, "secret", 0o600)
    about = planted.stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (0, 0o600)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_file(pipe, "text")
    reader.join(60)
    assert heard == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_devices_are_written_to() -> None:
    assert write_file(Path("/dev/null"), "text") == 4
    with pytest.raises(OSError, match="No space left"):
        write_file(Path("/dev/full"), "text")


def test_what_takes_no_text_is_told_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (Path("/"), tmp_path, Path()):
        with pytest.raises(IsADirectoryError):
            open_beside(folder)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    with pytest.raises(OSError, match="is neither a file, nor a pipe, nor a terminal"):
        open_beside(Path("socket"))
    monkeypatch.setattr("os.path.samestat", lambda *_: False)
    with pytest.raises(OSError, match="was replaced while it was opened"):
        open_beside(Path("/dev/null"))
    assert names(tmp_path) == {"socket"}


@pytest.mark.parametrize("to", ["a file", "a pipe"])
def test_standard_output_is_written_where_it_is(tmp_path: Path, to: str) -> None:
    code = (
        "import sys; from pathlib import Path; from toolkit.safe_file import write_file;"
        "print('before', flush=True); write_file(Path('/dev/stdout'), 'text\\n'); print('after')"
    )
    out = tmp_path / "out"
    with out.open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=file if to == "a file" else subprocess.PIPE,
            text=True,
            cwd=ROOT,
            check=True,
        )
    assert (done.stdout or out.read_text()) == "before\ntext\nafter\n"


def test_folders_are_for_us_alone(tmp_path: Path) -> None:
    private_folder(tmp_path / "a/b/c")
    modes = {stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("a", "a/b", "a/b/c")}
    assert modes == {0o700}
    with pytest.raises(FileExistsError):
        private_folder(tmp_path / "a/b/c", fresh=True)


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        pytest.param(0o755, "", id="own"),
        pytest.param(0o777, "may be written by others", id="all"),
        pytest.param(0o1777, "", id="all-and-each-keeps-his-own"),
        pytest.param(0o775, "", id="a-group-of-one"),
    ],
)
def test_code_is_run_from_where_no_other_writes(mode: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "site" / "check.py"
    file.parent.mkdir()
    file.write_text("")
    file.parent.chmod(mode)
    assert others_may_write(file) == (said and f"{file.parent} {said}")


@pytest.mark.parametrize(
    ("group", "others", "alone"),
    [("op", (), True), ("op", ("op",), True), ("op", ("op", "eve"), False), ("staff", (), False)],
)
def test_a_group_of_one_has_its_owners_name_and_nobody_else_in_it(
    group: str, others: tuple[str, ...], *, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_name="op"))
    monkeypatch.setattr("grp.getgrgid", lambda _: SimpleNamespace(gr_name=group, gr_mem=others))
    about = SimpleNamespace(st_uid=1, st_gid=1)
    assert _group_of_one(about) is alone  # type: ignore[arg-type] # all that it reads


@pytest.mark.root
def test_code_of_another_user_or_behind_a_link_of_his_is_not_run(tmp_path: Path) -> None:
    (file := tmp_path / "check.py").write_text("")
    os.chown(file, NOBODYS, NOBODYS)
    assert others_may_write(file) == f"{file} is of user {NOBODYS}"
    os.chown(file, 0, 100)
    file.chmod(0o664)
    assert others_may_write(file) == f"{file} may be written by others"
    (real := tmp_path / "real").mkdir()
    (shared := tmp_path / "shared").mkdir()
    (shared / "site").symlink_to(real)
    shared.chmod(0o777)
    assert others_may_write(shared / "site") == f"{shared} may be written by others"
