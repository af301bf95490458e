"""What nodes need built, and that it is built once for all that need the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.evidence.build import KERNEL, OFED, node
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_builds import built
from tests.evidence.healthy_files import P2P
from tests.features.builds.graphs import HERE, INSTALLED, step_of
from tests.unit import grounds
from tests.unit.grounds import MLNX, NVIDIA, Survey
from toolkit.built.plan.model import Part
from toolkit.errors import NoEvidence, Unsupported
from toolkit.features.builds.plan.outcome import Need
from toolkit.features.builds.run.places import BuildPlace, gate_ground
from toolkit.features.builds.run.run import graphs_for, needs_of_node, shared

INBOX: dict[str, Override] = {"dkms-status": ABSENT, "ofed-info": ABSENT, "rdma-modinfo": ABSENT}
SECOND = "5.15.0-173-generic"


@pytest.mark.parametrize(
    ("changes", "need"),
    [
        pytest.param({}, ("580.126.16", "25.10.OFED.25.10.1.7.1.1"), id="by-dkms"),
        pytest.param(INBOX, ("580.126.16", "inbox"), id="no-ofed"),
        pytest.param(
            {"dkms-status": "nvidia/580.126.20: added\n"},
            ("580.126.20", "25.10-1.7.1"),
            id="newer-driver-in-dkms",
        ),
    ],
)  # fmt: skip
def test_a_node_says_what_it_needs(changes: dict[str, Override], need: tuple[str, str]) -> None:
    (found,) = needs_of_node("gpu001", node(changes), insist=True).needs
    assert (found.driver, found.ofed) == need
    assert found.kernels == ("5.15.0-170-generic",)
    assert found.nodes == ("gpu001",)


def test_where_dma_buf_is_the_path_nothing_is_built_and_that_is_said() -> None:
    found = needs_of_node("gpu001", node(INBOX))
    assert found.needs == ()
    assert found.remark == (
        "gpu001: its path is dma-buf, by the open driver and the kernel's own RDMA modules: "
        "nothing is built for it (--part peermem insists)"
    )


def test_a_driver_that_came_as_modules_goes_along_with_what_it_exports() -> None:
    ofed = f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
    (need,) = needs_of_node("gpu001", node({"dkms-status": ofed, "dkms-confs": ""})).needs
    assert need.module == f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko"
    assert dict(need.exports) == P2P
    (by_dkms,) = needs_of_node("gpu001", node()).needs
    assert (by_dkms.module, by_dkms.exports) == ("", ())
    other = {"dkms-status": ofed, "dkms-confs": "", "all-modinfo": built(driver="1")}
    (updated,) = needs_of_node("gpu001", node(other)).needs  # on disk is another than is loaded
    assert updated.exports == ()


def test_a_builder_without_a_driver_builds_against_that_of_the_nodes() -> None:
    """Its sources need be no DKMS package: nobody builds the driver anew."""
    bare = replace(NVIDIA, name="nvidia", builds=())
    survey = Survey(packages=(MLNX, bare), folders=HERE, status=INSTALLED.status[:1])
    place = BuildPlace("here", "", "threads", lambda _: survey.ground, lambda _: "")
    need = Need((grounds.KERNEL,), grounds.DRIVER, module="/lib/modules/x/nvidia.ko",
                exports=(("nvidia_p2p_get_pages", 0x9BFC92AD),))  # fmt: skip
    surveyed = graphs_for(place, [need], (Part.PEERMEM,), "")
    graph = surveyed.works[0].graph
    assert graph.blocked == ()
    driver, peermem = step_of(graph, Part.DRIVER), step_of(graph, Part.PEERMEM)
    assert (driver.given, peermem.given) == (True, False)
    assert driver.exports == "0x9bfc92ad\tnvidia_p2p_get_pages\tnvidia\tEXPORT_SYMBOL\t\n"
    [nvidia] = [e for e in gate_ground(surveyed.ground, peermem, graph, {}).providers
                if e.name == "nvidia"]  # fmt: skip
    assert nvidia.version == grounds.DRIVER
    alone = graphs_for(place, [replace(need, exports=())], (Part.PEERMEM,), "").works[0].graph
    assert "no DKMS package" in alone.blocked[0].found


def test_a_node_needs_the_kernel_that_it_boots_next_too() -> None:
    entries = node().text("boot-entries").replace("5.15.0-170-generic", SECOND)
    found = needs_of_node("gpu001", node({"boot-entries": entries}))
    assert [each.kernels for each in found.needs] == [("5.15.0-170-generic",), (SECOND,)]


def test_a_next_boot_that_is_not_known_is_said() -> None:
    found = needs_of_node("gpu001", node({"boot-entries": ABSENT, "boot-default": ABSENT}))
    assert [each.kernels for each in found.needs] == [("5.15.0-170-generic",)]
    assert found.remark.startswith("gpu001: only for the kernel that runs")


def test_a_node_whose_driver_nothing_tells_is_not_guessed_at() -> None:
    bare = node({"dkms-status": ABSENT, "nvidia-version": ABSENT})
    with pytest.raises(NoEvidence, match="gpu001: no NVIDIA driver is loaded"):
        needs_of_node("gpu001", bare)


def test_nodes_of_another_architecture_are_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel release alone does not tell: Ubuntu's have one name on both."""
    (need,) = needs_of_node("gpu001", node()).needs
    assert need.arch == "x86_64"
    place = BuildPlace("here", "", "threads", lambda _: Survey().ground, lambda _: "")
    surveyed = graphs_for(place, [replace(need, arch="aarch64")], (), "")
    (blocked,) = surveyed.works[0].graph.blocked
    assert blocked.found == "the nodes are aarch64, and it would be built on x86_64"


@pytest.mark.parametrize(
    "survey",
    [
        pytest.param(Survey(kernels=()), id="no-headers"),
        pytest.param(Survey(missing=("Makefile", "Module.symvers")), id="headers-in-part"),
    ],
)
def test_a_place_without_a_kernel_to_build_for_is_no_success(survey: Survey) -> None:
    place = BuildPlace("this machine", "", "local", lambda _: survey.ground, lambda _: "")
    with pytest.raises(Unsupported, match="this machine: there are no kernel headers"):
        graphs_for(place, [Need()], (), "")
    assert graphs_for(place, [], (), "").works == ()  # nodes that could not be read say why


def test_nodes_that_need_the_same_are_one_need() -> None:
    other = node({"dkms-status": "nvidia/580.126.20: added\n"})
    nodes = {"gpu001": node(), "gpu002": node(), "gpu003": other}
    needs = shared(needs_of_node(name, each) for name, each in nodes.items())
    assert [each.nodes for each in needs] == [("gpu001", "gpu002"), ("gpu003",)]
