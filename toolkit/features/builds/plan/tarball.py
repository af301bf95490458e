"""A tarball for sites without a package source: modules, hashes, and two scripts."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from hashlib import sha256

from toolkit.features.builds.plan.packages import Contents, manifest
from toolkit.features.builds.plan.packaging import Making, Placed

SCRIPTS = ("install.sh", "uninstall.sh")


def version(held: Contents, making: Making) -> str:
    return f"{held.upstream}-{making.revision}+g{held.digest}"


def name(held: Contents, making: Making) -> str:
    """Folder in the tarball, and the tarball's name without ending."""
    return f"gdr-modules-{held.kernel}_{version(held, making)}_{held.arch}"


def pack(
    held: Contents, making: Making, files: Sequence[Placed], scripts: Mapping[str, str]
) -> bytes:
    """The tarball: the same bytes every time.

    :param scripts: install.sh and uninstall.sh.
    """
    placed = sorted(files, key=lambda each: each.path)
    # What install.sh reads: hash and place of each file.
    rows = "".join(f"{sha256(each.data).hexdigest()} {each.path}\n" for each in placed)
    inside = [Placed(f"files/{each.path}", each.data, each.mode) for each in placed]
    inside += [
        Placed("list", rows.encode()),
        Placed("manifest.json", manifest(held, version(held, making)).encode()),
        *(Placed(each, scripts[each].encode(), 0o755) for each in SCRIPTS),
    ]
    if held.proprietary:
        text = "Under NVIDIA's own licence, for the site's own machines alone:\n"
        text += "".join(f"  {each}\n" for each in held.proprietary)
        inside.append(Placed("NOT-TO-BE-REDISTRIBUTED", text.encode()))
    inside.sort(key=lambda each: each.path)
    sums = "".join(f"{sha256(each.data).hexdigest()}  {each.path}\n" for each in inside)
    return _tar(name(held, making), [*inside, Placed("SHA256SUMS", sums.encode())], making.epoch)


def _tar(folder: str, inside: Sequence[Placed], epoch: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for each in inside:
            entry = tarfile.TarInfo(f"{folder}/{each.path}")  # uid and gid are 0
            entry.size, entry.mode, entry.mtime = len(each.data), each.mode, epoch
            entry.uname = entry.gname = "root"
            tar.addfile(entry, io.BytesIO(each.data))
    return gzip.compress(packed.getvalue(), 9, mtime=0)
