"""Options as an operator may give them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.invoked import PATH, ROOT, gdr
from toolkit.cli.options import Said, refuse_saved_hosts
from toolkit.errors import ExitCode, UsageError


@pytest.mark.parametrize(
    ("words", "option"),
    [
        pytest.param(("doctor", "--from", "x", "--kernel", ""), "--kernel", id="no-forecast"),
        pytest.param(("provision", "--hosts", "demo", "--limit", ""), "--limit", id="all-hosts"),
        pytest.param(("doctor", "--from", ""), "--from", id="trailing-underscore"),
        pytest.param(("capture", "--incident="), "--incident", id="by-equals-sign"),
    ],
)
def test_an_empty_option_is_refused_and_not_taken_for_none(
    tmp_path: Path, words: tuple[str, ...], option: str
) -> None:
    ended = gdr(*words, state=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.USAGE, "")
    assert ended.stderr.split("\n")[0] == f"error: {option} is empty"


def test_hosts_beside_what_was_saved_are_refused(tmp_path: Path) -> None:
    """They would not be asked, and the report would look as if they had been."""
    ended = gdr("doctor", "--from", "x", "--hosts", "gpu1", state=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.USAGE, "")
    assert "--hosts and --from do not go together" in ended.stderr
    for name in ("hosts", "hosts_file", "exclude", "limit"):
        with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} and --from"):
            refuse_saved_hosts({"from_": "x", name: "gpu1"})
        refuse_saved_hosts({"from_": "", name: "gpu1"})
    refuse_saved_hosts({"from_": "x", "inventory": "hosts.ini", "hosts": ""})


def test_an_option_that_was_not_given_is_not_empty(tmp_path: Path) -> None:
    assert gdr("hosts", "--hosts", "demo-healthy", state=tmp_path).returncode == ExitCode.OK


def test_the_hosts_of_the_demo_are_listed_and_none_is_made(tmp_path: Path) -> None:
    told = gdr("hosts", "--hosts", "demo", "--exclude", "demo-stub", state=tmp_path).stdout
    assert ["demo-iommu", "127.0.0.1", "root", "-"] in [row.split()[:4] for row in told.split("\n")]
    assert "demo-stub" not in told
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("words", [("checks",), ("hosts", "--limit", ""), ("hsots",)])
def test_the_command_of_a_checkout_ends_as_a_verb_does(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Every other test forks its verb: this one holds that it makes no difference."""
    forked = gdr(*words, state=tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "toolkit.cli", *words],
        cwd=ROOT,
        env={"PATH": PATH, "XDG_STATE_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        forked.returncode, forked.stdout, forked.stderr,
    )  # fmt: skip
    assert ended.stdout or ended.stderr


def test_a_report_goes_into_a_pipe_and_leaves_it_there(tmp_path: Path) -> None:
    """As with --junit /dev/null: root may rename over anything."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)  # nobody reads before it has ended
    try:
        capture = ROOT / "tests/evidence/healthy.txt"
        words = ("doctor", "--from", str(capture), "--junit", str(pipe), "--quiet")
        assert gdr(*words, state=tmp_path).returncode in {ExitCode.OK, ExitCode.FAILED}
        assert os.read(reader, 65536).startswith(b"<?xml")
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("dry", [False, True])
def test_nothing_is_changed_with_check_or_with_dry(check: bool, dry: bool) -> None:
    assert Said({"check": check}, dry).looks is (check or dry)
