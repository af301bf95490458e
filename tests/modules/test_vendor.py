"""The vendor's own nvidia-peermem: what its build makes of a node, and what we say of that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.tools import in_ci
from tests.modules.building import rows_of, run, with_symbols
from tests.modules.conftest import Built
from tests.modules.machine import Machine
from tests.modules.test_causes import judged
from tests.modules.vendor import NotToBeHad, Vendor, fetch
from toolkit.checks.check import Status
from toolkit.checks.kernel.build_failures import cause_of
from toolkit.facts.node.node import Node

pytestmark = pytest.mark.modules


@dataclass(frozen=True, slots=True)
class Real:
    """Two builds of the vendor's sources for the kernel whose headers are here."""

    version: str
    good: Path  # OFED's symbols were seen, and the driver's given
    stub: Path  # OFED's were not: it compiles all the same
    alone: str  # what make said of the first where the driver's were not given


@pytest.fixture(scope="session")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Vendor:
    try:
        return fetch(tmp_path_factory.mktemp("vendor"))
    except NotToBeHad as why:
        if in_ci():
            raise
        pytest.skip(f"the vendor's sources cannot be had: {why}")


@pytest.fixture(scope="session")
def real(vendor: Vendor, built: Built, tmp_path_factory: pytest.TempPathFactory) -> Real:
    at = tmp_path_factory.mktemp("real")
    symvers = built.good / "Module.symvers"
    seen = with_symbols(built.headers, at / "headers", rows_of(symvers, "ib_"))
    try:
        vendor.make(seen, at / "good")
        alone = "it linked"
    except AssertionError as why:
        alone = str(why)
    driver = at / "driver.symvers"
    driver.write_text(rows_of(symvers, "nvidia_p2p_"))
    good = vendor.make(seen, at / "good", driver)
    return Real(vendor.version, good, vendor.make(built.headers, at / "stub"), alone)


def test_the_vendors_good_module_would_load(machine: Machine, real: Real) -> None:
    machine.put(real.good)
    evidence = machine.read()
    finding = judged(evidence)
    assert (finding.status, finding.found) == (Status.PASS, "nothing stands in the way"), finding
    image = Node(evidence).peermem_image
    assert image is not None
    assert image.info["version"] == real.version
    assert set(image.depends) == {"nvidia", "ib_uverbs"}
    assert len(image.shared) >= 8
    assert judged(evidence, "peermem.crc").found.startswith(f"{len(image.shared)} symbols")


def test_the_vendors_module_without_ofed_is_named_a_stub(machine: Machine, real: Real) -> None:
    machine.put(real.stub)
    evidence = machine.read()
    finding = judged(evidence)
    assert (finding.status, finding.details) == (Status.FAIL, ("see peermem.stub",)), finding
    assert finding.found == "a stub: it imports nothing and depends on nothing"
    assert run("modinfo", "-F", "depends", real.stub).strip() == ""


def test_an_ofed_update_is_named_before_the_vendors_module_is_loaded(
    machine: Machine, real: Real, built: Built
) -> None:
    machine.put(real.good)
    machine.put(built.updated / "ib_uverbs.ko")
    machine.load(built.updated / "ib_uverbs.ko", "ib_register_peer_memory_client")
    finding = judged(machine.read())
    assert (finding.status, finding.details) == (Status.FAIL, ("see peermem.crc",)), finding
    assert "another version of ib_register_peer_memory_client" in finding.found


def test_the_log_of_a_build_without_the_drivers_symbols_is_understood(real: Real) -> None:
    found = cause_of(real.alone.split("\n"))
    assert found is not None, real.alone
    row, line = found
    assert row.cause == "it was built without the driver's symbols"
    assert "nvidia_p2p_" in line


def test_where_nothing_can_be_fetched_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://mirror.example/site stable other\n")
    with pytest.raises(NotToBeHad, match="no source of packages"):
        fetch(tmp_path / "lab", tmp_path)
