"""Who carries builds out, in words that all executors share."""

from __future__ import annotations

from concurrent.futures import Executor

from msgspec import Struct

from toolkit.errors import ExitCode, ToolkitError


class Crew(Struct, frozen=True):
    """An executor, and how many jobs it works on at once."""

    executor: Executor
    at_once: int


class WorkerLost(ToolkitError):
    """The process that ran a job died, and so did the next one; nothing of it was kept."""

    exit_code = ExitCode.FAILED
