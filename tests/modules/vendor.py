"""NVIDIA's own nvidia-peermem, from the source package of the distribution.

The package is fetched with the machine's own sources, mirrors and keys, to which the
components "contrib" and "non-free" are added for that one call: nothing of the system changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.modules.building import make_folder, run

PACKAGES = ("nvidia-open-kernel-dkms", "nvidia-kernel-dkms")
WANTED = ("nvidia-peermem", "common")
TIMEOUT_S = 90


class NotToBeHad(Exception):
    """The package could not be fetched; says why."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """The vendor's sources, cut down to what nvidia-peermem needs."""

    folder: Path
    version: str

    def make(self, build: Path, folder: Path, *symvers: Path) -> Path:
        """nvidia-peermem alone, by the vendor's Makefile and conftest.

        :param symvers: what modpost is told beside the kernel's own Module.symvers.
        :returns: the module.
        """
        if not folder.exists():  # a second attempt goes on where the first one stopped
            shutil.copytree(self.folder, folder)
        extra = (f"KBUILD_EXTRA_SYMBOLS={' '.join(map(str, symvers))}",) if symvers else ()
        words = (f"SYSSRC={build}", f"SYSOUT={build}", "NV_KERNEL_MODULES=nvidia-peermem", *extra)
        run("make", "-s", f"-j{os.cpu_count()}", "-C", folder, *words, "modules")
        run("strip", "-g", folder / "nvidia-peermem.ko")
        return folder / "nvidia-peermem.ko"


def _apt(tool: str, folder: Path, *words: str) -> str:
    settings = {
        "Dir::Etc::sourcelist": folder / "none.list",
        "Dir::Etc::sourceparts": folder / "sources",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    try:
        done = subprocess.run(
            [tool, *options, *words],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise NotToBeHad(f"{tool}: {why}") from why
    if done.returncode:
        raise NotToBeHad(f"{tool} {' '.join(words)}: {(done.stderr or done.stdout)[-600:].strip()}")
    return done.stdout


def _sources(system: Path, folder: Path) -> None:
    """Copies of the machine's own sources, with the components that hold the vendor's."""
    folder.mkdir()
    found = [system / "sources.list", *(system / "sources.list.d").glob("*")]
    for path in (each for each in found if each.suffix in {".list", ".sources"} and each.exists()):
        text = path.read_text()
        if path.suffix == ".sources":
            text = re.sub(r"^(Components:).*\bmain\b.*$", r"\1 contrib non-free", text, flags=re.M)
        else:
            text = re.sub(r"^(deb\s.*?)\smain\b.*$", r"\1 contrib non-free", text, flags=re.M)
        if "contrib non-free" in text:
            (folder / path.name).write_text(text)
    if not any(folder.iterdir()):
        raise NotToBeHad("no source of packages in /etc/apt has a component main")


def fetch(folder: Path, system: Path = Path("/etc/apt")) -> Vendor:
    """Download one package and unpack the sources of nvidia-peermem.

    :raises NotToBeHad: where no package of them can be had.
    """
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    _sources(system, folder / "sources")
    _apt("apt-get", folder, "update")
    refused = []
    for package in PACKAGES:
        try:
            _apt("apt-get", folder, "download", package)
            break
        except NotToBeHad as why:
            refused.append(str(why))
    else:
        raise NotToBeHad("; ".join(refused))
    [archive] = folder.glob("*.deb")
    run("dpkg-deb", "-x", archive, folder / "unpacked")
    [source] = (folder / "unpacked/usr/src").glob("nvidia-*")
    cut = make_folder(folder / "source")
    for path in source.iterdir():
        if path.name in WANTED:
            shutil.copytree(path, cut / path.name)
        elif path.is_file():
            shutil.copy(path, cut / path.name)
    return Vendor(cut, source.name.rpartition("-")[2])
