"""The checks of others, as the referee runs them: each answers what its source would."""

from __future__ import annotations

import pytest

from dev.referee import OURS, RULES, Machine, Rule, judged, known, text
from toolkit.evidence import Evidence

LINES = tuple(rule for rule in RULES if not rule.program)
LOADED = {"lsmod", "nccl file", "aznhc gdr"}
COUNTED = {"gpu count", "kubelet"}
# gpud asks for ib_core's line, and since OFED 24.07 it is ib_uverbs that nvidia-peermem uses.
PASSED = {
    "demo-healthy": LOADED | COUNTED | {OURS, "ports"},
    "demo-stub": COUNTED | {"aznhc gdr", "ports"},
    "gpu-xid": LOADED | {"gpu count", "ports"},
    "gpu-missing": LOADED | {"ports"},
    "lost-hgx-h100": {"aznhc gdr", "ports"},  # nvidia-smi ends with an error
}


@pytest.fixture(scope="module")
def machines() -> dict[str, tuple[str, Evidence]]:
    return {name: (state, evidence) for name, state, evidence in known()}


@pytest.mark.parametrize("name", PASSED)
def test_who_passes_a_machine(name: str, machines: dict[str, tuple[str, Evidence]]) -> None:
    assert judged(name, *machines[name], LINES).passed == PASSED[name]


def test_the_line_of_each_rule_decides(machines: dict[str, tuple[str, Evidence]]) -> None:
    rules = (Rule("yes", "lsmod | grep -q ^mlx5_core", "a"), Rule("no", "exit 3", "b"))
    assert judged("a", *machines["demo-stub"], rules).passed == {"yes"}


def test_the_table_counts_the_dead_that_pass_and_the_well_that_do_not() -> None:
    rule = Rule("lsmod", "true", "somewhere")
    machines = [
        Machine("well", "ready", frozenset({OURS})),
        Machine("stub", "broken", frozenset({"lsmod"})),
        Machine("slow", "slow", frozenset()),
    ]
    told = [" ".join(line.split()) for line in text(machines, (rule,)).split("\n")]
    assert told[1:3] == [f"{OURS} 0 of 2 0 of 1 toolkit/checks", "lsmod 1 of 2 1 of 1 somewhere"]
    assert told[5:] == ["stub broken lsmod", "slow slow nobody"]
