"""The vendor's sources as Debian packages them; fetched by apt, kept between runs."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.builds.grounds import kept
from tests.builds.mirrors import NotToBeHad
from tests.builds.sandbox import Sandbox

TIMEOUT_S = 300
# What peermem alone needs of a driver's sources; the fifth since 550.
_PEERMEM = ("Makefile", "Kbuild", "conftest.sh", "count-lines.mk", "header-presence-tests.mk",
            "common", "nvidia-peermem")  # fmt: skip
# Which of the compiler's options there are; no header that is asked for has a part in the answer.
_OPTION = re.compile(r"^NV_CONFTEST_CFLAGS \+= (\$\(call cc-.+\))$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Package:
    suite: str
    package: str


_PACKAGES = {
    "nvidia-open": _Package("bookworm", "nvidia-open-kernel-dkms"),  # 535, MIT/GPL
    "nvidia": _Package("bookworm", "nvidia-kernel-dkms"),  # 535, proprietary
    "nvidia-550": _Package("trixie", "nvidia-kernel-dkms"),
    "nvidia-open-550": _Package("trixie", "nvidia-open-kernel-dkms"),
    "nvidia-fs": _Package("bookworm", "nvidia-fs-dkms"),
}
NAMES = tuple(_PACKAGES)


@dataclass(frozen=True, slots=True)
class Source:
    """A DKMS package of the vendor's, as it lies below /usr/src."""

    package: str  # DKMS name: "nvidia-current-open"
    version: str  # DKMS version: "535.261.03"
    folder: Path  # its files
    unpacked: Path  # the whole package that it came in

    @property
    def place(self) -> str:
        return f"/usr/src/{self.package}-{self.version}"


def source(name: str) -> Source:
    """One of NAMES.

    :raises NotToBeHad: where apt cannot fetch it.
    """
    wanted = _PACKAGES[name]
    whole = unpacked(wanted.suite, wanted.package)
    [folder] = (path.parent for path in (whole / "usr/src").glob("*/dkms.conf"))
    text = (folder / "dkms.conf").read_text()
    values = dict(re.findall(r'^PACKAGE_(NAME|VERSION)="?([^"\s]+)"?', text, re.M))
    return Source(values["NAME"], values["VERSION"], folder, whole)


def unpacked(suite: str, package: str) -> Path:
    """The files of one of Debian's packages, to be read only.

    :raises NotToBeHad: where apt cannot fetch it.
    """
    wanted = _Package(suite, package)
    return kept(f"source-{suite}-{package}", lambda at: _fetch(wanted, at))


def _fetch(wanted: _Package, at: Path) -> None:
    with Sandbox.of(wanted.suite) as box:
        box.run("dpkg-deb", "-x", download(box, wanted.package), "/root/unpacked")
        shutil.copytree(box.path("root/unpacked"), at, symlinks=True, dirs_exist_ok=True)


def download(box: Sandbox, package: str) -> str:
    """A package of the box's own suite; where it lies inside.

    :raises NotToBeHad: where apt cannot fetch it.
    """
    for words in (("update",), ("download", package)):
        done = box.run(
            *("sh", "-c", 'cd /root && exec apt-get -q -o APT::Sandbox::User= "$@"', "-"),
            *words,
            check=False,
            limit_s=TIMEOUT_S,
        )
        if done.status:
            raise NotToBeHad(f"apt-get {' '.join(words)}: {done.out[-600:].strip()}")
    [archive] = box.path("root").glob("*.deb")
    return f"/root/{archive.name}"


def place(box: Sandbox, found: Source) -> str:
    """Lay a package where DKMS looks for it, without telling DKMS; returns where."""
    shutil.copytree(found.folder, box.path(found.place), symlinks=True)
    return found.place


def place_peermem(found: Source, folder: Path) -> None:
    """Only what nvidia-peermem alone is built from, to a folder; no dkms.conf.

    The vendor's Kbuild asks for the same three options once for each of a hundred headers, by
    five programs each: a quarter of a build. Here it asks once; see test_remembering.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in _PEERMEM:
        path = found.folder / name
        if path.is_dir():
            shutil.copytree(path, folder / name, symlinks=True)
        elif path.exists():
            shutil.copy2(path, folder / name)
    kbuild = folder / "Kbuild"
    kbuild.write_text(_OPTION.sub(_asked_once, kbuild.read_text()))


def _asked_once(row: re.Match[str]) -> str:
    name = f"NV_ASKED_{row.start()}"
    return f"{name} := {row[1]}\nNV_CONFTEST_CFLAGS += $({name})"
