"""What keeps a part from being built, known before anything is tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.graphs import HERE, INSTALLED, blocked_of, graph_of, parts_of, step_of
from tests.unit.grounds import DRIVER, KERNEL, MLNX, NVIDIA, NVIDIA_FS, OTHER, TOOLS, Survey
from toolkit.builds.graph import make_graph
from toolkit.builds.made import Need, Run, Work
from toolkit.builds.model import Part
from toolkit.errors import ExitCode

RT = ("CONFIG_PREEMPT_RT=y", "CONFIG_MODVERSIONS=y")


@pytest.mark.parametrize(
    ("survey", "part", "found", "hint"),
    [
        pytest.param(
            Survey(missing=("Makefile", "include/config/auto.conf", "Module.symvers", "modpost")),
            Part.OFED, f"there are no headers of kernel {KERNEL}", f"linux-headers-{KERNEL}",
            id="no-headers",
        ),
        pytest.param(
            Survey(missing=("Module.symvers",)), Part.OFED, "are not whole: no Module.symvers",
            f"linux-headers-{KERNEL}", id="headers-without-symvers",
        ),
        pytest.param(
            Survey(tools=TOOLS.replace("dkms ", "")), Part.OFED, "is not there: dkms",
            "install the packages of dkms", id="no-dkms",
        ),
        pytest.param(
            Survey(compiler=""), Part.OFED, "there is no compiler", "install gcc-12",
            id="no-compiler",
        ),
        pytest.param(
            Survey(named="clang", compiler="gcc 12"), Part.OFED, "built by clang", "clang and lld",
            id="clang",
        ),
        pytest.param(
            Survey(config=RT), Part.DRIVER, "is a real-time kernel", "without PREEMPT_RT", id="rt",
        ),
        pytest.param(
            Survey(packages=(MLNX,)), Part.DRIVER, "no source of the driver is below /usr/src",
            "install the driver's DKMS package", id="no-driver",
        ),
        pytest.param(
            Survey(packages=(NVIDIA,)), Part.OFED, "nvidia-peermem would be a stub", "dma-buf",
            id="no-ofed",
        ),
        pytest.param(
            replace(INSTALLED, packages=(MLNX,)), Part.PEERMEM,
            f"the source of nvidia-peermem {DRIVER} is not below /usr/src", "DKMS package",
            id="a-driver-without-its-source",
        ),
        pytest.param(
            Survey(room_kb=1_000_000), Part.DRIVER, "976 MB are free", "make room", id="no-room",
        ),
        pytest.param(
            Survey(packages=(MLNX, replace(NVIDIA, version="570.86.15")),
                   tools=TOOLS.replace("g++ ", "")),
            Part.DRIVER, "g++ is not there", "gcc-c++", id="no-c++",
        ),
        pytest.param(
            Survey(packages=(MLNX, replace(NVIDIA, licence="NVIDIA"), NVIDIA_FS)), Part.NVIDIA_FS,
            "may not above a driver under 'NVIDIA'", "open modules", id="proprietary-and-nvidia-fs",
        ),
        pytest.param(
            Survey(status=(f"nvidia-current-open/{DRIVER}: broken",)), Part.DRIVER,
            "broken: its source is gone in part", "anew", id="broken",
        ),
        pytest.param(
            replace(INSTALLED, ofed=("0x1", "0x2")), Part.OFED,
            f"is of another OFED than /lib/modules/{KERNEL}/updates/dkms/ib_uverbs.ko", "anew",
            id="headers-of-another-ofed-than-its-modules",
        ),
        pytest.param(
            replace(INSTALLED, packages=(NVIDIA,), inbox=True, folders=(), ofed=("0x1", "0x2")),
            Part.OFED, "no Module.symvers below /usr/src/ofa_kernel is that of it",
            "development package", id="ofed-without-its-headers",
        ),
        pytest.param(
            replace(INSTALLED, drivers=(("updates/dkms/nvidia.ko", "470.1"),)), Part.DRIVER,
            "updates/dkms/nvidia.ko (470.1) ", "--driver", id="two-drivers",
        ),
    ],
)  # fmt: skip
def test_obstacles(survey: Survey, part: Part, found: str, hint: str) -> None:
    blocked = blocked_of(graph_of(survey.ground), part)
    assert found in blocked.found
    assert hint in blocked.hint
    assert blocked.kernel == KERNEL


def test_what_rests_on_something_blocked_is_blocked_and_says_so() -> None:
    graph = graph_of(Survey(packages=(NVIDIA,)).ground)
    assert blocked_of(graph, Part.PEERMEM).found == "peermem rests on ofed, which cannot be built"
    assert parts_of(graph) == [Part.DRIVER]


def test_ofed_is_built_in_trees_alone() -> None:
    assert "not done on a machine" in blocked_of(graph_of(Survey().here), Part.OFED).found
    assert Part.OFED in parts_of(graph_of(Survey().ground))


def test_ofed_that_is_not_wanted_leaves_a_stub_which_is_not_built() -> None:
    graph = graph_of(INSTALLED.ground, ofed="inbox")
    assert "does not export ib_register_peer_memory_client" in blocked_of(graph, Part.OFED).found
    assert Part.PEERMEM not in parts_of(graph)
    inbox = graph_of(replace(INSTALLED, inbox=True).ground, ofed="inbox")
    assert step_of(inbox, Part.PEERMEM).after == (Part.DRIVER,)


def test_an_unknown_kernel_is_told_with_those_there_are() -> None:
    graph = make_graph(Survey(kernels=(KERNEL, OTHER)).ground, ("6.99.0",))
    [blocked] = graph.blocked
    assert blocked.found == "there are no headers of kernel 6.99.0"
    assert f"there are those of {KERNEL}, {OTHER}" in blocked.hint


def test_where_no_kernel_has_headers_nothing_was_built_and_that_is_no_success() -> None:
    ground = replace(Survey(missing=("Makefile",)).ground, releases=())
    for bare in (ground, replace(ground, kernels=())):
        graph = make_graph(bare, ())
        assert graph.blocked[0].found == "no kernel has headers there"
        assert Run((), (Work(Need(), graph),)).exit_code is ExitCode.UNSUPPORTED


DISAGREE = (
    f"the driver's conftest takes /usr/src/ofa_kernel/default for kernel {KERNEL}, and its Kbuild"
    " /usr/src/ofa_kernel/"
)


@pytest.mark.parametrize(
    "survey",
    [
        pytest.param(
            # conftest goes on to the one that has the interface; Kbuild takes the first folder.
            replace(INSTALLED, packages=(NVIDIA,), folders=("default",), empty=HERE),
            id="an-empty-folder-before-a-good-one",
        ),
        pytest.param(
            replace(INSTALLED, arch="aarch64", folders=(f"aarch64/{KERNEL}", "default")),
            id="the-name-of-arm64",
        ),
    ],
)
def test_two_searches_that_disagree_are_no_ground_to_build_on(survey: Survey) -> None:
    graph = graph_of(survey.ground)
    assert DISAGREE in blocked_of(graph, Part.OFED).found
    assert Part.PEERMEM not in parts_of(graph)


def test_a_leftover_of_ofed_is_named() -> None:
    survey = replace(INSTALLED, packages=(NVIDIA,), folders=(), leftover=True)
    assert blocked_of(graph_of(survey.ground), Part.OFED).hint == (
        "rm -r /var/lib/dkms/mlnx-ofed-kernel"
    )


def test_on_aarch64_ofed_is_found_though_conftest_would_not() -> None:
    survey = replace(INSTALLED, arch="aarch64", folders=(f"aarch64/{KERNEL}",))
    graph = graph_of(survey.ground)
    assert graph.blocked == ()
    assert step_of(graph, Part.OFED).given


def test_a_link_to_the_same_folder_is_no_disagreement() -> None:
    survey = replace(
        INSTALLED,
        arch="aarch64",
        folders=(f"aarch64/{KERNEL}", KERNEL),
        links=(f"{KERNEL} -> aarch64/{KERNEL}",),
    )
    assert graph_of(survey.ground).blocked == ()
