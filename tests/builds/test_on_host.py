"""Builds on a host, over a real OpenSSH server: its modules come back, and it stays as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builds.layers import layer, stack
from tests.builds.sandbox import Sandbox
from tests.builds.verb import ROOT
from tests.fleet.sshd import Sshd

pytestmark = [pytest.mark.builds, pytest.mark.sshd]

# What the builder runs, it runs in the tree: a host of its own but for the kernel.
_INSIDE = 'ForceCommand exec chroot {root} /bin/sh -c "$SSH_ORIGINAL_COMMAND"'


@dataclass(frozen=True, slots=True)
class Builder:
    box: Sandbox
    sshd: Sshd
    config: Path  # an ssh_config that knows it as "builder"


def _with_mount(box: Sandbox) -> None:
    """Trees have no mount(8), which machines that boot all have."""
    get = "apt-get -q -o APT::Sandbox::User="
    box.shell(f"{get} update; {get} install -y --no-install-recommends mount")
    box.shell("apt-get clean; rm -rf /var/lib/apt/lists/*")


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Builder]:
    with Sandbox(layer("builder", stack("bookworm").lower, _with_mount)) as box:
        settings = [_INSIDE.format(root=box.root)]
        with Sshd(tmp_path / "sshd", settings=settings) as sshd:
            config = tmp_path / "ssh_config"
            lines = [
                "Host builder",
                f"HostName {sshd.address}",
                f"Port {sshd.port}",
                f"IdentityFile {sshd.keys.user}",
                f"UserKnownHostsFile {sshd.known_hosts}",
                "GlobalKnownHostsFile /dev/null",
                "IdentitiesOnly yes",
            ]
            config.write_text("\n    ".join(lines) + "\n")
            yield Builder(box, sshd, config)


def _begin(folder: Path, builder: Builder, *words: str) -> subprocess.Popen[str]:
    what = ["--kernel", builder.box.kernel("6.1."), "--part", "peermem"]
    where = ["--on", "builder", "--ssh-config", str(builder.config)]
    return subprocess.Popen(
        [sys.executable, "-m", "toolkit.cli", "build", *what, *where, "--json", *words],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_modules_built_on_a_host_come_back(tmp_path: Path, builder: Builder) -> None:
    before = _tree(builder.box)
    with _begin(tmp_path, builder) as run:
        out, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    (made,) = [each for each in json.loads(out)["builds"] if each["part"] == "peermem"]
    assert (made["state"], made["accepted"]) == ("built", ["nvidia-peermem.ko"])
    entry = tmp_path / "gdr-toolkit/builds" / made["digest"]
    assert (entry / "nvidia-peermem.ko").read_bytes()[:4] == b"\x7fELF"
    assert _tree(builder.box) == before
    (log,) = tmp_path.glob("gdr-toolkit/runs/*/nvidia-peermem-*.log")
    assert "= make ok" in log.read_text()
    with _begin(tmp_path, builder) as run:
        out, err = run.communicate(timeout=100)
    assert {each["state"] for each in json.loads(out)["builds"]} == {"given", "cached"}


def test_ctrl_c_ends_the_build_on_the_host_too(tmp_path: Path, builder: Builder) -> None:
    with _begin(tmp_path, builder) as run:
        _until(lambda: "make" in _running(builder.box), run)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    _until(lambda: "make" not in _running(builder.box))
    assert not list((tmp_path / "gdr-toolkit/builds").glob("?" * 64))


def test_a_host_that_goes_away_midway_is_out_of_reach(tmp_path: Path, builder: Builder) -> None:
    with _begin(tmp_path, builder) as run:
        _until(lambda: "make" in _running(builder.box), run)
        builder.sshd.stop()  # and every session that it serves
        out, err = run.communicate(timeout=120)
    assert run.returncode == 4, (out, err)
    (lost,) = [each for each in json.loads(out)["builds"] if each["part"] == "peermem"]
    assert lost["state"] == "lost"
    assert lost["error"]["message"].startswith("builder: ")


def _tree(box: Sandbox) -> list[str]:
    """What could be changed by a build, by name, size and time."""
    folders = "lib/modules", "usr/src", "var/lib/dkms", "etc"
    files = (each for folder in folders for each in (box.root / folder).rglob("*"))
    return sorted(
        f"{each} {each.lstat().st_size} {each.lstat().st_mtime_ns}"
        for each in files
        if not each.is_dir()
    )


def _running(box: Sandbox) -> set[str]:
    """Names of the processes that run in the tree, or in a view of it."""
    names = set()
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and Path(each / "root").readlink() == box.root:
                names.add((each / "comm").read_text().strip())
        except OSError:
            continue
    return names


def _until(there: object, run: subprocess.Popen[str] | None = None, limit_s: float = 120) -> None:
    assert callable(there)
    end = time.monotonic() + limit_s
    while not there():
        assert run is None or run.poll() is None, run.communicate()
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)
