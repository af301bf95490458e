"""Manifests for Kubernetes, written down; nothing is asked of a cluster."""

from __future__ import annotations

from pathlib import Path

from toolkit.change.kubernetes import Manifest, reading
from toolkit.change.kubernetes_terms import Terms
from toolkit.errors import UsageError
from toolkit.reach.pod import pod_files


def reading_manifests(terms: Terms) -> tuple[Manifest, ...]:
    """All that reads nodes."""
    return reading(terms, pod_files())


def write_manifests(manifests: tuple[Manifest, ...], out: Path) -> list[Path]:
    """Each as a file below ``out``, a folder that holds no manifest yet.

    :raises UsageError: it cannot be written, or others' manifests would be applied with ours.
    """
    written = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        if others := sorted(each.name for each in out.glob("*.y*ml")):
            raise UsageError(
                f"{out}: holds {others[0]} already", hint="name a fresh folder with --out"
            )
        for each in manifests:
            (out / each.name).write_text(each.text)
            written.append(out / each.name)
    except OSError as why:
        raise UsageError(f"{out}: {why.strerror}") from why
    return written
