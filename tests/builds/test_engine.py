"""The engine of builds with real DKMS, in trees in which nothing is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builds import stubs
from tests.builds.engine import LIMIT_S, build_all, build_step, graph_of, judged, state_of, step_of
from tests.builds.layers import stack
from tests.builds.sandbox import PATH, Sandbox
from tests.builds.sources import source
from toolkit.built.plan.model import BuildFailure, Built, Part
from toolkit.evidence import Evidence
from toolkit.facts.modules.build_env import Ground, parse_ground
from toolkit.facts.modules.module_file import read_image
from toolkit.features.builds.io.sandbox import survey_script
from toolkit.features.builds.plan.graph import BuildGraph, make_graph
from toolkit.features.builds.plan.outcome import read_outcome
from toolkit.features.builds.run.places import make_job

pytestmark = pytest.mark.builds
LONG = True
OFED = "/usr/src/mlnx-ofed-kernel-25.10"


@dataclass(frozen=True, slots=True)
class Nothing:
    """A tree with sources alone, and what came of building them all."""

    box: Sandbox
    kernel: str
    ground: Ground
    graph: BuildGraph
    before: dict[str, tuple[int, int, int]]
    built: dict[Part, Built]
    after: dict[str, tuple[int, int, int]]


@pytest.fixture(scope="module")
def sources() -> Iterator[Sandbox]:
    """Sources of OFED and of a driver that builds nvidia-peermem too; nothing installed."""
    with Sandbox.of("bookworm") as box:
        stubs.ofed(box)
        stubs.driver(box, peermem=source("nvidia-open"))
        yield box


@pytest.fixture(scope="module")
def nothing(sources: Sandbox) -> Iterator[Nothing]:
    with sources.branch() as box:
        kernel = box.kernel("6.1.*-cloud-amd64")  # it has no modules here: it never ran
        ground, graph = graph_of(box, kernel)
        before = state_of(box)
        built = build_all(box, ground, graph)
        yield Nothing(box, kernel, ground, graph, before, built, state_of(box))


def told(state: dict[str, tuple[int, int, int]]) -> dict[str, tuple[int, int, int]]:
    """Without the folders of the scratch folder, which have another time."""
    return {path: each for path, each in state.items() if path not in {"var", "var/tmp"}}


def test_a_tree_is_surveyed(nothing: Nothing) -> None:
    kernel = nothing.ground.kernel(nothing.kernel)
    assert kernel is not None
    assert kernel.missing == ()
    assert kernel.compiler.startswith("gcc-12 (Debian")
    assert kernel.config["CONFIG_MODVERSIONS"] == "y"
    assert "module_layout" in kernel.symvers
    driver = next(each for each in nothing.ground.sources if each.licence)
    assert (driver.name, driver.version) == ("nvidia-current-open", "535.261.03")
    assert driver.peermem
    assert driver.peermem_licence == "Dual BSD/GPL"  # from the vendor's source
    assert nothing.ground.builds == ()


def test_all_is_built_for_a_kernel_that_never_ran(nothing: Nothing) -> None:
    names = {part: [each.name for each in built.modules] for part, built in nothing.built.items()}
    assert names == {
        Part.OFED: ["ib_core.ko", "ib_uverbs.ko", "mlx_compat.ko"],  # it has no irdma
        Part.DRIVER: ["nvidia-current-open.ko"],
        Part.PEERMEM: ["nvidia-peermem.ko"],
    }


def test_nvidia_peermem_fits_what_was_built_beside_it(nothing: Nothing, tmp_path: Path) -> None:
    module = nothing.built[Part.PEERMEM].file("nvidia-peermem.ko")
    assert module is not None
    path = tmp_path / module.name
    path.write_bytes(module.data)
    said = subprocess.run(["modinfo", path], capture_output=True, text=True, check=True).stdout
    depends = next(line for line in said.splitlines() if line.startswith("depends:"))
    assert set(depends.split()[1].split(",")) == {"nvidia", "ib_uverbs"}
    assert f" {nothing.kernel} " in said
    assert "sig_id" not in said  # the key is somebody else's business


def test_ofed_is_configured_for_the_kernel_it_is_for(nothing: Nothing) -> None:
    core = nothing.built[Part.OFED].file("ib_core.ko")
    assert core is not None
    assert read_image(core.name, core.data).info["configured"] == nothing.kernel


def test_ofed_before_25_10_finds_its_package_in_the_tree_of_dkms(
    nothing: Nothing, sources: Sandbox
) -> None:
    """It asks there by which options it is configured: for a build aside, nobody added it."""
    own = "/var/lib/dkms/mlnx-ofed-kernel/25.10/source/configure"
    with sources.branch() as box:
        box.shell(f"""echo 'MAKE[0]="test -x {own} && make"' >> {OFED}/dkms.conf""")
        _, graph = graph_of(box, nothing.kernel, Part.OFED)
        came = build_step(box, graph, step_of(graph, Part.OFED), {})
    assert isinstance(came, Built), came


def test_the_drivers_own_nvidia_peermem_is_left_out_for_it_is_a_stub(nothing: Nothing) -> None:
    built = nothing.built[Part.DRIVER]
    log = built.file("make.log")
    assert log is not None
    assert b"nvidia-peermem.ko" in log.data  # it was made
    assert "nvidia-current-open-peermem" in step_of(nothing.graph, Part.DRIVER).left_out


def test_nothing_in_the_tree_is_changed(nothing: Nothing) -> None:
    assert told(nothing.after) == told(nothing.before)


def test_the_same_inputs_give_the_same_bytes_in_another_tree(
    nothing: Nothing, sources: Sandbox
) -> None:
    with sources.branch() as box:
        _, graph = graph_of(box, nothing.kernel)
        built = {each.inputs.digest: each for each in nothing.built.values()}
        for part in (Part.OFED, Part.PEERMEM):
            step = step_of(graph, part)
            assert step.inputs == nothing.built[part].inputs
            again = build_step(box, graph, step, built)
            assert isinstance(again, Built), again
            assert again.modules == nothing.built[part].modules


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        pytest.param(
            lambda box, _: box.shell("echo >> /usr/src/nvidia-current-open-535.261.03/Kbuild"),
            {Part.DRIVER, Part.PEERMEM},
            id="a-byte-of-the-drivers-source",
        ),
        pytest.param(
            lambda box, _: box.shell(f"chmod a+x {OFED}/Makefile"),
            {Part.OFED, Part.PEERMEM},
            id="a-mode",
        ),
        pytest.param(
            lambda box, _: box.write("/etc/dkms/mlnx-ofed-kernel.conf", "# of the site\n"),
            {Part.OFED, Part.PEERMEM},
            id="a-fragment-of-the-site",
        ),
        pytest.param(
            lambda box, kernel: box.shell(
                'echo CONFIG_NEW=y >> "/lib/modules/$K/build/.config"', K=kernel
            ),
            {Part.OFED, Part.DRIVER, Part.PEERMEM},
            id="the-kernels-configuration",
        ),
        pytest.param(
            lambda box, _: box.write("/usr/local/bin/gcc-12", "#!/bin/sh\necho gcc 12.9\n", 0o755),
            {Part.OFED, Part.DRIVER, Part.PEERMEM},
            id="the-compiler",
        ),
    ],
)  # fmt: skip
def test_one_input_changes_exactly_the_digests_that_rest_on_it(
    nothing: Nothing,
    sources: Sandbox,
    change: Callable[[Sandbox, str], object],
    parts: set[Part],
) -> None:
    with sources.branch() as box:
        change(box, nothing.kernel)
        _, graph = graph_of(box, nothing.kernel)
        now = {each.inputs.part: each.inputs.digest for each in graph.steps}
    then = {each.inputs.part: each.inputs.digest for each in nothing.graph.steps}
    assert {part for part in now if now[part] != then[part]} == parts


def test_two_surveys_and_a_flag(nothing: Nothing) -> None:
    _, again = graph_of(nothing.box, nothing.kernel)
    assert again == nothing.graph
    _, flagged = graph_of(nothing.box, nothing.kernel, flags="NV_VERBOSE=1")
    for step, other in zip(again.steps, flagged.steps, strict=True):
        assert step.inputs.digest != other.inputs.digest


def test_a_ground_that_is_not_the_surveyed_one_is_refused(
    nothing: Nothing, sources: Sandbox
) -> None:
    with sources.branch() as box:
        box.shell(f"echo >> {OFED}/drivers/infiniband/core/ib_core.c")
        came = build_step(box, nothing.graph, step_of(nothing.graph, Part.OFED), {})
    assert isinstance(came, BuildFailure)
    assert (came.step, came.status) == ("prepare", 65)
    assert "not the ground that was surveyed: the source was" in came.found


def test_a_compiler_error_is_told_with_its_cause(nothing: Nothing, sources: Sandbox) -> None:
    with sources.branch() as box:
        box.shell(
            f"echo 'int f(void) {{ return g(); }}' >> {OFED}/drivers/infiniband/core/ib_core.c"
        )
        _, graph = graph_of(box, nothing.kernel, Part.OFED)
        came = build_step(box, graph, step_of(graph, Part.OFED), {})
    assert isinstance(came, BuildFailure)
    assert (came.step, came.status) == ("make", 10)
    assert "newer than this driver or OFED supports" in came.cause
    assert any("implicit declaration of function 'g'" in line for line in came.tail)


@pytest.fixture(scope="module")
def machine() -> Iterator[Sandbox]:
    """A node: OFED and driver are installed, and it has a mount of its own."""
    with stack("bookworm") as box:
        stubs.gdrdrv(box)
        program = shutil.which("mount", path=PATH)
        assert program
        box.write("/usr/bin/mount", Path(program).read_bytes(), 0o755)
        yield box


def test_a_machine_builds_for_itself_against_what_is_installed_there(machine: Sandbox) -> None:
    """As over SSH: the scripts run inside, and know of no tree."""
    kernel = machine.kernel("6.12.")
    said = machine.run("sh", "-s", text=survey_script((kernel,))).out
    ground = parse_ground(Evidence.parse(said))
    graph = make_graph(ground, (kernel,), parts=(Part.PEERMEM, Part.GDRDRV), recipe="r")
    assert [(s.inputs.part, s.given) for s in graph.steps] == [
        (Part.OFED, True), (Part.DRIVER, True), (Part.PEERMEM, False), (Part.GDRDRV, False),
    ]  # fmt: skip
    before = state_of(machine)
    for part in (Part.PEERMEM, Part.GDRDRV):
        step = step_of(graph, part)
        job = make_job(step, graph, {}, root="", log="", limit_s=LIMIT_S)
        text = machine.run("sh", "-s", text=job.script).out
        came = read_outcome(text, step.inputs)
        assert isinstance(came, Built), came
        verdict = judged(ground, graph, step, {}, came)
        assert verdict.passed, verdict.refusals
    assert told(state_of(machine)) == told(before)
