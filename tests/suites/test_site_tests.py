"""A site's own tests: ``gdr`` is each host, judged; who does not ask for it pays nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev.run import ROOT

ASKS = """
import pytest

def test_peermem(gdr):
    assert gdr["peermem.loaded"].passed

def test_facts(gdr):
    assert gdr.name.startswith("demo-") and len(gdr.node.pci.gpus) == 8

def test_another_check(gdr):
    with pytest.raises(KeyError, match="peermem.loaded"):
        gdr["peermem.loadd"]
"""


PEERMEM = ("--gdr-profile", "peermem")


def ran(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_site.py").write_text(text)
    return subprocess.run(
        [
            *(sys.executable, "-W", "error", "-m", "pytest", "-p", "gdr_toolkit.pytest_plugin"),
            *("-p", "no:cacheprovider", "-rA", "--color=no", *words),
        ],
        cwd=folder,
        env=os.environ | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "by-xdist"])
def test_each_host_is_judged_and_a_failure_shows_what_was_found(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    done = ran(tmp_path, ASKS, "--hosts", "demo-healthy,demo-kernel", *PEERMEM, *words)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "PASSED test_site.py::test_peermem[toolkit://demo-healthy]" in done.stdout
    assert "FAILED test_site.py::test_peermem[toolkit://demo-kernel]" in done.stdout
    told = (
        "<fail peermem.loaded broken demo-kernel; found nvidia-peermem is not loaded; expected live"
    )
    assert told in done.stdout
    assert "1 failed, 5 passed" in done.stdout.splitlines()[-1]


OWN = """
from toolkit.checks.check import Impact, check, failed

@check("site.rack", impact=Impact.SLOW, source="our wiki", fix="name it")
def rack(node, want):
    \"\"\"Hosts are named by their rack.\"\"\"
    return failed(node.hostname, expected="rNN")
"""


def test_a_check_of_ones_own_is_a_case_and_an_answer(tmp_path: Path) -> None:
    (tmp_path / "site" / "checks").mkdir(parents=True)
    (tmp_path / "site" / "checks" / "rack.py").write_text(OWN)
    (tmp_path / "gdr.toml").write_text('site = "site"\n')
    asks = "def test_rack(gdr):\n    assert gdr['site.rack'].failed\n"
    words = ("--hosts", "demo-healthy", "--pyargs", "toolkit.suites", "-k", "rack", "test_site.py")
    done = ran(tmp_path, asks, *words)
    assert "FAILED" in done.stdout, done.stdout + done.stderr
    assert "test_node[toolkit://demo-healthy-site.rack]" in done.stdout
    assert "PASSED test_site.py::test_rack[toolkit://demo-healthy]" in done.stdout


def test_a_host_that_cannot_be_asked_fails_in_a_sentence(tmp_path: Path) -> None:
    done = ran(tmp_path, ASKS, "--hosts", "127.0.0.1:1", "-k", "peermem")
    assert "127.0.0.1:1 refuses connections\n next: " in done.stdout
    assert "Traceback" not in done.stdout


def test_without_hosts_it_says_so(tmp_path: Path) -> None:
    done = ran(tmp_path, ASKS)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no hosts named" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_who_does_not_ask_for_it_loads_nothing_of_ours(tmp_path: Path) -> None:
    text = "import sys\ndef test_it():\n    ours = [m for m in sys.modules if m[:7] == 'toolkit']\n"
    done = ran(tmp_path, text + "    assert len(ours) <= 3, ours\n")
    assert done.returncode == 0, done.stdout
