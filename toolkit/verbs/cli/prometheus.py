"""What Prometheus is told of a run: of its hosts, or that it failed. Never what was once so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from toolkit.cli.options import Option
from toolkit.errors import ExitCode, Outcome
from toolkit.report.prometheus import Remembered, remembered
from toolkit.verbs.cli.session import Session
from toolkit.verbs.textfile import read_textfile

T = TypeVar("T")

TEXTFILE = Option(
    "textfile", "", "write this *.prom for node_exporter's textfile collector as well", file=True
)


@dataclass(frozen=True, slots=True)
class Words(Generic[T]):
    """How one verb's results are written, and its failure."""

    prefix: str  # of its metrics
    of: Callable[[Sequence[Outcome[T]], ExitCode, datetime, Remembered], str]
    failed: Callable[[datetime, Remembered], str]


@dataclass(slots=True)
class Telling(Generic[T]):
    """Writes the file once; a run that ends before it did so has failed."""

    session: Session
    target: Path | None
    words: Words[T]
    told: bool = False

    def of(self, outcomes: Sequence[Outcome[T]], code: ExitCode) -> None:
        """Write what came of the hosts."""
        self.told = True
        if self.target is not None:
            before = self._before(self.target)
            self.session.deliver(
                "textfile", self.words.of(outcomes, code, self.session.now, before)
            )

    def of_failure(self) -> None:
        """Write that the run failed, so that nobody takes old values for new ones."""
        if self.target is not None and not self.told:
            text = self.words.failed(self.session.now, self._before(self.target))
            self.session.deliver("textfile", text)

    def _before(self, target: Path) -> Remembered:
        return remembered(read_textfile(target), self.words.prefix)


@contextmanager
def telling(session: Session, words: Words[T]) -> Iterator[Telling[T]]:
    """Of one run; ``--textfile`` says where, and was opened as the session began."""
    place = session.said.text("textfile")
    teller = Telling(session, Path(place) if place else None, words)
    try:
        yield teller
    finally:
        teller.of_failure()
