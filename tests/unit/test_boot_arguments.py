"""Which kernel arguments our file on a node holds, and why no others."""

from __future__ import annotations

import pytest

from tests.evidence.build import node
from tests.unit.planning import NO_PT, TRANSLATED, placed, plan_for
from toolkit.change.boot_arguments import Argument, arguments_in, iommu_arguments, needed
from toolkit.change.change import Action
from toolkit.change.templates import render_text
from toolkit.facts.node import Node
from toolkit.want import Role, Want

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
