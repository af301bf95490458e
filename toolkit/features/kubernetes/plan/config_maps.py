"""Texts as Kubernetes' ConfigMaps: immutable, named by what they hold, no larger than one may be.

Source: Kubernetes, pkg/apis/core/validation, ValidateConfigMap: the values of one ConfigMap may
have 1 MiB in all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from toolkit.errors import UsageError

LIMIT = 1 << 20  # bytes that the values of one ConfigMap may have
PART = 900 << 10  # bytes of one part: room for what an API server or a proxy lays on top
PARTS = 16  # so many for one node: etcd is no place for more
_PLAIN = re.compile(r"(?:[\t -~]*\n)*")


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """One of them; its name tells its content."""

    name: str
    files: Mapping[str, str]


def config_map(stem: str, files: Mapping[str, str]) -> ConfigMap:
    """A ConfigMap of a few files.

    :raises UsageError: they are too many bytes for one.
    """
    size = sum(len(text.encode()) for text in files.values())
    if size > LIMIT:
        raise UsageError(
            f"{stem}: {size} bytes, and a ConfigMap holds {LIMIT}",
            hint="carry out this plan over SSH: provision --hosts",
        )
    for name, text in files.items():
        if not _PLAIN.fullmatch(text):
            raise UsageError(
                f"{stem}, {name}: holds bytes that YAML cannot carry as they stand",
                hint="carry out this plan over SSH: provision --hosts",
            )
    told = "\0".join(f"{name}\0{text}" for name, text in sorted(files.items()))
    return ConfigMap(f"{stem}-{sha256(told.encode()).hexdigest()[:10]}", files)


def in_parts(stem: str, text: str) -> tuple[ConfigMap, ...]:
    """One script, cut at ends of lines: ``bundle.000`` and so on, to be joined in that order.

    :raises UsageError: it is larger than what a cluster's own memory is for.
    """
    parts = list(_cut(text))
    if len(parts) > PARTS:
        size = len(text.encode()) >> 20
        raise UsageError(
            f"{stem}: a bundle of {size} MiB is no load for a cluster's API server",
            hint="deliver modules as a package or in the image of the node (docs/delivery.md)",
        )
    files = [{f"bundle.{number:03}": part} for number, part in enumerate(parts)]
    return tuple(config_map(stem, each) for each in files)


def _cut(text: str) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for line in text.split("\n")[:-1]:
        length = len(line.encode()) + 1
        if lines and size + length > PART:
            yield "".join(lines)
            lines, size = [], 0
        lines.append(line + "\n")
        size += length
    yield "".join(lines)
