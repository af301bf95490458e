"""Read what jobs wrote of their communicators: NCCL's Inspector and RAS, logs of nccl-tests.

Jobs may be at work meanwhile: of a line or an answer that is cut nothing is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import Unparsable, UsageError
from toolkit.facts.nccl.inspector import (
    TEXTFILE,
    CollectiveRecord,
    CommunicatorRun,
    by_communicator,
    is_inspector,
    read_records,
    read_textfile,
)
from toolkit.facts.nccl.nccl_tests import has_begun, parse_collectives
from toolkit.facts.nccl.ras import RasLook, is_ras, read_ras
from toolkit.features.predict.plan.jobs import of_nccl_tests

_HEAD = 4096  # characters that tell what a file is
_LOG = 64 << 20  # bytes of a log of nccl-tests, or of answers of RAS, at most
_OWN, _METRICS = re.compile(r".+-pid\d+\.log"), re.compile(r"nccl_inspector_metrics_.+\.prom")


class JobsRead(Struct, frozen=True):
    """What was read of jobs, each by its name."""

    runs: tuple[CommunicatorRun, ...]
    looks: dict[str, tuple[RasLook, ...]]
    begun: tuple[str, ...]  # that have written nothing whole so far


def read_jobs(source: Path) -> JobsRead:
    """What the communicators of jobs did.

    :param source: the folder that the Inspector writes to, while it does so or later, or one of
        such folders, each a job; one file of it, JSON or metrics, which tell their job themselves;
        what nccl-tests printed; or answers of RAS, one behind the other.
    :raises UsageError: where nothing of it is understood.
    """
    if not (source.is_dir() or source.is_file()):
        raise UsageError(f"--job {source}: no folder and no file", hint="NCCL_INSPECTOR_DUMP_DIR")
    records: list[Iterator[CollectiveRecord]] = []
    tests: list[CommunicatorRun] = []
    looks: dict[str, tuple[RasLook, ...]] = {}
    begun: dict[str, None] = {}
    try:
        files = sorted(each for each in source.rglob("*") if each.is_file())
        for file in files if source.is_dir() else [source]:
            with file.open(encoding="utf-8", errors="replace") as text:
                head = text.read(_HEAD)
            if read := _reader(file, head):
                job = _job(file, source)
                begun[job] = None
                records.append(_records(file, read, job, begun))
            elif file.stat().st_size <= _LOG:
                said = file.read_text("utf-8", "replace")
                if is_ras(head):
                    looks[file.stem] = read_ras(said)
                elif found := _tests(said, file.stem):
                    tests += found
                elif has_begun(said):
                    begun[file.stem] = None
        runs = (*by_communicator(chain.from_iterable(records)), *tests)
    except OSError as why:
        raise UsageError(f"--job {source}: {why.strerror or why}", hint="name a folder") from why
    if not (runs or looks or begun):
        raise UsageError(
            f"--job {source}: no collective of NCCL's Inspector or of nccl-tests, no answer of RAS",
            hint="NCCL_INSPECTOR_DUMP_DIR names the folder; NCCL_INSPECTOR_ENABLE=1 fills it",
        )
    return JobsRead(runs, looks, tuple(begun))


def _job(file: Path, source: Path) -> str:
    """By the folder that the Inspector makes for each job, else as it was asked for."""
    parts = reversed(file.resolve().parent.parts)
    named = (re.fullmatch(r"nccl-inspector-(.+)", each) for each in parts)
    return next((each[1] for each in named if each), source.resolve().name)


Reader = Callable[[Iterable[str]], Iterator[CollectiveRecord]]


def _reader(file: Path, head: str) -> Reader | None:
    """What reads a file of the Inspector, by its head or name; None for any other."""
    if is_inspector(head) or _OWN.fullmatch(file.name):
        return read_records
    return read_textfile if TEXTFILE in head or _METRICS.fullmatch(file.name) else None


def _records(
    file: Path, read: Reader, job: str, begun: dict[str, None]
) -> Iterator[CollectiveRecord]:
    """One after the other: such a file grows by some hundred bytes with each collective."""
    with file.open(encoding="utf-8", errors="replace") as text:
        for record in read(text):
            begun.pop(job, None)
            yield record if record.job else replace(record, job=job)


def _tests(text: str, job: str) -> list[CommunicatorRun]:
    """Each run of nccl-tests; of a line that is cut its parser takes no half of a number."""
    try:
        runs = parse_collectives(text)
    except Unparsable:
        return []
    return [of_nccl_tests(each, job) for each in runs]
