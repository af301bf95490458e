"""What ``demo --serve`` writes for programs of others, with a program in sshd's place."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.invoked import here
from toolkit.demo import serve
from toolkit.demo.serve import served, sftp_server
from toolkit.errors import ExitCode, ToolkitError, UsageError

# It listens where sshd would, and is known as one of the node's: by what it has of it.
SSHD = """#!{python}
import os, re, socket, sys
conf = sys.argv[sys.argv.index("-f") + 1]
folder, name = re.fullmatch("(.*)/sshd/(.*)[.]conf", conf).groups()
if "GDR_ROOT" not in os.environ:
    root = folder + "/nodes/" + name
    os.execve(sys.executable, [sys.executable, *sys.argv], {{"GDR_ROOT": root}})
port = int(re.search(r"ListenAddress 127[.]0[.]0[.]1:([0-9]+)", open(conf).read())[1])
with socket.create_server(("127.0.0.1", port)) as server:
    while True:
        server.accept()[0].close()
"""
USER = pwd.getpwuid(os.geteuid()).pw_name


def lay(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "programs"
    folder.mkdir()
    lay(folder, "sshd", SSHD.format(python=sys.executable))
    lay(folder, "unshare", "#!/bin/sh\n")  # as root it is asked whether it may
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    begun: list[subprocess.Popen[bytes]] = []
    launch = serve._launch

    def noted(sshd: str, folder: Path, name: str, port: int) -> subprocess.Popen[bytes]:
        begun.append(launch(sshd, folder, name, port))
        return begun[-1]

    monkeypatch.setattr(serve, "_launch", noted)
    yield folder
    assert {each.wait(60) for each in begun} <= {-9, 255}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes with nothing in them, where it is the folder that matters."""

    def prepare(folder: Path, names: tuple[str, ...]) -> None:
        for name in names:
            tree = folder / "nodes" / name / "tree"
            for each in ("etc", ".node"):
                (tree / each).mkdir(parents=True)
            (tree / ".node" / "user").write_text("root\n")
            (folder / "nodes" / name / "host_key.pub").write_text("key\n")

    monkeypatch.setattr(serve, "prepare", prepare)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[tuple[Path, dict[str, int]]]:
    with served("demo[1-2]", tmp_path / "a" / "fleet") as ports:
        yield tmp_path / "a" / "fleet", ports
    assert {each.name for each in (tmp_path / "a").iterdir()} == set()


def test_what_its_files_say_of_each_node(fleet: tuple[Path, dict[str, int]]) -> None:
    folder, ports = fleet
    assert [*ports] == ["demo1", "demo2"]
    hosts = (folder / "hosts.ini").read_text()
    config = (folder / "ssh_config").read_text()
    known = (folder / "known_hosts").read_text().splitlines()
    for (name, port), keys in zip(ports.items(), known, strict=True):
        assert f"{name} ansible_port={port}\n" in hosts
        assert f"Host {name}\n    HostName 127.0.0.1\n    Port {port}\n    User {USER}\n" in config
        public = (folder / "nodes" / name / "host_key.pub").read_text().strip()
        assert keys == f"{name},[127.0.0.1]:{port} {public}".strip()
        server = (folder / "sshd" / f"{name}.conf").read_text()
        assert f"ForceCommand exec {folder}/sshd/{name}\n" in server
        assert f"HostKey {folder}/nodes/{name}/host_key\n" in server
        assert (f"Subsystem sftp {sftp_server()}\n" in server) == bool(sftp_server())
        assert f"\nAllowUsers {USER}\n" in server
        enter = (folder / "sshd" / name).read_text()
        assert f"\nexport PATH={folder}/nodes/{name}/bin:/" in enter
        assert f"\nexport GDR_ROOT={folder}/nodes/{name}" in enter
        assert os.access(folder / "sshd" / name, os.X_OK)
        assert ("exec unshare --mount" in enter) == (os.geteuid() == 0)
    assert f"ansible_user={USER}\nansible_python_interpreter={sys.executable}\n" in hosts
    assert f"{folder}/hosts.ini" in (folder / "groups.conf").read_text()
    assert os.access(folder / "sshd" / "as-named", os.X_OK)


def test_a_folder_is_served_by_one_alone(
    bare: None,  # before the fleet
    fleet: tuple[Path, dict[str, int]],
) -> None:
    with pytest.raises(UsageError, match="another process serves"), served("demo1", fleet[0]):
        pytest.fail("two serve it")
    assert (fleet[0] / "hosts.ini").exists()


@pytest.mark.usefixtures("bare")
def test_a_folder_that_was_made_goes_and_one_that_was_there_stays_empty(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    theirs.mkdir()
    for _ in range(2):
        for folder in (ours, theirs):
            with served("demo1", folder):
                pass
        assert not ours.exists()
        assert [*theirs.iterdir()] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("o ther", "has letters that"),
        ("full", "there are other files"),
        ("full/file", "Not a directory|File exists"),
    ],
)
def test_a_folder_that_cannot_be_had(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("theirs")
    with pytest.raises(UsageError, match=says), served("demo1", tmp_path / name):
        pytest.fail("it is served")
    assert (tmp_path / "full" / "file").read_text() == "theirs"
    assert {each.name for each in tmp_path.iterdir()} == {"full", "programs"}


@pytest.mark.usefixtures("bare")
def test_an_sshd_that_ends_is_quoted_and_leaves_nothing(tmp_path: Path, programs: Path) -> None:
    lay(programs, "sshd", "#!/bin/sh\necho one >&2\necho no such option >&2\nexit 255\n")
    with (
        pytest.raises(ToolkitError, match="demo1: sshd does not start: no such option"),
        served("demo1", tmp_path / "fleet"),
    ):
        pytest.fail("it is served")
    assert not (tmp_path / "fleet").exists()


LAID = (
    *("sys", "boot", "lib/modules", "usr/src", "tmp", "var/tmp", "var/log", "var/lib/dkms"),
    *("proc/cmdline", "proc/cpuinfo", "proc/modules", "proc/version", "proc/driver", "proc/iomem"),
    *("proc/sys/kernel/hostname", "proc/sys/kernel/osrelease", "proc/sys/kernel/random/boot_id"),
    *("etc/os-release", "etc/fstab"),
)
COMMANDS = (
    *("reboot", "shutdown", "systemctl", "modprobe", "rmmod", "depmod", "dkms", "sysctl"),
    *("update-grub", "update-initramfs", "dracut", "grubby"),
)


def test_as_root_the_node_s_files_and_commands_lie_over_the_machine_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever could change the machine, wherever a program looks for it."""
    folder, node = tmp_path / "fleet", tmp_path / "fleet" / "node"
    for each in (*LAID, "etc/passwd"):
        (node / "tree" / each).parent.mkdir(parents=True, exist_ok=True)
        (node / "tree" / each).touch()
    (folder / "sshd").mkdir()
    (folder / "sshd" / "as-named").touch()
    monkeypatch.setattr(Path, "exists", lambda _: True)
    places = {place: source for source, place, *_ in map(str.split, serve._laid(folder, node))}
    assert places[str(folder)] == str(folder)
    needed = (folder, Path(sys.executable), Path(sys.base_prefix))  # they would be hidden
    kept = {str(above) for each in needed for above in (each, *each.parents)}
    own = {f"/{each}": f"{node}/tree/{each}" for each in LAID if f"/{each}" not in kept}
    named = {
        str(Path(at, each).resolve()): f"{folder}/sshd/as-named"
        for each in COMMANDS
        for at in ("/usr/sbin", "/usr/bin")
    }
    assert places == {str(folder): str(folder), **own, **named}


def test_nothing_is_written_to_a_disk_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = ("ext4", "xfs", "btrfs", "overlay", "zfs", "f2fs", "ext3", "nfs", "nfs4")
    rows = [f"dev /{kind} {kind} rw 0 0" for kind in disks]
    rows += [f"dev {at}/x ext4 rw 0 0" for at in ("/tmp", "/run", "/dev", "/proc", "/sys")]
    rows += ["dev /mine ext4 rw 0 0", "dev /a\\040b ext4 rw 0 0", "tmpfs /memory tmpfs rw 0 0"]
    (tmp_path / "mounts").write_text("\n".join(rows) + "\n")
    monkeypatch.setattr(serve, "Path", lambda _: tmp_path / "mounts")
    assert serve._kept(Path("/mine")) == sorted(f"/{kind}" for kind in disks)


@pytest.mark.parametrize(
    "place", ["lib/openssh", "libexec/openssh", "lib/ssh", "libexec", "lib/misc"]
)
def test_the_program_for_transfers_is_found_where_each_family_has_it(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def which(name: str, *, path: str) -> str | None:
        found = f"/usr/{place}"
        return f"{found}/{name}" if found in path.split(":") else None

    monkeypatch.setattr("toolkit.demo.serve.shutil.which", which)
    assert sftp_server() == f"/usr/{place}/sftp-server"


def until_all_are_up(seconds: float, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """What waits for longer waits for Ctrl-C, which comes."""
    if seconds > 10:
        raise KeyboardInterrupt
    sleep(seconds)


@pytest.mark.parametrize("sftp", ["", "/usr/lib/sftp-server"])
def test_the_verb_says_where_they_are_and_ends_well_by_ctrl_c(
    sftp: str,
    bare: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(serve, "sftp_server", lambda: sftp)
    monkeypatch.setattr("time.sleep", until_all_are_up)
    folder = tmp_path / "fleet"
    assert here(monkeypatch, "demo", "--serve", str(folder), "--hosts", "demo2") == ExitCode.OK
    out = capsys.readouterr().out
    assert out.startswith("demo2  127.0.0.1:")
    assert ("no sftp" in out) is (not sftp)
    assert f"ansible -i {folder}/hosts.ini" in out
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--hosts", "demo"), "--hosts goes with --serve"),
        (("--serve", "new", "--reset"), "--serve goes with --hosts alone"),
        (("--serve", "new", "--json"), "--serve goes with --hosts alone"),
    ],
)
def test_what_the_verb_cannot_do_at_once_is_refused(
    words: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert here(monkeypatch, "demo", *words) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith(f"error: {says}")
    assert {each.name for each in tmp_path.iterdir()} == {"programs"}
