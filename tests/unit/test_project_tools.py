"""Programs that tests need: what is missing is named once, and installed if asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dev import run, tools
from dev.run import ROOT, scripts
from dev.tools import Tool, in_ci, install, missing, sentence
from toolkit.errors import ToolkitError, Unsupported

NOWHERE = Tool("no-such-program", "no-such-package")


def test_a_missing_tool_is_named_once() -> None:
    shell = Tool("sh", "dash")
    assert missing([NOWHERE, shell, NOWHERE]) == (NOWHERE,)


def test_what_no_package_brings_is_named_without_one() -> None:
    assert sentence([tools.ROOT]) == "needs root's right to mount"
    told = "needs root's right to mount, mmdebstrap (apt install mmdebstrap)"
    assert sentence([tools.ROOT, tools.MMDEBSTRAP]) == told


def test_an_ordinary_user_may_not_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not tools.ROOT.here
    install([tools.ROOT])  # nothing to install: apt-get is not asked


def test_a_test_that_needs_root_says_so_by_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sentence(missing(tools.MARKS["root"])) == "needs root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert missing(tools.MARKS["root"]) == ()


def test_root_whom_a_container_keeps_from_mounting_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses = tmp_path / "unshare"
    refuses.write_text("#!/bin/sh\nexit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not tools.ROOT.here
    refuses.write_text('#!/bin/sh\n[ "$*" = "--mount true" ]\n')
    assert tools.ROOT.here


@pytest.mark.parametrize(
    ("value", "strict"),
    [("true", True), ("TRUE", True), ("1", True), ("", False), ("false", False)],
)
def test_ci_is_what_says_so(value: str, strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", value)
    assert in_ci() is strict


def _apt(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """An apt-get that writes down its words; we are root, and PATH holds little else."""
    log = folder / "log"
    apt = folder / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$*" >>{log}\n{body}\n')
    apt.chmod(0o755)
    (folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(tools, "SBIN", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return log


def test_install_asks_apt_for_what_is_missing_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _apt(tmp_path, monkeypatch, "exit 0")
    install([NOWHERE, Tool("apt-get", "apt")])
    assert log.read_text() == "-q install -y --no-install-recommends no-such-package\n"


def test_install_updates_the_lists_only_where_they_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = tmp_path / "fresh"
    body = f'[ "$2" != update ] || : >{fresh}\n[ -e {fresh} ]'
    log = _apt(tmp_path, monkeypatch, body)
    install([NOWHERE])
    assert [line.split()[1] for line in log.read_text().splitlines()] == [
        "install",
        "update",
        "install",
    ]


def test_install_that_apt_refuses_is_an_error_with_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _apt(tmp_path, monkeypatch, "exit 100")
    with pytest.raises(Unsupported, match="apt-get could not install no-such-package"):
        install([NOWHERE])


@pytest.mark.parametrize(
    ("user", "there", "refusal"),
    [
        pytest.param(0, (), "--install knows Debian's apt-get alone", id="no-apt"),
        pytest.param(
            1000, ("apt-get",), "--install is for root, and there is no sudo", id="no-sudo"
        ),
    ],
)
def test_install_is_refused_politely(
    user: int,
    there: tuple[str, ...],
    refusal: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in there:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "SBIN", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(Unsupported, match=refusal) as refused:
        install([NOWHERE])
    assert refused.value.hint == "install by hand what holds: no-such-package"


def test_shellcheck_reads_every_script_whatever_its_name() -> None:
    found = scripts()
    assert {
        "invokew",
        ".ci/run",
        "toolkit/node/scripts/probe.sh",
        "toolkit/demo/bin/modprobe",
    } <= set(found)
    assert "tasks.py" not in found


def test_a_benchmark_is_a_module_that_is_there() -> None:
    for words in run.benchmarks(64, 3):
        assert words[1] == "-m"
        assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file()


def test_what_a_step_and_its_children_computed_is_counted() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    words = ("sh", "-c", f"{sys.executable} -c '{busy}'; exit 3")
    status, spent = run._status(words, {}, dry=False, held=True)
    assert status == 3
    assert spent >= 0.3


def test_development_packages_come_by_the_wrapper_that_made_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gdr.root").touch()
    wrapper = tmp_path / "invokew"
    wrapper.write_text('#!/bin/sh\necho "$GDR_DEV $*" >"${0%/*}/said"\nexit 69\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    with pytest.raises(ToolkitError, match="the development packages are not there"):
        run.provide()
    assert (tmp_path / "said").read_text() == "1 --version\n"
