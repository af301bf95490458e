"""Nodes that never stop talking: they fail, each with a sentence, and cost the others nothing."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fleet.conftest import Site
from tests.fleet.nodes import served
from tests.fleet.sshd import Keys, Sshd
from tests.laws import NIGHT
from toolkit.errors import ExitCode, FloodError

pytestmark = pytest.mark.sshd

LONG = True
_BEGUN = "echo gdr-begin >&2; printf '= begin ok gdr-toolkit/1\\n= uid ok id\\n|0\\n'; "
MANY = 64 if NIGHT else 20  # flooding hosts: at least four of each kind
FLOODS = {
    "lines": f"{_BEGUN} yes",
    "one-line": f"{_BEGUN} cat /dev/zero",
    "stderr": f"{_BEGUN} yes >&2",
    "frames": _BEGUN + "n=0; while n=$((n + 1)); do echo = k$n ok x; done",
    "login": "cat /dev/zero >&2",  # before the script's own shell has begun
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_node_that_floods_fails_alone(site: Site, keys: Keys, tmp_path: Path, flood: str) -> None:
    command = FLOODS[flood].replace('"', '\\"')
    with Sshd(tmp_path / "sshd", keys=keys, settings=[f"ForceCommand {command}"]) as server:
        with pytest.raises(FloodError, match=r"gpu7: says more than .* on std(out|err)") as raised:
            site.open(server.host("gpu7"), become=False).run("true\n", limit_s=60)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_many_flooding_hosts_cost_8_good_ones_nothing(
    keys: Keys, tmp_path: Path, transport: str
) -> None:
    with ExitStack() as stack:
        nodes = stack.enter_context(served(tmp_path, ["demo-healthy"], keys))
        lines, known = [], [(tmp_path / "known_hosts").read_text()]
        for number, flood in enumerate(FLOODS.values()):
            forced = [f"ForceCommand {flood}", "MaxSessions 100"]
            folder = tmp_path / "floods" / str(number)
            server = stack.enter_context(Sshd(folder, keys=keys, settings=forced))
            known.append(server.known_hosts.read_text())
            lines += [
                f"flood{number}x{each} ansible_host=127.0.0.1 ansible_port={server.port}"
                for each in range(-(-MANY // len(FLOODS)))
            ]
        port = nodes.servers["demo-healthy"].port
        lines = lines[:MANY] + [
            f"good{each} ansible_host=127.0.0.1 ansible_port={port}" for each in range(8)
        ]
        (tmp_path / "hosts.ini").write_text("\n".join(lines) + "\n")
        (tmp_path / "known_hosts").write_text("".join(known))
        words = nodes.command("doctor", "--fanout", str(MANY + 8), transport=transport)
        words[words.index("--hosts") + 1] = "@all"
        with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
            begun = subprocess.Popen(
                words, env=nodes.environment, cwd=tmp_path, stdout=out, stderr=err
            )
            _, status, used = os.wait4(begun.pid, 0)
            begun.returncode = os.waitstatus_to_exitcode(status)
    said = (tmp_path / "out").read_text()
    assert begun.returncode == ExitCode.UNREACHABLE, said + (tmp_path / "err").read_text()
    assert used.ru_maxrss >> 10 < 256 + 12 * MANY, f"{used.ru_maxrss >> 10} MiB"
    told = (tmp_path / "err").read_text() + said
    assert f"8 of {MANY + 8} nodes are ready" in said
    assert "a bug of ours" not in told
    for number in range(len(FLOODS)):
        assert re.search(
            rf"flood{number}x\S*\n +found +says more than \d+ (MiB|lines) on std", said
        )
    kept = {file.name for file in (tmp_path / "state").rglob("*.evidence")}
    assert kept == {f"good{each}.evidence" for each in range(8)}
