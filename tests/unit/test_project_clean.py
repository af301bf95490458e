"""What ``./invokew clean`` takes away, and above all what it does not."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

import tasks
from dev import run
from dev.clean import Left, found, size, stays, take_away
from dev.run import MARK
from toolkit.cli.options import Said
from toolkit.errors import ExitCode
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import demo_folder, state_dir
from toolkit.verbs.cli.session import Session

Make = Callable[[str], Path]


class Process(Protocol):
    def __call__(
        self, number: int, *words: str, held: tuple[str | Path, ...] = (), mounts: str = ""
    ) -> None: ...


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a file in a world of our own: home, checkout and temporary folder."""
    for name, place in (("STATE", "state"), ("CACHE", "cache")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / place))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("dev.clean.MEMORY", tmp_path / "memory")

    def made(path: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{tmp_path / 'checkout'}\n" if file.name == MARK else "text")
        return file

    made("checkout/invokew")
    return made


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    """Makes a process in a /proc of our own: its number, its words, what it has open."""
    monkeypatch.setattr("dev.clean.PROC", tmp_path / "proc", raising=False)

    def made(number: int, *words: str, held: tuple[str | Path, ...] = (), mounts: str = "") -> None:
        folder = tmp_path / f"proc/{number}"
        for name in ("fd", "ns"):
            (folder / name).mkdir(parents=True)
        (folder / "ns/mnt").symlink_to(f"mnt:[{number}]")
        for name, text in (
            ("cmdline", "\0".join(words)),
            ("comm", "that\n"),
            ("mountinfo", mounts),
            ("stat", f"{number} (t h) S 1 0"),
        ):
            (folder / name).write_text(text)
        for descriptor, path in enumerate(held):
            (folder / f"fd/{descriptor}").symlink_to(path)

    return made


def left(tmp_path: Path, *, shared: bool = False) -> dict[str, Left]:
    return {each.what: each for each in found(tmp_path / "checkout", shared=shared)}


def age(path: Path) -> Path:
    """Make it more than a day old."""
    day = time.time() - 90000
    os.utime(path, (day, day), follow_symlinks=False)
    return path


def keep_run(verb: str, hosts: str, **said: str) -> Path:
    """The folder of a run that kept something."""
    session = Session.begin(verb, Said({"hosts": hosts, **said}))
    session.folder.keep("report.json", "{}")
    return session.folder.path


def test_all_that_a_checkout_leaves_goes(make: Make, tmp_path: Path) -> None:
    ours = [
        make(f"checkout/.venv/{MARK}").parent,
        make("checkout/.venv.lock"),
        make(f"cache/gdr-toolkit/4711/{MARK}").parent,
        make("cache/gdr-toolkit/4711.lock"),
        make("checkout/.mypy_cache/3.11/a").parents[1],
        make("checkout/toolkit/cli/__pycache__/a.pyc").parent,
        make(f"temporary/pytest-of-me/pytest-7/{MARK}").parent,
        make(f"memory/pytest-of-me/pytest-7/{MARK}").parent,
        make(f"state/gdr-toolkit/demo/{demo_folder().name}/nodes/demo1/tree/a").parents[3],
        keep_run("doctor", "demo"),
        keep_run("provision", "demo[1-3]"),
    ]
    there = left(tmp_path)
    assert {path for each in there.values() for path in each.paths} == set(ours)
    assert list(there)[-1] == "environment"  # from which we run
    for each in there.values():
        assert each.size >= 4096
        take_away(each)
    assert not any(path.exists() for path in ours)
    assert (tmp_path / "checkout/invokew").exists()
    assert not left(tmp_path)


def test_what_is_not_this_checkouts_stays(make: Make, tmp_path: Path) -> None:
    for path in ("cache/gdr-toolkit/815", "temporary/pytest-of-me/pytest-8", "checkout/.venv"):
        make(f"{path}/{MARK}").write_text("/another/checkout\n")
    make("checkout/toolkit/a.py")
    make("state/gdr-toolkit/demo/0123456789ab/nodes/demo1/tree/a")
    make("temporary/pytest-of-me/pytest-9/a")
    make("temporary/gdr-sign-of-a-run-that-lives")
    make("cache/gdr-toolkit/builds/a")
    keep_run("provision", "gpu1")
    keep_run("provision", "demo", inventory="hosts.ini")  # a site's own names go first
    theirs = RunFolder(state_dir() / "runs", "doctor", datetime(2026, 1, 1, tzinfo=UTC), "/other")
    theirs.keep("report.json", "{}")
    assert left(tmp_path) == {}
    make("state/gdr-toolkit/demo/nodes/demo1/tree/a")
    make("state/gdr-toolkit/demo/templates/a")
    make("state/gdr-toolkit/demo/version")
    make("cache/gdr-toolkit-tests/guest/image")
    assert left(tmp_path) == {}
    there = [(each.what, each.paths[0].name) for each in stays()]
    assert sorted(there) == [
        ("results of builds", "builds"),
        ("runs on real nodes", "runs"),
        ("simulated nodes of an earlier version", "nodes"),
        ("simulated nodes of an earlier version", "templates"),
        ("simulated nodes of an earlier version", "version"),
        ("simulated nodes of another checkout, or of none", "0123456789ab"),
        ("what tests of all checkouts keep between runs", "gdr-toolkit-tests"),
    ]


def test_a_link_is_never_followed(make: Make, tmp_path: Path) -> None:
    precious = make("elsewhere/precious")
    make(f"elsewhere/{MARK}")
    make("checkout/.ruff_cache/a")
    make("cache/gdr-toolkit/a")
    for link in ("checkout/.mypy_cache", "checkout/.venv", "cache/gdr-toolkit/1"):
        (tmp_path / link).symlink_to(precious.parent)
    (tmp_path / "checkout/.ruff_cache/link").symlink_to(precious.parent)
    (tmp_path / "checkout/linked").symlink_to(make("outside/__pycache__/a.pyc").parents[1])
    there = left(tmp_path)
    assert [each.paths for each in there.values()] == [(tmp_path / "checkout/.ruff_cache",)]
    take_away(there["caches"])
    assert precious.exists()


def test_what_a_process_uses_is_left_alone_and_named(make: Make, tmp_path: Path) -> None:
    place = make("checkout/.mypy_cache/3.11/a").parent
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(sleep, cwd=place, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert left(tmp_path)["caches"].used_by.startswith(f"process {process.pid} (")
        process.kill()
    assert left(tmp_path)["caches"].used_by == ""


def test_what_killed_programs_left_goes_after_a_day(make: Make, tmp_path: Path) -> None:
    old = age(make("temporary/gdr-bug-a_b4567z.txt"))
    new = make("temporary/gdr-bug-12345678.txt")
    link = tmp_path / "temporary/gdr-bug-abcdefgh.txt"
    link.symlink_to(new)
    age(link)
    assert [each.paths for each in left(tmp_path).values()] == [(old,)]


@pytest.mark.parametrize(
    "path",
    [
        "gdr-toolkit/README.md",
        "gdr-toolkit-2/README.md",
        "gdr-bug-of-mine.txt",
        "gdr-seal-notes.txt",
        "gdr-kvm-abcdefgh/.git/HEAD",
        "gdr-kvm-abcdefgh/below/.git",
        "gdr-kvm-abcdefgh/invokew",
    ],
)
def test_what_is_only_called_like_ours_stays(make: Make, tmp_path: Path, path: str) -> None:
    make(f"temporary/{path}")
    age(tmp_path / "temporary" / path.split("/", maxsplit=1)[0])
    assert left(tmp_path) == {}


def test_every_name_that_we_make_in_the_temporary_folder_is_known(
    make: Make, tmp_path: Path
) -> None:
    make("temporary/a")
    made = re.compile(r"(?:prefix=|PREFIX = )\"(gdr-[a-z]+-)\"(?:, suffix=\"([.a-z]+)\")?")
    names = {
        said
        for folder in ("toolkit", "tests", "dev")
        for file in (run.ROOT / folder).rglob("*.py")
        for said in made.findall(file.read_text())
    }
    assert len(names) >= 12
    for start, end in names:
        number = "4711-" if start in {"gdr-ground-", "gdr-sandbox-"} else ""
        age(Path(tempfile.mkdtemp(prefix=f"{start}{number}", suffix=end)))
    assert sum(len(each.paths) for each in left(tmp_path).values()) == len(names)


def test_what_all_checkouts_share_goes_only_if_asked_for(make: Make, tmp_path: Path) -> None:
    cache = make("cache/gdr-toolkit-tests/guest/image").parents[1]
    assert left(tmp_path) == {}
    assert [each.paths for each in left(tmp_path, shared=True).values()] == [(cache,)]
    assert [list(stays(shared=each)) == [] for each in (False, True)] == [False, True]


@pytest.mark.parametrize(
    "option", ["lowerdir=/a:{}", "lowerdir={}:/a", "upperdir={}", "workdir={}", "lowerdir+={}"]
)
def test_layers_of_an_overlay_are_used(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process, option: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b,c:d"))
    layer = make("a b,c:d/gdr-toolkit-tests/trixie/bin/sh").parents[1]
    said = str(layer).replace(" ", "\\040").replace(",", "\\054").replace(":", "\\134:")
    process(815, mounts=f"36 35 0:2 / /x rw,a - overlay o rw,{option.format(said)},index=off\n")
    there = left(tmp_path, shared=True)
    assert [each.used_by for each in there.values()] == ["a mount"]


def test_a_mount_below_a_path_with_blanks_is_used(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    place = make(f"a b/gdr-toolkit/4711/{MARK}").parent
    said = str(place).replace(" ", "\\040")
    process(815, mounts=f"36 35 0:2 / {said}/c rw - tmpfs t rw\n")
    assert left(tmp_path)["environment"].used_by == "a mount"


def test_a_home_behind_a_link_is_used_as_well(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process
) -> None:
    at = make(f"cache/gdr-toolkit/4711/{MARK}").parent
    (tmp_path / "linked").symlink_to(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "linked"))
    assert left(tmp_path)["environment"].used_by == ""
    process(815, held=(at / "a",))
    assert left(tmp_path)["environment"].used_by == "process 815 (that)"


@pytest.mark.parametrize("link", ["cwd", "exe", "fd/1"])
def test_a_descriptor_that_closes_meanwhile_hides_no_other(
    make: Make, tmp_path: Path, process: Process, link: str
) -> None:
    cache = make("checkout/.ruff_cache/a")
    process(815)  # of whose links but one can be read
    (tmp_path / "proc/815/fd/0").touch()
    (tmp_path / "proc/815" / link).symlink_to(cache)
    assert left(tmp_path)["caches"].used_by == "process 815 (that)"


@pytest.mark.parametrize(
    ("by", "ours"), [("", False), ("{}/", False), ("{}/toolkit/../", False), ("{}/", True)]
)
def test_a_test_run_of_this_checkout_keeps_its_folders(
    make: Make, tmp_path: Path, process: Process, by: str, *, ours: bool
) -> None:
    make(f"checkout/.venv/{MARK}")
    make("checkout/.venv/bin/python").unlink()
    (tmp_path / "checkout/.venv/bin/python").symlink_to(sys.executable)
    make("checkout/toolkit/a.py")
    make(f"temporary/pytest-of-me/pytest-7/{MARK}")
    number = os.getppid() if ours else 4711  # such as a shell's, which waits for us
    process(number, f"{by.format(tmp_path / 'checkout')}.venv/bin/python", "-m", "pytest")
    (tmp_path / f"proc/{number}/cwd").symlink_to(tmp_path / "checkout")
    used = "" if ours else f"process {number} (that)"
    there = {each.what: each.used_by for each in left(tmp_path, shared=True).values()}
    assert there == {"temporary folders of tests": used, "environment": used}


@pytest.mark.parametrize("link", ["temporary/pytest-of-me", "temporary/pytest-of-me/pytest-7"])
def test_a_link_to_folders_of_tests_is_never_followed(
    make: Make, tmp_path: Path, link: str
) -> None:
    make(f"elsewhere/pytest-of-me/pytest-7/{MARK}")
    (tmp_path / link).parent.mkdir(parents=True)
    (tmp_path / link).symlink_to(tmp_path / link.replace("temporary", "elsewhere"))
    assert left(tmp_path) == {}


def test_folders_of_somebody_elses_tests_stay(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(f"temporary/pytest-of-me/pytest-7/{MARK}")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert left(tmp_path) == {}


def test_what_changed_while_we_asked_is_looked_at_again(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    process: Process,
) -> None:
    cache = make("checkout/.ruff_cache/a")
    known = make("checkout/toolkit/__pycache__/a.pyc")

    def meanwhile(*_: object, **__: object) -> None:
        make("checkout/dev/__pycache__/a.pyc")
        process(815, held=(cache,))

    monkeypatch.setattr(run, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(tasks, "consent", meanwhile)
    tasks.clean.body(Context())
    assert cache.exists()
    assert not known.exists()
    assert (tmp_path / "checkout/dev/__pycache__/a.pyc").exists()
    assert "left alone: caches, now used by process 815 (that)" in capsys.readouterr().out


def test_what_another_user_left_is_named_and_the_rest_goes(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = make("checkout/.mypy_cache/a").parent
    ours = make(f"checkout/.venv/{MARK}").parent
    remove = shutil.rmtree

    def rmtree(path: Path) -> None:
        if path == theirs:
            raise PermissionError(errno.EACCES, "Permission denied", "a")  # but the last part
        remove(path)

    monkeypatch.setattr("shutil.rmtree", rmtree)
    monkeypatch.setattr(run, "ROOT", tmp_path / "checkout")
    with pytest.raises(Exit) as end:
        tasks.clean.body(Context(), yes=True)
    assert (end.value.code, theirs.exists(), ours.exists()) == (64, True, False)
    told = f"error: {theirs}: Permission denied\n next: remove it as the user who made it\n"
    assert capsys.readouterr().err == told


def test_what_has_two_names_counts_once(make: Make, tmp_path: Path) -> None:
    file = make("checkout/a")
    once = size(file.parent)
    (tmp_path / "checkout/b").hardlink_to(file)
    assert size(file.parent) == once


@pytest.mark.parametrize("how", ["check", "nobody to ask", "yes"])
def test_it_shows_first_and_asks(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    how: str,
) -> None:
    cache = make("checkout/.ruff_cache/a").parent
    make("cache/gdr-toolkit/builds/a")
    monkeypatch.setattr(run, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code = ExitCode.OK
    try:
        tasks.clean.body(Context(), **({how: True} if how in {"check", "yes"} else {}))
    except Exit as end:
        code = ExitCode(end.code)
    seen = capsys.readouterr()
    first, second = seen.out.splitlines()[:2]
    assert first.split() == ["0.0", "MB", "caches", str(cache)]
    assert second.endswith(f"results of builds (stays)  {tmp_path}/cache/gdr-toolkit/builds")
    assert code is (ExitCode.USAGE if how == "nobody to ask" else ExitCode.OK)
    assert ("nobody to ask whether to take away 0 MB" in seen.err) is (how == "nobody to ask")
    assert cache.exists() is (how != "yes")
