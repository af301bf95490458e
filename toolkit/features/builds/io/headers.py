"""Kernel headers, and the driver's source, from packages that are not installed: unpacked aside,
to be seen above a ground.

Distributions part headers: Debian's linux-headers-KERNEL needs linux-headers-VERSION-common and
linux-kbuild-VERSION, Ubuntu's flavour needs the plain one; RHEL's kernel-devel is whole. The
driver's source lies below usr/src of a package, or in a tarball: by itself, or in a package.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from toolkit.errors import Unsupported, UsageError

_LIMIT_S = 300
_PREFIX = "gdr-headers-"
_RELEASE = re.compile(r'#define UTS_RELEASE "([A-Za-z0-9][A-Za-z0-9._+~-]{1,100})"')
# Below these a package of headers has something; all else of it is left where it is.
_KEPT = ("usr/src", "usr/lib")
_WHOLE = (
    "give the package of that kernel itself: linux-headers-KERNEL_ARCH.deb, "
    "kernel-devel-KERNEL.rpm, and with it those that it depends on"
)
_DRIVER = re.compile(r'NV_VERSION_STRING=\\"([0-9.]+)\\"')  # in its Kbuild
# overlayfs parts its options by these.
_HARMFUL = re.compile(r"[,:\\\s]")


class Headers(Struct, frozen=True):
    """What packages brought, as a folder to lay above a ground."""

    layer: str  # a folder with usr/src, usr/lib/modules/KERNEL/build
    releases: tuple[str, ...]  # kernels that can be built for with it, by release
    said: tuple[str, ...]  # what each was read from: names of files


@contextmanager
def unpack_headers(
    given: Sequence[str], root: str = "", *, sources: Sequence[str] = ()
) -> Iterator[Headers]:
    """Packages, or folders of headers, as one layer; gone at the end of the block.

    :param given: .deb, .rpm, or folders: a kernel's build folder, or an unpacked tree.
    :param root: the tree above which it shall lie: on its disk there is room for such things.
    :param sources: of the driver: .deb, .rpm, .tar or folders.
    :raises UsageError: for what is no package of headers, or holds no source of the driver.
    :raises Unsupported: where the tool that unpacks it is not there.
    """
    if _HARMFUL.search(root):
        raise UsageError(
            f"--root {root}: no tree whose path holds blanks, commas or colons",
            hint="give it a path of letters, digits and dashes",
        )
    _sweep(place := Path(_place(root)))
    with ExitStack() as stack:
        try:
            name = Path(stack.enter_context(TemporaryDirectory(prefix=_PREFIX, dir=place)))
            fcntl.flock(stack.enter_context((name / "lock").open("w")), fcntl.LOCK_EX)
            layer = name / "layer"
            (layer / "usr/lib/modules").mkdir(parents=True)
            for each in given:
                _add(Path(each), layer, name / "part")
            for each in sources:
                _add_source(Path(each), layer, name / "part")
            _merge(layer)
            for folder in (name, layer, *layer.glob("*")):
                folder.chmod(0o755)  # mkdtemp's is for us alone, and a layer's root shows through
        except OSError as why:
            option = "--headers" if given else "--sources"
            raise UsageError(
                f"{option} cannot be laid out below {place}: {why.strerror or why}",
                hint="is there room, and may we read what was given?",
            ) from why
        releases = tuple(sorted(_linked(layer)))
        if given and not releases:
            raise UsageError(f"no kernel headers in {', '.join(given)}", hint=_WHOLE)
        yield Headers(str(layer), releases, tuple(Path(each).name for each in given))


def _sweep(place: Path) -> None:
    """Remove what runs left that were killed: their locks are free again.

    Everybody may make folders there: what is not our own is neither opened nor removed.
    """
    for left in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = left.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
                continue
            held = os.open(left / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(held)


def _place(root: str) -> str:
    """Where a build has its scratch too."""
    own = "/var/tmp"  # noqa: S108 # a folder of a random name is made there
    return f"{root}{own}" if os.access(f"{root}{own}", os.W_OK) else own


def _add(given: Path, layer: Path, part: Path) -> None:
    if given.is_dir():
        _add_folder(given, layer)
        return
    if not _unpacked("--headers", given, part):
        raise UsageError(
            f"--headers {given}: neither a deb, nor an rpm, nor a folder",
            hint="download the package as it is: apt-get download, dnf download",
        )
    for source, target in _places(part, layer):
        _move(source, target)
    shutil.rmtree(part)


def _unpacked(option: str, given: Path, part: Path) -> bool:
    """Whether it is a package, which then lies unpacked in ``part``."""
    if not given.exists():
        raise UsageError(
            f"{option} {given}: there is no such file or folder",
            hint=f"name a .deb, an .rpm, or a folder of {option.removeprefix('--')}",
        )
    if not given.is_file():  # a pipe would be waited for, and can be read but once
        raise UsageError(
            f"{option} {given}: neither a file nor a folder", hint="download the package first"
        )
    part.mkdir()
    with given.open("rb") as file:
        magic = file.read(8)
    if magic.startswith(b"!<arch>"):
        _call("dpkg", "dpkg-deb", "-x", str(given), str(part))
    elif magic.startswith(b"\xed\xab\xee\xdb"):
        _unpack_rpm(given, part)
    else:
        return False
    return True


def _add_source(given: Path, layer: Path, part: Path) -> None:
    """The driver's source, wherever it lies in there, to a folder of its release's name."""
    if given.suffix == ".run":  # a program of the vendor's, which we do not call
        raise UsageError(
            f"--sources {given} has to be unpacked first",
            hint=f"sh {given} --extract-only, then name the folder that it makes",
        )
    tars = () if given.is_dir() or _unpacked("--sources", given, part) else (given,)
    below = given if given.is_dir() else part
    found = _driver_below(below)
    for number, each in enumerate(tars or sorted(below.rglob("*.tar.*"))):
        if found is None:  # Debian's and SUSE's packages of sources hold a tarball
            inner = part / f"tar-{number}"
            inner.mkdir(parents=True)
            _call("tar", "tar", "--no-same-owner", "-C", str(inner), "-xf", str(each), "--")
            found = _driver_below(inner)
    if found is None:
        raise UsageError(
            f"--sources {given}: no nvidia-peermem.c in it, beside a Kbuild of its release",
            hint="the distribution's package of it, or the vendor's open-gpu-kernel-modules",
        )
    folder, release = found
    shutil.copytree(
        folder,
        layer / f"usr/src/nvidia-{release}",
        symlinks=True,
        # Without the core of 100 MB, which is not compiled: no package for DKMS then.
        ignore=shutil.ignore_patterns("*.o_binary", "dkms.conf"),
    )
    shutil.rmtree(part, ignore_errors=True)


def _driver_below(folder: Path) -> tuple[Path, str] | None:
    """The folder that holds the source of nvidia-peermem, the open modules' first; its release."""
    homes = [each.parent.parent for each in folder.rglob("nvidia-peermem/nvidia-peermem.c")]
    for home in sorted(homes, key=lambda each: (each.name != "kernel-open", each)):
        kbuild = home / "Kbuild"
        told = _DRIVER.search(kbuild.read_text("utf-8", "replace")) if kbuild.is_file() else None
        if told:
            return home, told[1]
    return None


def _unpack_rpm(given: Path, part: Path) -> None:
    """By cpio where it is, else by rpm's own converter to tar."""
    if _where("rpm2cpio") and _where("cpio"):
        cpio = ("cpio", "-idm", "--quiet", "--no-absolute-filenames")
        _piped(("rpm2cpio", str(given)), cpio, part, str(given))
    elif _where("rpm2archive"):
        with given.open("rb") as file:
            _piped(("rpm2archive", "-"), ("tar", "-xz"), part, str(given), file.fileno())
    else:
        raise Unsupported(
            f"nothing here unpacks {given.name}", hint="install rpm2cpio and cpio, or rpm"
        )


def _add_folder(given: Path, layer: Path) -> None:
    """A tree with usr or lib in it, or one build folder."""
    if (given / "Makefile").exists() and (given / ".config").exists():
        target = layer / "usr/src" / f"linux-headers-{_release(given) or 'given'}"
        shutil.copytree(given, target, symlinks=True)
    elif (given / "usr/src").is_dir() or (given / "lib/modules").is_dir():
        for source, goal in _places(given, layer):
            shutil.copytree(source, goal, symlinks=True, dirs_exist_ok=True)
    else:
        raise UsageError(
            f"--headers {given}: no headers: neither a Makefile and .config, nor usr/src",
            hint="name the folder that /lib/modules/KERNEL/build would point at",
        )


def _places(part: Path, layer: Path) -> Iterator[tuple[Path, Path]]:
    """What headers consist of, and where it goes; /lib is /usr/lib.

    A link on the way there could lead to this machine's own /usr, and what lies there is moved.
    """
    for place, goal in (*((each, each) for each in _KEPT), ("lib", "usr/lib")):
        source = part / place
        if source.is_dir() and source.resolve() == part.resolve() / place:
            yield source, layer / goal


def _move(source: Path, target: Path) -> None:
    """Headers are ten thousand files: they are moved by the folder where that is possible."""
    if not target.exists() and not target.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    elif all(each.is_dir() and not each.is_symlink() for each in (source, target)):
        for each in source.iterdir():
            _move(each, target / each.name)


def _merge(layer: Path) -> None:
    """A link that a kernel's own package brings, and its headers' does not."""
    for config in (*layer.glob("usr/src/*/.config"), *layer.glob("usr/src/kernels/*/.config")):
        release = _release(config.parent)
        link = layer / "usr/lib/modules" / release / "build"
        if release and not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(f"/{config.parent.relative_to(layer)}")


def _linked(layer: Path) -> Iterable[str]:
    """Kernels whose build folder is there, with a configuration."""
    # Not by a pattern that ends in "build": it would pass over links that lead out of here.
    for link in (each / "build" for each in layer.glob("usr/lib/modules/*")):
        target = str(link.readlink()) if link.is_symlink() else ""
        inside = layer / target.removeprefix("/") if target.startswith("/") else link
        if (inside / ".config").is_file() or (inside / "include/config/auto.conf").is_file():
            yield link.parent.name


def _release(build: Path) -> str:
    """The kernel release that a build folder is of; "" where it does not say."""
    header = build / "include/generated/utsrelease.h"
    found = _RELEASE.search(header.read_text("utf-8", "replace")) if header.is_file() else None
    return found[1] if found else ""


def _where(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/bin:/bin")


def _call(package: str, *words: str) -> None:
    if _where(words[0]) is None:
        raise Unsupported(f"{words[0]} is not on this machine", hint=f"install {package}")
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            words,
            stdin=quiet,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as why:
        raise _late(words[-2]) from why
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise UsageError(
            f"{words[-2]} cannot be unpacked: {last}", hint="is it whole? fetch it again"
        )


def _late(given: str) -> UsageError:
    return UsageError(f"{given} is not unpacked within {_LIMIT_S} s", hint="is the disk busy?")


def _piped(
    first: Sequence[str],
    second: Sequence[str],
    folder: Path,
    given: str,
    stdin: int = subprocess.DEVNULL,
) -> None:
    """One command's output into another's input; both must end well."""
    with subprocess.Popen(
        first, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as source:
        try:
            done = subprocess.run(
                second,
                stdin=source.stdout,
                cwd=folder,
                capture_output=True,
                timeout=_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as why:
            source.kill()
            raise _late(given) from why
        if source.stdout:
            source.stdout.close()  # whoever writes to nobody would wait for ever
        said = source.stderr.read() if source.stderr else b""
    if source.returncode or done.returncode:
        words = (said + done.stderr).decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise UsageError(f"{given} cannot be unpacked: {words}", hint="is it whole? fetch it again")
