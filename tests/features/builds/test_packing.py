"""Packages that --package asks for: which, of what, with which scripts; and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.evidence.modules import ko
from tests.features.builds.test_builds_packages import DRIVER, KERNEL, MAKING, OFED, built
from toolkit.built.plan.model import Built, Part
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, UsageError
from toolkit.features.builds import cli_packages as packages
from toolkit.features.builds.io import package_tools
from toolkit.features.builds.plan.packages import Format, Making, PackedFile
from toolkit.features.builds.run import packages as flow
from toolkit.features.builds.run.packages import MadePackage, make_packages
from toolkit.verbs.cli.session import Session

OTHER = "6.12.0-1-amd64"
ELSEWHERE = ko(
    {"name": "nvidia", "license": "GPL", "depends": "", "vermagic": f"{OTHER} SMP "},
    {"module_layout": 1},
)
SECOND = built(Part.DRIVER, "nvidia-current-open", kernel=OTHER, nvidia_current_open=ELSEWHERE)
LOADING = ["usr/lib/modprobe.d/gdr-toolkit.conf", "usr/lib/modules-load.d/gdr-toolkit.conf"]
Files = Sequence[PackedFile]


class Packer:
    """Packs nothing; keeps what it was given."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.epochs: list[int] = []
        self.machines: list[str] = []

    def deb(self, files: Files, target: Path, epoch: int) -> Path:
        self.files[target.name] = {each.path: each.data for each in files}
        self.epochs.append(epoch)
        return target

    def rpm(self, text: str, files: Files, out: Path, epoch: int, machine: str) -> list[Path]:
        name = next(line.split()[1] for line in text.split("\n") if line.startswith("Name:"))
        self.files[name] = {"SPEC": text.encode(), **{each.path: each.data for each in files}}
        self.epochs.append(epoch)
        self.machines.append(machine)
        return [out / f"{name}.rpm", out / f"{name}-more.rpm"]


@pytest.fixture
def packs(monkeypatch: pytest.MonkeyPatch) -> Packer:
    made = Packer()
    monkeypatch.setattr(package_tools, "pack_deb", made.deb)
    monkeypatch.setattr(package_tools, "pack_rpm", made.rpm)
    return made


def test_a_deb_for_each_kernel_and_one_of_none_that_says_when_they_are_loaded(
    packs: Packer, tmp_path: Path
) -> None:
    made = make_packages([built(), SECOND, OFED, DRIVER], Format.DEB, tmp_path, MAKING)
    names = [each.path.name for each in made]
    assert [each.path.parent for each in made] == [tmp_path] * 3
    assert KERNEL in names[0]
    assert names[0].endswith("_amd64.deb")
    assert OTHER in names[1]
    assert names[2].endswith("_all.deb")
    assert f"-{MAKING.revision}+g" in names[2]
    assert [bool(each.notes) for each in made] == [True, True, False]
    assert packs.epochs == [MAKING.epoch] * 3
    held = packs.files[names[0]]
    scripts = {path: data.decode() for path, data in held.items() if b"#!/bin/sh" in data[:10]}
    assert scripts
    told = "\n".join(scripts.values())
    assert KERNEL in told
    for word in ("nvidia_peermem", "ib_uverbs"):
        assert word in told
    assert {path.lstrip("./") for path in packs.files[names[2]]} >= set(LOADING)
    for name in names:  # Debian Policy 5.3: what the control file of a package must have
        control = next(packs.files[name][each] for each in packs.files[name] if "control" in each)
        fields = re.findall(r"^([A-Z][\w-]*): .", control.decode(), re.MULTILINE)
        assert {"Package", "Version", "Architecture", "Maintainer", "Description"} <= set(fields)
    again = make_packages([OFED, DRIVER, SECOND, built()], Format.DEB, tmp_path, MAKING)
    assert [each.path.name for each in again] == names


def test_modules_without_peermem_need_nobody_to_say_when_they_are_loaded(
    packs: Packer, tmp_path: Path
) -> None:
    for form in (Format.DEB, Format.RPM):
        packs.files.clear()
        make_packages([SECOND], form, tmp_path, MAKING)
        assert len(packs.files) == 1


def test_an_rpm_for_each_kernel_of_its_machine_and_one_of_none(
    packs: Packer, tmp_path: Path
) -> None:
    made = make_packages([built(), DRIVER], Format.RPM, tmp_path, MAKING)
    assert packs.machines == ["x86_64", "noarch"]
    assert len(made) == 4
    assert [bool(each.notes) for each in made] == [True, True, False, False]
    (_, held), (_, common) = packs.files.items()
    assert KERNEL in held["SPEC"].decode()
    assert {path.lstrip("/") for path in common} >= set(LOADING)
    assert packs.epochs == [MAKING.epoch] * 2


@pytest.mark.parametrize("early", [True, False])
def test_scripts_are_told_of_all_that_the_package_holds(
    packs: Packer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    told: list[Mapping[str, str]] = []

    def render(template: str, values: Mapping[str, str]) -> str:
        if template.startswith("package/"):
            told.append({**values, "template": template})
        return "#!/bin/sh\n"

    monkeypatch.setattr(flow, "render_text", render)
    make_packages([OFED if early else DRIVER, built()], Format.DEB, tmp_path, MAKING)
    assert {each["template"].split("/")[1].split("-")[0] for each in told} == {"deb"}
    for each in told:
        assert each["package"] == each["title"] != ""
        assert (each["kernel"], each["arch"]) == (KERNEL, "x86_64")
        assert "nvidia-peermem.ko" in each["modules"].split(" ")
        assert each["early"] == ("yes" if early else "")
        assert each["needs"].split(" ") == (["nvidia"] if early else ["ib_uverbs"])
        assert each["names"]


def test_nothing_to_pack_is_said(packs: Packer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no modules to make a package of"):
        make_packages([], Format.DEB, tmp_path, MAKING)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def session(**values: str | bool) -> Session:
    return Session.begin("build", Said(dict(values)))


@pytest.mark.parametrize("option", ["out", "revision", "maintainer", "sign_key", "sign_cert"])
@pytest.mark.usefixtures("home")
def test_what_is_about_packages_is_refused_without_one(option: str) -> None:
    with pytest.raises(UsageError, match=f"--{option.replace('_', '-')} is about packages"):
        packages.refuse_mixed(session(**{option: "1"}))
    value = "A <a@b.example>" if option == "maintainer" else "1"
    packages.refuse_mixed(session(**{option: value, "package": "deb"}))


@pytest.mark.parametrize("option", ["plan", "check", "try_"])
@pytest.mark.usefixtures("home")
def test_a_package_needs_modules_which_a_look_ahead_makes_none_of(option: str) -> None:
    with pytest.raises(UsageError, match="--package needs modules"):
        packages.refuse_mixed(session(package="deb", **{option: True}))
    packages.refuse_mixed(session(**{option: True}))


@pytest.mark.parametrize("words", [{"package": "msi"}, {"package": "deb", "revision": "x"}])
@pytest.mark.usefixtures("home")
def test_what_cannot_be_a_package_is_refused_early(words: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        packages.refuse_mixed(session(**words))


class Run:
    """Two builds, of which one may not be there."""

    def __init__(self, code: ExitCode = ExitCode.OK) -> None:
        self.exit_code = code
        self.made = [SimpleNamespace(built=DRIVER), SimpleNamespace(built=None)]


class Signing:
    def __init__(self) -> None:
        self.configs: list[object] = []

    def signed(self, made: Built, config: object) -> Built:
        self.configs.append(config)
        return made


class Ground:
    def __init__(self, *kernels: str) -> None:
        self.kernels = kernels

    def kernel(self, release: str) -> SimpleNamespace | None:
        return SimpleNamespace(config={"of": release}) if release in self.kernels else None


@pytest.mark.parametrize("signs", [True, False])
@pytest.mark.usefixtures("home")
def test_what_was_built_is_signed_and_packed_as_was_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, signs: bool
) -> None:
    told: list[tuple[object, ...]] = []

    def make(builts: Sequence[Built], form: Format, out: Path, making: Making) -> tuple[str, ...]:
        told.append((builts, form, out, making.revision, making.maintainer))
        return ("made",)

    monkeypatch.setattr(packages, "make_packages", make)
    signing = Signing() if signs else None
    for ground, config in ((Ground(KERNEL), {"of": KERNEL}), (Ground(), {})):
        words = session(
            package="rpm", out=str(tmp_path), revision="3", maintainer="A <a@b.example>"
        )
        found: object = packages.pack_built(words, Run(), ground, signing)  # type: ignore[arg-type] # fakes
        assert found == ("made",)
        assert told[-1] == ([DRIVER], Format.RPM, tmp_path, 3, "A <a@b.example>")
        assert signing is None or signing.configs[-1] == config
    packages.pack_built(session(package="tar"), Run(), Ground(), None)  # type: ignore[arg-type] # fakes
    assert told[-1][2] == Path()


@pytest.mark.usefixtures("home")
def test_no_packages_are_made_of_half_a_run_nor_unasked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    half = Run(ExitCode.FAILED)
    assert packages.pack_built(session(package="deb"), half, Ground(), None) == ()  # type: ignore[arg-type] # fakes
    assert "no packages: not all that was asked for is there" in capsys.readouterr().err
    assert packages.pack_built(session(), half, Ground(), None) == ()  # type: ignore[arg-type] # fakes
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("home")
def test_where_packages_lie_and_what_must_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    packages.tell_packages(
        session(), [MadePackage(Path("/o/a.deb"), ("not signed",)), MadePackage(Path("/o/b"))]
    )
    told = capsys.readouterr()
    assert (told.out, told.err) == ("/o/a.deb\n/o/b\n", "note: a.deb: not signed\n")


def test_the_clock_of_the_packages_is_the_one_that_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    then = int(datetime(2024, 5, 6, tzinfo=UTC).timestamp())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(then))
    assert flow.parse_making(revision="2").epoch == then
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    plain = flow.parse_making()
    assert (plain.revision, plain.epoch) == (1, Making().epoch)
