"""Texts as people paste them into tickets: all that fails, and all that passes, and nothing else.

Each was composed in the manner of a real thread; what an expert reads in it stands beside it.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.report.causes import cause_lines
from toolkit.report.table import Painter
from toolkit.verbs.saved import read_saved
from toolkit.want import Want

DAY = date(2026, 11, 28)
BUILT_BEFORE = "nvidia/535.129.03, 5.15.0-88-generic, x86_64: installed\n"
MISMATCH = (
    "$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\n"
    "NVML library version: 535.154\n$ cat /proc/driver/nvidia/version\n"
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
)
API = (
    "[  103.411223] NVRM: API mismatch: the client has the version 535.154.05, but\n"
    "[  103.411223] NVRM: this kernel module has the version 535.129.03.  Please\n"
)
LOADED_SINCE = "[  203.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.154.05\n"
INSTALL = (
    "# modprobe nvidia-peermem\nmodprobe: ERROR: ../libkmod/libkmod-module.c:990 command_do() Error"
    " running install command '/bin/false' for module nvidia_peermem: retcode 1\n"
    "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
)


def judged(text: str, folder: Path) -> tuple[str, str]:
    """Ids of what fails, and of what passes."""
    (folder / "ticket.txt").write_text(text)
    ((_, evidence),) = read_saved(folder / "ticket.txt")
    found = judge_node("ticket", evidence, Want(path=None), DAY)

    def having(status: Status) -> str:
        return " ".join(sorted(each.check.id for each in found.having(status)))

    return having(Status.FAIL), having(Status.PASS)


@pytest.mark.parametrize(
    ("text", "fails", "passes"),
    [
        pytest.param(f"{BUILT_BEFORE}\n5.15.0-91-generic\n", "dkms.state", "", id="dkms-and-uname"),
        pytest.param(
            f"$ dkms status\n{BUILT_BEFORE}$ uname -r\n5.15.0-88-generic\n",
            "",
            "dkms.state",
            id="dkms-and-the-kernel-it-built-for",
        ),
        pytest.param(
            f"$ dkms status | grep 88\n{BUILT_BEFORE}$ uname -r\n5.15.0-91-generic\n",
            "",
            "",
            id="dkms-of-one-kernel-alone",
        ),
        pytest.param(MISMATCH, "nvidia.nvml nvidia.version", "cuda.attrs", id="nvml-mismatch"),
        pytest.param(API, "nvidia.nvml", "", id="api-mismatch"),
        pytest.param(API + LOADED_SINCE, "", "", id="api-mismatch-before-a-reload"),
        pytest.param(INSTALL, "peermem.loaded", "", id="install-command"),
    ],
)
def test_what_an_expert_reads_in_it(text: str, fails: str, passes: str, tmp_path: Path) -> None:
    assert judged(text, tmp_path) == (fails, passes)


def test_what_is_refused_by_modprobe_d_is_not_laid_to_the_module(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(INSTALL)
    ((_, evidence),) = read_saved(tmp_path / "x")
    found = judge_node("x", evidence, Want(), DAY)
    assert "/bin/false" in found.having(Status.FAIL)[0].finding.found


def test_what_fails_stands_before_what_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(API)
    ((_, evidence),) = read_saved(tmp_path / "x")
    words = [
        line.split()[0]
        for line in cause_lines([judge_node("x", evidence, Want(), DAY)], Painter(False))
        if line[:1].strip()
    ]
    assert words[0] == "broken"
    assert "unknown" in words[1:]
