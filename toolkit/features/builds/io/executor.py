"""Who carries builds out, in words that all executors share."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from toolkit.errors import ExitCode, ToolkitError


@dataclass(frozen=True, slots=True)
class Crew:
    """An executor, and how many jobs it works on at once."""

    executor: Executor
    at_once: int


class WorkerLost(ToolkitError):
    """The process that ran a job died, and so did the next one; nothing of it was kept."""

    exit_code = ExitCode.FAILED
