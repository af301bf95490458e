"""Driver, kernel arguments and BIOS asked for at once, by three controllers: one budget."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.bmc.conftest import Simulate
from tests.bmc.test_bios_verb import Operator
from tests.invoked import ROOT
from toolkit.demo import fleet as demo
from toolkit.demo.fleet import public_file
from toolkit.errors import ExitCode
from toolkit.hosts.host import Host

DRIVER, ARGUMENTS = "demo004", "demo002"  # by number, for their kinds go round


def way_to(hosts: tuple[Host, ...], folder: Path) -> list[str]:
    """Simulated nodes as any others: by an inventory, so that they count."""
    lines, known = [], []
    for host in hosts:
        lines.append(f"{host.name} ansible_host=127.0.0.1 ansible_port={host.port}")
        key = public_file(folder / "demo/nodes" / host.name / "host_key").read_text()
        known.append(f"[127.0.0.1]:{host.port} {key}")
    (folder / "hosts.ini").write_text("\n".join(lines) + "\n")
    (folder / "known_hosts").write_text("".join(known))
    settings = f"UserKnownHostsFile {folder}/known_hosts\n  IdentityFile {hosts[0].key_file}\n"
    (folder / "ssh_config").write_text(f"Host *\n  User {hosts[0].user}\n  {settings}")
    return ["--inventory", f"{folder}/hosts.ini", "--ssh-config", f"{folder}/ssh_config"]


def provision(base: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "toolkit.cli", "provision", "--yes", *words],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(base), "SSH_AUTH_SOCK": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_three_controllers_at_once_never_have_more_out_than_one_budget_allows(
    simulate: Simulate, tmp_path: Path
) -> None:
    # Each line is appended while the node is out, or on its way there or back: their order is
    # that of what happened, whoever wrote them.
    seen = tmp_path / "seen"
    hooks = ("--drain", f"echo out {{host}} >>{seen}", "--undrain", f"echo in {{host}} >>{seen}")
    told = ("--max-unavailable", "1", *hooks)
    bmcs = [simulate("hpe"), simulate("hpe")]
    with demo.start(f"{DRIVER},{ARGUMENTS}", tmp_path / "demo") as served:
        way = way_to(served.hosts, tmp_path)
        change = ("--set", "acs=off", "--apply", "--reboot", "--over-jobs", "--yes")
        running = [
            provision(tmp_path, *way, "--hosts", DRIVER, *told),
            provision(tmp_path, *way, "--hosts", ARGUMENTS, "--reboot", *told),
            Operator(tmp_path, *bmcs).begins(
                "--hosts", "gpu[1-2]", "--role", "bare-metal", *change, *told
            ),
        ]
        try:
            ended = [child.communicate(timeout=600) for child in running]
        finally:
            for child in running:
                child.kill()
    assert [child.returncode for child in running] == [ExitCode.OK] * 3, ended
    lines = [line.split() for line in seen.read_text().splitlines()]
    out = 0
    for word, _ in lines:
        out += 1 if word == "out" else -1
        assert out in {0, 1}, lines
    assert sorted(host for word, host in lines if word == "in") == [
        ARGUMENTS, DRIVER, "gpu1", "gpu2",
    ]  # fmt: skip
    assert [bmc.machine.active["AccessControlService"] for bmc in bmcs] == ["Disabled"] * 2
