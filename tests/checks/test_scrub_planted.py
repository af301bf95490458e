"""Whatever identifies a site or opens a door, planted in every frame: none is found afterwards."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from msgspec.structs import replace

from tests.checks.planting import Planted, planted
from tests.evidence.build import node
from tests.laws import few
from tests.unit.judged import TODAY
from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence
from toolkit.facts.text.scrub import scrub
from toolkit.want import Want

# Where nodes have such lines, and what is read goes on behind them.
LIVELY = ("cmdline", "dmesg", "boot-entries", "modprobe-files", "modprobe-config", "openibd-log")


def _with(evidence: Evidence, lines: list[Planted], keys: tuple[str, ...] = ()) -> Evidence:
    more = "".join(f"{each.line}\n" for each in lines)
    return Evidence(
        {
            key: replace(each, text=each.text + more) if not keys or key in keys else each
            for key, each in evidence.frames.items()
        },
        complete=True,
    )


@pytest.mark.parametrize("seed", few(range(3), 3, "planted"))
def test_of_a_hundred_kinds_none_is_left_in_any_frame(seed: int) -> None:
    lines = planted(seed)
    assert len(lines) >= 100
    hidden = scrub(_with(node(), lines), "gpu01")
    left = [
        (key, each.line, needle)
        for key, frame in hidden.frames.items()
        for text in [frame.text.lower()]
        for each in lines
        for needle in each.needles
        if needle in text and not _may_be_a_version(key, each.line, needle)
    ]
    assert left == []


def _may_be_a_version(key: str, line: str, needle: str) -> bool:
    """Where versions are told, four numbers behind a name, or of no private network, are one."""
    told = key.startswith(("dkms", "ofed", "libraries", "kernels")) or key.endswith("modinfo")
    if not told or not re.fullmatch(r"[\d.]+", needle):
        return False
    return needle.startswith("185.") or re.search(rf"[-/]{re.escape(needle)}", line) is not None


def _verdicts(evidence: Evidence) -> list[tuple[str, str]]:
    return [
        (each.check.id, each.finding.status.value)
        for each in judge_node("gpu01", evidence, Want(), TODAY).verdicts
    ]


def test_what_was_planted_changes_no_verdict_by_being_hidden() -> None:
    whole = _with(node(), planted(7), LIVELY)
    assert _verdicts(scrub(whole, "gpu01")) == _verdicts(whole)


def test_one_thing_in_many_forms_has_one_stand_in() -> None:
    told = "9c:63:c0:f0:12:34 9C-63-C0-F0-12-34 9c63.c0f0.1234 enx9c63c0f01234 9c63c0f01234\n"
    told += "9c63:c003:00f0:1234 0x9c63c00300f01234\n"
    evidence = node()
    frame = replace(evidence.frames["dmesg"], text=told)
    text = scrub(evidence.plus([frame]), "").text("dmesg")
    bare = [
        each.removeprefix("enx").removeprefix("0x").translate(dict.fromkeys(map(ord, ":-.")))
        for each in text.split()
    ]
    assert all(a == b for a, b in pairwise(bare[:5]))
    assert bare[5] == bare[6] != bare[0]


def test_a_name_in_capitals_is_the_same_name() -> None:
    evidence = node()
    frame = replace(evidence.frames["dmesg"], text="GPU01 gpu01 Gpu01\n")
    assert len(set(scrub(evidence.plus([frame]), "").text("dmesg").split())) == 1
