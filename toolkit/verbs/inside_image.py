"""An image's file looked into without running it: squashfs, an OCI layout, ``docker save``.

Of its files only names are taken, and the content of a few small ones; they are put into a folder
of ours, where the same script reads them as reads a container from outside.

Sources: opencontainers/image-spec layer.md (whiteouts), image-layout.md; moby image/spec
(manifest.json of docker save); squashfs-tools, unsquashfs; NVIDIA/enroot doc/image-format.md
(/etc/environment has the image's own).
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.node.inside import inside_script
from toolkit.ssh.local import answer
from toolkit.verbs.inside_archives import Member, opened_layers

SQUASHFS = b"hsqs"
_MOST = 64 << 20  # bytes of one file whose content is read
_LIMIT_S = 600.0
# Whose content counts; of all else the name does.
_READ = re.compile(
    r"(?:etc|usr/lib)/os-release|etc/nccl\.conf|etc/environment|root/\.nccl\.conf"
    r"|etc/libibverbs\.d/[^/]+\.driver|etc/ld\.so\.conf|etc/ld\.so\.conf\.d/[^/]+\.conf"
    r"|.*/lib(?:ibverbs|mlx5)\.so\.1[\d.]*"
)
_NAMED = re.compile(
    r"(?:.*/)?(?:libnccl[\w.-]*\.so[\d.]*|libnvshmem_host\.so[\d.]*|libucp\.so\.0[\d.]*"
    r"|lib\w+-rdmav\d+\.so|libcuda\.so[\d.]*|(?:nvidia_nccl|nvidia_nvshmem|libucx|nixl)_cu[^/]*\.dist-info"
    r"|virtualTopology\.xml|[^/]*topo[^/]*\.xml)"
)
_FOLDERS = re.compile(r"lib|lib64|usr/lib64|usr/local/cuda[^/]*")  # often links to one another


class ImageEntry(Struct, frozen=True):
    """One file of an image."""

    link: str = ""  # where it points
    folder: bool = False
    data: bytes | None = None  # None: its name alone is known


Tree = dict[str, ImageEntry]  # by path, without a slash at its start


def counts(path: str) -> bool:
    """Whether anything rests on a file of this name."""
    return bool(_READ.fullmatch(path) or _NAMED.fullmatch(path) or _FOLDERS.fullmatch(path))


def is_read(path: str) -> bool:
    """Whether its content counts as well."""
    return _READ.fullmatch(path) is not None


def read_image(file: str) -> Evidence:
    """What the script finds in it.

    :raises UsageError: it is no image that we know, or cannot be read.
    """
    path = Path(file)
    try:
        tree, variables = _tree_of(path)
    except OSError as why:
        raise UsageError(
            f"{file}: {why.strerror or why}", hint="name a squashfs file or an OCI layout"
        ) from why
    if not tree:
        raise UsageError(
            f"{file}: nothing in it that a job of GPUs would use: no library and no setting",
            hint="is it the image of the job?",
        )
    with tempfile.TemporaryDirectory(prefix="gdr-image-") as root:
        _laid_out(Path(root), tree, variables)
        words = ("sh", "-s")
        settings = {"PATH": os.environ.get("PATH", os.defpath), "GDR_ROOT": root, "GDR_BIN": "/"}
        ended = answer(words, inside_script().encode(), limit_s=120, settings=settings)
    return Evidence.parse(ended.stdout.decode("utf-8", "surrogateescape"))


def _tree_of(path: Path) -> tuple[Tree, list[str]]:
    if path.is_dir():
        return _of_layers(path)
    with path.open("rb") as opened:
        magic = opened.read(4)
    return _squashfs(path) if magic == SQUASHFS else _of_layers(path)


def _of_layers(path: Path) -> tuple[Tree, list[str]]:
    """Layers from the lowest up; a whiteout takes away what those below it have."""
    tree: Tree = {}
    with opened_layers(path) as layers:
        for members in layers.each():
            for member, data in members:
                _take(tree, member, data)
        return tree, layers.variables


def _take(tree: Tree, member: Member, data: IO[bytes] | None) -> None:
    folder, _, base = member.path.rpartition("/")
    if base == ".wh..wh..opq":
        _without(tree, folder, itself=False)
    elif base.startswith(".wh."):
        _without(tree, posixpath.join(folder, base.removeprefix(".wh.")), itself=True)
    elif not counts(member.path):
        return
    elif member.hard:
        tree[member.path] = tree.get(member.link, ImageEntry())
    else:
        content = data.read(_MOST) if data is not None and is_read(member.path) else None
        tree[member.path] = ImageEntry(member.link, member.folder, content)


def _without(tree: Tree, path: str, *, itself: bool) -> None:
    for each in [e for e in tree if e.startswith(f"{path}/") or (itself and e == path)]:
        del tree[each]


_LISTED = re.compile(r"([dl-])\S{9} +\S+ +\S+ +\S+ +\S+ squashfs-root/?(.*)")


def _squashfs(path: Path) -> tuple[Tree, list[str]]:
    """By unsquashfs: first what there is, then the content of the few that count.

    :raises UsageError: it is not here, or cannot read the file.
    """
    tree: Tree = {}
    for line in _unsquashed("-lln", str(path)).decode("utf-8", "surrogateescape").split("\n"):
        found = _LISTED.fullmatch(line)
        if found is None:
            continue
        kind, rest = found.groups()
        name, _, link = rest.partition(" -> ") if kind == "l" else (rest, "", "")
        if counts(name):
            tree[name] = ImageEntry(link, kind == "d")
    for name, entry in tree.items():
        if is_read(name) and not entry.link and not entry.folder:
            tree[name] = ImageEntry(data=_unsquashed("-cat", str(path), name)[:_MOST])
    told = tree.get("etc/environment", ImageEntry()).data or b""
    return tree, told.decode("utf-8", "surrogateescape").split("\n")


def _unsquashed(*words: str) -> bytes:
    try:
        ended = answer(("unsquashfs", "-no-progress", *words), limit_s=_LIMIT_S)
    except OSError as why:
        raise UsageError(
            f"unsquashfs cannot be run here: {why.strerror}", hint="install squashfs-tools 4.5"
        ) from why
    except subprocess.TimeoutExpired as why:
        raise UsageError(
            f"unsquashfs gave no answer within {_LIMIT_S:g} s", hint="is the file's disk in reach?"
        ) from why
    if ended.returncode:
        said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip().split("\n")[-1]
        raise UsageError(f"unsquashfs: {said[:200]}", hint="is the file whole? unsquashfs -s FILE")
    return ended.stdout


def _laid_out(root: Path, tree: Tree, variables: list[str]) -> None:
    """The tree in a folder of ours; a link leads to nothing outside of it."""
    for name, entry in sorted(tree.items()):
        clean = posixpath.normpath("/" + name).lstrip("/")
        place = root / clean
        if not _make_room(root, place) or not clean:
            continue
        if entry.link:
            inside = posixpath.normpath(posixpath.join("/", posixpath.dirname(clean), entry.link))
            place.symlink_to(posixpath.relpath(inside, "/" + posixpath.dirname(clean)))
        elif entry.folder:
            place.mkdir(exist_ok=True)
        else:
            place.write_bytes(entry.data or b"")
    environ = root / "proc" / "1" / "environ"
    environ.parent.mkdir(parents=True, exist_ok=True)
    told = [each for each in variables if "=" in each]
    environ.write_bytes("".join(f"{each}\0" for each in told).encode("utf-8", "surrogateescape"))


def _make_room(root: Path, place: Path) -> bool:
    """Its folder; false where something else is in the way, or a link of the image's."""
    at = root
    for part in place.relative_to(root).parts[:-1]:
        at = at / part
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            return False
        at.mkdir(exist_ok=True)
    return not place.is_symlink() and not place.is_file()
