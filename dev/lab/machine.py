"""One guest: started, asked over real SSH, rebooted, reset, ended."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dev.lab import monitor, pcitree
from dev.lab.keys import keys
from dev.lab.monitor import LabError
from dev.lab.qemu import Spec, Wiring, command

BOOT_S = 60  # from power on to a login, thrice what an idle machine takes
_PANIC = re.compile(r"Kernel panic - not syncing: .*")
_TAIL = 60  # lines of the console that say what went wrong
_PORT_TRIES = 5


def factor() -> float:
    """By how much every deadline is longer than an idle machine needs: GDR_LAB_FACTOR, or 3."""
    return float(os.environ.get("GDR_LAB_FACTOR", "3"))


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command in a guest."""

    status: int
    out: str  # its stdout
    err: str


@dataclass(slots=True)
class Guest:
    """A machine of its own, on an overlay of a disk that others use too."""

    name: str
    folder: Path  # all that it has; the caller's to remove
    spec: Spec = field(default_factory=Spec)
    lasting: bool = False  # it outlives the process that started it
    port: int = 0
    boots: int = field(default=0, init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _incoming: Path | None = field(default=None, init=False)

    @property
    def console(self) -> str:
        """All that the guest wrote to its serial port, GRUB's words included."""
        files = (self.folder / "before", self.folder / "console")
        return "".join(each.read_text(errors="replace") for each in files if each.exists())

    @property
    def ssh_config(self) -> Path:
        """For ssh -F and --ssh-config; the guest's name is the host's."""
        return self.folder / "ssh_config"

    @property
    def pid(self) -> int:
        """Of QEMU; 0 where it does not run."""
        with suppress(OSError, ValueError):
            pid = int((self.folder / "pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            # The number may be another process's by now.
            return pid if f"file:{self.folder.absolute() / 'console'}".encode() in words else 0
        return 0

    def prepare(self, base: Path, incoming: Path | None = None) -> None:
        """Make what the guest has for itself; see ``making.ready``.

        :param base: the disk that its own lies over; to be read only.
        :param incoming: the state to go on from; later starts are boots.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        words = ("qemu-img", "create", "-q", "-f", "qcow2", "-F", base.suffix.lstrip("."), "-b")
        subprocess.run((*words, str(base), str(self.folder / "disk.qcow2")), check=True)
        self._incoming = incoming
        if self.spec.pci:
            (self.folder / "pcitree.bin").write_bytes(pcitree.build(self.spec.pci).data)

    def start(self) -> None:
        """Switch it on; ``wait`` for it to be up.

        :raises LabError: QEMU did not stay.
        """
        for _ in range(_PORT_TRIES):
            self.port = self.port or _free_port()
            self._write_ssh_files()
            self._launch()
            if self._answers():
                return
            self.port = 0
        raise LabError(f"{self.name}: QEMU ended: {(self.folder / 'qemu').read_text().strip()}")

    def _answers(self) -> bool:
        """Whether QEMU has all that it was told to have: a port may be another's by now."""
        end = time.monotonic() + 60 * factor()
        while time.monotonic() < end and self._child and self._child.poll() is None:
            with suppress(OSError, ValueError):  # no socket yet, or none any more
                self.control("query-status")
                return True
            time.sleep(0.05)
        return False

    def _launch(self) -> None:
        nodes = pcitree.build(self.spec.pci).nodes if self.spec.pci else 1
        folder = self.folder.absolute()
        table = folder / "pcitree.bin" if self.spec.pci else None
        (folder / "control").unlink(missing_ok=True)
        wiring = Wiring(
            folder / "disk.qcow2",
            folder / "console",
            Path("control"),  # from there: a socket's name has room for 107 bytes alone
            self.port,
            table,
            nodes,
            self._incoming,
        )
        self._incoming = None
        words = command(self.spec, wiring)
        if not self.lasting:  # killed with us, whatever kills us
            words = ("setpriv", "--pdeathsig", "KILL", *words)
        with (self.folder / "qemu").open("wb") as log:
            self._child = subprocess.Popen(
                words,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (self.folder / "pid").write_text(f"{self._child.pid}\n")

    def wait(self, limit_s: float = BOOT_S, *, other_than: str = "") -> str:
        """Until it lets us in; its boot id.

        :param limit_s: on an idle machine; multiplied by ``factor()``.
        :param other_than: the boot id of the boot that is to be over.
        :raises LabError: it does not, in time; or QEMU ended.
        """
        end = time.monotonic() + limit_s * factor()
        # A guest that goes on where another was left has that one's clock.
        script = f"date -s @{int(time.time())} >/dev/null; " * (self.boots == 0)
        script += "cat /proc/sys/kernel/random/boot_id"
        while time.monotonic() < end:
            if not self.pid:
                raise self._trouble("QEMU ended")
            if not self._greets():
                time.sleep(0.3)
                continue
            with suppress(subprocess.TimeoutExpired):
                done = self.run(script, check=False, limit_s=20)
                found = done.out.strip()
                if done.status == 0 and found and found != other_than:
                    self.boots += 1
                    return found
            time.sleep(1)  # it goes down, and may still let us in
        raise self._trouble(f"no login within {limit_s * factor():.0f} s")

    def _greets(self) -> bool:
        """Whether sshd answers; a login that is given up midway costs the guest a second."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as line:
            line.settimeout(20 * factor())
            return line.recv(4) == b"SSH-"
        return False

    def run(self, script: str, *, check: bool = True, limit_s: float = 60, text: str = "") -> Done:
        """Run a script by sh as root, over SSH.

        :param check: a status other than 0 is a LabError that shows what was said.
        :raises subprocess.TimeoutExpired: ``limit_s * factor()`` passed.
        """
        words = ("ssh", "-F", str(self.ssh_config), self.name, script)
        child = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s * factor(),
            check=False,
        )
        done = Done(child.returncode, child.stdout, child.stderr)
        if check and done.status:
            raise LabError(f"{self.name}: {script}: {done.status}\n{done.out}{done.err}")
        return done

    def put(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file of the guest, with the folders that it needs."""
        data = content.encode() if isinstance(content, str) else content
        script = f"mkdir -p \"$(dirname '{path}')\" && cat >'{path}' && chmod {mode:o} '{path}'"
        words = ("ssh", "-F", str(self.ssh_config), self.name, script)
        subprocess.run(words, input=data, capture_output=True, timeout=60 * factor(), check=True)

    @property
    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id").out.strip()

    @property
    def cmdline(self) -> str:
        """What the running kernel was given."""
        return self.run("cat /proc/cmdline").out.strip()

    def groups(self) -> dict[str, str]:
        """The type of each IOMMU group: {"3": "identity"}."""
        script = "grep -H . /sys/kernel/iommu_groups/*/type 2>/dev/null || :"
        rows = (line.partition(":") for line in self.run(script).out.splitlines())
        return {Path(path).parent.name: kind for path, _, kind in rows}

    def reboot(self, limit_s: float = BOOT_S) -> str:
        """As an operator would; the boot id of the boot that follows."""
        before = self.boot_id
        self.run("systemctl reboot", check=False)
        return self.wait(limit_s, other_than=before)

    def reset(self) -> None:
        """Press the button; ``wait`` for what comes of it."""
        self.control("system_reset")

    def control(self, verb: str, **given: object) -> object:
        """One command of QEMU's monitor; see the QEMU QMP reference."""
        return monitor.ask(self.folder / "control", verb, given, limit_s=30 * factor())

    def stop(self) -> None:
        """End it as a power failure would; its folder stays."""
        pid = self.pid
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        if self._child is not None:
            self._child.wait(30)
        end = time.monotonic() + 30
        while self.pid and time.monotonic() < end:
            time.sleep(0.05)
        (self.folder / "pid").unlink(missing_ok=True)

    def remove(self) -> None:
        """End it, and delete all that it had."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_ssh_files(self) -> None:
        login = keys()
        known = self.folder / "known_hosts"
        known.write_text(login.known_host(self.port))
        self.ssh_config.write_text(
            f"Host {self.name}\n"
            f"  HostName 127.0.0.1\n  Port {self.port}\n  User root\n"
            f"  IdentityFile {login.private}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n"
            "  ConnectTimeout 60\n  LogLevel ERROR\n"
        )

    def _trouble(self, what: str) -> LabError:
        console = self.console
        panic = _PANIC.search(console)
        said = panic.group() if panic else ""
        tail = "\n".join(console.split("\n")[-_TAIL:])
        return LabError(f"{self.name}: {what} {said}\n-- end of its console\n{tail}")


def _free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port
