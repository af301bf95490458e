"""Passports: made and laid into an image, in one round trip each; found in whatever is named."""

from __future__ import annotations

import shlex
from pathlib import Path

from toolkit.errors import ApplyError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.passport import PLACE, SIGNATURE, Passport, parse
from toolkit.features.image.plan import passport_of
from toolkit.node import text_signature
from toolkit.node.scripts import assembled
from toolkit.progress import Progress
from toolkit.ssh.transport import Transport
from toolkit.tar_member import is_tar, read_member

_END = "GDR_END"


def passport_script() -> str:
    """The script that reads what a passport tells, as one text."""
    return assembled(("frames.sh", "probe_elf.sh", "passport.sh"))


def read_parts(transport: Transport) -> Evidence:
    """Kernels, modules and what we placed, of an image or of a node.

    :raises TransportError: the script did not run to its end.
    """
    return Evidence.parse(transport.run(passport_script(), limit_s=300).stdout)


def place(transport: Transport, files: dict[str, str], *, limit_s: float = 60) -> None:
    """Put text files in place, each whole or not at all; owner root, mode 644.

    :param files: text by absolute path, of plain characters and with a newline at its end.
    :raises ApplyError: one could not be written.
    """
    lines = ["set -eu", "umask 022", "root=${GDR_ROOT:-}", "root=${root%/}"]
    for path, text in files.items():
        folder, _, name = path.rpartition("/")
        beside = f'"$root"{shlex.quote(f"{folder}/.{name}.gdr-toolkit-new")}'
        lines += [
            f'mkdir -p "$root"{shlex.quote(folder)}',
            f"cat >{beside} <<'{_END}'\n{text}{_END}",
            f"chmod 644 {beside}",
            f"sync {beside} 2>/dev/null || sync",
            f'mv -f {beside} "$root"{shlex.quote(path)}',
        ]
    done = transport.run("\n".join([*lines, "echo placed", ""]), limit_s=limit_s)
    if done.exit or "placed" not in done.stdout:
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise ApplyError(
            f"{transport.name}: {', '.join(files)} could not be placed: {said[:200]}",
            hint="is the file system full, or mounted read-only?",
        )


_INSIDE = PLACE.lstrip("/")
_LARGEST = 8 << 20  # bytes; a passport of twenty kernels has a fortieth of it


def make_passport(transport: Transport, node: Node) -> Passport:
    """The passport of what a transport leads to: an image, or a node as it is.

    :param node: as the probe read it there, after all was placed.
    :raises NoEvidence: something that a passport tells could not be read.
    :raises TransportError: nothing could be read at all.
    """
    return passport_of(node, read_parts(transport))


def place_passport(transport: Transport, passport: Passport, signature: str = "") -> None:
    """Put it, and the signature over it, in their place: the last act of making an image.

    :raises ApplyError: they could not be written.
    """
    files = {PLACE: passport.json()}
    if signature:
        files[SIGNATURE] = signature if signature.endswith("\n") else f"{signature}\n"
    place(transport, files)


def signature_of(passport: Passport, key: Path) -> str:
    """What goes beside it, by a key of OpenSSH or minisign.

    :raises UsageError: the key cannot be used.
    """
    return text_signature.sign(key, passport.json())


def try_signing(key: Path) -> None:
    """Sign something else, so that a long build does not end at a key that cannot be used.

    :raises UsageError: it cannot.
    """
    text_signature.sign(key, "gdr-toolkit\n")


def read_passport(source: Path, progress: Progress | None = None) -> Passport:
    """The passport in a file, below a root, in a tar of one, or on a disk.

    :raises UsageError: there is none, or it cannot be read; of a disk, we are not root.
    :raises Unparsable: what is there is no passport.
    """
    from toolkit.features.image.io.disk import is_disk  # noqa: PLC0415 only they pay for it

    try:
        if source.is_dir():
            return parse(_text(_below(source)), f"{source}: {PLACE}")
        if not source.is_file():
            raise UsageError(f"{source}: no such file or folder", hint="image.diff A B")
        if is_tar(source):
            held = read_member(source, _INSIDE, _LARGEST)
            return parse(_told(source, held), f"{source}: {PLACE}")
        if is_disk(source):
            return parse(_told(source, _on_disk(source, progress)), f"{source}: {PLACE}")
        return parse(_text(source), str(source))
    except OSError as why:
        raise UsageError(
            f"{source}: {why.strerror or why}",
            hint="name a passport, or the root of an image, that can be read",
        ) from why


def _below(root: Path) -> Path:
    """A root's own links, such as an absolute one, lead elsewhere: none is followed out of it."""
    found = root / _INSIDE
    if not found.is_file():
        raise _without(root)
    if not found.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{found}: leads out of the root", hint="name a file inside of the image")
    return found


def _text(file: Path) -> str:
    if file.stat().st_size > _LARGEST:
        hint = "a passport, or a root, a tar or a disk that has one"
        raise UsageError(f"{file}: too large for a passport", hint=hint)
    return file.read_text("utf-8", errors="replace")


def _told(source: Path, held: bytes | None) -> str:
    if held is None:
        raise _without(source)
    return held.decode("utf-8", "replace")


def _without(source: Path) -> UsageError:
    return UsageError(f"{source}: no {PLACE} in it", hint="images made by image have one")


def _on_disk(source: Path, progress: Progress | None) -> bytes | None:
    """From a copy, which is mounted where nobody else sees it: the disk itself is never."""
    from toolkit.features.image.io.media import ImageSource, Medium, stage  # noqa: PLC0415 only they pay for it

    with stage(ImageSource(Medium.DISK, source), progress=progress) as staged:
        try:
            return staged.read(PLACE)
        except FileNotFoundError:
            return None


def unsigned(passport: Passport) -> str:
    """What an operator should know of modules that carry no signature; "" where all do."""
    placed = (each for kernel in passport.kernels for each in kernel.modules if not each.inbox)
    names = sorted({each.name for each in placed if each.signature is None})
    if not names:
        return ""
    return (
        f"not signed: {', '.join(names)}. A node with Secure Boot refuses them: name a key in "
        "[signing] of the site's file, and have its certificate enrolled"
    )
