"""Which kernel arguments our file on a node holds, and why no others."""

from __future__ import annotations

import pytest

from tests.evidence.build import CONFIG, CPU, GUEST_CPU, node
from tests.evidence.frames import DENIED, Override
from tests.evidence.healthy_boot import grub
from tests.unit.planning import NO_PT, TRANSLATED, placed, plan_for
from toolkit.facts.node.node import Node
from toolkit.plan.boot_arguments import Argument, arguments_in, iommu_arguments, needed
from toolkit.plan.change import Action
from toolkit.plan.templates import render_text
from toolkit.want import Iommu, Role, Want

PT = Argument("iommu=pt", "why", ("iommu.passthrough",))
ACS = Argument("pci=disable_acs_redir=pci:1af4:1", "why", ("acs.redirect",))
DROP_IN = "/etc/default/grub.d/zz-gdr-toolkit.cfg"


@pytest.mark.parametrize(
    ("placed_words", "lacking", "found"),
    [
        pytest.param((), (), (), id="others-have-seen-to-both"),
        pytest.param((), (ACS,), (ACS,), id="only-what-is-lacking"),
        pytest.param(("iommu=pt",), (), (PT,), id="ours-stays-while-it-works"),
        pytest.param(("iommu=pt",), (ACS,), (PT, ACS), id="ours-and-what-is-lacking"),
        pytest.param(("iommu=soft",), (), (PT, ACS), id="a-file-of-an-older-version"),
    ],
)
def test_each_argument_is_written_for_its_own_reason(
    placed_words: tuple[str, ...], lacking: tuple[Argument, ...], found: tuple[Argument, ...]
) -> None:
    assert needed((PT, ACS), placed_words, lacking.__contains__) == found


@pytest.mark.parametrize("template", ["boot/grub.cfg.j2", "boot/kernel-arguments.j2"])
def test_what_a_template_holds_is_read_back(template: str) -> None:
    text = render_text(template, {"arguments": "intel_iommu=on iommu=pt"})
    assert arguments_in(text) == ("intel_iommu=on", "iommu=pt")


def test_a_file_whose_text_was_not_read_is_written_anew() -> None:
    changed = TRANSLATED | placed({DROP_IN: "of an older version\n"}) | {"ours": ""}
    assert [each.action for each in plan_for(changed).changes] == [Action.PLACE]


def test_no_word_has_a_blank_that_would_make_two_of_it() -> None:
    for role in Role:
        for each in iommu_arguments(Node(node({"cmdline": NO_PT})), Want(role=role)):
            assert " " not in each.word


INTEL_ON = {"kernel-config": f"{CONFIG}CONFIG_INTEL_IOMMU_DEFAULT_ON=y\n"}
AMD = {"cpu": CPU.replace("GenuineIntel", "AuthenticAMD")}
ARM = {"arch": "aarch64\n", "cpu": "processor\t: 0\nCPU part\t: 0xd4f\n"}
HOST, BARE = Want(role=Role.VM_HOST), Want(role=Role.BARE_METAL)


@pytest.mark.parametrize(
    ("frames", "want", "words"),
    [
        pytest.param({}, BARE, "iommu=pt", id="bare-metal"),
        pytest.param({}, HOST, "intel_iommu=on iommu=pt", id="intel-host"),
        pytest.param(INTEL_ON, HOST, "iommu=pt", id="intel-host-built-for-it"),
        pytest.param({"kernel-config": DENIED}, HOST, "intel_iommu=on iommu=pt", id="not-known"),
        pytest.param(AMD, HOST, "iommu=pt", id="amd-host"),
        pytest.param(ARM, BARE, "iommu.passthrough=1", id="arm"),
        pytest.param({}, Want(role=Role.VM), "", id="guest"),
        pytest.param({"cpu": GUEST_CPU}, Want(), "", id="guest-by-itself"),
        pytest.param({}, Want(iommu=Iommu.ANY), "", id="left-alone"),
        pytest.param({"boot-entries": grub("intel_iommu=off")}, BARE, "iommu=pt", id="off"),
    ],
)
def test_the_words_fit_processor_kernel_and_role(
    frames: dict[str, Override], want: Want, words: str
) -> None:
    found = iommu_arguments(Node(node(frames)), want)
    assert " ".join(each.word for each in found) == words


@pytest.mark.parametrize("word", ["iommu=nopt", "iommu.passthrough=0", "iommu=soft,nopt"])
def test_translation_that_others_ask_for_is_not_overridden(word: str) -> None:
    changed = TRANSLATED | {"boot-entries": grub(f"{NO_PT} {word}")}
    plan = plan_for(changed)
    assert plan.empty
    (blocked,) = plan.blocked
    assert blocked.reason.startswith(word.replace("soft,", ""))
    assert "is not overridden" in blocked.reason


def test_an_argument_is_not_asked_for_where_the_default_is_right() -> None:
    built = CONFIG.replace(
        "# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set", "CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y"
    )
    right: dict[str, Override] = {"kernel-config": built, "boot-entries": grub(NO_PT)}
    assert plan_for({**right, "cmdline": f"{NO_PT}\n"}).empty
    nothing: dict[str, Override] = {"iommu-groups": "", "iommu-units": "", "acpi-tables": ""}
    assert plan_for({**nothing, "cmdline": f"{NO_PT}\n", "boot-entries": grub(NO_PT)}).empty
