"""One build, on this machine: what it is told, and what is kept of what it says."""

from __future__ import annotations

import shlex
from base64 import encodebytes
from pathlib import Path

import pytest

from toolkit.errors import BecomeError, TransportError, Unsupported
from toolkit.features.builds.io import sandbox
from toolkit.features.builds.io.sandbox import (
    Order,
    SandboxFile,
    SandboxJob,
    build_script,
    read_ground,
    run_job,
    survey_script,
    written,
)
from toolkit.package_data import templates
from toolkit.ssh.limits import BULK, Hearing
from toolkit.ssh.transport import Result, Sink, quiet


class Here:
    """This machine, as far as a test goes."""

    lines: tuple[str, ...] = ()
    result: Result | Exception = Result(0, "", "")
    asked: list[tuple[object, ...]] = []  # noqa: RUF012 # each test lays its own

    def __init__(self, name: str = "localhost", *, hearing: Hearing | None = None) -> None:
        assert hearing is None or hearing.room == BULK
        self.name = name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        Here.asked.append((self.name, script, limit_s))
        for line in self.lines:
            sink(line)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "LocalTransport", Here)
    monkeypatch.setattr(Here, "asked", [])


def of(monkeypatch: pytest.MonkeyPatch, result: Result | Exception, *lines: str) -> None:
    monkeypatch.setattr(Here, "result", result)
    monkeypatch.setattr(Here, "lines", lines)


def test_a_build_says_each_line_to_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of(monkeypatch, Result(3, "", "not kept\n"), "one", "t\udcffo")
    log = tmp_path / "log"
    assert run_job(SandboxJob("a build", "", "script", 77, str(log))) == "one\nt\udcffo\n"
    assert log.read_bytes() == b"one\nt\xffo\n"
    assert Here.asked == [("a build", "script", 77)]


def test_a_build_that_never_came_to_its_first_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of(monkeypatch, Result(2, "", "sh: no\nmore\n"))
    log = tmp_path / "log"
    assert run_job(SandboxJob("b", "", "", 1, str(log))) == "sh: no\nmore\n"
    assert log.read_text() == "sh: no\nmore\n"


@pytest.mark.parametrize("lines", [(), ("one",)])
def test_a_build_that_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...]
) -> None:
    of(monkeypatch, TransportError("too late"), *lines)
    log = tmp_path / "log"
    job = SandboxJob("b", "", "", 1, str(log))
    if not lines:
        with pytest.raises(TransportError, match="too late"):
            run_job(job)
        return
    assert run_job(job) == "one\n"
    assert log.read_text() == "one\ntoo late\n"


def test_a_build_that_may_not_be_root(monkeypatch: pytest.MonkeyPatch) -> None:
    of(monkeypatch, BecomeError("no"), "one")
    with pytest.raises(BecomeError):
        run_job(SandboxJob("b", "", "", 1, ""))


def test_a_log_that_cannot_be_written_costs_no_build(tmp_path: Path) -> None:
    for place in ("", str(tmp_path), "/dev/full"):
        with written(place) as write:
            write("x")


GIVEN = {
    "kernel": "6.1",
    "package": "nvidia",
    "version": "550",
    "limit": "60",
    "jobs": "4",
    "flags": "A=1 B=2",
    "ours": "1",
    "source_folder": "nvidia-550",
    "source_name": "nvidia",
    "expected_source": "s",
    "expected_headers": "h",
    "expected_compiler": "c",
    "left_out": "x.ko y.ko",
    "symvers": "/a /b",
}
ORDER = Order(
    "6.1", "nvidia", "550", 60, 4, "A=1 B=2", True, ("one", "two"), False, "nvidia-550", "nvidia",
    "s", "h", "c", ("x.ko", "y.ko"), ("/a", "/b"), (SandboxFile("/a b", b"data", 0o600),),
)  # fmt: skip


def entered(script: str) -> tuple[list[str], str]:
    """The words of enter, and what it reads."""
    head, _, rest = script.rpartition("\nenter ")
    call, _, inner = rest.partition("\n")
    assert head == "#!/bin/sh\n" + sandbox._part("enter.sh")
    words = shlex.split(call)
    assert words[-1] == "<<GDR_GROUND"
    assert inner.endswith("GDR_GROUND\n")
    return words[:-1], inner.removesuffix("GDR_GROUND\n")


def test_what_a_build_is_told() -> None:
    words, inner = entered(build_script(ORDER, root="/tree/", layer="/layer"))
    assert words == ["/tree", "build", "one two ofa_kernel ofa_kernel-dkms", "/layer"]
    given = "".join(f"{name}={shlex.quote(value)}\n" for name, value in GIVEN.items())
    assert given in inner
    lay = f"lay '/a b' 600 <<'GDR_FILE' || return\n{encodebytes(b'data').decode()}GDR_FILE\n"
    assert inner.endswith(f"lay_all() {{\n:\n{lay}}}\nbuild\n")
    for part in ("frames.sh", "hashes.sh", "build.sh"):
        assert sandbox._part(part) in inner
    for part in ("gate.sh", "aside.sh"):
        assert (templates() / "dkms" / part).read_text() in inner


def test_what_a_build_is_not_told() -> None:
    words, inner = entered(build_script(Order("6.1", "p", "1", 60, writable=True)))
    assert words == ["", "open", "ofa_kernel ofa_kernel-dkms", ""]
    rows = ("jobs", "flags", "ours", "source_folder", "source_name", "left_out", "symvers")
    for name in (*rows, "expected_source", "expected_headers", "expected_compiler"):
        assert f"\n{name}=''\n" in inner
    assert inner.endswith("lay_all() {\n:\n}\nbuild\n")


def test_a_ground_is_read_behind_its_view_alone() -> None:
    plain = survey_script(("6.1", "a b"))
    assert plain.startswith("#!/bin/sh\n" + sandbox._part("frames.sh"))
    assert plain.endswith("\nsurvey 6.1 'a b' end\n")
    for root, layer in (("/r", ""), ("", "/l"), ("/r", "/l")):
        words, inner = entered(survey_script(("6.1",), root=root, layer=layer))
        assert words == [root, "look", "", layer]
        assert "#!/bin/sh\n" + inner == survey_script(("6.1",))
    for part in ("probe_elf.sh", "hashes.sh", "survey.sh"):
        assert sandbox._part(part) in plain


def test_what_a_ground_says(monkeypatch: pytest.MonkeyPatch) -> None:
    of(monkeypatch, Result(1, "frames", ""))
    assert read_ground(root="/r", kernels=("6.1",), layer="/l") == "frames"
    script = survey_script(("6.1",), root="/r", layer="/l")
    assert Here.asked == [("localhost", script, 300)]
    of(monkeypatch, Result(0, "", ""))
    assert read_ground(Here("other")) == ""
    assert Here.asked[1] == ("other", survey_script(), 300)


@pytest.mark.parametrize(
    ("said", "told"), [("first\nlast\n", "last"), ("", "its shell ended with 3")]
)
def test_a_ground_that_says_nothing(monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    of(monkeypatch, Result(3, "", said))
    with pytest.raises(Unsupported) as raised:
        read_ground()
    assert str(raised.value) == f"no survey could be made there: {told}"


def test_who_may_not_be_root_here_is_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    of(monkeypatch, BecomeError("no", hint="theirs"))
    with pytest.raises(BecomeError, match="no") as raised:
        read_ground()
    assert "NOPASSWD" in raised.value.hint
    with pytest.raises(BecomeError) as raised:
        read_ground(Here())
    assert raised.value.hint == "theirs"
