"""Packages: deb and rpm by the distributions' own tools, dpkg-deb and rpmbuild; tarballs by none.

Equal files give equal bytes: no clock, user, umask, host name or folder of this machine gets in.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from toolkit.errors import ExitCode, ToolkitError, Unsupported, UsageError
from toolkit.features.builds.plan.deb import version
from toolkit.features.builds.plan.packages import Contents, Making, PackedFile, manifest

_LIMIT_S = 900  # of one tool; it only copies and packs
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~_-]{0,250}")
_PART = re.compile(r"[A-Za-z0-9._+~-]{1,200}")
_KEPT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")  # of our own environment
_PLAIN = re.compile(r"[\w/.+~@,:=-]+")  # rpmbuild's own scripts and macros quote no path
_SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"


class PackingError(ToolkitError):
    """A packaging tool refused, or what it made could not be put down; no package was left."""

    exit_code = ExitCode.FAILED


def pack_deb(files: Sequence[PackedFile], target: Path, epoch: int) -> Path:
    """Build a deb of a tree that has its DEBIAN folder.

    :raises Unsupported: without dpkg-deb.
    :raises PackingError: where it refuses.
    """
    with _scratch(target.parent) as scratch:
        _lay(files, scratch / "tree", epoch)
        made = scratch / "made.deb"
        # gzip: every dpkg reads it, and the number of threads cannot change its bytes.
        words = ["--root-owner-group", "-Zgzip", "--build", str(scratch / "tree"), str(made)]
        _run("dpkg-deb", words, scratch, epoch, package="dpkg")
        return _deliver(made, target)


def pack_rpm(
    spec: str, files: Sequence[PackedFile], folder: Path, epoch: int, machine: str
) -> tuple[Path, ...]:
    """Build the rpms of a spec file.

    :param files: what %install copies from the folder that it knows as ``_sourcedir``.
    :param folder: where the packages go.
    :param machine: rpm's word for the architecture.
    :raises Unsupported: without rpmbuild.
    :raises PackingError: where it refuses.
    """
    with _scratch(folder) as scratch:
        if not _PLAIN.fullmatch(str(scratch)):
            raise UsageError(
                f"rpmbuild takes no folder of such a name: {folder}",
                hint="name one without blanks, quotes and percent signs: --out DIR",
            )
        _lay(files, scratch / "tree", epoch)
        text = scratch / "package.spec"
        text.write_text(spec, "utf-8")
        words = ["-bb", "--quiet", "--target", machine, *_macros(scratch), str(text)]
        _run("rpmbuild", words, scratch, epoch, package="rpm (rpm-build on RHEL)")
        made = sorted((scratch / "rpms").rglob("*.rpm"))
        if not made:
            raise PackingError(
                "rpmbuild ended well and made no package",
                hint="attach the run's folder to a bug report",
            )
        return tuple(_deliver(each, folder / each.name) for each in made)


def _macros(scratch: Path) -> Iterator[str]:
    """Words that keep rpmbuild in one folder, and the bytes that it makes the same every time."""
    defines = {
        "_topdir": scratch / "top",
        "_sourcedir": scratch / "tree",
        "_rpmdir": scratch / "rpms",
        "_dbpath": scratch / "db",
        "_tmppath": scratch,
        "_buildhost": "localhost",
        "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        "use_source_date_epoch_as_buildtime": 1,
        "clamp_mtime_to_source_date_epoch": 1,
        "source_date_epoch_from_changelog": 0,
    }
    for key, value in defines.items():
        yield from ("--define", f"{key} {value}")


def write(data: bytes, target: Path) -> Path:
    """Put down a package that was made without a tool."""
    with _scratch(target.parent) as scratch:
        made = scratch / "made"
        made.write_bytes(data)
        return _deliver(made, target)


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder of our own beside the packages, gone at the end."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".gdr-package-", dir=out) as made:
            yield Path(made).absolute()
    except OSError as why:
        raise PackingError(
            f"packages cannot be written to {out}: {why.strerror or why}",
            hint="name another folder: --out DIR",
        ) from why


def _lay(files: Sequence[PackedFile], tree: Path, epoch: int) -> None:
    """Write the files as they shall be packed, whatever umask and clock say."""
    tree.mkdir()
    for each in files:
        parts = each.path.split("/")
        if any(not _PART.fullmatch(part) or part in {".", ".."} for part in parts):
            raise UsageError(
                f"{each.path!r} cannot be a path in a package",
                hint="an absolute path without blanks or dots",
            )
        target = tree.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:  # a path that is there twice is an error
            file.write(each.data)
        target.chmod(each.mode)
    for folder, _names, found in os.walk(tree, topdown=False):
        for name in found:
            os.utime(Path(folder) / name, (epoch, epoch))
        Path(folder).chmod(0o755)
        os.utime(folder, (epoch, epoch))


def _run(tool: str, words: list[str], scratch: Path, epoch: int, *, package: str) -> None:
    found = shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{_SBIN}")
    if found is None:
        raise Unsupported(f"{tool} is not on this machine", hint=f"install {package}")
    kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
    # HOME has macros of the user's own for rpmbuild, which would change what it makes.
    kept |= {"HOME": str(scratch), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    try:
        done = subprocess.run(
            [found, *words],
            cwd=scratch,
            env={**kept, "SOURCE_DATE_EPOCH": str(epoch)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as why:
        raise PackingError(
            f"{tool} did not end within {_LIMIT_S} s", hint="is the machine under load? run again"
        ) from why
    if done.returncode:
        last = [line for line in (done.stdout + done.stderr).split("\n") if line.strip()][-5:]
        raise PackingError(
            f"{tool} ended with status {done.returncode}: {'; '.join(last)}",
            hint="run it with these words by hand, and see",
        )


def _deliver(made: Path, target: Path) -> Path:
    """Move a package to its place in one step, readable for those who shall install it."""
    if not _NAME.fullmatch(target.name):
        raise UsageError(
            f"{target.name!r} cannot be the name of a package's file",
            hint="letters, digits and +.-~ alone",
        )
    made.chmod(0o644)
    with made.open("rb") as file:
        os.fsync(file.fileno())
    made.replace(target)
    return target


TAR_SCRIPTS = ("install.sh", "uninstall.sh")


def tar_name(held: Contents, making: Making) -> str:
    """Folder in the tarball, and the tarball's name without ending."""
    return f"gdr-modules-{held.kernel}_{version(held, making)}_{held.arch}"


def tar_bytes(
    held: Contents, making: Making, files: Sequence[PackedFile], scripts: Mapping[str, str]
) -> bytes:
    """The tarball: the same bytes every time.

    :param scripts: install.sh and uninstall.sh.
    """
    placed = sorted(files, key=lambda each: each.path)
    # What install.sh reads: hash and place of each file.
    rows = "".join(f"{sha256(each.data).hexdigest()} {each.path}\n" for each in placed)
    inside = [PackedFile(f"files/{each.path}", each.data, each.mode) for each in placed]
    inside += [
        PackedFile("list", rows.encode()),
        PackedFile("manifest.json", manifest(held, version(held, making)).encode()),
        *(PackedFile(each, scripts[each].encode(), 0o755) for each in TAR_SCRIPTS),
    ]
    if held.proprietary:
        text = "Under NVIDIA's own licence, for the site's own machines alone:\n"
        text += "".join(f"  {each}\n" for each in held.proprietary)
        inside.append(PackedFile("NOT-TO-BE-REDISTRIBUTED", text.encode()))
    inside.sort(key=lambda each: each.path)
    sums = "".join(f"{sha256(each.data).hexdigest()}  {each.path}\n" for each in inside)
    return _tar_of(
        tar_name(held, making), [*inside, PackedFile("SHA256SUMS", sums.encode())], making.epoch
    )


def _tar_of(folder: str, inside: Sequence[PackedFile], epoch: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for each in inside:
            entry = tarfile.TarInfo(f"{folder}/{each.path}")  # uid and gid are 0
            entry.size, entry.mode, entry.mtime = len(each.data), each.mode, epoch
            entry.uname = entry.gname = "root"
            tar.addfile(entry, io.BytesIO(each.data))
    return gzip.compress(packed.getvalue(), 9, mtime=0)
