"""Real modules held against what the real probe reads of a real tree: what fits is delivered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builds import stubs
from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox
from toolkit.built.plan.model import Built, BuiltFile, Inputs, Part
from toolkit.errors import Unsupported
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script
from toolkit.plan.delivery import choose

pytestmark = pytest.mark.builds

DRIVER = "535.261.03"


@pytest.fixture(scope="module")
def prepared() -> Iterator[Sandbox]:
    """OFED, driver and the real nvidia-peermem, installed by DKMS for the next kernel."""
    with stack("bookworm", peermem=True) as box:
        box.write(f"/boot/vmlinuz-{kernel_of(box)}", "an image\n")
        yield box


@pytest.fixture
def box(prepared: Sandbox) -> Iterator[Sandbox]:
    with prepared.branch() as own:
        yield own


def kernel_of(box: Sandbox) -> str:
    return box.kernel("6.1.")


def read(box: Sandbox) -> Node:
    return Node(Evidence.parse(box.run("sh", "-s", text=probe_script()).out))


def built(box: Sandbox) -> Built:
    """What DKMS has installed, as if it came from the cache."""
    kernel = kernel_of(box)
    name = "nvidia-current-open-peermem.ko"
    data = box.path(f"/lib/modules/{kernel}/updates/dkms/{name}").read_bytes()
    inputs = Inputs(Part.PEERMEM, "nvidia-peermem", DRIVER, kernel, "x86_64", *["0" * 64] * 6)
    return Built(inputs, (BuiltFile(name, data),))


def test_the_module_that_was_built_there_fits(box: Sandbox) -> None:
    ours = built(box)
    assert choose(Part.PEERMEM, (ours,), read(box), kernel_of(box)).built == ours


def test_after_an_update_of_ofed_it_does_not_fit_any_more(box: Sandbox) -> None:
    ours = built(box)
    newer = stubs.ofed(box, "26.01", shape=stubs.Shape.OTHER)
    box.run("dkms", "remove", "mlnx-ofed-kernel/25.10", "-k", kernel_of(box))
    stubs.install(box, newer, kernel_of(box))
    with pytest.raises(Unsupported, match="another version of ib_register_peer_memory_client"):
        choose(Part.PEERMEM, (ours,), read(box), kernel_of(box))


def test_without_ofed_there_is_nothing_for_it_to_rest_on(box: Sandbox) -> None:
    ours = built(box)
    box.run("dkms", "remove", "mlnx-ofed-kernel/25.10", "-k", kernel_of(box))
    box.shell("rm -rf /usr/src/ofa_kernel")
    with pytest.raises(Unsupported, match="exports ib_register_peer_memory_client"):
        choose(Part.PEERMEM, (ours,), read(box), kernel_of(box))


def test_for_another_driver_it_is_not_even_looked_at(box: Sandbox) -> None:
    ours = built(box)
    package = "nvidia-current-open"
    other = stubs.driver(box, "535.309.01", package=package)
    box.run("dkms", "remove", f"{package}/{DRIVER}", "-k", kernel_of(box))
    stubs.install(box, other, kernel_of(box))
    with pytest.raises(Unsupported, match=r"and driver 535\.309\.01 is in the cache") as refused:
        choose(Part.PEERMEM, (ours,), read(box), kernel_of(box))
    assert f"build --kernel {kernel_of(box)} --driver 535.309.01" in refused.value.hint
