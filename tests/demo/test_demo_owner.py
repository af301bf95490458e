"""On a simulated node root owns what its simulator owns: whoever that is, however it is asked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolkit.demo

ROOT = Path(__file__).parents[2]
STAT = Path(toolkit.demo.__file__).with_name("bin") / "stat"
NOBODYS = 54321  # no entry in passwd goes with it
# As our scripts ask: "stat -L -c '%a %u %n' -- $files".
ASKED = re.compile(r"\bstat ((?:-L )?)-c ('[^']+'|%\w+)( --)?")


@pytest.fixture
def place() -> Iterator[Path]:
    """Files of an ordinary user: of ours, or where we are root of somebody else."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # which every user can enter
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(STAT, folder / "stat")
        for file, mode in (("one", 0o640), ("in two words", 0o600)):
            (folder / file).write_text(file)
            (folder / file).chmod(mode)
        (folder / "link").symlink_to("one")
        (folder / "out").symlink_to("/")
        if os.geteuid() == 0:
            for each in (folder, *folder.iterdir()):
                os.lchown(each, NOBODYS, NOBODYS)
        yield folder


def told(place: Path, command: str, *words: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a command, as the ordinary user."""
    other = ("--reuid", str(NOBODYS), "--regid", str(NOBODYS), "--clear-groups")
    prefix = ("setpriv", *other) if os.geteuid() == 0 else ()
    done = subprocess.run(
        [*prefix, command, *words],
        cwd=place,
        env={"PATH": f"/nowhere:{os.environ['PATH']}", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def simulated(place: Path, *words: str) -> tuple[int, str, str]:
    return told(place, "./stat", *words)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("-c", "%a %u %g %n", "--", "one"), id="as-the-probe"),
        pytest.param(("-c", "%a %u %g %n", "one"), id="as-undo"),
        pytest.param(("-c%a %u %g %n", "one"), id="joined"),
        pytest.param(("--format=%a %u %g %n", "one"), id="long"),
        pytest.param(("--format", "%a %u %g %n", "one"), id="long-apart"),
        pytest.param(("--printf=%a %u %g %n\\n", "one"), id="printf"),
        pytest.param(("-L", "-c", "%a %u %g one", "--", "link"), id="through-a-link"),
        pytest.param(("-Lc", "%a %u %g one", "link"), id="two-in-one"),
        pytest.param(("--dereference", "one", "-c", "%a %u %g %n"), id="file-first"),
    ],
)
def test_every_way_to_ask_is_understood(place: Path, words: tuple[str, ...]) -> None:
    assert simulated(place, *words) == (0, "640 0 0 one\n", "")


def test_each_file_is_told_by_itself_and_what_is_not_there_is_named(place: Path) -> None:
    code, out, errors = simulated(place, "-c", "%U:%G %n", "one", "gone", "in two words")
    assert (code, out) == (1, "root:root one\nroot:root in two words\n")
    assert errors == told(place, "stat", "-c", "%n", "gone")[2]


@pytest.mark.root
def test_what_is_another_users_stays_so(place: Path) -> None:
    os.chown(place / "in two words", 12345, 12345)
    assert simulated(place, "-c", "%u %g", "one", "in two words")[1] == "0 0\n12345 12345\n"
    os.lchown(place / "link", 12345, 12345)
    assert simulated(place, "-c", "%u", "link")[1] == "12345\n"
    assert simulated(place, "-L", "-c", "%u", "link")[1] == "0\n"


def test_a_format_is_read_as_stat_reads_it(place: Path) -> None:
    assert simulated(place, "-c", "%%u %6u|%-6U|%03g|%s", "one")[1] == "%u      0|root  |000|3\n"


def test_what_our_scripts_ask_is_answered_as_by_the_real_one_but_for_the_owner(
    place: Path,
) -> None:
    scripts = "".join(path.read_text() for path in sorted((ROOT / "toolkit").glob("**/*.sh")))
    asked = set(ASKED.findall(scripts))
    assert {"'%a %u %g %n'", "'%a %u %n'", "'%a %u %g'", "%s"} <= {each[1] for each in asked}
    for follow, form, end in asked:
        words = [*follow.split(), "-c", form.strip("'"), *end.split()]
        files = ["one", "in two words", "link", "gone"]
        rooted = [re.sub("%[ug]", "0", each) for each in words]
        assert simulated(place, *words, *files) == told(place, "stat", *rooted, *files)


@pytest.mark.parametrize(
    "words", [("-t", "one"), ("-f", "-c", "%T", "one"), ("-c", "%u"), ("--no", "one"), ("one",), ()]
)
def test_all_else_is_left_to_the_real_one(place: Path, words: tuple[str, ...]) -> None:
    assert simulated(place, *words) == told(place, "stat", *words)


def test_root_is_told_what_is_so(place: Path) -> None:
    if os.geteuid() != 0:  # then the one of this machine is right only for root
        assert simulated(place, "-c", "%u", "/") == (0, "0\n", "")
        return
    done = subprocess.run(
        ["./stat", "-c", "%u", "one"], cwd=place, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{NOBODYS}\n"
