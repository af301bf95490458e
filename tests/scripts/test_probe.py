"""The probe where things are missing, full, hung or cut. It reads what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.evidence.build import HEALTHY
from tests.scripts.shells import parts
from tests.scripts.test_apply_lock import until
from tests.unit.judged import TODAY
from toolkit.checks.judged import judge_node
from toolkit.demo.create import environment, make_nodes
from toolkit.evidence import Evidence, State
from toolkit.node.collect import probe_script
from toolkit.want import Want

pytestmark = pytest.mark.shell

SHELLS = [
    pytest.param(("dash", "-s"), id="dash"),
    pytest.param(("busybox", "sh", "-s"), id="busybox"),
    pytest.param(("bash", "-s"), id="bash"),
]
TOOLS = (
    "ls cat grep sed tr tail sleep kill stat sha256sum readlink find mktemp rm mkdir chmod id "
    "uname awk od tar sh env xargs cut head sort"
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    make_nodes(folder, ("demo-healthy", "demo-hang"))
    return folder


def probed(
    shell: tuple[str, ...], settings: dict[str, str], script: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:]),
        input=script or probe_script(),
        env=settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without(node: Path, folder: Path, *missing: str) -> dict[str, str]:
    """The node's environment on a machine that lacks these tools."""
    tools = folder / "tools"
    tools.mkdir()
    system = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
    for name in TOOLS.split():
        found = next((Path(each, name) for each in system if Path(each, name).exists()), None)
        if found and name not in missing:
            (tools / name).symlink_to(found)
    return environment(node) | {"PATH": f"{node / 'bin'}:{tools}"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_source_is_asked_and_none_twice(shell: tuple[str, ...], state: Path) -> None:
    ended = probed(shell, environment(state / "nodes/demo-healthy"))
    evidence = Evidence.parse(ended.stdout)
    assert (ended.returncode, ended.stderr, evidence.complete) == (0, "", True)
    assert set(evidence.frames) >= set(HEALTHY) | {"pci-config", "placed"}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_node_without_awk_is_read_in_full(
    shell: tuple[str, ...], state: Path, tmp_path: Path
) -> None:
    node = state / "nodes/demo-healthy"
    settings = without(node, tmp_path, "awk")  # busybox may still use its own
    whole = Evidence.parse(probed(shell, environment(node)).stdout)
    bare = Evidence.parse(probed(shell, settings).stdout)
    assert bare.complete
    # The commands of simulated nodes use awk themselves; what the probe reads by itself is equal.
    own = [key for key in whole.frames if key.startswith(("pci", "kernel", "iommu", "os-", "cmd"))]
    assert {key: bare.frames[key] for key in own} == {key: whole.frames[key] for key in own}


def test_a_node_without_od_leaves_acs_unknown_and_never_passes_it(
    state: Path, tmp_path: Path
) -> None:
    settings = without(state / "nodes/demo-healthy", tmp_path, "od", "tar")
    evidence = Evidence.parse(probed(("dash", "-s"), settings).stdout)
    assert evidence.frame("pci-config").state is State.ABSENT
    verdicts = judge_node("a", evidence, Want(), TODAY).verdicts
    acs = next(each for each in verdicts if each.check.id == "acs.redirect")
    assert acs.status == "unknown"


def test_a_node_without_sha256sum_says_that_it_cannot_tell_what_is_ours(
    state: Path, tmp_path: Path
) -> None:
    settings = without(state / "nodes/demo-healthy", tmp_path, "sha256sum")
    evidence = Evidence.parse(probed(("dash", "-s"), settings).stdout)
    assert evidence.frame("placed").state is State.ABSENT


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_hangs_is_abandoned_and_the_rest_is_read(
    shell: tuple[str, ...], state: Path, tmp_path: Path
) -> None:
    node, begun = state / "nodes/demo-hang", tmp_path / "begun"
    tool = node / "bin/nvidia-smi"
    tool.unlink()
    tool.write_text(f"#!/bin/sh\necho $$ >>{begun}\nexec sleep 600\n")
    tool.chmod(0o755)
    evidence = Evidence.parse(probed(shell, environment(node)).stdout)
    assert evidence.complete
    assert evidence.frame("nvidia-smi").state is State.TIMEOUT
    assert evidence.frame("nvidia-topology").state is State.TIMEOUT
    assert evidence.frame("dmesg").state is State.OK
    [pid] = begun.read_text().split()  # one hang is waited for, not two
    until(lambda: not _runs(pid))


def _runs(pid: str) -> bool:
    """Whether it is there, and no zombie."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_with_nowhere_to_write_files_are_read_and_commands_say_why(state: Path) -> None:
    settings = environment(state / "nodes/demo-healthy")
    nowhere = probe_script().replace("mktemp -d", "false")
    evidence = Evidence.parse(probed(("dash", "-s"), settings, nowhere).stdout)
    assert evidence.complete
    assert evidence.frame("pci").state is State.OK
    assert (evidence.frame("dkms-status").state, evidence.frame("dkms-status").exit) == (
        State.FAILED,
        28,  # ENOSPC
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_that_is_cut_reads_nothing(shell: tuple[str, ...], state: Path) -> None:
    settings, script = environment(state / "nodes/demo-healthy"), probe_script()
    for cut in range(0, len(script) - 1, 997):
        assert "= begin" not in probed(shell, settings, script[:cut] or "\n").stdout


def test_nothing_is_left_behind(state: Path, tmp_path: Path) -> None:
    settings = environment(state / "nodes/demo-healthy") | {"TMPDIR": str(tmp_path)}
    probed(("dash", "-s"), settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_left_behind_where_the_connection_is_cut(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    script = parts("frames.sh") + "\nbegin_frames\nwhile :; do frame a ok b; done\n"
    with subprocess.Popen(
        (*shell[:-1], "-c", script),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"= begin ok gdr-toolkit/1\n"
        assert list(tmp_path.iterdir()) != []
        running.stdout.close()
        assert running.wait(60) == 129
    assert list(tmp_path.iterdir()) == []
