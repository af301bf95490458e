"""Kernel modules of our own, compiled and signed with the headers that are installed here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent / "source"
WITH_PEERS = "-DWITH_PEERS"
TIMEOUT_S = 300  # the vendor's conftest compiles a hundred files; alone on the machine 10 s


def run(*words: str | Path, folder: Path | None = None) -> str:
    """What a command prints; a test that cannot build says what the compiler said."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def headers() -> Path:
    """The build folder of a kernel whose headers are installed: the newest."""
    return max(
        Path("/lib/modules").glob("*/build/Makefile"), key=lambda p: p.stat().st_mtime
    ).parent


def release(build: Path) -> str:
    """The kernel release that a build folder is of; Debian's kernel.release is another."""
    return (build / "include/generated/utsrelease.h").read_text().split('"')[1]


def copy_of(build: Path, folder: Path) -> Path:
    """A build folder that may be changed."""
    original = build.resolve()
    copy = Path(shutil.copytree(original, folder, symlinks=True))
    for link in (each for each in original.iterdir() if each.is_symlink()):
        (copy / link.name).unlink()
        (copy / link.name).symlink_to(link.resolve())
    return copy


def other_kernel(build: Path, folder: Path) -> Path:
    """A build folder of another release, in which module_layout has another version."""
    copy = copy_of(build, folder)
    now, then = release(build), release(build).replace("-", "-99-", 1)
    header = copy / "include/generated/utsrelease.h"
    header.write_text(header.read_text().replace(now, then))
    symvers = copy / "Module.symvers"
    text, count = re.subn(
        r"^0x\w+(?=\tmodule_layout\t)", "0x00c0ffee", symvers.read_text(), flags=re.M
    )
    assert count == 1
    symvers.write_text(text)
    return copy


def make(build: Path, folder: Path, modules: str, shape: str = "", *words: str) -> Path:
    """Compile modules in a folder of their own, without debug information, as DKMS leaves them."""
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    given = (f"M={folder}", f"MODULES={modules}", f"SHAPE={shape}", *words)
    run("make", "-s", "-C", build, *given, "modules")
    for name in modules.split():
        run("strip", "-g", folder / f"{name}.ko")
    return folder


@dataclass(frozen=True, slots=True)
class Signing:
    """A key of ours, as DKMS makes one."""

    key: Path
    certificate: Path  # DER
    name: str

    def sign(self, build: Path, module: Path, target: Path) -> Path:
        """A signed copy of a module."""
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, target)
        run(build / "scripts/sign-file", "sha256", self.key, self.certificate, target)
        return target

    def listed(self) -> str:
        """The certificate as mokutil --list-enrolled prints it: by OpenSSL."""
        return run("openssl", "x509", "-inform", "DER", "-in", self.certificate, "-noout", "-text")

    def id(self) -> str:
        """The subject key id, lower-case hex, as /proc/keys shows it."""
        told = run("openssl", "x509", "-inform", "DER", "-in", self.certificate, "-noout",
                   "-ext", "subjectKeyIdentifier")  # fmt: skip
        return told.split("\n")[1].strip().replace(":", "").lower()


def make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def rows_of(symvers: Path, symbols: str) -> str:
    """The rows of a Module.symvers whose symbols begin so."""
    rows = [row for row in symvers.read_text().splitlines(True) if f"\t{symbols}" in row]
    assert rows, symbols
    return "".join(rows)


def with_symbols(build: Path, folder: Path, rows: str) -> Path:
    """A copy of a build folder whose Module.symvers has more rows."""
    copy = copy_of(build, folder)
    symvers = copy / "Module.symvers"
    symvers.write_text(symvers.read_text() + rows)
    return copy


def signing(folder: Path, name: str) -> Signing:
    folder.mkdir(parents=True)
    key, certificate = folder / "key.pem", folder / "certificate.der"
    made = ("-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-outform", "DER")
    run("openssl", "req", *made, "-subj", f"/CN={name}/", "-keyout", key, "-out", certificate)
    return Signing(key, certificate, name)
