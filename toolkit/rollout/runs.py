"""One folder a run: the evidence, the logs and the report, to look at afterwards."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from toolkit.evidence import Evidence
from toolkit.safe_file import Beside, open_beside, private_folder, write_file

SUFFIX = ".evidence"
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
    return safe_name(f"{host}{moment and '.' + moment}{SUFFIX}")


def safe_name(name: str) -> str:
    """A file name in which a host's name can do no harm."""
    return re.sub(r"[^A-Za-z0-9@.:_+-]", "_", name).lstrip(".")[:200] or "_"
