"""The log of one build: it grows while the build runs, and is kept in the run's folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from toolkit.features.builds.plan.outcome import running
from toolkit.rollout.runs import RunFolder

_ENOUGH = 65536  # bytes of a log looked at in one go


class Logs:
    """The logs of a run."""

    def __init__(self, folder: RunFolder, *, here: bool = True) -> None:
        """:param here: builds run on this machine, and can write into our folder."""
        self._folder, self._here = folder, here
        self._begun: Counter[str] = Counter()

    def begin(self, title: str) -> Log:
        """A log of its own for each build: against two releases of OFED, two have one title."""
        stem = title.replace(" for ", ".").replace("/", "-")
        self._begun[stem] += 1
        name = f"{stem}.{self._begun[stem]}.log" if self._begun[stem] > 1 else f"{stem}.log"
        file = self._folder.file(name) if self._here else None
        return Log(self._folder, name, file)


class Log:
    """One log."""

    def __init__(self, folder: RunFolder, name: str, file: Path | None) -> None:
        self._folder, self._name, self._file = folder, name, file
        self._read = 0

    @property
    def path(self) -> str:
        """Where the build is to write it; "" for nowhere."""
        return str(self._file or "")

    def step(self) -> str:
        """The step that has begun since the last call; "" for none."""
        steps = [step for line in self._new() if (step := running(line))]
        return steps[-1] if steps else ""

    def end(self, text: str) -> None:
        """Keep what a person can read of all that was printed."""
        self._folder.keep(self._name, "\n".join([*readable(text), ""]))

    def _new(self) -> Iterator[str]:
        """Whole lines that have been added."""
        if self._file is None:
            return
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._read)
                data = stream.read(_ENOUGH)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        # A line longer than what is read in one go is none of a step's beginning.
        self._read += whole or (len(data) if len(data) == _ENOUGH else 0)
        yield from data[:whole].decode("utf-8", "replace").split("\n")


def readable(text: str) -> Iterator[str]:
    """The frames of a build without the files that it left: steps, and what they printed."""
    shown = True
    for line in text.split("\n"):
        if line.startswith("= "):
            shown = not line.startswith("= file.")
            yield line
        elif line.startswith("|") and shown:
            yield line[1:]
