"""One folder a run: the evidence, the logs and the report, to look at afterwards."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.facts.pod_logs import holds_pod_logs
from toolkit.flow.imports import (
    decoded,
    import_file,
    import_folder,
    import_named,
    names_kinds,
    read_bytes,
)
from toolkit.flow.incident import is_incident, read_incident
from toolkit.flow.pod_logs import is_pod_logs, read_pod_log, read_pod_logs
from toolkit.reach.safe_file import Beside, open_beside, private_folder, write_file

_SUFFIX = ".evidence"
DEMO = "demo"  # in runs on simulated nodes: where those lie


class RunFolder:
    """Keeps what a run saw. A disk that is full costs the record, never the run."""

    def __init__(self, base: Path, verb: str, now: datetime, demo: str = "") -> None:
        """A folder below ``base``, named by time and verb; made when there is something to keep.

        :param demo: where the nodes lie, if they are simulated: then the run may go with them.
        """
        stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")
        self.path = base / f"{stamp}-{verb}"
        self.trouble = ""  # the first reason why something could not be kept
        self._lock = threading.Lock()
        self._made, self._demo = False, demo

    @classmethod
    def again(cls, path: Path) -> RunFolder:
        """The folder of an earlier run, to go on in."""
        folder = cls(path.parent, "", datetime.now(UTC))
        folder.path, folder._made = path, True
        return folder

    def settle(self) -> str:
        """The run's name, which no other has: from now on it does not change."""
        try:
            self._folder()
        except OSError as why:
            self._note(why)
        return self.path.name

    def keep(self, name: str, text: str) -> None:
        """Write one file, whole or not at all. Called from many threads."""
        try:
            write_file(self._folder() / safe_name(name), text, 0o600, errors="surrogateescape")
        except OSError as why:
            self._note(why)

    def kept(self, name: str, parts: Iterable[str]) -> Iterator[str]:
        """Write one file part by part, whole or not at all, and hand each part on."""
        with ExitStack() as stack:
            into: Beside | None = None
            try:
                target = self._folder() / safe_name(name)
                into = open_beside(target, 0o600, errors="surrogateescape")
                stack.callback(into.drop)
            except OSError as why:
                self._note(why)
            for part in parts:
                yield part
                try:
                    if into is not None:
                        into.write(part)
                except OSError as why:
                    self._note(why)
                    into = None
            try:
                if into is not None:
                    into.finish()
            except OSError as why:
                self._note(why)

    def _note(self, why: OSError) -> None:
        self.trouble = self.trouble or f"{self.path}: {why.strerror}"

    def file(self, name: str) -> Path | None:
        """Where a log that grows may be written; None where nothing can be kept."""
        try:
            return self._folder() / safe_name(name)
        except OSError as why:
            self._note(why)
            return None

    def _folder(self) -> Path:
        """The folder; two runs that begin within one second get one each."""
        with self._lock:
            first, number = self.path, 1
            while not self._made:
                try:
                    private_folder(self.path, fresh=True)
                    self._made = True
                    if self._demo:
                        write_file(self.path / DEMO, f"{self._demo}\n", 0o600)
                except FileExistsError:
                    self.path = first.with_name(f"{first.name}-{number}")
                    number += 1
            return self.path

    def keep_evidence(self, host: str, evidence: Evidence, moment: str = "") -> None:
        self.keep(evidence_name(host, moment), evidence.dump())


def evidence_name(host: str, moment: str = "") -> str:
    """The file in the run's folder that keeps a host's evidence."""
    return safe_name(f"{host}{moment and '.' + moment}{_SUFFIX}")


def safe_name(name: str) -> str:
    """A file name in which a host's name can do no harm."""
    return re.sub(r"[^A-Za-z0-9@.:_+-]", "_", name).lstrip(".")[:200] or "_"


def read_saved(source: Path) -> Iterator[tuple[str, Evidence]]:
    """Evidence that somebody has already, with the name of the node.

    :param source: one ``*.evidence``, a folder of them, an incident, logs of pods, loose files
        that other tools printed, a folder of those, or ``KIND=FILE,KIND=FILE`` of one node.
    :raises UsageError: where there is none, or a file is no evidence.
    """
    if names_kinds(str(source)):
        yield import_named(str(source))
    elif not source.is_dir():
        yield from _read_file(source)
    elif files := sorted(source.glob(f"*{_SUFFIX}")):
        for file in files:
            yield from _read_file(file)
    elif any(each.is_file() for each in source.iterdir()):
        yield from read_pod_logs(source) if is_pod_logs(source) else import_folder(source)
    else:
        raise UsageError(f"{source}: holds no *{_SUFFIX} file", hint="make one: capture --out DIR")


def _read_file(file: Path) -> Iterator[tuple[str, Evidence]]:
    if is_incident(file):
        yield from read_incident(file)
        return
    text = decoded(read_bytes(file))
    if holds_pod_logs(text):
        yield from read_pod_log(text, file)
        return
    if file.suffix != _SUFFIX and "= begin ok " not in text:
        yield file.stem, import_file(file)
        return
    evidence = Evidence.parse(text)
    if not evidence.frames:
        raise UsageError(
            f"{file}: is no evidence", hint="it begins with '= begin ok gdr-toolkit/1'"
        )
    yield file.name.removesuffix(_SUFFIX), evidence
