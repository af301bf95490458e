"""The scripts of survey and builds under each shell, without DKMS and outside any ground."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from tests.scripts.shells import parts, say
from toolkit import package_data
from toolkit.built.plan.model import BuildFailure, Built, Inputs, Part
from toolkit.evidence import Evidence
from toolkit.features.builds.io import sandbox
from toolkit.features.builds.io.sandbox import Order, SandboxFile, build_script
from toolkit.features.builds.plan.outcome import read_outcome

pytestmark = pytest.mark.shell

KERNEL = "6.1.0-56-amd64"
INPUTS = Inputs(Part.PEERMEM, "p", "1", KERNEL, "x86_64", "", "", "", "", "", "")


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return SHELLS[request.param]


# --- the steps of a build ------------------------------------------------------------------

GOOD = {
    "prepare": "echo ready",
    "make_it": "echo compiling; printf 'no newline'",
    "gate_it": ":",
    "pack_it": "mkdir -p $AT/packed && printf 'bytes\\000\\377' >$AT/packed/a.ko",
}


HANGS = "while [ -e $AT ]; do sleep 0.2; done"  # what is left of it ends with the test's folder


def script_of(steps: dict[str, str], limit: str = "60") -> str:
    """build.sh with steps of our own."""
    functions = "".join(f"{name}() {{ {body}; }}\n" for name, body in (GOOD | steps).items())
    build = parts("build.sh").replace("/mnt/", "$AT/")
    given = f"kernel={KERNEL} package=p version=1 limit={limit} silence=10\n"
    return parts("frames.sh", "hashes.sh") + build + given + functions + "build\n"


def run_steps(shell: tuple[str, ...], at: Path, limit: str = "60", **steps: str) -> str:
    done = say(shell, script_of(steps, limit), AT=str(at))
    assert not re.sub(r".* Killed .*\n", "", done.stderr)  # as bash tells of its children
    return done.stdout


def test_a_build_sends_what_it_left(shell: tuple[str, ...], tmp_path: Path) -> None:
    came = read_outcome(run_steps(shell, tmp_path), INPUTS)
    assert isinstance(came, Built), came
    assert [each.data for each in came.modules] == [b"bytes\0\xff"]
    log = came.file("make.log")
    assert log is not None
    assert log.data == b"compiling\nno newline\n"


@pytest.mark.parametrize(
    ("step", "name"),
    [("prepare", "prepare"), ("make_it", "make"), ("gate_it", "gate"), ("pack_it", "pack")],
)
def test_a_step_that_fails_is_the_last_one(
    shell: tuple[str, ...], tmp_path: Path, step: str, name: str
) -> None:
    text = run_steps(shell, tmp_path, **{step: "echo why >&2; return 9"})
    came = read_outcome(text, INPUTS)
    assert isinstance(came, BuildFailure)
    assert (came.step, came.status, came.tail[-1]) == (name, 9, "why")
    assert Evidence.parse(text).complete
    assert "= file." not in text


def test_a_step_that_kills_itself_is_no_success(shell: tuple[str, ...], tmp_path: Path) -> None:
    text = run_steps(shell, tmp_path, make_it="sh -c 'kill -9 $PPID'; sleep 1")
    came = read_outcome(text, INPUTS)
    assert isinstance(came, BuildFailure)
    assert (came.step, came.status) == ("make", 137)


def test_a_step_that_hangs_is_ended(shell: tuple[str, ...], tmp_path: Path) -> None:
    begun = "$AT/begun"  # the time is up as soon as it hangs
    clock = f"if [ -e {begun} ]; then echo 2; else echo 0; fi"
    hangs = f"echo begun; : >{begun}; {HANGS}"
    text = run_steps(shell, tmp_path, limit="2", seconds=clock, make_it=hangs)
    came = read_outcome(text, INPUTS)
    assert isinstance(came, BuildFailure)
    assert "not done after 2 s" in came.found
    assert came.tail == ("begun",)


def test_lines_come_as_they_are_said_and_dots_meanwhile(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    """Those of make.log too, which DKMS moves away when the build succeeds."""
    log = "$AT/dkms/p/1/build/make.log"
    wait = "until [ -e $AT/{} ]; do sleep 0.05; done"  # until what was said before is heard
    first = f"mkdir -p $AT/dkms/p/1/build; echo CC one >{log}; {wait.format('dot')}"
    body = f"{first}; mv {log} $AT/log; echo CC two >>$AT/log; {wait.format('two')}"
    with begun(shell, script_of({"make_it": body}), tmp_path) as child:
        assert child.stdout is not None
        lines = []
        for line in iter(child.stdout.readline, b""):
            lines.append(line.decode())
            if line == b".\n" and "|CC one\n" in lines:
                (tmp_path / "dot").touch()
            if line == b"|CC two\n":
                (tmp_path / "two").touch()
    assert isinstance(read_outcome("".join(lines), INPUTS), Built)


def test_a_build_ends_when_nobody_listens(shell: tuple[str, ...], tmp_path: Path) -> None:
    """Without SIGPIPE: the first process of a namespace is not ended by signals."""
    script = script_of({"make_it": HANGS})
    child = begun(shell, f"trap '' PIPE\n{script}", tmp_path)
    assert child.stdout is not None
    while b"= make.output" not in child.stdout.readline():
        pass
    child.stdout.close()
    assert child.wait(60) != 0


def begun(shell: tuple[str, ...], script: str, at: Path) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [*shell, "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "AT": str(at)},
    )  # fmt: skip
    assert child.stdin is not None
    child.stdin.write(script.encode())
    child.stdin.close()
    return child


# --- what is composed ----------------------------------------------------------------------


def test_values_of_an_order_cannot_end_their_quotes(tmp_path: Path) -> None:
    evil = "x'; touch pwned; '"
    order = Order(
        KERNEL, evil, evil, 5, flags=evil, files=(SandboxFile(f"/{evil}", b"GDR_FILE\n"),)
    )
    script = build_script(order, root=f"/nowhere/{evil}")
    say(SHELLS["dash"], f"cd {shlex.quote(str(tmp_path))}\n{script}")
    assert not list(tmp_path.iterdir())


def test_a_tree_that_is_not_there_is_said_in_frames() -> None:
    done = say(SHELLS["dash"], build_script(Order(KERNEL, "p", "1", 5), root="/nowhere"))
    came = read_outcome(done.stdout, INPUTS)
    assert isinstance(came, BuildFailure)
    assert came.step == "prepare"
    assert "/nowhere" in came.found or "only root" in came.found


def test_the_whole_is_clean_under_shellcheck(tmp_path: Path) -> None:
    """Composed, since parts set what others use. aside.sh means its subshells to forget."""
    names = ("frames.sh", "hashes.sh")
    aside = "\n".join(
        (package_data.templates() / "dkms" / name).read_text() for name in sandbox.ASIDE
    )
    script = tmp_path / "build.sh"
    script.write_text(f"#!/bin/sh\n{parts(*names)}\n{aside}\n{parts('build.sh')}\nbuild\n")
    words = ["shellcheck", "-e", "SC2154,SC2034,SC2317,SC2329,SC2030,SC2031", str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == ""
