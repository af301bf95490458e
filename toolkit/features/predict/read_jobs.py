"""Read what jobs wrote of their communicators: files of NCCL's Inspector, logs of nccl-tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def read_jobs(source: Path) -> tuple[str, tuple[CommunicatorRun, ...]]:
    """The job's name, and what its communicators did.

    :param source: the folder that the Inspector writes to, while it does so or later; one file of
        it, JSON or metrics, which tell their job themselves; or what nccl-tests printed.
    :raises UsageError: where nothing of it is understood.
    """
    try:
        files = sorted(each for each in source.rglob("*") if each.is_file())
        files = files if source.is_dir() else [source]
        records, tests = _read(files)
    except OSError as why:
        raise UsageError(f"--job {source}: {why.strerror or why}", hint="name a folder") from why
    runs = (*by_communicator(records), *tests)
    if not runs:
        raise UsageError(
            f"--job {source}: no collective of NCCL's Inspector or of nccl-tests",
            hint="NCCL_INSPECTOR_DUMP_DIR names the folder; NCCL_INSPECTOR_ENABLE=1 fills it",
        )
    named = re.fullmatch(r"nccl-inspector-(.+)", source.resolve().name)
    return named[1] if named else source.resolve().name, runs


def _read(files: list[Path]) -> tuple[Iterator[CollectiveRecord], list[CommunicatorRun]]:
    records: list[list[CollectiveRecord]] = []
    tests: list[CommunicatorRun] = []
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as text:
            head = text.read(_HEAD)
            text.seek(0)
            if is_inspector(head):
                records.append(list(read_records(text)))
            elif TEXTFILE in head:
                records.append(list(read_textfile(text)))
            elif file.stat().st_size <= _LOG:
                tests += _tests(text.read(), file.stem)
    return chain.from_iterable(records), tests


def _tests(text: str, name: str) -> list[CommunicatorRun]:
    try:
        return [of_nccl_tests(each, name) for each in parse_collectives(text)]
    except Unparsable:
        return []
