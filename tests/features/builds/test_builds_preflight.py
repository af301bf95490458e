"""Will it compile for that kernel: each answer has its rule, and silence is never a yes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from tests.features.builds.graphs import INSTALLED, graph_of
from toolkit.built.plan.model import Inputs, Part
from toolkit.compat.reader import Compat, Confidence, shipped
from toolkit.errors import ExitCode, UsageError
from toolkit.facts.distros import Distro
from toolkit.facts.modules.build_env import Ground, GroundKernel, Source
from toolkit.facts.modules.ofed import OfedFolders
from toolkit.features.builds.plan.graph import BlockedPart, BuildGraph, BuildStep
from toolkit.features.builds.plan.outcome import Need, NeedGraph
from toolkit.features.builds.plan.preflight import (
    CompileAnswer,
    Outlook,
    Preflight,
    Reason,
    after_trial,
    foresee,
)
from toolkit.features.builds.run.places import BuildPlace
from toolkit.features.builds.run.preflight import LaidHeaders, preflight, with_headers
from toolkit.features.builds.run.run import Surveyed
from toolkit.features.builds.show import preflight_document, preflight_report
from toolkit.report.document import dumps
from toolkit.report.table import Painter

GCC12 = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
GCC14 = "gcc-14 (Debian 14.2.0-19) 14.2.0"
WILL, WILL_NOT, UNKNOWN = CompileAnswer
CLANG = "clang version 18.1.3"
OPEN = Source("nvidia-open-1", "nvidia-current-open", "1", (), (), "d", licence="Dual MIT/GPL")
CLOSED = Source("nvidia-1", "nvidia-current", "1", (), (), "d", licence="NVIDIA")


def ground(release: str, compiler: str = GCC12, **config: str) -> Ground:
    options: Mapping[str, str] = {
        "CONFIG_CC_VERSION_TEXT": GCC12,
        "CONFIG_MODVERSIONS": "y",
        **{f"CONFIG_{key}": value for key, value in config.items()},
    }
    kernel = GroundKernel(release, "h", (), options, compiler, "gcc-12", {})
    folders = OfedFolders(frozenset(), {}, {}, leftover=False)
    sources = (OPEN, CLOSED)
    return Ground(
        arch="x86_64",
        distro=Distro("debian", "12", (), ""),
        dkms="3.0.10",
        tools=frozenset(),
        kernels=(kernel,),
        releases=(release,),
        sources=sources,
        builds=(),
        ofed=folders,
        peers={},
        room_mb=9000,
    )


def step(part: Part, version: str, release: str, source: str = "") -> BuildStep:
    names = {Part.DRIVER: "nvidia-current-open", Part.OFED: "mlnx-ofed-kernel"}
    package = names.get(part, f"nvidia-{part}")
    inputs = Inputs(part, package, version, release, "x86_64", "", "h", GCC12, "", "", "")
    return BuildStep(inputs, (), "asked for", source=source)


def one(found: Ground, asked: BuildStep, compat: Compat | None = None) -> Outlook:
    [outlook] = foresee(found, BuildGraph((asked,), ()), compat or shipped())
    return outlook


GIVEN_OFED = replace(step(Part.OFED, "1", "6.1"), given=True)


def test_parts_stand_in_the_order_of_kernels_and_of_what_rests_on_what() -> None:
    found = ground("6.1")
    kernel = found.kernels[0]
    found = replace(found, kernels=(kernel, replace(kernel, release="6.0", config={})))
    steps = (step(Part.PEERMEM, "1", "6.1"), step(Part.DRIVER, "1", "6.1"),
             step(Part.GDRDRV, "1", "6.0"), GIVEN_OFED)  # fmt: skip
    stopped = BlockedPart("6.1", Part.OFED, "no source", "install it")
    outlooks = foresee(found, BuildGraph(steps, (stopped,)), shipped())
    assert [(each.kernel, each.part) for each in outlooks] == [
        ("6.0", Part.GDRDRV), ("6.1", Part.OFED), ("6.1", Part.DRIVER), ("6.1", Part.PEERMEM),
    ]  # fmt: skip
    assert "the configuration of 6.0 was not read" in [e.found for e in outlooks[0].reasons]
    lines = preflight_report(Preflight(outlooks), Painter(coloured=False)).split("\n")
    assert [line for line in lines if not line.startswith(" ")][:2] == ["6.0", "6.1"]
    assert "  ofed: will not compile" in lines, "without a package there is no second blank"
    assert "    next: install it" in lines
    assert not [line for line in lines if line.rstrip().endswith("next:")]


HERE = BuildPlace("this machine", "", "local", lambda _: ground("6.1"), lambda _: "")


@pytest.mark.parametrize("word", ["headers", "sources"])
def test_what_is_laid_above_a_ground_is_laid_on_this_machine_by_root_alone(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = (("a.deb",), ()) if word == "headers" else ((), ("a.deb",))
    for place in (replace(HERE, here=False), replace(HERE, executor="dask://x:1")):
        with (
            pytest.raises(UsageError, match=f"--{word} are laid above a tree") as refused,
            with_headers(place, *given),
        ):
            pass
        assert refused.value.hint.endswith(f"or install the {word} there")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=f"--{word} needs root"), with_headers(HERE, *given):
        pass
    with with_headers(HERE, (), ()) as laid:
        assert laid == LaidHeaders(HERE, (), ())


def test_where_no_kernel_was_named_those_of_the_headers_are_meant() -> None:
    asked = (Need(), Need(("5.0",)))
    assert LaidHeaders(HERE, ("6.1",), ()).needs(asked) == (Need(("6.1",)), Need(("5.0",)))
    assert LaidHeaders(HERE, (), ()).needs(asked) == asked


def test_where_nothing_would_be_built_that_is_said() -> None:
    assert preflight_report(Preflight(()), Painter(coloured=False)) == "\nnothing would be built"


@pytest.mark.parametrize(
    ("missing", "headers", "hint"),
    [
        (("Module.symvers",), "", "give the packages that they depend on too"),
        (("Makefile", "include/config/auto.conf", "Module.symvers", "modpost"), "", "take others"),
        (("Module.symvers",), "h", "take others"),
        ((), "", "take others"),
    ],
)
def test_headers_that_are_there_in_part_want_the_packages_beside_them(
    missing: tuple[str, ...], headers: str, hint: str
) -> None:
    found = ground("6.1")
    found = replace(found, kernels=(replace(found.kernels[0], missing=missing, headers=headers),))
    for release, told in (("6.1", hint), ("6.99", "take others")):
        stopped = BlockedPart(release, Part.OFED, "no headers", "take others")
        (outlook,) = foresee(found, BuildGraph((), (stopped,)), shipped())
        assert outlook.reasons[0].hint.startswith(told)


@pytest.mark.parametrize(
    ("part", "version", "release", "source", "answer"),
    [
        pytest.param("peermem", "535.261.03", "6.1.0-56-amd64", "", WILL, id="535-6.1"),
        pytest.param("peermem", "535.309.01", "6.12.117+deb12-amd64", "", WILL, id="6.12"),
        pytest.param("peermem", "550.163.01", "6.12.107+deb13-amd64", "", WILL, id="550"),
        pytest.param("peermem", "535.261.03", "6.17.2-1-amd64", "", WILL, id="read-in-its-source"),
        pytest.param("peermem", "470.256.02", "6.12.1-amd64", "", UNKNOWN, id="old-driver"),
        pytest.param("peermem", "460.91.03", "5.10.0-1-amd64", "", WILL_NOT, id="no-peermem"),
        pytest.param("driver", "535.261.03", "6.1.0-50-amd64", "open", WILL, id="open-50"),
        pytest.param("driver", "535.261.03", "6.1.0-56-amd64", "open", WILL_NOT, id="open-56"),
        pytest.param("driver", "535.261.03", "6.1.0-56-amd64", "closed", UNKNOWN, id="closed"),
        pytest.param("driver", "535.309.01", "6.1.0-56-amd64", "closed", WILL, id="309"),
        pytest.param("driver", "535.261.03", "6.1.0-1056-oem", "open", WILL, id="ubuntus"),
        pytest.param("driver", "620.70.06", "6.8.0-90-generic", "open", UNKNOWN, id="newer"),
        pytest.param("driver", "570.211.01", "6.12.100+deb13-amd64", "closed", WILL_NOT,
                     id="a-point-release-took-it-back"),
        pytest.param("driver", "550.163.01", "6.12.96+deb13-amd64", "open", WILL, id="before-it"),
        pytest.param("driver", "580.126.20", "6.12.117+deb13-amd64", "open", WILL, id="knows-it"),
        pytest.param("driver", "590.48.01", "6.19.7-arch1", "open", WILL_NOT, id="page-free"),
        pytest.param("driver", "580.65.06", "4.14.3", "open", WILL_NOT, id="below-floor"),
        pytest.param("driver", "550.54.14", "4.14.3", "open", UNKNOWN, id="above-old-floor"),
        pytest.param("ofed", "25.10-1.7.1", "5.14.0-687.1.1.el9_8.x86_64", "", WILL_NOT,
                     id="dpll"),
        pytest.param("ofed", "25.10-2.4.1", "5.14.0-687.1.1.el9_8.x86_64", "", WILL_NOT,
                     id="dpll-lts"),
        pytest.param("ofed", "25.10-3.1.8", "5.14.0-687.1.1.el9_8.x86_64", "", WILL,
                     id="dpll-mended-lts"),
        pytest.param("ofed", "26.01-1.0.0", "5.14.0-687.1.1.el9_8.x86_64", "", UNKNOWN,
                     id="dpll-nobody-told"),
        pytest.param("ofed", "26.07-1.0.0", "5.14.0-687.1.1.el9_8.x86_64", "", WILL,
                     id="dpll-mended"),
        pytest.param("peermem", "535.261.03", "6.12.0-55.9.1.el10_0.x86_64", "", WILL,
                     id="not-by-a-build-on-debian"),
        pytest.param("driver", "550.163.01", "6.12.0-211.33.1.el10_2.x86_64", "open", UNKNOWN,
                     id="seen-on-debian-alone"),
        pytest.param("gdrdrv", "2.5", "6.1.0-56-amd64", "", UNKNOWN, id="no-table"),
    ],
)  # fmt: skip
def test_what_the_tables_say(
    part: str, version: str, release: str, source: str, answer: CompileAnswer
) -> None:
    folder = {"open": OPEN.folder, "closed": CLOSED.folder}.get(source, "")
    found = one(ground(release), step(Part(part), version, release, folder))
    assert found.answer is answer
    if answer is not CompileAnswer.UNKNOWN:
        assert all(each.source for each in found.reasons)


def test_a_point_release_that_broke_the_driver_is_named() -> None:
    found = one(
        ground("6.1.0-56-amd64"), step(Part.DRIVER, "535.261.03", "6.1.0-56-amd64", OPEN.folder)
    )
    assert "pci_resize_resource" in found.reasons[0].found


def test_an_old_licence_is_told_and_decides_nothing() -> None:
    found = one(ground("6.12.1-amd64"), step(Part.PEERMEM, "535.129.03", "6.12.1-amd64"))
    assert found.answer is CompileAnswer.UNKNOWN
    assert any("Linux-OpenIB" in each.found for each in found.reasons)


@pytest.mark.parametrize(
    ("compiler", "config", "answer"),
    [
        pytest.param(GCC12, {}, CompileAnswer.WILL, id="the-same"),
        pytest.param("gcc (GCC) 11.5.0", {}, CompileAnswer.WILL_NOT, id="older"),
        pytest.param(GCC14, {}, CompileAnswer.WILL, id="newer"),
        pytest.param(
            GCC14, {"GCC_PLUGINS": "y", "RANDSTRUCT": "y"}, CompileAnswer.WILL_NOT, id="plugins"
        ),
        pytest.param(
            GCC14, {"GCC_PLUGINS": "y"}, CompileAnswer.WILL, id="plugins-that-do-not-mind"
        ),
        pytest.param(CLANG, {}, CompileAnswer.WILL_NOT, id="clang-for-gcc"),
        pytest.param(GCC12, {"CC_VERSION_TEXT": CLANG}, CompileAnswer.WILL_NOT, id="gcc-for-clang"),
    ],
)
def test_the_compiler_that_would_be_taken(
    compiler: str, config: dict[str, str], answer: CompileAnswer
) -> None:
    release = "6.1.0-56-amd64"
    found = one(ground(release, compiler, **config), step(Part.PEERMEM, "535.261.03", release))
    assert found.answer is answer


def test_a_compiler_that_cannot_be_read_is_said_to_be_unknown() -> None:
    release = "6.1.0-56-amd64"
    found = one(ground(release, "tcc 0.9"), step(Part.PEERMEM, "535.261.03", release))
    assert any("not known: which compiler" in each.found for each in found.reasons)


def test_what_is_blocked_will_not_compile_and_says_why() -> None:
    release = "6.1.0-56-rt-amd64"
    stop = BlockedPart(release, Part.DRIVER, "a real-time kernel", "take another")
    [found] = foresee(ground(release), BuildGraph((), (stop,)), shipped())
    assert (found.answer, found.reasons[0].found) == (CompileAnswer.WILL_NOT, "a real-time kernel")
    assert found.reasons[0].hint == "take another"


@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        pytest.param(("scripts/mod/modpost",), "give the packages that they depend on", id="part"),
        pytest.param(("Makefile", "a", "b", "c"), "install linux-headers-6.1", id="all-of-them"),
    ],
)
def test_further_packages_are_asked_for_where_some_headers_are_there(
    missing: tuple[str, ...], hint: str
) -> None:
    release = "6.1.0-56-amd64"
    place = ground(release)
    kernel = replace(place.kernels[0], headers="", missing=missing)
    stop = BlockedPart(release, Part.DRIVER, "no headers", f"install linux-headers-{release}")
    [found] = foresee(replace(place, kernels=(kernel,)), BuildGraph((), (stop,)), shipped())
    assert found.reasons[0].hint.startswith(hint)


def test_headers_that_are_not_whole_ask_for_the_packages_beside_them() -> None:
    release = "6.12.1-amd64"
    bare = ground(release)
    kernel = replace(bare.kernels[0], headers="", missing=("scripts/mod/modpost",))
    stop = BlockedPart(release, Part.DRIVER, "not whole", "install them")
    [found] = foresee(replace(bare, kernels=(kernel,)), BuildGraph((), (stop,)), shipped())
    assert "linux-kbuild" in found.reasons[0].hint


def test_what_is_installed_is_not_foretold() -> None:
    release = "6.1.0-56-amd64"
    given = replace(step(Part.DRIVER, "535.261.03", release), given=True)
    assert foresee(ground(release), BuildGraph((given,), ()), shipped()) == ()


def test_a_kernel_without_symbol_versions_or_with_forced_signatures_is_pointed_out() -> None:
    release = "6.1.0-56-amd64"
    odd = ground(release, MODVERSIONS="n", MODULE_SIG_FORCE="y")
    said = " ".join(r.found for r in one(odd, step(Part.PEERMEM, "535.261.03", release)).reasons)
    assert "keeps no symbol versions" in said
    assert "signed modules alone" in said


def test_a_trial_outweighs_every_rule() -> None:
    release = "6.1.0-56-amd64"
    foretold = one(ground(release), step(Part.PEERMEM, "535.261.03", release))
    assert foretold.answer is CompileAnswer.WILL
    broken = Reason(CompileAnswer.WILL_NOT, "it does not", "tried", Confidence.HIGH)
    assert after_trial(foretold, broken).answer is CompileAnswer.WILL_NOT
    assert after_trial(foretold, replace(broken, answer=None)).answer is CompileAnswer.UNKNOWN


@pytest.mark.parametrize(
    ("answers", "answer", "code"),
    [
        ((CompileAnswer.WILL, CompileAnswer.WILL), CompileAnswer.WILL, ExitCode.OK),
        ((CompileAnswer.WILL, CompileAnswer.UNKNOWN), CompileAnswer.UNKNOWN, ExitCode.UNKNOWN),
        (
            (CompileAnswer.UNKNOWN, CompileAnswer.WILL_NOT, CompileAnswer.WILL),
            CompileAnswer.WILL_NOT,
            ExitCode.FAILED,
        ),
        ((), CompileAnswer.UNKNOWN, ExitCode.UNKNOWN),
    ],
)
def test_the_worst_answer_is_that_of_all(
    answers: tuple[CompileAnswer, ...], answer: CompileAnswer, code: ExitCode
) -> None:
    outlooks = tuple(
        Outlook("k", Part.PEERMEM, "p/1", (Reason(each, "x", "y", Confidence.HIGH),))
        for each in answers
    )
    found = Preflight(outlooks)
    assert (found.answer, found.exit_code) == (answer, code)


def tried(said: str) -> Preflight:
    """What is foretold where one step is compiled, and says this."""
    survey, graph = INSTALLED.ground, graph_of(INSTALLED.ground)
    place = BuildPlace("here", "", "local", lambda _: survey, lambda _: said)
    surveyed = Surveyed(survey, (NeedGraph(Need(), graph),))
    return preflight(LaidHeaders(place, (), ()), surveyed, shipped(), compile_it=True, limit_s=60)


@pytest.mark.parametrize(
    ("ending", "answer"),
    [
        pytest.param("", UNKNOWN, id="cut"),
        pytest.param("= make timeout dkms build\n= end ok 4\n", UNKNOWN, id="not-done-in-time"),
        pytest.param("= make failed:10 dkms build\n= end ok 4\n", WILL_NOT, id="ended-by-itself"),
    ],
)
def test_a_trial_that_was_cut_short_says_nothing_of_the_compiler(
    ending: str, answer: CompileAnswer
) -> None:
    began = "= begin ok gdr-toolkit/1\n= prepare.output ok x\n= prepare ok x\n"
    said = f"{began}= make.output ok x\n|x.c:1: error: no member named y\n{ending}"
    assert tried(said).answer is answer


def test_a_trial_that_made_its_module_is_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.features.builds.run.preflight.read_outcome", lambda *_: "made")
    assert tried("").answer is CompileAnswer.WILL


def test_the_report_gives_each_reason_with_its_source_and_what_to_do() -> None:
    release = "6.1.0-56-amd64"
    asked = step(Part.DRIVER, "535.261.03", release, OPEN.folder)
    text = preflight_report(
        Preflight(foresee(ground(release), BuildGraph((asked,), ()), shipped())), Painter(False)
    )
    assert f"{release}\n  driver nvidia-current-open/535.261.03: will not compile\n" in text
    assert (
        "Debian's nvidia-open-kernel-dkms 535.261.03 and linux-headers-6.1.0-56-amd64; H)" in text
    )
    assert text.endswith("1 will not compile")


def test_the_document_keeps_its_schema() -> None:
    schema = json.loads((Path(__file__).parents[3] / "docs/preflight.schema.json").read_text())
    release = "6.1.0-56-amd64"
    asked = tuple(step(part, "535.261.03", release) for part in Part)
    found = Preflight(
        foresee(ground(release), BuildGraph(asked, ()), shipped()), ("a.deb",), "here"
    )
    told = json.loads(dumps(preflight_document(found, found.exit_code, datetime.now(UTC))))
    jsonschema.validate(told, schema)
    assert {each["part"] for each in told["parts"]} == set(Part)
