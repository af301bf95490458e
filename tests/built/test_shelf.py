"""Which builds of the cache are at hand for a node, and that they are signed on the way out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from tests.evidence.build import KERNEL, NEXT_KERNEL, node
from tests.evidence.frames import failed
from tests.unit.delivering import BUILT, build, two_kernels
from toolkit.built.delivery_cache import Shelf, at_hand, kept, to_entry
from toolkit.built.io.store import Store
from toolkit.built.plan.model import Built, BuiltFile
from toolkit.built.signing import Signing
from toolkit.facts.node.node import Node
from toolkit.want import Want


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "cache")
    for each in (build(), build(kernel=NEXT_KERNEL), build(kernel="5.4.0"), build(arch="aarch64")):
        made.keep(to_entry(each))
    return made


def kernels(found: tuple[Built, ...]) -> set[str]:
    return {each.inputs.kernel for each in found}


def test_builds_for_the_running_kernel_and_the_next_are_at_hand(store: Store) -> None:
    assert kernels(Shelf(store).for_node(Node(node({})))) == {KERNEL}
    assert kernels(Shelf(store).for_node(Node(node(two_kernels())))) == {KERNEL, NEXT_KERNEL}
    assert all(e.inputs.arch == "x86_64" for e in Shelf(store).for_node(Node(node({}))))


def test_where_the_next_boot_is_not_known_there_is_the_running_kernel_alone(store: Store) -> None:
    dark = {**two_kernels(), "boot-entries": failed(1)}
    assert kernels(Shelf(store).for_node(Node(node(dark)))) == {KERNEL}


def test_a_damaged_build_is_not_at_hand(store: Store) -> None:
    digest = build().inputs.digest
    (store.folder / digest / "nvidia-peermem.ko").write_bytes(b"\x7fELF")
    assert Shelf(store).for_node(Node(node({}))) == ()


def test_where_dkms_compiles_nothing_is_at_hand(store: Store) -> None:
    assert at_hand(Shelf(store), Node(node({})), Want()) == ()
    assert at_hand(None, Node(node({})), BUILT) == ()
    assert kernels(at_hand(Shelf(store), Node(node({})), BUILT)) == {KERNEL}


def test_what_another_version_kept_by_other_inputs_is_passed_over(store: Store) -> None:
    entry = to_entry(build())
    other = tuple((name, value) for name, value in entry.about if name != "recipe")
    more = (*entry.about, ("salt", "1"))
    for about in (other, more):
        store.keep(replace(entry, about=about))
    assert kernels(Shelf(store).for_node(Node(node({})))) == {KERNEL}
    assert len([*kept(store)]) == 4


class Stamp:
    """Signs by a mark behind the module, and counts."""

    def __init__(self) -> None:
        self.digests: list[str] = []

    def signed(self, built: Built, config: Mapping[str, str]) -> Built:
        self.digests.append(config.get("CONFIG_MODULE_SIG_HASH", ""))
        return replace(built, files=tuple(BuiltFile(e.name, e.data + b"!") for e in built.files))


def test_modules_are_signed_once_for_each_digest_that_kernels_ask_for(store: Store) -> None:
    stamp = Stamp()
    shelf = Shelf(store, cast("Signing", stamp))
    config = str(node({}).text("kernel-config"))
    for digest in ("sha512", "sha512", "sha256"):
        line = f'CONFIG_MODULE_SIG_HASH="{digest}"\n'
        found = shelf.for_node(Node(node({"kernel-config": config + line})))
        assert [each.files[0].data for each in found] == [build().files[0].data + b"!"]
    assert stamp.digests == ["sha512", "sha256"]


def test_each_kernel_is_asked_for_its_own_digest(store: Store) -> None:
    stamp = Stamp()
    config = f'CONFIG_MODULE_SIG_HASH="sha384"\n@{NEXT_KERNEL}\nCONFIG_MODULE_SIG_HASH="sha512"\n'
    here = {**two_kernels(), "kernel-configs": f"@{KERNEL}\n{config}"}
    Shelf(store, cast("Signing", stamp)).for_node(Node(node(here)))
    assert (len(stamp.digests), stamp.digests[1]) == (2, "sha512")
    stamp.digests.clear()
    here = {**here, "kernel-configs": failed(1)}
    Shelf(store, cast("Signing", stamp)).for_node(Node(node(here)))
    assert stamp.digests[1] == ""
