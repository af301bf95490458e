"""One file that holds all there is to say about some nodes at one moment.

    about.txt                 how it was made, and how to judge it again
    evidence/NAME.evidence    what each node said, word for word
    report.json               what was said of it
    site.toml                 the site's own wishes, where there are any

A tar of these, gzipped: the same bytes for the same content, whoever writes it and when.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolkit.errors import Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.safe_file import try_folder, write_file
from toolkit.tar_member import SmallHeader, Unpacked
from toolkit.verbs.pasted_logs import decoded

_MEMBER = re.compile(r"evidence/([^/]+)\.evidence")
_EVIDENCE = 64 << 20  # bytes of one node: more than a node may say, and its BMC and a job's log
# RecursionError: tarfile reads a header that speaks of the next one in the midst of it.
_DAMAGE = (tarfile.TarError, EOFError, OSError, zlib.error, RecursionError)


def is_incident(file: Path) -> bool:
    """Whether the file is a gzipped tar with evidence in it."""
    if not file.is_file():
        return False  # a pipe or a terminal would wait for somebody to write into it
    try:
        with (
            gzip.open(file) as packed,
            Unpacked(file, packed) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|", tarinfo=SmallHeader) as tar,
        ):
            return any(_MEMBER.fullmatch(each.name) for each in tar)
    except _DAMAGE:
        return False


def check_place(file: Path) -> None:
    """Refuse early what could only fail after a whole fleet was asked.

    :raises UsageError: there can be no file of this name.
    """
    if file.is_dir():
        raise UsageError(f"{file}: is a folder", hint="name a file: ticket.tar.gz")
    if file.exists() and not file.is_file():
        raise UsageError(f"{file}: not an ordinary file", hint="name a file: ticket.tar.gz")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{file.parent}: no such folder", hint=f"mkdir -p {file.parent}")
    try:
        try_folder(file.absolute().parent)
    except OSError as why:
        raise UsageError(
            f"{file}: {why.strerror}", hint="name a file in a folder that can be written"
        ) from why


def write_incident(file: Path, evidence: Mapping[str, Evidence], notes: Mapping[str, str]) -> None:
    """Write one incident, whole or not at all.

    :param evidence: by the name of its file, without its ending.
    :param notes: further files by name.
    :raises Unwritten: the file cannot be written.
    """
    check_place(file)
    texts = dict(notes)
    texts |= {f"evidence/{name}.evidence": each.dump() for name, each in evidence.items()}
    try:
        write_file(file, _packed(texts), 0o600)
    except OSError as why:
        raise Unwritten(file, why) from why


def _packed(texts: Mapping[str, str]) -> bytes:
    """A tar without owner, time or order of its own."""
    raw = io.BytesIO()
    # Neither gzip nor tar may write when it was made, or by whom.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(texts):
            data = texts[name].encode("utf-8", "surrogateescape")
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return raw.getvalue()


def read_incident(file: Path) -> Iterator[tuple[str, Evidence]]:
    """The nodes of one incident, by name. Nothing is unpacked onto the disk.

    :raises UsageError: it is no incident, is damaged, or holds more than evidence can be.
    """
    names: set[str] = set()
    try:
        with (
            gzip.open(file) as packed,
            Unpacked(file, packed) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|", tarinfo=SmallHeader) as tar,
        ):
            for member in tar:
                named = _MEMBER.fullmatch(member.name)
                if named is None or not member.isreg():
                    continue
                if member.size > _EVIDENCE:
                    raise _odd(file, member, "too large to be evidence")
                content = tar.extractfile(member)
                if content is None:
                    continue
                evidence = Evidence.parse(decoded(content.read()))
                if not evidence.frames:
                    raise _odd(file, member, "no evidence")
                if named[1] in names:
                    raise _odd(file, member, "in it twice")
                names.add(named[1])
                yield named[1], evidence
            while unpacked.read(1 << 20):  # up to the checksum at the very end
                pass
    except _DAMAGE as why:
        raise UsageError(
            f"{file}: is no incident, or is damaged: {why}",
            hint="copy it again from where it was made",
        ) from why
    if not names:
        raise UsageError(f"{file}: holds no evidence", hint="make one: capture --incident FILE")


def _odd(file: Path, member: tarfile.TarInfo, what: str) -> UsageError:
    hint = "name one that capture --incident made"
    return UsageError(f"{file}: {member.name} is {what}", hint=hint)
