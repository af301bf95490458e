"""What Prometheus is told of a run: of its hosts, or that it failed. Never what was once so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from toolkit.errors import ExitCode, Outcome
from toolkit.verbs.cli.session import Session
from toolkit.verbs.textfile import read_textfile

if TYPE_CHECKING:
    from toolkit.report.prometheus import Remembered


class Metrics(Protocol):
    """A module that writes one verb's results, and its failure. Any: each verb's are its own."""

    PREFIX: str  # of its metrics

    def exposition(
        self,
        outcomes: Sequence[Outcome[Any]],
        code: ExitCode,
        when: datetime,
        before: Remembered,
    ) -> str: ...

    def failed(self, when: datetime, before: Remembered) -> str: ...


class Textfile(Struct):
    """Writes the file once; a run that ends before it did so has failed."""

    session: Session
    metrics: Callable[[], Metrics]
    told: bool = False

    def of(self, outcomes: Sequence[Outcome[Any]], code: ExitCode) -> None:
        """Write what came of the hosts."""
        self.told = True
        if self.session.said.text("textfile"):
            metrics, before = self._metrics()
            text = metrics.exposition(outcomes, code, self.session.now, before)
            self.session.deliver("textfile", text)

    def of_failure(self) -> None:
        """Write that the run failed, so that nobody takes old values for new ones."""
        if self.session.said.text("textfile") and not self.told:
            metrics, before = self._metrics()
            self.session.deliver("textfile", metrics.failed(self.session.now, before))

    def _metrics(self) -> tuple[Metrics, Remembered]:
        """The module, and what its last run left in the file."""
        from toolkit.report.prometheus import remembered  # noqa: PLC0415 only they pay for it

        metrics = self.metrics()
        text = read_textfile(Path(self.session.said.text("textfile")))
        return metrics, remembered(text, metrics.PREFIX)


@contextmanager
def textfile(session: Session, metrics: Callable[[], Metrics]) -> Iterator[Textfile]:
    """Of one run; ``--textfile`` says where, and was opened as the session began.

    :param metrics: imports the module; called where the file was asked for.
    """
    teller = Textfile(session, metrics)
    try:
        yield teller
    finally:
        teller.of_failure()
