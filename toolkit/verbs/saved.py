"""What somebody has already: evidence, or files of any sort in which tools have said something.

Nothing is refused for what lies beside it: a file that is not understood is told of once. Alone
it is a mistake of who named it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import UsageError
from toolkit.evidence import GRAMMAR, Evidence, Frame
from toolkit.facts.collected import below, is_bulk, kind_of, may_tell, of_cluster, roots, tells_more
from toolkit.facts.kinds import BY_NAME
from toolkit.facts.text.foreign import Foreign, foreign
from toolkit.facts.text.machines import machines
from toolkit.facts.text.pasted_logs import NotUnderstood, evidence_of, frames_of
from toolkit.facts.text.pod_logs import holds_pod_logs
from toolkit.plural import sized
from toolkit.rollout.runs import SUFFIX
from toolkit.verbs.archives import Leaf, UnpackRoom, is_packed, leaves
from toolkit.verbs.incident import is_incident, read_incident
from toolkit.verbs.pasted_logs import (
    MANY_BYTES,
    decoded,
    import_named,
    is_pod_logs,
    names_kinds,
    read_bytes,
    read_input,
    read_pod_log,
    read_pod_logs,
)

INPUT = Path("-")  # standard input
MANY_FILES = 10_000  # of a folder and of those in it
_DEEP = 8  # folders within one another
_BINARY_IN = 8000  # bytes, in which one in a hundred is NUL where it is no text
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # as PowerShell's > writes it
_BEGIN, _POD = f"= begin ok {GRAMMAR}\n", "gdr-toolkit: node "  # of a node's evidence, a pod's log
Saved = tuple[str, Evidence]
E = TypeVar("E")


def read_saved(source: Path, aside: list[Foreign] | None = None) -> Iterator[Saved]:
    """Evidence that somebody has already, with the name of the node.

    :param source: one ``*.evidence``, a folder of them, an incident, logs of pods, files that
        other tools printed, a folder or an archive of those, ``KIND=FILE,KIND=FILE`` of one
        node, or ``-`` for standard input.
    :param aside: is given what was not understood.
    :raises UsageError: where there is none, or a file is damaged evidence.
    """
    aside = [] if aside is None else aside
    if names_kinds(str(source)):
        yield import_named(str(source))
    elif source == INPUT:
        yield from _of_file("stdin", read_input(), aside)
    elif not source.is_dir():
        yield from _read_file(source, aside)
    elif files := sorted(source.glob(f"*{SUFFIX}")):
        for file in files:
            yield from _read_file(file, aside)
    elif any(each.is_file() for each in source.iterdir()) and is_pod_logs(source):
        yield from read_pod_logs(source)
    elif next(_within(source), None) is not None:
        yield from _read_folder(source, aside)
    else:
        raise UsageError(f"{source}: holds no *{SUFFIX} file", hint="make one: capture --out DIR")


def name_saved(source: Path, aside: list[Foreign]) -> Iterator[tuple[str, Evidence | Path]]:
    """The same, but of a folder the files that are one node's evidence are named, and not parsed.

    :raises UsageError: likewise; what ``read_node_file`` raises is left to it.
    """
    if not (files := evidence_files(source)):
        yield from read_saved(source, aside)
    for file in files:
        data = read_bytes(file)
        told_apart = _POD.encode() in data or roots([str(file)]) or of_cluster([str(file)])
        if data.startswith(_BEGIN.encode()) and not told_apart:
            yield file.name.removesuffix(SUFFIX), file
        else:
            yield from _read_file(file, aside)


def evidence_files(source: Path) -> list[Path]:
    """Those of a folder of evidence, in order; none of anything else."""
    if names_kinds(str(source)) or not source.is_dir():
        return []
    return sorted(source.glob(f"*{SUFFIX}"))


def read_node_file(file: Path) -> Evidence:
    """A file that ``name_saved`` named.

    :raises UsageError: it is damaged, or is another one by now.
    """
    own = _own(str(file), decoded_text(read_bytes(file)))
    if own is None or len(own) != 1:
        raise UsageError(f"{file}: was changed while it was read", hint="name a copy of it")
    return own[0][1]


def read_all(
    sources: Iterable[Path],
    aside: list[Foreign],
    read: Callable[[Path, list[Foreign]], Iterator[tuple[str, E]]],
) -> Iterator[tuple[str, E]]:
    """The same of several; one of which nothing was understood is told of with the rest.

    Of two nodes with one name the second has that of its source.

    :raises UsageError: likewise, and where nothing is understood in any of them.
    """
    names: set[str] = set()
    nothing: NotUnderstood | None = None
    for source in sources:
        try:
            for name, evidence in read(source, aside):
                told = name if name not in names else f"{name} of {source}"
                names.add(told)
                yield told, evidence
        except NotUnderstood as why:
            nothing = nothing or why
    if nothing and not names:
        raise nothing


def _read_file(file: Path, aside: list[Foreign]) -> Iterator[Saved]:
    if is_incident(file):
        yield from read_incident(file)
    else:
        yield from _of_file(str(file), read_bytes(file), aside)


def _read_folder(folder: Path, aside: list[Foreign]) -> Iterator[Saved]:
    """A folder of loose files is one node; where two files are of one kind, each is a node."""
    files = sorted(_within(folder))
    size = sum(each.stat().st_size for each in files)
    if size > MANY_BYTES:
        raise UsageError(
            f"{folder}: more than {sized(MANY_BYTES)} is no evidence of a node",
            hint="name the files that matter, one by one",
        )
    room = UnpackRoom.of(size, MANY_BYTES, is_bulk)
    found = chain.from_iterable(
        leaves(each.relative_to(folder).as_posix(), read_bytes(each), room) for each in files
    )
    yield from _gathered(folder.resolve().name, str(folder), found, aside)


def _within(folder: Path) -> Iterator[Path]:
    """The files of a folder and of those in it; links, pipes and what is hidden are passed over.

    :raises UsageError: there are more than evidence has.
    """
    count = 0
    for at, folders, names in os.walk(folder):
        here = Path(at)
        deep = len(here.relative_to(folder).parts)
        folders[:] = sorted(e for e in folders if e[0] != "." and deep < _DEEP)
        for file in (here / name for name in names if name[0] != "."):
            if is_bulk(f"{folder.resolve().name}/{file.relative_to(folder).as_posix()}"):
                continue
            if file.is_file() and (not file.is_symlink() or here == folder):
                count += 1
                yield file
            if count > MANY_FILES:
                hint = "name the files that matter, one by one"
                raise UsageError(f"{folder}: more than {MANY_FILES} files", hint=hint)


def _of_file(name: str, data: bytes, aside: list[Foreign]) -> Iterator[Saved]:
    path = PurePosixPath(name)
    if not is_packed(data):
        yield from _gathered(path.stem, name, [Leaf(name, data)], aside)
        return
    room = UnpackRoom.of(len(data), MANY_BYTES, is_bulk)
    stem = path.name.partition(".")[0] or path.name
    yield from _gathered(stem, name, leaves(path.name, data, room), aside)


class _Read(Struct, frozen=True):
    """One loose file and what it says."""

    path: PurePosixPath
    frames: tuple[Frame, ...]


def _gathered(
    node: str, source: str, found: Iterable[Leaf], aside: list[Foreign]
) -> Iterator[Saved]:
    """The nodes of some files: evidence of its own, and what the loose ones make together."""
    loose: list[_Read] = []
    odd: list[Foreign] = []
    nodes, first = 0, None
    every = list(found)
    placed = of_cluster(leaf.name for leaf in every)
    every = [replace(e, name=placed.get(e.name, e.name)) for e in every if placed.get(e.name) != ""]
    for root, mark in roots(leaf.name for leaf in every).items():
        its = [leaf for leaf in every if below(root, leaf.name) is not None]
        every = [leaf for leaf in every if below(root, leaf.name) is None]
        if (frames := _collected(root, mark, its)) is not None:
            nodes += 1
            yield PurePosixPath(root).name or node, frames
    for leaf in every:
        text = decoded_text(leaf.data)
        if not leaf.why and (own := _own(leaf.name, text)) is not None:
            nodes += len(own)
            yield from own
            continue
        try:
            loose += _machines(leaf, text)
        except NotUnderstood as why:
            first = first or (None if leaf.why else why)
            odd.append(foreign(leaf.name, "" if _binary(leaf.data) else text, leaf.why))
    aside += odd
    if not loose and not nodes:
        raise _nothing(source, odd, first)
    yield from _nodes(node, loose)


def _machines(leaf: Leaf, text: str) -> list[_Read]:
    """One file, or the part of each machine that is told apart in it; else by its name.

    :raises NotUnderstood: where no part of it is of a known kind.
    """
    path = PurePosixPath(leaf.name)
    if leaf.why or _binary(leaf.data):
        raise NotUnderstood(f"{leaf.name}: {leaf.why or 'no text'}", hint="save it as text")
    try:
        found = machines(text, path.name)
    except NotUnderstood:
        by_name = BY_NAME.get(path.stem)
        if by_name is None:
            raise
        found = [("", frames_of(text, path.name, by_name))]
    return [
        _Read(_of_machine(path, name) if name else path, tuple(frames)) for name, frames in found
    ]


def _of_machine(path: PurePosixPath, name: str) -> PurePosixPath:
    """As if each had a file of its own; tail names files itself: "==> gpu01/dmesg.txt <=="."""
    own = PurePosixPath(name.strip("/."))
    is_file = own.suffix in {".txt", ".log", ".out"}
    return path.parent / (own if is_file else own.parent / f"{own.name}.txt")


def _collected(root: str, mark: str, files: list[Leaf]) -> Evidence | None:
    """What a collection tells of its node, each kind by the file that tells most of it."""
    best: dict[str, tuple[tuple[bool, int], Frame]] = {}
    for leaf in files:
        path = below(root, leaf.name) or ""
        kind = kind_of(path)
        if leaf.why or _binary(leaf.data) or not (kind or may_tell(mark, path)):
            continue
        try:
            frames = frames_of(decoded_text(leaf.data), path, kind)
        except NotUnderstood:
            continue
        for frame in frames:
            rank = tells_more(path, len(frame.text))
            if frame.key not in best or rank > best[frame.key][0]:
                best[frame.key] = (rank, frame)
    return evidence_of(frame for _, frame in best.values()) if best else None


def _nothing(source: str, odd: list[Foreign], why: NotUnderstood | None) -> NotUnderstood:
    near = dict.fromkeys(name for each in odd for name in each.nearest)
    if odd and all(each.why for each in odd):
        begin = "is no incident, or" if len(odd) == 1 else odd[0].name
        return NotUnderstood(
            f"{source}: {begin} {odd[0].why}",
            hint="copy it again from where it was made, or unpack it and name the folder",
        )
    told = f"it comes nearest to {', '.join([*near][:3])}; " if near else ""
    hint = why.hint if why else "make one: capture --incident FILE"
    return NotUnderstood(f"{source}: not recognised as evidence", hint=f"{told}{hint}")


def _nodes(node: str, loose: list[_Read]) -> Iterator[Saved]:
    """One node where no kind is there twice, else one a folder, else one a file."""
    if not loose:
        return
    keys = [frame.key for each in loose for frame in each.frames]
    folders: dict[PurePosixPath, list[_Read]] = {}
    for each in loose:
        folders.setdefault(each.path.parent, []).append(each)
    if len(keys) == len(set(keys)):
        yield node, evidence_of(frame for each in loose for frame in each.frames)
    elif len(folders) > 1:
        for folder, its in folders.items():
            yield from _nodes(folder.name or node, its)
    else:
        for each in loose:
            yield each.path.stem, evidence_of(each.frames)


def _own(name: str, text: str) -> list[Saved] | None:
    """What our own programs wrote; None for another's text.

    :raises UsageError: it is named as evidence, and is none.
    """
    path = Path(name)
    if holds_pod_logs(text):
        return list(read_pod_log(text, path))
    if path.suffix != SUFFIX and "= begin ok " not in text:
        return None
    evidence = Evidence.parse(text)
    if not evidence.frames:
        raise UsageError(
            f"{name}: is no evidence", hint="it begins with '= begin ok gdr-toolkit/1'"
        )
    return [(path.name.removesuffix(SUFFIX), evidence)]


def decoded_text(data: bytes) -> str:
    """As ``decoded``, and what Windows wrote in two bytes a letter, which says so itself."""
    coding = _UTF16.get(data[:2])
    return data.decode(coding, "replace") if coding else decoded(data)


def _binary(data: bytes) -> bool:
    if data[:2] in _UTF16:
        return False
    head = data[:_BINARY_IN]
    odd = sum("\udc80" <= char <= "\udcff" for char in decoded(head))
    return 100 * head.count(0) > len(head) or 5 * odd > len(head)
