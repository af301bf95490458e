"""Builds in the cache: the store keeps words and bytes, here they become builds again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from toolkit.built.io.manifest import About, Entry, Kept
from toolkit.built.io.store import Store
from toolkit.built.plan.model import Built, File, Inputs, Part


@dataclass(frozen=True, slots=True)
class Found:
    """What the cache has for some inputs."""

    built: Built | None
    trouble: str = ""  # "" or a sentence: it had one, and it was damaged


def find(store: Store, inputs: Inputs) -> Found:
    """The build with exactly these inputs, every byte verified."""
    looked = store.look(inputs.digest)
    return Found(to_built(looked.entry) if looked.entry else None, looked.trouble)


def to_entry(built: Built) -> Entry:
    about = tuple((name, str(value)) for name, value in asdict(built.inputs).items())
    return Entry(about, tuple(Kept(each.name, each.data) for each in built.files))


def to_built(entry: Entry) -> Built | None:
    """None where another version of the toolkit knew other inputs."""
    inputs = to_inputs(entry.about)
    files = tuple(File(each.name, each.data) for each in entry.files)
    return Built(inputs, files) if inputs else None


def to_inputs(about: About) -> Inputs | None:
    """What went into a build, from its manifest."""
    told = dict(about)
    try:
        return Inputs(**{**told, "part": Part(told["part"])})  # type: ignore[arg-type] # by name
    except (KeyError, TypeError, ValueError):
        return None


def kept(store: Store) -> Iterator[Built]:
    """All that the cache has, the last used first; what is damaged is put aside."""
    for row in store.rows():
        inputs = to_inputs(row.about)
        if inputs and inputs.digest == row.digest and (built := find(store, inputs).built):
            yield built
