"""What nodes need built, and that it is built once for all that need the same."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.evidence.build import KERNEL, OFED, node
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_builds import built
from tests.evidence.healthy_files import P2P
from tests.features.builds.graphs import HERE, INSTALLED, step_of
from tests.unit import grounds
from tests.unit.grounds import MLNX, NVIDIA, Survey
from toolkit.built.plan.model import Part
from toolkit.cli.options import Said
from toolkit.errors import NoEvidence, Outcome, Unsupported, UsageError
from toolkit.features.builds import cli
from toolkit.features.builds.plan.outcome import Need
from toolkit.features.builds.run.places import BuildPlace, gate_ground, recipe
from toolkit.features.builds.run.run import NodeNeeds, graphs_for, needs_of_node, shared
from toolkit.verbs.access import Access

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


@pytest.mark.parametrize(
    ("status", "driver", "ofed"),
    [
        pytest.param("nvidia/580.126.20: added\nnvidia/580.126.30: added\n", "580.126.16",
                     "25.10-1.7.1", id="two-drivers-in-dkms"),
        pytest.param(f"mlnx-ofed-kernel/{OFED}: added\nmlnx-ofed-kernel/1.1: added\n",
                     "580.126.16", "25.10-1.7.1", id="two-ofeds-in-dkms"),
    ],
)  # fmt: skip
def test_where_dkms_has_several_what_is_there_decides(status: str, driver: str, ofed: str) -> None:
    (found,) = needs_of_node("gpu001", node({"dkms-status": status}), insist=True).needs
    assert (found.driver, found.ofed) == (driver, ofed)


def test_kernels_that_were_named_take_the_place_of_those_that_the_node_has() -> None:
    found = needs_of_node("gpu001", node({"boot-entries": ABSENT}), ("5.1", "5.2"))
    assert ([each.kernels for each in found.needs], found.remark) == ([("5.1",), ("5.2",)], "")


def test_a_driver_below_usr_lib_is_the_one_that_modinfo_has_below_lib() -> None:
    ofed = f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
    frames: dict[str, Override] = {"dkms-status": ofed, "dkms-confs": ""}
    usual = node(frames)
    for key in ("all-modinfo", "exports"):
        if key in usual.frames:
            moved = usual.text(key).replace("/lib/modules/", "/usr/lib/modules/")
            (need,) = needs_of_node("gpu001", node({**frames, key: moved})).needs
            assert dict(need.exports) == P2P


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


def test_what_nodes_need_is_what_is_planned_for_the_words_that_were_said() -> None:
    place = BuildPlace("here", "", "threads", lambda _: Survey().ground, lambda _: "")
    work = graphs_for(place, [Need((grounds.KERNEL,), "9.9", "8.8")], (), "V=1").works[0]
    found = {each.part: each.found for each in work.graph.blocked}
    assert "driver 9.9" in found[Part.DRIVER]
    assert "OFED 8.8" in found[Part.OFED]
    work = graphs_for(place, [Need((grounds.KERNEL,))], (Part.DRIVER,), "V=1").works[0]
    [step] = work.graph.steps
    assert (step.inputs.part, step.inputs.flags) == (Part.DRIVER, "V=1")
    assert step.inputs.recipe == recipe()


@pytest.mark.parametrize(
    ("said", "needs", "insist"),
    [
        ({}, [("1", "2", (("x", 1),)), ("1", "2", ())], False),
        ({"driver": "1"}, [("1", "2", (("x", 1),)), ("1", "2", ())], False),
        ({"driver": "9"}, [("9", "2", ()), ("9", "2", ())], False),
        ({"ofed": "8"}, [("1", "8", (("x", 1),)), ("1", "8", ())], True),
        ({"part": "peermem"}, [("1", "2", (("x", 1),)), ("1", "2", ())], True),
    ],
)
def test_a_version_that_was_named_goes_before_that_of_the_nodes(
    said: dict[str, str],
    needs: list[tuple[str, str, tuple[tuple[str, int], ...]]],
    insist: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[object] = []
    remarks: list[str] = []
    both = tuple(Need(("k",), "1", "2", ("a",), exports=each) for each in ((("x", 1),), ()))
    told = [
        Outcome("a", NodeNeeds(both[:1])),
        Outcome("b", NodeNeeds(both[1:], "b: as it is")),
        Outcome("c", error=NoEvidence("c: no driver")),
    ]

    def needs_of(*words: object, **how: object) -> object:
        heard.extend((words[2], how["insist"]))
        return told

    monkeypatch.setattr(cli, "open_fleet", lambda _: nullcontext())
    monkeypatch.setattr(cli, "needs_of", needs_of)
    session: Any = SimpleNamespace(
        said=Said({"hosts": "a,b,c", "kernel": " k , ,k", **said}), folder=None,
        remark=remarks.append,
    )  # fmt: skip
    asked = cli._request(session, Access())
    assert [(e.driver, e.ofed, e.exports) for e in asked.needs] == needs
    assert [each.host for each in asked.unread] == ["c"]
    assert (heard, remarks) == ([("k",), insist], ["note: b: as it is"])


@pytest.mark.parametrize(
    ("word", "parts"),
    [("", ()), (" driver , ,peermem", (Part.DRIVER, Part.PEERMEM)), ("gdrdrv", (Part.GDRDRV,))],
)
def test_parts_are_named_apart_by_commas(word: str, parts: tuple[Part, ...]) -> None:
    assert cli._parts(Said({"part": word})) == parts
    with pytest.raises(UsageError, match="no part 'cuda'"):
        cli._parts(Said({"part": f"{word},cuda"}))


def test_nodes_that_need_the_same_are_one_need() -> None:
    other = node({"dkms-status": "nvidia/580.126.20: added\n"})
    nodes = {"gpu001": node(), "gpu002": node(), "gpu003": other}
    needs = shared(needs_of_node(name, each) for name, each in nodes.items())
    assert [each.nodes for each in needs] == [("gpu001", "gpu002"), ("gpu003",)]
