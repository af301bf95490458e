"""Where our files are, and where the user has ours."""

from __future__ import annotations

import getpass
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolkit import package_data
from toolkit.errors import ToolkitError, UsageError
from toolkit.package_data import from_home, kept, playbooks, templates, user_name
from toolkit.plural import counted
from toolkit.report.table import Painter, error_lines, labelled


def test_inside_the_package_goes_before_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "toolkit"
    package.mkdir()
    for find, name in ((templates, "templates"), (playbooks, "playbooks")):
        with pytest.raises(ToolkitError, match=f"this installation has no folder {name}"):
            find(package)
        (tmp_path / name).mkdir()
        assert find(package) == tmp_path / name
        (package / name).mkdir()
        assert find(package) == package / name
        assert find().is_dir()


Capture = pytest.CaptureFixture[str]
NEXT = "set HOME, or XDG_STATE_HOME and XDG_CACHE_HOME, to a folder that can be written"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a user has with neither HOME nor a line in passwd: not made yet."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    passwd(monkeypatch, None)
    package_data._say.cache_clear()
    return temporary / f"gdr-toolkit-{os.geteuid()}"


def passwd(monkeypatch: pytest.MonkeyPatch, home: Path | None) -> None:
    def known(_: int) -> SimpleNamespace:
        if home is None:
            raise KeyError("getpwuid(): uid not found")
        return SimpleNamespace(pw_dir=str(home))

    monkeypatch.setattr("pwd.getpwuid", known)


def state() -> Path:
    return kept("XDG_STATE_HOME", "~/.state")


@pytest.mark.parametrize(
    ("given", "folder"),
    [(None, "{}/.state"), ("", "{}/.state"), ("/x", "/x"), ("~/y", "{}/y")],
)
def test_the_users_folder_of_ours(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    folder: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if given is not None:
        monkeypatch.setenv("XDG_STATE_HOME", given)
    assert state() == Path(folder.format(tmp_path)) / "gdr-toolkit"
    assert from_home("~/a") == tmp_path / "a"
    assert not place.exists()


def test_without_a_home_it_is_a_folder_of_the_users_own(
    place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [state(), state()] == [place / ".state/gdr-toolkit"] * 2
    assert place.stat().st_mode & 0o7777 == 0o700
    note = f"note: user {os.geteuid()} has no home and HOME is not set"
    assert capsys.readouterr().err == f"{note}; what is kept goes below {place}\n"
    monkeypatch.setenv("XDG_STATE_HOME", "~nobody-at-all")
    with pytest.raises(UsageError, match="XDG_STATE_HOME=~nobody-at-all: this user has no home"):
        state()


def test_a_home_that_is_no_folder_is_passed_over(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file, ours = tmp_path / "file", tmp_path / "ours"
    file.touch()
    ours.mkdir()
    for home, why in (
        (tmp_path / "none", "cannot be used (No such file or directory)"),
        (file / "below", "cannot be used (Not a directory)"),
        (file, "is no folder"),
        (Path(), "is no folder"),
    ):
        monkeypatch.setenv("HOME", str(home))
        for known, taken in ((None, place), (home, place), (ours, ours)):
            passwd(monkeypatch, known)
            package_data._say.cache_clear()
            assert state() == taken / ".state/gdr-toolkit"
            note = f"note: HOME={home} {why}; what is kept goes below {taken}\n"
            assert capsys.readouterr().err == note


def test_a_home_that_cannot_be_written_is_passed_over(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def may(path: Path, *_: int, **__: bool) -> bool:
        return path != tmp_path

    monkeypatch.setattr("os.access", may)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state() == place / ".state/gdr-toolkit"
    note = f"note: HOME={tmp_path} cannot be used ({tmp_path} cannot be written); "
    assert capsys.readouterr().err.startswith(note)
    (tmp_path / ".state").mkdir()  # which can be
    assert state() == tmp_path / ".state/gdr-toolkit"


@pytest.mark.parametrize(
    ("owner", "mode", "home", "shared"),
    [
        pytest.param(1000, 0o700, True, False, id="ours"),
        pytest.param(1000, 0o775, True, False, id="ours-and-our-groups"),
        pytest.param(1000, 0o777, True, True, id="ours-and-everybodys"),
        pytest.param(1001, 0o755, False, False, id="anothers"),
        pytest.param(1001, 0o775, False, True, id="anothers-and-his-groups"),
        pytest.param(1001, 0o777, False, True, id="anothers-and-everybodys"),
        pytest.param(0, 0o755, True, False, id="roots"),
        pytest.param(0, 0o775, True, True, id="roots-and-our-groups"),
        pytest.param(0, 0o777, False, True, id="roots-and-everybodys"),
        pytest.param(0, 0o1777, False, False, id="roots-for-everybodys-files"),
    ],
)
def test_whose_a_folder_is(owner: int, mode: int, home: bool, shared: bool) -> None:
    about = os.stat_result((stat.S_IFDIR | mode, 0, 0, 0, owner, 0, 0, 0, 0, 0))
    assert (package_data._is_home(about, 1000), package_data._anybodys(about, 1000)) == (
        home,
        shared,
    )


def test_a_home_that_is_anothers_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    why = package_data._unusable(tmp_path, tmp_path / "a")
    assert why == f"is not this user's (it is of user {owner})"


@pytest.mark.parametrize("there", ["link", "open", "file", "anothers", "no-sticky-bit", "none"])
def test_a_temporary_folder_that_may_be_somebody_elses_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    if there == "link":
        place.symlink_to(theirs)
    elif there == "open":
        place.mkdir(mode=0o755)
    elif there == "file":
        place.touch(mode=0o700)
    elif there == "anothers":
        user = os.geteuid() + 1
        place.with_name(f"gdr-toolkit-{user}").mkdir(mode=0o700)
        monkeypatch.setattr("os.geteuid", lambda: user)
    elif there == "no-sticky-bit":
        place.parent.chmod(0o777)
    else:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(UsageError) as told:
        state()
    hint = f"chmod 700 {place}, or remove it" if there == "open" else NEXT
    assert (told.value.hint, [*theirs.iterdir()]) == (hint, [])


@pytest.mark.parametrize("why", [KeyError("x"), OSError("x")])
def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch, why: Exception) -> None:
    def none() -> str:
        raise why

    monkeypatch.setattr(getpass, "getuser", lambda: "jo")
    assert user_name() == "jo"
    monkeypatch.setattr(getpass, "getuser", none)
    assert user_name() == str(os.geteuid())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((1, "node", "owes", "owe"), "1 node owes"),
        ((3, "node", "owes", "owe"), "3 nodes owe"),
        ((0, "node"), "0 nodes"),
        ((1, "node"), "1 node"),
    ],
)
def test_words_that_count(words: tuple[int, str], text: str) -> None:
    assert counted(*words) == text


@pytest.mark.parametrize(
    ("argv", "said"),
    [("/usr/bin/gdr", "gdr plan"), ("./gdr.pyz", "./gdr.pyz plan"), ("invoke", "invoke plan")],
)
def test_a_fix_names_the_program_as_it_is_called_where_there_is_no_checkout(
    argv: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [argv])
    error, paint = UsageError("so", hint="./invokew plan"), Painter(False)
    assert error_lines(error, paint).endswith(" next: ./invokew plan")
    monkeypatch.setattr(package_data, "PACKAGE", tmp_path / "toolkit")
    assert error_lines(error, paint).endswith(f" next: {said}")
    assert labelled("fix", "by ./invokew plan") == [f"         fix       by {said}"]
