"""What is built for which kernel, in which order, and what keeps it from being built."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.features.builds.graphs import (
    ALL,
    HERE,
    INSTALLED,
    blocked_of,
    graph_of,
    parts_of,
    step_of,
)
from tests.unit.grounds import (
    CRCS,
    DRIVER,
    GDRDRV,
    KERNEL,
    MLNX,
    NVIDIA,
    NVIDIA_FS,
    OFED,
    OTHER,
    Package,
    Survey,
)
from toolkit.built.plan.model import Part
from toolkit.facts.modules.build_env import Ground, Provider
from toolkit.features.builds.plan.graph import make_graph
from toolkit.features.builds.run.places import make_order

# --- the order, and what is taken as it is ---------------------------------------------


def test_where_nothing_is_installed_all_is_built_each_behind_what_it_rests_on() -> None:
    graph = graph_of(Survey().ground)
    assert parts_of(graph) == ALL
    assert not any(step.given for step in graph.steps)
    assert step_of(graph, Part.DRIVER).after == ()
    peermem = step_of(graph, Part.PEERMEM)
    assert (peermem.inputs.package, peermem.inputs.version) == ("nvidia-peermem", DRIVER)
    assert graph.upstream(peermem) == graph.steps[:2]
    assert graph.blocked == ()


def test_what_is_installed_is_taken_and_said() -> None:
    graph = graph_of(INSTALLED.here)
    assert [(s.inputs.part, s.given) for s in graph.steps] == [
        (Part.OFED, True),
        (Part.DRIVER, True),
        (Part.PEERMEM, False),
    ]
    assert {step_of(graph, each).why for each in (Part.OFED, Part.DRIVER)} == {"as it is installed"}
    assert "0x9bfc92ad\tnvidia_p2p_get_pages\tnvidia\t" in step_of(graph, Part.DRIVER).exports
    assert "0xf6d59ac1\tib_register_peer_memory_client\tib_uverbs\t" in graph.steps[0].exports


def test_ofed_alone_is_built_without_the_driver_and_the_driver_alone_without_ofed() -> None:
    assert parts_of(graph_of(Survey().ground, Part.OFED)) == [Part.OFED]
    alone = graph_of(Survey(packages=(NVIDIA,)).ground, Part.DRIVER)
    assert (parts_of(alone), alone.blocked) == ([Part.DRIVER], ())


def test_ofed_that_is_asked_for_by_name_is_built_though_it_is_installed() -> None:
    [ofed] = graph_of(INSTALLED.ground, Part.OFED).steps
    assert (ofed.given, ofed.why, ofed.source) == (False, "asked for", MLNX.folder)


def test_ofed_that_is_installed_has_the_version_that_dkms_has_for_that_kernel() -> None:
    others = (
        f"mlnx-ofed-kernel/1.1, {OTHER}, x86_64: installed",
        f"mlnx-ofed-kernel/2.2, {KERNEL}, x86_64: built",
        f"gdrdrv/3.3, {KERNEL}, x86_64: installed",
    )
    survey = replace(INSTALLED, status=(*others, *INSTALLED.status), packages=(NVIDIA,))
    ofed = step_of(graph_of(survey.ground), Part.OFED)
    assert (ofed.given, ofed.inputs.version, ofed.inputs.package) == (True, OFED, MLNX.name)


@pytest.mark.parametrize(("version", "given"), [(OFED, True), ("24.9", False)])
def test_of_ofed_the_version_that_was_named_is_taken(version: str, given: bool) -> None:
    survey = replace(INSTALLED, packages=(replace(MLNX, version="24.9"), MLNX, NVIDIA))
    ofed = step_of(graph_of(survey.ground, ofed=version), Part.OFED)
    assert (ofed.given, ofed.inputs.version) == (given, version)
    assert given or ofed.why == "nothing is installed for this kernel"


def test_of_a_driver_that_was_given_what_others_import_is_taken_in_order() -> None:
    crcs = {"nvidia_p2p_put_pages": 2, "other": 3, "nvidia_p2p_get_pages": 1}
    given = Provider("/x/nvidia.ko", "nvidia", DRIVER, "", crcs)
    graph = make_graph(INSTALLED.ground, (KERNEL,), parts=(Part.PEERMEM,), given=given)
    assert step_of(graph, Part.DRIVER).exports == (
        "0x00000001\tnvidia_p2p_get_pages\tnvidia\tEXPORT_SYMBOL\t\n"
        "0x00000002\tnvidia_p2p_put_pages\tnvidia\tEXPORT_SYMBOL\t\n"
    )
    again = replace(given, crcs=dict(sorted(crcs.items())))
    same = make_graph(INSTALLED.ground, (KERNEL,), parts=(Part.PEERMEM,), given=again)
    assert step_of(same, Part.PEERMEM).inputs == step_of(graph, Part.PEERMEM).inputs


def test_an_unknown_kernel_is_no_kernel_whatever_of_ofed_is_wanted() -> None:
    for ofed in ("", "inbox", "9.9"):
        graph = make_graph(Survey().ground, ("6.99.0",), ofed=ofed)
        assert (graph.steps, [each.kernel for each in graph.blocked]) == ((), ["6.99.0"])


def test_what_is_asked_for_by_name_is_built_though_it_is_installed() -> None:
    graph = graph_of(INSTALLED.ground, Part.DRIVER)
    assert [(s.inputs.part, s.given, s.why) for s in graph.steps] == [
        (Part.DRIVER, False, "asked for")
    ]


def test_another_version_than_the_installed_one_is_built() -> None:
    newer = replace(NVIDIA, version="550.163.01")
    ground = replace(INSTALLED, packages=(MLNX, NVIDIA, newer)).ground
    graph = graph_of(ground, driver="550.163.01")
    driver = step_of(graph, Part.DRIVER)
    assert (driver.given, driver.source) == (False, "nvidia-current-open-550.163.01")
    assert driver.why == f"{DRIVER} is installed, 550.163.01 is wanted"
    assert step_of(graph, Part.PEERMEM).inputs.version == "550.163.01"


def test_of_several_sources_the_newest_is_taken_by_number() -> None:
    older = replace(NVIDIA, version="535.9.1")
    graph = graph_of(Survey(packages=(MLNX, NVIDIA, older)).ground)
    assert step_of(graph, Part.DRIVER).inputs.version == DRIVER


def test_of_two_sources_of_ofed_the_newer_is_taken_though_its_version_has_words() -> None:
    older = replace(MLNX, version="24.10.OFED.24.10.0.7.0.1")
    newer = replace(MLNX, version="24.10.OFED.24.10.2.1.8.1")
    graph = graph_of(Survey(packages=(newer, older, NVIDIA)).ground)
    assert step_of(graph, Part.OFED).inputs.version == newer.version


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_drivers_that_of_the_folder_that_depmod_prefers_counts(first: int) -> None:
    files = [("extra/nvidia.ko", "470.1"), ("updates/dkms/nvidia.ko", DRIVER)]
    graph = graph_of(Survey(folders=HERE, drivers=(files[first], files[1 - first])).here)
    assert step_of(graph, Part.DRIVER).inputs.version == DRIVER


def test_the_folder_default_of_another_kernel_is_no_ofed_of_this_one() -> None:
    survey = replace(INSTALLED, folders=("x86_64/6.1.0-50-amd64",),
                     links=("default -> /usr/src/ofa_kernel/x86_64/6.1.0-50-amd64",))  # fmt: skip
    assert not step_of(graph_of(survey.ground), Part.OFED).given
    assert (
        "nothing exports"
        in blocked_of(graph_of(replace(survey, packages=(NVIDIA,)).ground), Part.OFED).found
    )
    weak = replace(survey, ofed=CRCS, ofed_at="weak-updates")
    assert step_of(graph_of(weak.ground), Part.OFED).given


def test_ofed_above_the_kernels_own_interface_is_what_is_linked_against() -> None:
    """Ubuntu's 5.15 has the interface; where OFED is installed, its own symbols count."""
    both = replace(INSTALLED, inbox=True, ofed=CRCS)
    assert step_of(graph_of(both.ground), Part.PEERMEM).after == (Part.OFED, Part.DRIVER)
    own = replace(both, ofed_at="kernel/drivers/infiniband/core")
    assert step_of(graph_of(own.ground), Part.PEERMEM).after == (Part.DRIVER,)


def test_the_interface_of_the_kernel_itself_needs_no_ofed() -> None:
    graph = graph_of(Survey(inbox=True, packages=(NVIDIA,)).ground)
    assert parts_of(graph) == [Part.DRIVER, Part.PEERMEM]
    assert step_of(graph, Part.PEERMEM).after == (Part.DRIVER,)


def test_the_drivers_own_stub_of_nvidia_peermem_is_left_out() -> None:
    assert step_of(graph_of(Survey().ground), Part.DRIVER).left_out == (
        "nvidia-peermem",
        "nvidia-current-open-peermem",
    )


def test_a_driver_that_builds_nvidia_peermem_behind_ofed_is_its_only_owner() -> None:
    ordered = replace(NVIDIA, depends=("mlnx-ofed-kernel",))
    graph = graph_of(Survey(packages=(MLNX, ordered)).ground)
    driver = step_of(graph, Part.DRIVER)
    assert parts_of(graph) == [Part.OFED, Part.DRIVER]
    assert driver.after == (Part.OFED,)
    assert driver.left_out == ()
    assert "builds nvidia-peermem too" in driver.why
    there = replace(INSTALLED, packages=(MLNX, ordered), peermem="nvidia,ib_uverbs")
    given = step_of(graph_of(there.ground), Part.PEERMEM)
    assert given.given
    assert "built by nvidia-current-open itself" in given.why


@pytest.mark.parametrize(
    ("peermem", "why"),
    [
        pytest.param(None, "is not installed", id="none"),
        pytest.param("", "is a stub", id="rests-on-nothing"),
        pytest.param("nvidia", "is a stub", id="without-the-rdma-core"),
        pytest.param("ib_uverbs", "is a stub", id="without-the-driver"),
    ],
)
def test_an_owner_that_has_not_built_it_is_not_taken_for_one_that_has(
    peermem: str | None, why: str
) -> None:
    ordered = replace(NVIDIA, depends=("mlnx-ofed-kernel",))
    there = replace(INSTALLED, packages=(MLNX, ordered), peermem=peermem)
    step = step_of(graph_of(there.ground), Part.PEERMEM)
    assert not step.given
    assert step.why == f"that of nvidia-current-open {why}"


def test_relatives_rest_on_the_driver() -> None:
    graph = graph_of(Survey(packages=(MLNX, NVIDIA, NVIDIA_FS, GDRDRV)).ground)
    assert parts_of(graph) == [*ALL, Part.NVIDIA_FS, Part.GDRDRV]
    assert step_of(graph, Part.GDRDRV).after == (Part.DRIVER,)
    alone = graph_of(Survey(packages=(MLNX, NVIDIA, GDRDRV)).ground, Part.GDRDRV)
    assert parts_of(alone) == [Part.DRIVER, Part.GDRDRV]


def test_each_kernel_has_steps_of_its_own_oldest_first() -> None:
    graph = make_graph(Survey(kernels=(OTHER, KERNEL)).ground, ())
    kernels = [step.inputs.kernel for step in graph.steps]
    assert kernels == [KERNEL] * 3 + [OTHER] * 3
    assert graph.upstream(graph.steps[5]) == graph.steps[3:5]


# --- digests ---------------------------------------------------------------------------


def digests(ground: Ground, flags: str = "", recipe: str = "r") -> dict[Part, str]:
    graph = make_graph(ground, (KERNEL,), flags=flags, recipe=recipe)
    return {step.inputs.part: step.inputs.digest for step in graph.steps}


@pytest.mark.parametrize(
    ("survey", "changed"),
    [
        pytest.param(Survey(), [], id="nothing"),
        pytest.param(
            Survey(packages=(MLNX, replace(NVIDIA, content="x"))),
            [Part.DRIVER, Part.PEERMEM],
            id="the-drivers-source",
        ),
        pytest.param(
            Survey(packages=(replace(MLNX, content="x"), NVIDIA)),
            [Part.OFED, Part.PEERMEM],
            id="the-source-of-ofed",
        ),
        pytest.param(Survey(headers="x"), ALL, id="headers"),
        pytest.param(Survey(compiler="gcc-12 12.3.0"), ALL, id="compiler"),
        pytest.param(Survey(room_kb=9_000_000, leftover=True), [], id="what-takes-no-part"),
    ],
)
def test_what_changes_whose_digest(survey: Survey, changed: list[Part]) -> None:
    then, now = digests(Survey().ground), digests(survey.ground)
    assert [part for part in ALL if then[part] != now[part]] == changed


@pytest.mark.parametrize(
    "survey",
    [
        pytest.param(replace(INSTALLED, crcs=("0x00c0ffee", "0xbde5c050")), id="of-ofed"),
        pytest.param(replace(INSTALLED, driver_crc="0x00c0ffee"), id="of-the-driver"),
    ],
)
def test_other_symbol_versions_of_what_is_installed_make_another_nvidia_peermem(
    survey: Survey,
) -> None:
    then, now = digests(INSTALLED.ground), digests(survey.ground)
    assert then[Part.PEERMEM] != now[Part.PEERMEM]


def test_another_driver_makes_other_relatives_though_no_symbol_version_tells() -> None:
    """They compile against its headers; a kernel without MODVERSIONS has zeroes in any case."""
    packages = (MLNX, NVIDIA, replace(NVIDIA, version="550.163.01"), GDRDRV)
    then = replace(INSTALLED, packages=packages, driver_crc="0x00000000")
    now = replace(then, driver="550.163.01")
    other = replace(then, packages=(MLNX, replace(NVIDIA, content="patched"), GDRDRV))
    assert len({digests(each.ground)[Part.GDRDRV] for each in (then, now, other)}) == 3


@pytest.mark.parametrize("part", [Part.PEERMEM, Part.NVIDIA_FS, Part.GDRDRV])
def test_what_rests_on_a_driver_sees_no_source_of_another_one(part: Part) -> None:
    """Theirs would be taken for it: find /usr/src/nvidia-* -name nv-p2p.h | head -1."""
    newer, closed = replace(NVIDIA, version="550.163.01"), replace(NVIDIA, name="nvidia-current")
    survey = Survey(packages=(MLNX, NVIDIA, newer, closed, NVIDIA_FS, GDRDRV))
    graph = graph_of(survey.ground, part, driver="550.163.01")
    step = replace(step_of(graph, part), after=())  # nothing is built here
    hidden = make_order(step, graph, {}, limit_s=60).hidden
    assert {NVIDIA.folder, closed.folder} <= set(hidden)
    assert newer.folder not in hidden
    assert step_of(graph, Part.DRIVER).hidden == ()


def test_where_the_driver_itself_has_no_source_those_of_others_are_left_to_be_seen() -> None:
    survey = replace(INSTALLED, packages=(MLNX, replace(NVIDIA, version="550.163.01"), GDRDRV))
    graph = graph_of(survey.ground, Part.GDRDRV)
    assert step_of(graph, Part.GDRDRV).hidden == ()


def test_flags_and_recipe_change_all_that_is_built() -> None:
    ground = Survey().ground
    for other in (digests(ground, flags="NV_VERBOSE=1"), digests(ground, recipe="s")):
        assert all(digests(ground)[part] != other[part] for part in ALL)
    given = digests(INSTALLED.ground), digests(INSTALLED.ground, flags="NV_VERBOSE=1")
    assert given[0][Part.DRIVER] == given[1][Part.DRIVER]


def test_a_package_that_is_no_part_of_this_is_passed_over() -> None:
    other = Package("r8125", "9.1", ("r8125",))
    assert parts_of(graph_of(Survey(packages=(other, MLNX, NVIDIA)).ground)) == ALL
