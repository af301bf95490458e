"""Logs of pods that were saved, as evidence of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.facts.text.pod_logs import holds_pod_logs, parse_pod_logs
from toolkit.verbs.pasted_logs import decoded, read_bytes


def read_pod_log(text: str, file: Path) -> Iterator[tuple[str, Evidence]]:
    """The nodes of one log.

    :raises UsageError: it is of pods of ours, and nothing can be taken for one node's evidence.
    """
    try:
        found = parse_pod_logs(text)
    except UsageError as why:
        raise UsageError(f"{file}: {why}", hint=why.hint) from why
    for each in found:
        yield each.node, each.evidence


def is_pod_logs(folder: Path) -> bool:
    """Whether each file of the folder is the log of pods of ours."""
    files = [each for each in folder.iterdir() if each.is_file() and each.name[0] != "."]
    return bool(files) and all(holds_pod_logs(decoded(read_bytes(each))) for each in files)


def read_pod_logs(folder: Path) -> Iterator[tuple[str, Evidence]]:
    """The nodes of a folder with one log a pod; of a node with several the last by name counts.

    :raises UsageError: likewise.
    """
    found: dict[str, Evidence] = {}
    for file in sorted(each for each in folder.iterdir() if each.is_file()):
        if file.name[0] != ".":
            found.update(read_pod_log(decoded(read_bytes(file)), file))
    yield from found.items()
