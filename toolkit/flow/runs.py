"""One folder a run: the evidence, the logs and the report, to look at afterwards."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.evidence import Evidence

_SUFFIX = ".evidence"


class RunFolder:
    """Keeps what a run saw. A disk that is full costs the record, never the run."""

    def __init__(self, base: Path, verb: str, now: datetime) -> None:
        """A folder below ``base``, named by time and verb; made when there is something to keep."""
        stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%S")
        self.path = base / f"{stamp}-{verb}"
        self.trouble = ""  # the first reason why something could not be kept
        self._lock = threading.Lock()
        self._made = False

    def keep(self, name: str, text: str) -> None:
        """Write one file, whole or not at all. Called from many threads."""
        try:
            target = self._folder() / safe_name(name)
            beside = target.with_name(target.name + ".part")
            beside.write_text(text, encoding="utf-8", errors="surrogateescape")
            beside.rename(target)
        except OSError as why:
            self.trouble = self.trouble or f"{self.path}: {why.strerror}"

    def _folder(self) -> Path:
        """The folder; two runs that begin within one second get one each."""
        with self._lock:
            first, number = self.path, 1
            while not self._made:
                try:
                    self.path.mkdir(parents=True)
                    self._made = True
                except FileExistsError:
                    self.path = first.with_name(f"{first.name}-{number}")
                    number += 1
            return self.path

    def keep_evidence(self, host: str, evidence: Evidence, moment: str = "") -> None:
        self.keep(f"{host}{moment and '.' + moment}{_SUFFIX}", evidence.dump())


def safe_name(name: str) -> str:
    """A file name in which a host's name can do no harm."""
    return re.sub(r"[^A-Za-z0-9@.:_+-]", "_", name).lstrip(".")[:200] or "_"


def read_saved(source: Path) -> Iterator[tuple[str, Evidence]]:
    """Saved evidence: one file, or every ``*.evidence`` of a folder, with the host's name.

    :raises UsageError: where there is none, or a file is no evidence.
    """
    files = sorted(source.glob(f"*{_SUFFIX}")) if source.is_dir() else [source]
    if not files:
        raise UsageError(f"{source}: holds no *{_SUFFIX} file", hint="make one: capture --out DIR")
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as why:
            raise UsageError(f"{file}: {why.strerror}") from why
        evidence = Evidence.parse(text)
        if not evidence.frames:
            raise UsageError(
                f"{file}: is no evidence", hint="it begins with '= begin ok gdr-toolkit/1'"
            )
        yield file.name.removesuffix(_SUFFIX), evidence
