"""Read what jobs wrote of their communicators: files of NCCL's Inspector, logs of nccl-tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

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
from toolkit.facts.nccl.nccl_tests import parse_collectives
from toolkit.features.predict.plan.jobs import of_nccl_tests

_HEAD = 4096  # characters that tell what a file is
_LOG = 64 << 20  # bytes of a log of nccl-tests, at most


def read_jobs(source: Path) -> tuple[CommunicatorRun, ...]:
    """What the communicators of jobs did.

    :param source: the folder that the Inspector writes to, while it does so or later, or one of
        such folders, each a job; one file of it, JSON or metrics, which tell their job themselves;
        or what nccl-tests printed.
    :raises UsageError: where nothing of it is understood.
    """
    if not (source.is_dir() or source.is_file()):
        raise UsageError(f"--job {source}: no folder and no file", hint="NCCL_INSPECTOR_DUMP_DIR")
    try:
        files = sorted(each for each in source.rglob("*") if each.is_file())
        kinds = [(each, _reader(each)) for each in (files if source.is_dir() else [source])]
        records = chain.from_iterable(
            _records(file, read, _job(file, source)) for file, read in kinds if read
        )
        tests = [run for file, read in kinds if not read for run in _tests(file)]
        runs = (*by_communicator(records), *tests)
    except OSError as why:
        raise UsageError(f"--job {source}: {why.strerror or why}", hint="name a folder") from why
    if not runs:
        raise UsageError(
            f"--job {source}: no collective of NCCL's Inspector or of nccl-tests",
            hint="NCCL_INSPECTOR_DUMP_DIR names the folder; NCCL_INSPECTOR_ENABLE=1 fills it",
        )
    return runs


def _job(file: Path, source: Path) -> str:
    """By the folder that the Inspector makes for each job, else as it was asked for."""
    parts = reversed(file.resolve().parent.parts)
    named = (re.fullmatch(r"nccl-inspector-(.+)", each) for each in parts)
    return next((each[1] for each in named if each), source.resolve().name)


Reader = Callable[[Iterable[str]], Iterator[CollectiveRecord]]


def _reader(file: Path) -> Reader | None:
    """What reads a file of the Inspector, by its head; None for any other."""
    with file.open(encoding="utf-8", errors="replace") as text:
        head = text.read(_HEAD)
    return read_records if is_inspector(head) else read_textfile if TEXTFILE in head else None


def _records(file: Path, read: Reader, job: str) -> Iterator[CollectiveRecord]:
    """One after the other: such a file grows by some hundred bytes with each collective."""
    with file.open(encoding="utf-8", errors="replace") as text:
        for record in read(text):
            yield record if record.job else replace(record, job=job)


def _tests(file: Path) -> list[CommunicatorRun]:
    if file.stat().st_size > _LOG:
        return []
    try:
        runs = parse_collectives(file.read_text(encoding="utf-8", errors="replace"))
        return [of_nccl_tests(each, file.stem) for each in runs]
    except Unparsable:
        return []
