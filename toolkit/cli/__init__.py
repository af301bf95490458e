"""The verbs as Invoke tasks, and as the command ``gdr`` for those who installed with pip."""

from __future__ import annotations

import toolkit.cli.early  # noqa: F401 # before the others, which take a second

# isort: split
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from invoke.config import Config
from invoke.exceptions import Exit, ParseError
from invoke.program import Program

from toolkit import __version__
from toolkit.cli.streams import patient_streams
from toolkit.cli.table import verbs
from toolkit.errors import ExitCode

__all__ = ("Gdr", "Settings", "main", "namespace", "verbs")

namespace = verbs()


class Settings(Config):
    """Invoke's settings, without the user's where HOME may not be entered."""

    def load_user(self, merge: bool = True) -> None:
        with suppress(OSError):
            super().load_user(merge)


class Gdr(Program):
    """Invoke's program, except that a mistyped command line ends with our exit code."""

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:  # noqa: A002 # Invoke's
        """Its help and lists, too, are nothing that a reader could end."""
        with patient_streams():
            super().run(argv, exit)

    def parse_core(self, argv: list[str] | None) -> None:
        with self._our_usage_code(sys.argv if argv is None else argv):
            super().parse_core(argv)

    def parse_tasks(self) -> None:
        with self._our_usage_code(self.argv):
            super().parse_tasks()

    @contextmanager
    def _our_usage_code(self, argv: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except ParseError as why:
            own = Path(argv[0]).name  # "invoke", too: then that is what can be typed again
            hint = f"{own} --list, {own} --help VERB"
            if {"image", "--diff"} <= set(argv):  # there it shows what a plan would change
                hint = f"two images side by side: {own} image.diff A B"
            message = f"error: {why}\n next: {hint}"
            raise Exit(message, code=int(ExitCode.USAGE)) from why


def main() -> None:
    """The console script ``gdr``."""
    Gdr(
        name="gdr", binary="gdr", version=__version__, namespace=namespace, config_class=Settings
    ).run()
