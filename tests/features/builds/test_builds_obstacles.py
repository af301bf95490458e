"""What keeps a part from being built, known before anything is tried."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.features.builds.graphs import HERE, INSTALLED, blocked_of, graph_of, parts_of, step_of
from tests.unit.grounds import DRIVER, KERNEL, MLNX, NVIDIA, NVIDIA_FS, OTHER, TOOLS, Survey
from toolkit.built.plan.model import Part
from toolkit.errors import ExitCode
from toolkit.features.builds.plan.graph import make_graph
from toolkit.features.builds.plan.outcome import BuildRun, Need, NeedGraph

BARE = replace(NVIDIA, name="nvidia", builds=())  # what Ubuntu's nvidia-kernel-source-* lays down
RT = ("CONFIG_PREEMPT_RT=y", "CONFIG_MODVERSIONS=y")


@pytest.mark.parametrize(
    ("survey", "part", "found", "hint"),
    [
        pytest.param(
            Survey(missing=("Makefile", "include/config/auto.conf", "Module.symvers", "modpost")),
            Part.OFED, f"there are no headers of kernel {KERNEL}",
            f"install linux-headers-{KERNEL} (kernel-devel on RPM systems)",
            id="no-headers",
        ),
        pytest.param(
            Survey(missing=("Module.symvers",)), Part.OFED,
            f"the headers of kernel {KERNEL} are not whole: no Module.symvers",
            f"install linux-headers-{KERNEL} (kernel-devel on RPM systems)",
            id="headers-without-symvers",
        ),
        pytest.param(
            Survey(tools=TOOLS.replace("dkms ", "")), Part.OFED,
            "what builds need is not there: dkms",
            "install the packages of dkms", id="no-dkms",
        ),
        pytest.param(
            Survey(compiler=""), Part.OFED, "there is no compiler",
            f"install gcc-12, which {KERNEL} was built with",
            id="no-compiler",
        ),
        pytest.param(
            Survey(compiler="", named=""), Part.OFED, "there is no compiler",
            f"install gcc, which {KERNEL} was built with", id="no-compiler-nor-its-name",
        ),
        pytest.param(
            Survey(named="clang", compiler="gcc 12"), Part.OFED,
            f"kernel {KERNEL} was built by clang, which is not there", "install clang and lld",
            id="clang",
        ),
        pytest.param(
            Survey(config=RT), Part.DRIVER,
            f"{KERNEL} is a real-time kernel, which the driver refuses",
            "build for a kernel without PREEMPT_RT", id="rt",
        ),
        pytest.param(
            replace(INSTALLED, config=RT), Part.PEERMEM,
            f"{KERNEL} is a real-time kernel, which the driver refuses",
            "build for a kernel without PREEMPT_RT", id="rt-and-peermem-alone",
        ),
        pytest.param(
            Survey(packages=(MLNX,)), Part.DRIVER, "no source of the driver is below /usr/src",
            "install the driver's DKMS package there", id="no-driver",
        ),
        pytest.param(
            Survey(packages=(NVIDIA,)), Part.OFED,
            f"nothing exports ib_register_peer_memory_client for kernel {KERNEL}, and no "
            "source of OFED is below /usr/src: nvidia-peermem would be a stub",
            "install OFED's DKMS package there, or take the dma-buf path, which needs neither",
            id="no-ofed",
        ),
        pytest.param(
            replace(INSTALLED, packages=(MLNX,)), Part.PEERMEM,
            f"the source of nvidia-peermem {DRIVER} is not below /usr/src: it comes with "
            "the driver's",
            "install the driver's DKMS package, or its sources, in the version that is installed",
            id="a-driver-without-its-source",
        ),
        pytest.param(
            Survey(packages=(MLNX,), folders=HERE, driver=DRIVER), Part.PEERMEM,
            f"the source of nvidia-peermem {DRIVER} is not below /usr/src: it comes with "
            "the driver's",
            f"apt-get download 'nvidia-open-kernel-source={DRIVER}-*', then give build that file: "
            "--sources FILE; do not install it, the driver stays as it is; or: "
            f"sh NVIDIA-Linux-x86_64-{DRIVER}.run --extract-only --target /usr/src/nvidia-{DRIVER}",
            id="a-driver-without-dkms",
        ),
        pytest.param(
            Survey(packages=(MLNX, BARE)), Part.DRIVER,
            f"/usr/src/nvidia-{DRIVER} is the driver's source and no DKMS package",
            "install the driver's modules, or its DKMS package", id="sources-alone",
        ),
        pytest.param(
            Survey(room_kb=1_000_000), Part.DRIVER,
            "976 MB are free below /var/tmp, and a build of nvidia-current-open may take 1500 MB",
            "make room there", id="no-room",
        ),
        pytest.param(
            Survey(packages=(MLNX, replace(NVIDIA, version="570.86.15")),
                   tools=TOOLS.replace("g++ ", "")),
            Part.DRIVER, "g++ is not there", "install g++ (gcc-c++ on RPM systems)", id="no-c++",
        ),
        pytest.param(
            Survey(packages=(MLNX, replace(NVIDIA, licence="NVIDIA"), NVIDIA_FS)), Part.NVIDIA_FS,
            "nvidia-fs takes GPL-only symbols, and may not above a driver under 'NVIDIA'",
            "install the driver's open modules", id="proprietary-and-nvidia-fs",
        ),
        pytest.param(
            Survey(status=(f"nvidia-current-open/{DRIVER}: broken",)), Part.DRIVER,
            f"DKMS calls nvidia-current-open/{DRIVER} broken: its source is gone in part",
            "install the driver's DKMS package anew", id="broken",
        ),
        pytest.param(
            replace(INSTALLED, ofed=("0x1", "0x2")), Part.OFED,
            f"/usr/src/ofa_kernel/x86_64/{KERNEL} is of another OFED than "
            f"/lib/modules/{KERNEL}/updates/dkms/ib_uverbs.ko: their symbol versions differ",
            f"install OFED for {KERNEL} anew, its modules and its development package",
            id="headers-of-another-ofed-than-its-modules",
        ),
        pytest.param(
            replace(INSTALLED, packages=(NVIDIA,), inbox=True, folders=(), ofed=("0x1", "0x2")),
            Part.OFED,
            f"/lib/modules/{KERNEL}/updates/dkms/ib_uverbs.ko exports "
            "ib_register_peer_memory_client, and no Module.symvers below "
            "/usr/src/ofa_kernel is that of it, nor is a source of OFED there",
            "install the development package of that very OFED", id="ofed-without-its-headers",
        ),
        pytest.param(
            replace(INSTALLED, drivers=(("updates/dkms/nvidia.ko", "470.1"),)), Part.DRIVER,
            f"/lib/modules/{KERNEL}/updates/dkms/nvidia-current-open.ko ({DRIVER}) and "
            f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko (470.1) are both installed for "
            f"kernel {KERNEL}",
            "leave one of them installed, or name the driver: --driver VERSION", id="two-drivers",
        ),
    ],
)  # fmt: skip
def test_obstacles(survey: Survey, part: Part, found: str, hint: str) -> None:
    blocked = blocked_of(graph_of(survey.ground), part)
    assert blocked.found == found
    assert blocked.hint == hint
    assert blocked.kernel == KERNEL


NO_OFED = f"nothing exports ib_register_peer_memory_client for kernel {KERNEL}, and no source of "
HEADLESS = replace(INSTALLED, packages=(NVIDIA,), folders=("default",), empty=HERE)


@pytest.mark.parametrize(
    ("survey", "part", "versions", "found"),
    [
        pytest.param(Survey(packages=(NVIDIA,)), Part.OFED, {}, f"{NO_OFED}OFED is below /usr/src",
                     id="ofed"),
        pytest.param(Survey(packages=(NVIDIA,)), Part.OFED, {"ofed": "9.9"},
                     f"{NO_OFED}OFED 9.9 is below /usr/src", id="a-version-of-ofed"),
        pytest.param(HEADLESS, Part.OFED, {}, f"{NO_OFED}OFED is below /usr/src",
                     id="ofed-that-is-installed-without-its-headers"),
        pytest.param(replace(HEADLESS, inbox=True, folders=(), ofed=("0x1", "0x2")), Part.OFED, {},
                     f"{NO_OFED}OFED is below /usr/src", id="ofed-above-the-kernels-own"),
        pytest.param(Survey(), Part.DRIVER, {"driver": "9.9"},
                     "no source of the driver 9.9 is below /usr/src", id="a-version-of-the-driver"),
        pytest.param(Survey(), Part.NVIDIA_FS, {}, "no source of nvidia-fs is below /usr/src",
                     id="nvidia-fs"),
        pytest.param(Survey(packages=(MLNX, replace(NVIDIA, peermem=""))), Part.PEERMEM, {},
                     f"the source of nvidia-peermem {DRIVER} is not below /usr/src: it comes with "
                     "the driver's", id="a-driver-without-peermem"),
    ],
)  # fmt: skip
def test_what_was_asked_for_by_name_and_has_no_source_is_told_by_that_name(
    survey: Survey, part: Part, versions: dict[str, str], found: str
) -> None:
    blocked = blocked_of(graph_of(survey.ground, part, **versions), part)
    assert blocked.found == found
    hints = {
        Part.DRIVER: f"there are those of {DRIVER}",
        Part.NVIDIA_FS: "install the DKMS package of nvidia-fs",
    }
    assert blocked.hint.startswith(hints.get(part, "install"))


@pytest.mark.parametrize(
    ("survey", "part"),
    [
        pytest.param(Survey(named="clang", tools=f"{TOOLS} clang"), Part.OFED, id="clang-is-there"),
        pytest.param(Survey(tools=TOOLS.replace("g++ ", "")), Part.DRIVER, id="no-c++-before-560"),
        pytest.param(Survey(room_kb=1500 * 1024), Part.DRIVER, id="room-to-the-megabyte"),
        pytest.param(Survey(packages=(MLNX, NVIDIA, NVIDIA_FS), room_kb=200 * 1024),
                     Part.NVIDIA_FS, id="room-for-a-little-one"),
    ],
)  # fmt: skip
def test_what_suffices_is_no_obstacle(survey: Survey, part: Part) -> None:
    blocked = graph_of(survey.ground, part).blocked
    assert not [each for each in blocked if each.part is part and "rests on" not in each.found]


@pytest.mark.parametrize(
    ("licence", "release", "blocked"),
    [
        ("NVIDIA", "5.8.0-63-generic", False),  # its modules inherit no taint yet
        ("NVIDIA", "5.9.0-1-amd64", True),
        ("NVIDIA", KERNEL, True),
        ("Dual MIT/GPL", KERNEL, False),
        ("GPL", KERNEL, False),
    ],
)
def test_nvidia_fs_above_a_proprietary_driver_is_kept_from_where_the_kernel_minds(
    licence: str, release: str, blocked: bool
) -> None:
    survey = Survey(packages=(MLNX, replace(NVIDIA, licence=licence), NVIDIA_FS))
    survey = replace(survey, kernels=(release,))
    graph = make_graph(survey.ground, (release,))
    assert (Part.NVIDIA_FS in {each.part for each in graph.blocked}) is blocked


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
        assert BuildRun((), (NeedGraph(Need(), graph),)).exit_code is ExitCode.UNSUPPORTED


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


def test_a_source_that_is_no_dkms_package_is_all_that_nvidia_peermem_asks_for() -> None:
    """The driver stays as it is installed; a DKMS package of the same release comes first."""
    survey = Survey(packages=(MLNX, BARE), folders=HERE, driver=DRIVER)
    step = step_of(graph_of(survey.ground, Part.PEERMEM), Part.PEERMEM)
    assert (step.source, step.source_name) == (f"nvidia-{DRIVER}", "nvidia")
    both = replace(survey, packages=(MLNX, BARE, NVIDIA))
    step = step_of(graph_of(both.ground, Part.PEERMEM), Part.PEERMEM)
    assert step.source == NVIDIA.folder
