"""What modules are held against, and the job that builds them, of surveys that are composed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.features.builds.graphs import INSTALLED, graph_of, step_of
from tests.unit.grounds import CRCS, DRIVER, KERNEL, OTHER, Survey
from toolkit.built.plan.gate import vermagic_flags
from toolkit.built.plan.model import Built, BuiltFile, Part
from toolkit.evidence import Evidence
from toolkit.features.builds.io import sandbox
from toolkit.features.builds.io.sandbox import SCRATCH
from toolkit.features.builds.run import places as flow
from toolkit.features.builds.run.places import (
    KERNEL_SYMVERS,
    gate_ground,
    make_job,
    recipe,
    survey,
)
from toolkit.ssh.transport import Result, Sink, quiet

GROUND = Survey().ground
GRAPH = graph_of(GROUND)
PEERMEM, OFED, NVIDIA = (step_of(GRAPH, part) for part in (Part.PEERMEM, Part.OFED, Part.DRIVER))


def built(step_: object, text: str = "") -> Built:
    assert hasattr(step_, "inputs")
    data = text.encode()
    file = BuiltFile(KERNEL_SYMVERS, data)
    return Built(step_.inputs, (file,) if text else ())


def test_a_step_is_held_against_its_own_kernel_and_what_it_rests_on() -> None:
    others = {each.inputs.digest: built(each) for each in (OFED, NVIDIA)}
    found = gate_ground(GROUND, PEERMEM, GRAPH, others)
    kernel = GROUND.kernel(KERNEL)
    assert kernel is not None
    assert (found.kernel, found.arch) == (KERNEL, "x86_64")
    assert found.flags == vermagic_flags(kernel.config, "x86_64")
    assert found.symbols == dict(kernel.symvers)
    assert found.providers == ()


def test_a_kernel_whose_config_is_not_there_tells_no_flags() -> None:
    bare = Survey(config=()).ground
    graph = graph_of(bare)
    driver = step_of(graph, Part.DRIVER)
    assert gate_ground(bare, driver, graph, {}).flags is None


def test_a_ground_of_another_kernel_is_a_fault_of_ours() -> None:
    other = Survey(kernels=(OTHER,)).ground
    with pytest.raises(ValueError, match="the graph was made of another ground"):
        gate_ground(other, PEERMEM, GRAPH, {})


def test_what_was_built_says_what_its_kernel_exports_where_the_ground_does_not() -> None:
    line = f"{CRCS[0]}\tof_the_build\tvmlinux\tEXPORT_SYMBOL\t\n"
    others = {each.inputs.digest: built(each) for each in (OFED, NVIDIA)}
    found = gate_ground(GROUND, PEERMEM, GRAPH, others, built(PEERMEM, line))
    without = gate_ground(GROUND, PEERMEM, GRAPH, others, built(PEERMEM))
    assert set(found.symbols) - set(without.symbols) == {"of_the_build"}


def test_what_is_installed_provides_what_its_own_exports_say() -> None:
    here = INSTALLED.here
    graph = graph_of(here)
    peermem = step_of(graph, Part.PEERMEM)
    above = [each for each in graph.upstream(peermem) if each.given]
    assert {each.inputs.part for each in above} == {Part.OFED, Part.DRIVER}
    providers = {each.name: each for each in gate_ground(here, peermem, graph, {}).providers}
    assert {"nvidia", "ib_uverbs"} <= {name.rpartition("/")[2] for name in providers}
    for name, each in providers.items():
        assert {export.module for export in each.exports.values()} == {name}
    [nvidia] = [each for name, each in providers.items() if name.endswith("nvidia")]
    [uverbs] = [each for name, each in providers.items() if name.endswith("ib_uverbs")]
    assert nvidia.version == DRIVER
    assert nvidia.licence
    assert (uverbs.version, uverbs.licence) == ("", "")


def test_a_job_builds_where_and_with_what_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, object] = {}

    def script(order: object, **how: object) -> str:
        told["order"], told["how"] = order, how
        return "script"

    monkeypatch.setattr(sandbox, "build_script", script)
    driver = replace(NVIDIA, after=())
    job = make_job(
        driver, GRAPH, {}, root="/tree", log="/log", limit_s=77.0, jobs=3, layer="/layer"
    )
    assert (job.title, job.root, job.script, job.log) == (
        driver.inputs.title, "/tree", "script", "/log",
    )  # fmt: skip
    assert job.limit_s > 77
    assert told["how"] == {"root": "/tree", "layer": "/layer"}
    order = told["order"]
    assert (getattr(order, "limit_s", 0), getattr(order, "jobs", 0)) == (77, 3)
    make_job(driver, GRAPH, {}, root="", log="", limit_s=1)
    assert told["how"] == {"root": "", "layer": ""}
    assert getattr(told["order"], "jobs", None) == 0


class Wire:
    name = "builder"

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        raise AssertionError(script)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("ground", "tree", "how"),
    [
        pytest.param("", False, {"root": ""}, id="this-machine"),
        pytest.param("/tree", True, {"root": "/tree"}, id="a-tree"),
        pytest.param(Wire(), False, {}, id="a-host"),
    ],
)
def test_a_ground_is_asked_where_it_is_and_read_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch, ground: str | Wire, tree: bool, how: dict[str, str]
) -> None:
    told: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def read(*where: object, **words: object) -> str:
        told.append((where, words))
        return "= begin ok gdr-toolkit/1\n= end ok 0\n"

    monkeypatch.setattr(sandbox, "read_ground", read)
    monkeypatch.setattr(flow, "parse_ground", lambda evidence, *, tree: (evidence, tree))
    found: object = survey(ground, [KERNEL], layer="/layer")
    assert isinstance(found, tuple)
    assert isinstance(found[0], Evidence)
    assert found[1] is tree
    where = () if isinstance(ground, str) else (ground,)
    assert told == [(where, {**how, "kernels": (KERNEL,), "layer": "/layer"})]


def test_the_recipe_is_another_where_a_file_of_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    first, names = recipe(), flow._SCRIPTS
    assert (len(first), recipe()) == (64, first)
    for left_out in names:
        monkeypatch.setattr(flow, "_SCRIPTS", tuple(each for each in names if each != left_out))
        assert recipe() != first


def test_our_own_package_and_what_it_rests_on_are_laid_where_dkms_looks() -> None:
    order = flow.make_order(PEERMEM, GRAPH, {s.inputs.digest: built(s) for s in (OFED, NVIDIA)},
                            limit_s=9)  # fmt: skip
    laid = {each.path: each for each in order.files}
    ours = f"/usr/src/nvidia-peermem-{DRIVER}"
    modes = {"dkms.conf": 0o644, "before-build.sh": 0o755, "after-build.sh": 0o755}
    assert {path: laid[f"{ours}/{path}"].mode for path in modes} == modes
    for step, name in ((OFED, "ofed"), (NVIDIA, "driver")):
        inputs = step.inputs
        kept = f"dkms/{inputs.package}/{inputs.version}/{KERNEL}/x86_64/module/Module.symvers"
        assert f"{SCRATCH}/{kept}" in laid
        assert f"{SCRATCH}/{name}.symvers" in order.symvers
    assert (order.ours, order.jobs, order.writable) == (True, 0, False)
    assert not flow.make_order(NVIDIA, GRAPH, {}, limit_s=9).files
