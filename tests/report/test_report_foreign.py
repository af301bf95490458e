"""What is told of texts: what was not understood, what each shows, and what would tell more."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.unit.judged import SLOW, judged
from toolkit.checks.check import Gap, passed, unknown
from toolkit.checks.judged import Judged
from toolkit.facts.text.foreign import Foreign
from toolkit.hosts.host import Host
from toolkit.report.document import dumps
from toolkit.report.foreign import foreign_document, foreign_lines, shown_lines
from toolkit.report.listings import Row, hosts_document
from toolkit.report.table import Painter
from toolkit.report.text import findings

PLAIN = Painter(False)
LOCKED = Foreign("a.zip", "", (), "locked with a password")
STRANGE = Foreign("b.txt", "hello", ("lspci", "dmesg"))
EMPTY = Foreign("c.txt", "")


@pytest.mark.parametrize(
    ("file", "about"),
    [
        (LOCKED, "locked with a password"),
        (STRANGE, 'begins "hello"; nearest: lspci, dmesg'),
        (replace(STRANGE, nearest=()), 'begins "hello"'),
        (EMPTY, "holds no text"),
    ],
)
def test_a_file_is_told_with_why_it_was_left_or_what_it_came_nearest_to(
    file: Foreign, about: str
) -> None:
    assert [line.strip() for line in foreign_lines([file], PLAIN, verbose=False)][2] == about


def test_of_many_files_eight_are_told_unless_all_are_asked_for() -> None:
    nine = [replace(EMPTY, name=f"{n}.txt") for n in range(9)]
    short = foreign_lines(nine, PLAIN, verbose=False)
    assert "and 1 more (--verbose)" in short[-2]
    assert len([line for line in short if "holds no text" in line]) == 8
    whole = foreign_lines(nine, PLAIN, verbose=True)
    assert len([line for line in whole if "holds no text" in line]) == 9
    assert not any("more" in line for line in whole)


def test_the_document_has_each_file_and_nothing_where_there_is_none() -> None:
    assert foreign_document([]) == {}
    told = {"name": "b.txt", "first": "hello", "nearest": ["lspci", "dmesg"], "why": ""}
    assert foreign_document([STRANGE]) == {"foreign": [told]}


def a_text(host: str, *cited: str) -> Judged:
    """One that fails in one thing, and lacks what other commands print."""
    lacks = unknown("not part of this evidence", gap=Gap.NOT_COLLECTED)
    one = judged(host, iommu__passthrough=SLOW, pcie__bar1=lacks)
    verdicts = tuple(
        replace(each, cited=cited) if each.finding is lacks else each for each in one.verdicts
    )
    return replace(one, verdicts=verdicts, text=True)


def test_a_text_shows_what_passes_what_fails_and_which_command_would_tell_more() -> None:
    lines = shown_lines([a_text("x.txt", "cmdline", "pci")], PLAIN)
    assert lines == [
        "",
        "this text shows:",
        "  kernel.version  6.8.0",
        "  pcie.link       17 links",
        "what fails:",
        "  iommu.passthrough  translated: DMA-FQ on 16",
        "most of what is missing is told by:",
        "  lspci -vvv -nn  1 check",
    ]


def test_of_several_texts_each_is_named_and_only_so_many_are_told() -> None:
    nine = [a_text(f"{n}.txt") for n in range(9)]
    lines = shown_lines(nine, PLAIN)
    assert "0.txt shows:" in lines
    assert lines[-1] == "and 1 text more (--json)"
    assert "8.txt shows:" not in lines
    assert not any("more" in line for line in shown_lines(nine[:8], PLAIN))


def test_a_text_in_which_nothing_passes_says_so() -> None:
    bare = replace(a_text("x.txt"), verdicts=())
    assert shown_lines([bare], PLAIN) == ["", "this text shows: nothing that passes"]


def test_gpus_of_another_maker_are_nothing_that_nvidia_s_tools_tell_of() -> None:
    about = (("other gpus", "8 AMD GPUs, out of scope"), ("gpus", "0"))
    one = replace(a_text("x.txt", "nvidia-smi-q"), about=about)
    assert not any("nvidia-smi" in line for line in shown_lines([one], PLAIN))
    both = replace(one, about=(about[0], ("gpus", "2")))
    assert any("nvidia-smi -q" in line for line in shown_lines([both], PLAIN))


@pytest.mark.parametrize(
    ("gap", "hint", "text", "found", "cure"),
    [
        (Gap.ROOT, "sudo lspci -vvv", True, "run as root: pcie.bar1", "sudo lspci -vvv"),
        (Gap.ROOT, "sudo lspci -vvv", False, "run as root: pcie.bar1", "(--become)"),
        (Gap.ROOT, "", True, "run as root: pcie.bar1", "(--become)"),
        (Gap.LOST, "", False, "while a GPU is lost: pcie.bar1", ""),
        (Gap.PATH, "", False, "not judged: which path the node takes", ""),
    ],
)
def test_a_gap_is_told_with_what_would_close_it(
    gap: Gap, hint: str, text: bool, found: str, cure: str
) -> None:
    one = replace(judged("gpu1", pcie__bar1=unknown("why", hint=hint, gap=gap)), text=text)
    told = [line.strip() for line in findings([one], PLAIN)]
    assert any(found in line for line in told), told
    assert any(line.startswith("next") for line in told) == bool(cure)
    assert any(cure in line for line in told)


def test_details_beyond_eight_are_counted_and_verbose_has_them_all() -> None:
    many = passed("17 links", details=tuple(f"{n}:00.0" for n in range(9)))
    asked = findings([judged("gpu1", pcie__link=many)], PLAIN, asked={"pcie.link"})
    assert "and 1 more (--verbose)" in "\n".join(asked)
    assert "8:00.0" not in "\n".join(asked)
    whole = "\n".join(findings([judged("gpu1", pcie__link=many)], PLAIN, verbose=True))
    assert "8:00.0" in whole
    assert "more (--verbose)" not in whole


def test_what_is_left_to_the_configuration_of_ssh_is_null() -> None:
    named = Host("gpu2", "10.0.0.2", user="op", port=2222, jump="edge", bmc="10.1.0.2")
    why = Row("port", "2222", "hosts.ini:7")
    document = hosts_document([(Host("gpu1"), ()), (named, (why,))], {"gpu2": {"state": "known"}})
    bare, full = json.loads(dumps(document))["hosts"]
    left = dict.fromkeys(("user", "port", "jump", "key_file", "bmc", "away"))
    assert bare == {"name": "gpu1", "address": "gpu1", "groups": [], **left}
    assert full == left | {
        "name": "gpu2",
        "address": "10.0.0.2",
        "groups": [],
        "user": "op",
        "port": 2222,
        "jump": "edge",
        "bmc": "10.1.0.2",
        "key": {"state": "known"},
        "explained": [{"what": "port", "value": "2222", "source": "hosts.ini:7"}],
    }
