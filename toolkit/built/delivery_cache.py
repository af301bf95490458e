"""Builds that may be delivered: those in the cache for a node's kernels, signed on the way out."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from msgspec import Struct, field
from msgspec.structs import asdict

from toolkit.built.io.store import About, Entry, Store
from toolkit.built.plan.model import Built, Inputs, Part
from toolkit.built.signing import Signing
from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.facts.node.node import Node
from toolkit.want import Modules, Want


class Shelf(Struct):
    """Nodes are planned in parallel, and share what was read and signed."""

    store: Store
    signing: Signing | None = None
    _read: dict[str, Built | None] = field(default_factory=dict)  # by digest of the inputs
    _signed: dict[tuple[str, str], Built] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def for_node(self, node: Node) -> tuple[Built, ...]:
        """The builds for the node's running kernel and for that of its next boot.

        :raises Unsupported: the kernel asks for a signature that we cannot make.
        """
        with self._lock:
            kernels = _kernels(node)
            found = [built for kernel in kernels for built in self._of(kernel, node.arch)]
            return tuple(self._out(built, node) for built in found)

    def _of(self, kernel: str, arch: str) -> list[Built]:
        """What the cache has for it, every byte verified; what is damaged is passed over."""
        found = []
        for row in self.store.rows():
            inputs = to_inputs(row.about)
            if inputs is None or (inputs.kernel, inputs.arch) != (kernel, arch):
                continue
            if row.digest not in self._read:
                own = inputs.digest == row.digest
                self._read[row.digest] = find(self.store, inputs).built if own else None
            if built := self._read[row.digest]:
                found.append(built)
        return found

    def _out(self, built: Built, node: Node) -> Built:
        if self.signing is None:
            return built
        config = _config(node, built.inputs.kernel)
        key = (built.inputs.digest, config.get("CONFIG_MODULE_SIG_HASH", ""))
        if key not in self._signed:
            self._signed[key] = self.signing.signed(built, config)
        return self._signed[key]


def _kernels(node: Node) -> tuple[str, ...]:
    try:
        following = node.default_kernel
    except (NoEvidence, Unparsable):
        return (node.kernel,)
    return tuple(dict.fromkeys((node.kernel, following)))


def _config(node: Node, kernel: str) -> dict[str, str]:
    """Options of that kernel; none where they were not read: the usual digest then."""
    return read_or(
        lambda: (
            node.kernel_config if kernel == node.kernel else node.kernel_configs.get(kernel, {})
        ),
        {},
    )


def at_hand(shelf: Shelf | None, node: Node, want: Want) -> tuple[Built, ...]:
    """What may be delivered to the node: nothing, where the site has DKMS compile there."""
    if shelf is None or want.modules is not Modules.BUILT:
        return ()
    return shelf.for_node(node)


class CachedBuild(Struct, frozen=True):
    """What the cache has for some inputs."""

    built: Built | None
    trouble: str = ""  # "" or a sentence: it had one, and it was damaged


def find(store: Store, inputs: Inputs) -> CachedBuild:
    """The build with exactly these inputs, every byte verified."""
    looked = store.look(inputs.digest)
    return CachedBuild(to_built(looked.entry) if looked.entry else None, looked.trouble)


def to_entry(built: Built) -> Entry:
    about = tuple((name, str(value)) for name, value in asdict(built.inputs).items())
    return Entry(about, built.files)


def to_built(entry: Entry) -> Built | None:
    """None where another version of the toolkit knew other inputs."""
    inputs = to_inputs(entry.about)
    return Built(inputs, entry.files) if inputs else None


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
