"""sushy-emulator, which we did not write: real HTTPS before libvirt's own test driver.

The driver is libvirt's, in the emulator's process: no daemon, no root and no guest. Changes are
immediate there, no ETag is offered and nothing is checked; what it shows is that a client of
ours and a server of somebody else's understand each other.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import requests

from tests.bmc.sessions import PASSWORD, USER
from tests.bmc.tls import Authority, Certificate
from tests.builds.grounds import kept

_PYTHON = "/usr/bin/python3"  # Debian's, for which python3-libvirt is made
_LOCK = Path(__file__).parent / "emulator.lock"
_RUN = "from sushy_tools.emulator.main import main; main()"
_START_S = 60.0  # a busy machine may take its time
_TRIES = 3  # a port that was free may be taken before the emulator has it


@dataclass(frozen=True, slots=True)
class Emulator:
    """One that runs; ``ca`` is what its certificate is signed by."""

    address: str
    ca: Path
    fingerprint: str
    user: str = USER
    password: str = PASSWORD

    @property
    def url(self) -> str:
        return f"https://{self.address}"


def _install(folder: Path) -> None:
    """An environment of its own over Debian's packages, since libvirt's binding is one."""
    where = folder / "venv"
    subprocess.run(
        (_PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", str(where)), check=True
    )
    pip = (sys.executable, "-m", "pip", "--python", str(where / "bin" / "python"), "install")
    subprocess.run((*pip, "--quiet", "--require-hashes", "-r", str(_LOCK)), check=True)


def _program() -> Path:
    """Its Python, in the cache of the tests; a new lock file makes a new one."""
    version = next(
        line.split()[0] for line in _LOCK.read_text().split("\n") if line.startswith("sushy-tools")
    )
    return kept(version.replace("==", "-"), _install) / "venv" / "bin" / "python"


@contextlib.contextmanager
def emulator(folder: Path, authority: Authority) -> Iterator[Emulator]:
    """Start one, wait until it answers, and end it.

    :param folder: for its configuration and its log.
    """
    shown = authority.shown[Certificate.GOOD]
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "htpasswd").write_text(f"{USER}:{hashed}\n")
    config = folder / "emulator.conf"
    config.write_text(f'SUSHY_EMULATOR_AUTH_FILE = "{folder / "htpasswd"}"\n')
    words: tuple[str, ...] = (
        str(_program()),
        "-c",
        _RUN,
        "--config",
        str(config),
        "--interface",
        "127.0.0.1",
    )
    words += ("--libvirt-uri", "test:///default")
    words += ("--ssl-certificate", str(shown.pem), "--ssl-key", str(shown.pem))
    with (folder / "emulator.log").open("wb") as log:
        process, port = _started(words, log.fileno(), authority.ca)
        try:
            yield Emulator(f"127.0.0.1:{port}", authority.ca, shown.fingerprint)
        finally:
            process.terminate()
            process.wait(30)


def _started(words: tuple[str, ...], log: int, ca: Path) -> tuple[subprocess.Popen[bytes], int]:
    for _ in range(_TRIES):
        port = _free_port()
        process = subprocess.Popen((*words, "--port", str(port)), stdout=log, stderr=log)
        end = time.monotonic() + _START_S
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(requests.ConnectionError, requests.Timeout):
                requests.get(f"https://127.0.0.1:{port}/redfish/v1", verify=str(ca), timeout=20)
                return process, port
            time.sleep(0.1)
        process.kill()
        process.wait()
    raise AssertionError("sushy-emulator did not start; see emulator.log")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
