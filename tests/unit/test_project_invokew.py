"""invokew: a private environment on first use, next to nothing afterwards."""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.checkout import PYTHON, ROOT, UV, Checkout, make


@pytest.fixture(
    params=[
        pytest.param("sh", id="sh"),
        pytest.param("dash", id="dash", marks=pytest.mark.shell),
        pytest.param("busybox sh", id="busybox", marks=pytest.mark.shell),
        pytest.param("bash", id="bash", marks=pytest.mark.shell),
    ]
)
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Checkout:
    return make(tmp_path, request.param)


def test_a_first_start_makes_the_environment_and_then_runs_invoke(checkout: Checkout) -> None:
    said = checkout.start("doctor", "--hosts", "gpu[1-4]")
    assert (said.status, checkout.log) == (0, [f"venv {checkout.env}", "pip requirements.lock"])
    assert said.stdout.startswith(f"invoke --search-root {checkout.root} doctor --hosts gpu[1-4] ")
    told = f"making a private environment in {checkout.env} (once; it needs the network)\n"
    assert said.stderr == told


def test_a_second_start_makes_nothing_and_says_nothing(checkout: Checkout) -> None:
    checkout.start()
    before = checkout.log
    assert (checkout.start().stderr, checkout.log) == ("", before)


def test_a_second_start_runs_no_program_but_cat(checkout: Checkout, tmp_path: Path) -> None:
    checkout.start()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "cat").symlink_to(checkout.bin / "cat")
    (bare / "sh").symlink_to(checkout.bin / "sh")  # the first line of the fake Python
    assert checkout.start(PATH=str(bare)).status == 0


def test_what_invoke_ends_with_is_what_the_wrapper_ends_with(checkout: Checkout) -> None:
    assert checkout.start(INVOKE="7").status == 7


def test_the_package_can_be_imported_from_the_environment(checkout: Checkout) -> None:
    checkout.start()
    (path,) = checkout.env.glob("lib/python3*/site-packages/*.pth")
    assert path.read_text() == f"{checkout.root}\n"


def test_other_peoples_packages_stay_out_of_it(checkout: Checkout) -> None:
    assert "with path none" in checkout.start(PYTHONPATH="/elsewhere").stdout


def test_it_works_through_links_and_leaves_the_caller_where_they_are(
    checkout: Checkout, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "one").symlink_to("../two")
    (tmp_path / "two").symlink_to(checkout.root / "invokew")
    done = subprocess.run(
        [*checkout.shell, "links/one"],
        cwd=tmp_path,
        env=checkout.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"--search-root {checkout.root} in {tmp_path} " in done.stdout


def test_a_changed_lock_makes_it_anew(checkout: Checkout) -> None:
    checkout.start()
    left = checkout.env / "left-behind"
    left.touch()
    (checkout.root / "requirements.lock").write_text("invoke==3.1.0\n")
    checkout.start()
    assert checkout.log.count("pip requirements.lock") == 2
    assert not left.exists()


def test_a_moved_checkout_makes_it_anew(checkout: Checkout, tmp_path: Path) -> None:
    checkout.start()
    moved = checkout.root.rename(tmp_path / "moved")
    after = Checkout(checkout.shell, moved, checkout.bin, checkout.home)
    assert f"--search-root {moved} " in after.start().stdout
    assert after.log[-2:] == [f"venv {moved / '.venv'}", "pip requirements.lock"]


def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Checkout) -> None:
    checkout.start()
    (checkout.env / "bin" / "python").unlink()
    assert checkout.start().status == 0
    assert checkout.log.count("pip requirements.lock") == 2


def test_an_install_that_failed_is_told_and_tried_again(checkout: Checkout) -> None:
    said = checkout.start(PIP="1")
    assert said.status == 69
    assert said.stderr.splitlines()[-2] == "WARNING: it is slow today"
    assert "error: the packages of requirements.lock could not be installed" in said.stderr
    assert (checkout.start().status, (checkout.env / "pip.log").exists()) == (0, False)


def test_a_first_start_that_was_killed_is_repaired_by_the_next(checkout: Checkout) -> None:
    with subprocess.Popen(
        checkout.words(),
        env=checkout.environ(SLOW="60"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as first:
        _wait_for_pip(checkout)
        os.killpg(first.pid, signal.SIGKILL)
    said = checkout.start()
    assert (said.status, checkout.log.count("pip requirements.lock")) == (0, 2)


def _wait_for_pip(checkout: Checkout) -> None:
    end = time.monotonic() + 120
    while "pip requirements.lock" not in checkout.log:
        assert time.monotonic() < end, f"it never got to pip: {checkout.log}"
        time.sleep(0.01)


def test_a_terminal_sees_in_one_line_how_far_it_is(checkout: Checkout) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        checkout.words(), env=checkout.environ(), stdout=-1, stderr=theirs, check=True
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # at its end; one reading may give a part
        while part := os.read(ours, 65536):
            said += part
    os.close(ours)
    made, *rewritten = said.decode().split("\r\n")
    assert done.stdout.startswith(b"invoke ")
    assert made.startswith("making a private environment")
    assert rewritten == ["\r\x1b[K  invoke==3.0.3\r\x1b[K"]


def test_two_first_starts_at_once_make_one_environment(checkout: Checkout) -> None:
    both = [
        subprocess.Popen(
            checkout.words(), env=checkout.environ(SLOW="0.3"), stdout=-1, stderr=-1, text=True
        )
        for _ in range(2)
    ]
    said = [each.communicate(timeout=300)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert all(text.startswith("invoke ") for text in said)
    assert checkout.log.count("pip requirements.lock") == 1


def test_development_packages_are_added_when_asked_for(checkout: Checkout) -> None:
    checkout.start()
    checkout.start(GDR_DEV="1")
    checkout.start(GDR_DEV="1")
    added = [f"venv {checkout.env}", "pip requirements.lock", "pip requirements-dev.lock"]
    assert checkout.log == added


def test_an_environment_that_is_not_ours_is_left_alone(checkout: Checkout) -> None:
    checkout.env.mkdir()
    (checkout.env / "precious").touch()
    assert checkout.start().status == 0
    assert [each.name for each in checkout.env.iterdir()] == ["precious"]
    assert f"venv {checkout.home}/.cache/gdr-toolkit/" in checkout.log[0]


def test_a_checkout_that_cannot_be_written_has_it_in_the_cache(checkout: Checkout) -> None:
    (checkout.root / ".venv.lock").mkdir()  # which not even root can write to
    caches = checkout.home / "caches"
    checkout.start(XDG_CACHE_HOME=str(caches))
    said = checkout.start(XDG_CACHE_HOME=str(caches))
    assert (said.status, said.stderr, len(checkout.log)) == (0, "", 2)
    assert len([each for each in (caches / "gdr-toolkit").iterdir() if each.is_dir()]) == 1


@pytest.mark.parametrize("home", ["", "no-folder", "file"])
def test_without_a_home_it_has_it_in_a_folder_of_its_own(
    checkout: Checkout, tmp_path: Path, home: str
) -> None:
    (checkout.root / ".venv.lock").mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    (tmp_path / "file").touch()
    given = {"TMPDIR": str(temporary), "HOME": home and str(tmp_path / home)}
    said = checkout.start(**given)
    assert (said.status, checkout.start(**given).stderr) == (0, "")
    ours = temporary / f"gdr-toolkit-{os.geteuid()}"
    assert ours.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in temporary.iterdir()] == [ours.name]
    assert f"environment in {ours}/.cache/gdr-toolkit/" in said.stderr


@pytest.mark.parametrize("there", ["link", "open", "file", "no-sticky-bit"])
def test_a_folder_that_may_be_somebody_elses_is_refused(
    checkout: Checkout, tmp_path: Path, there: str
) -> None:
    (checkout.root / ".venv.lock").mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o777 if there == "no-sticky-bit" else 0o1777)
    place, theirs = temporary / f"gdr-toolkit-{os.geteuid()}", tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    if there == "link":
        place.symlink_to(theirs)
    elif there == "open":
        place.mkdir(mode=0o755)
    elif there == "file":
        place.touch(mode=0o700)
    said = checkout.start(HOME="", TMPDIR=str(temporary))
    assert (said.status, said.stdout, [*theirs.iterdir()]) == (69, "", [])
    assert said.stderr.count("\n") == 1
    assert "can be written; set XDG_CACHE_HOME" in said.stderr


def test_nowhere_to_write_is_one_sentence(checkout: Checkout) -> None:
    (checkout.root / ".venv.lock").mkdir()
    (checkout.home / "file").touch()
    said = checkout.start(XDG_CACHE_HOME=str(checkout.home / "file"))
    assert said.status == 69
    assert said.stderr.count("\n") == 1
    assert "can be written; set XDG_CACHE_HOME" in said.stderr


def test_uv_goes_first_where_it_is_there(checkout: Checkout) -> None:
    _give_uv(checkout)
    said = checkout.start()
    lock = checkout.root / "requirements.lock"
    assert (said.status, checkout.log) == (0, [f"uv venv {checkout.env}", f"uv pip {lock}"])


def test_with_uv_a_python_without_venv_will_do(checkout: Checkout) -> None:
    _give_uv(checkout)
    assert checkout.start(PROBE="4").status == 0


def test_where_uv_cannot_install_pip_may(checkout: Checkout) -> None:
    _give_uv(checkout)
    checkout.start()
    checkout.give("uv", "#!/bin/sh\nexit 2\n")
    checkout.start(GDR_DEV="1")
    assert checkout.log[-1] == "pip requirements-dev.lock"


def _give_uv(checkout: Checkout) -> None:
    checkout.give("uv", UV)
    checkout.give("python", PYTHON)


@pytest.mark.parametrize(
    ("probe", "more", "sentence"),
    [
        pytest.param(
            "3", {}, "error: python3 is too old: no Python 3.11 or newer was found;", id="old"
        ),
        pytest.param(
            "4",
            {},
            "error: python3 cannot make environments here; install what it lacks:"
            " apt install python3-venv",
            id="without-venv",
        ),
        pytest.param("127", {}, "error: no Python 3.11 or newer was found;", id="none"),
        pytest.param(
            "3",
            {"GDR_PYTHON": "python3"},
            "error: GDR_PYTHON=python3 is no Python 3.11 or newer",
            id="the-named-one-is-old",
        ),
        pytest.param(
            "0",
            {"GDR_PYTHON": "/nowhere/python"},
            "error: GDR_PYTHON=/nowhere/python is no Python 3.11 or newer",
            id="the-named-one-is-not-there",
        ),
    ],
)
def test_no_usable_python_is_one_sentence(
    checkout: Checkout, probe: str, more: dict[str, str], sentence: str
) -> None:
    said = checkout.start(PROBE=probe, **more)
    assert (said.status, said.stdout, said.stderr.count("\n")) == (69, "", 1)
    assert said.stderr.startswith(sentence)
    assert not checkout.env.exists()


def test_the_first_python_that_will_do_is_taken(checkout: Checkout) -> None:
    checkout.give("python3", "#!/bin/sh\nexit 3\n")
    checkout.give("python3.12", PYTHON)
    assert checkout.start().status == 0


@pytest.mark.parametrize(
    ("before", "status", "told"),
    [
        pytest.param("", 0, True, id="will-do"),
        pytest.param("sys.version_info = (3, 10, 12)", 3, False, id="too-old"),
        pytest.param("sys.modules['ensurepip'] = None", 4, True, id="without-ensurepip"),
    ],
)
def test_a_python_is_asked_whether_it_will_do(before: str, status: int, told: bool) -> None:
    """The question itself, put to a real Python; elsewhere the answer is played."""
    text = (ROOT / "invokew").read_text()
    probe = text.partition("probe='")[2].partition("'\n")[0]
    assert "ensurepip" in probe
    words = [sys.executable, "-c", f"import sys\n{before}\n{probe}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    real = f"{Path(sys.executable).resolve()}\n" if told else ""
    assert (done.returncode, done.stdout) == (status, real)


def test_a_second_start_costs_little_beside_python_itself(tmp_path: Path) -> None:
    """A ratio within one run, of the best of ten each: a busy machine does not matter."""
    checkout = make(tmp_path, "sh")
    checkout.start()
    python = checkout.env / "bin" / "python"
    python.unlink()
    python.symlink_to(sys.executable)
    script = checkout.root / "dev" / "__main__.py"
    script.parent.mkdir()
    script.write_text("import argparse, json\n")
    (checkout.root / "requirements.lock").write_bytes((ROOT / "requirements.lock").read_bytes())
    (checkout.env / "requirements.lock").write_bytes((ROOT / "requirements.lock").read_bytes())
    both = (checkout.words(), [str(python), "-P", str(script)])
    turns = [[_seconds(words, checkout) for words in both] for _ in range(10)]
    wrapped, bare = (min(each) for each in zip(*turns, strict=True))
    assert wrapped < 2.5 * bare


def _seconds(words: list[str], checkout: Checkout) -> float:
    """Of a processor: nobody else's work is part of it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=checkout.environ(), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
