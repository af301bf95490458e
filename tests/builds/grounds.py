"""Trees of whole systems to build in: made once by mmdebstrap, kept between runs.

A tree is never written to: tests work in a Sandbox over it. What is kept lies in the folder
that GDR_TEST_CACHE names, else in the user's cache.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tests.builds.mirrors import NotToBeHad, codename, known, lines
from toolkit import package_data

TIMEOUT_S = 900
_BUILDER = (
    *("dkms", "gcc", "g++", "make", "kmod", "libc6-dev", "openssl", "xz-utils", "zstd"),
    "ccache",  # in no PATH by itself: see remembering.py
)
OMITTED = (
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
)
# Headers of 6.12 bring the kernel's image too. Of its four thousand modules none is needed where
# modules are built, and at each install DKMS has depmod read them all, for six seconds.
_INBOX = (
    *(f"*/lib/modules/*/kernel/{each}/*" for each in ("arch", "fs", "net", "sound", "drivers")),
    "+*/lib/modules/*/kernel/drivers/infiniband/*",  # what OFED puts its own in the place of
)
# What no module of ours needs: three quarters of a kernel image package.
_DRIVERS = tuple(
    f"/lib/modules/*/kernel/{each}/*"
    for each in (
        *("sound", "net/wireless", "net/bluetooth", "arch/x86/kvm"),
        *(f"drivers/{name}" for name in ("gpu", "media", "net", "scsi", "staging", "usb", "iio")),
        *(f"drivers/{name}" for name in ("hid", "input", "mtd", "platform", "bluetooth", "hwmon")),
    )
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a tree is made of; two equal recipes are one tree."""

    name: str
    suite: str
    packages: tuple[str, ...]
    variant: str = "apt"
    omitted: tuple[str, ...] = OMITTED  # patterns; "+" before one takes it back in
    edition: int = 1  # to be raised where the way of making has changed

    @property
    def digest(self) -> str:
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


RECIPES = (
    Recipe(
        "bookworm",  # DKMS 3.0, gcc 12
        "bookworm",
        (
            *_BUILDER,
            "linux-headers-amd64",
            "linux-headers-cloud-amd64",
            "linux-headers-rt-amd64",
            "linux-headers-6.12-amd64",
        ),
        omitted=(*OMITTED, *_INBOX),
    ),
    Recipe(  # DKMS 3.2, gcc 14
        "trixie", "trixie", (*_BUILDER, "linux-headers-amd64"), omitted=(*OMITTED, *_INBOX)
    ),
)


def cache() -> Path:
    """The folder of all that is kept between runs."""
    told = os.environ.get("GDR_TEST_CACHE")
    usual = package_data.kept("XDG_CACHE_HOME", "~/.cache").with_name("gdr-toolkit-tests")
    folder = Path(told) if told else usual
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone among all processes of this machine that ask for the same path."""
    with Path(f"{path}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, made by ``make`` if it is not there: aside, then renamed."""
    target = cache() / name
    if target.is_dir():
        return target
    with locked(target):
        if target.is_dir():  # another run has made it while we waited
            return target
        for left in cache().glob(f"{name}.new-*"):  # by a run that was killed
            shutil.rmtree(left)
        aside = Path(tempfile.mkdtemp(prefix=f"{name}.new-", dir=cache()))
        try:
            make(aside)
            aside.chmod(0o755)
            aside.rename(target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    return target


def tree(name: str) -> Path:
    """The root of a system, complete; to be read only.

    :param name: "bookworm", "trixie" or "guest" (which has a kernel image).
    :raises NotToBeHad: where it cannot be made.
    """
    recipe = guest() if name == "guest" else next(each for each in RECIPES if each.name == name)
    return kept(f"{recipe.name}-{recipe.digest}", lambda folder: bootstrap(recipe, folder))


def kernels(root: Path) -> tuple[str, ...]:
    """Releases of the kernels whose headers are installed there, oldest first."""
    # The links lead out of the tree as seen from here, so that they are not followed.
    found = (path for path in (root / "lib/modules").iterdir() if (path / "build").is_symlink())
    return tuple(sorted((path.name for path in found), key=_numbers))


def _numbers(release: str) -> tuple[list[int], str]:
    return [int(each) for each in re.findall(r"\d+", release)], release


def guest() -> Recipe:
    """A small bookworm that boots, with the images of the kernels that "bookworm" has."""
    images = [
        release
        for release in kernels(tree("bookworm"))
        if not release.endswith(("-rt-amd64", "-cloud-amd64"))
    ]
    return Recipe(
        "guest",
        "bookworm",
        ("kmod", "mokutil", "keyutils", *(f"linux-image-{release}" for release in images)),
        omitted=(*OMITTED, *_DRIVERS, "/usr/lib/debug/*"),
    )


def bootstrap(recipe: Recipe, folder: Path) -> None:
    """Make the tree of a recipe in an empty folder.

    :raises NotToBeHad: mmdebstrap failed, with its last words.
    """
    words = [
        "mmdebstrap",
        "--quiet",
        f"--variant={recipe.variant}",
        "--mode=root",
        "--format=directory",
        f"--include={','.join(recipe.packages)}",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=Acquire::Retries "3"',
        '--aptopt=APT::Install-Recommends "false"',
        "--dpkgopt=force-unsafe-io",
        *(_filter(pattern) for pattern in recipe.omitted),
        recipe.suite,
        str(folder),
        *lines(recipe.suite, known(), codename()),
    ]
    # INITRD: the guest's first steps are ours, and an initial RAM disk costs half a minute.
    environment = {**os.environ, "LC_ALL": "C", "INITRD": "No", "PATH": _path()}
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise NotToBeHad(f"mmdebstrap: {why}") from why
    if done.returncode:
        raise NotToBeHad(f"mmdebstrap {recipe.name}: {(done.stderr + done.stdout)[-1200:].strip()}")


def _filter(pattern: str) -> str:
    """dpkg takes the last word that fits a path."""
    if pattern.startswith("+"):
        return f"--dpkgopt=path-include={pattern[1:]}"
    return f"--dpkgopt=path-exclude={pattern}"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
