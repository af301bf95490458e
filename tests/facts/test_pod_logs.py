"""Logs of pods become the evidence of their nodes, and of nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence.build import node
from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.facts.text.pod_logs import holds_pod_logs, parse_carried, parse_pod_logs
from toolkit.verbs.saved import read_saved

TIME = "2026-11-21T10:00:00.123456789Z "
SUM = "0123456789abcdef" * 4
ONE, OTHER = node(), node({"cmdline": "ro quiet\n"})


def log(name: str, evidence: Evidence = ONE) -> str:
    return f"gdr-toolkit: node {name}: probe\n{evidence.dump()}"


def each_line(before: str, text: str) -> str:
    return "".join(f"{before}{line}\n" for line in text.split("\n")[:-1])


def mixed(one: str, other: str) -> str:
    """As --follow shows two pods at once."""
    pairs = zip(one.split("\n")[:-1], other.split("\n")[:-1], strict=False)
    return "".join(f"{left}\n{right}\n" for left, right in pairs)


def by_node(text: str) -> dict[str, Evidence]:
    return {each.node: each.evidence for each in parse_pod_logs(text)}


PODS = {name: f"[pod/gdr-probe-{name}/probe] " for name in ("one", "two")}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(log("gpu007") + log("gpu008", OTHER), id="one-after-the-other"),
        pytest.param(each_line(TIME, log("gpu007") + log("gpu008", OTHER)), id="timestamps"),
        pytest.param(
            each_line(PODS["one"], log("gpu007")) + each_line(PODS["two"], log("gpu008", OTHER)),
            id="prefix",
        ),
        pytest.param(
            mixed(
                each_line(PODS["one"] + TIME, log("gpu007")),
                each_line(PODS["two"] + TIME, log("gpu008", OTHER)),
            ),
            id="prefix-timestamps-and-mixed",
        ),
        pytest.param(
            each_line(TIME + "stdout F ", log("gpu007") + log("gpu008", OTHER)), id="of-the-runtime"
        ),
        pytest.param((log("gpu007") + log("gpu008", OTHER)).replace("\n", "\r\n"), id="dos"),
    ],
)
def test_each_node_has_its_own_evidence_word_for_word(text: str) -> None:
    assert by_node(text) == {"gpu007": ONE, "gpu008": OTHER}


def test_a_node_cannot_speak_for_another() -> None:
    """What a node prints may look like what a pod says before it reads one."""
    hostile = each_line(PODS["one"], log("gpu007") + log("gpu008", OTHER))
    assert set(by_node(hostile)) == {"gpu007"}
    honest = each_line(PODS["two"], log("gpu008"))
    assert by_node(honest + hostile)["gpu008"] == ONE


def test_a_line_that_the_runtime_cut_is_joined() -> None:
    long = node({"cmdline": "x" * 40_000 + "\n"})
    lines = [
        f"{TIME}stdout {'F' if at + 16_384 >= len(line) else 'P'} {line[at : at + 16_384]}"
        for line in log("gpu007", long).split("\n")[:-1]
        for at in range(0, max(len(line), 1), 16_384)
    ]
    assert by_node("\n".join(lines) + "\n") == {"gpu007": long}


def test_of_a_node_that_was_read_twice_the_latest_that_is_whole_counts() -> None:
    cut = log("gpu007").split("\n")
    begun = "\n".join(cut[: len(cut) // 2]) + "\n"
    assert by_node(log("gpu007") + log("gpu007", OTHER)) == {"gpu007": OTHER}
    assert by_node(log("gpu007") + begun) == {"gpu007": ONE}
    assert not by_node(begun)["gpu007"].complete


def test_a_pod_that_could_not_read_its_node_is_not_left_out() -> None:
    said = "gdr-toolkit: node gpu007: process 1 is in this very container: hostPID is missing\n"
    assert by_node(said) == {"gpu007": Evidence()}
    assert by_node(said + log("gpu008", OTHER))["gpu007"] == Evidence()


def test_lines_of_several_nodes_that_are_mixed_are_refused() -> None:
    text = mixed(log("gpu007"), log("gpu008", OTHER))
    with pytest.raises(UsageError, match="mixes lines of several nodes") as refused:
        parse_pod_logs(text)
    assert "--prefix" in refused.value.hint


@pytest.mark.parametrize("cut", range(500, len(log("gpu007")), 5003))
def test_mixed_lines_that_were_cut_give_no_node_what_another_said(cut: int) -> None:
    text = mixed(log("gpu007"), log("gpu008", OTHER))[: 2 * cut]
    try:
        found = by_node(text)
    except UsageError:
        return
    assert all(not each.frames for each in found.values())


def test_what_may_be_anothers_counts_only_where_it_is_whole() -> None:
    begun = "".join(f"gdr-toolkit: node {name}: probe\n" for name in ("gpu007", "gpu008"))
    frames = "= begin ok gdr-toolkit/1\n= cmdline ok x\n|whose is it\n= arch ok y\n|x86_64\n"
    assert by_node(begun + frames) == {"gpu007": Evidence(), "gpu008": Evidence()}
    named = each_line(PODS["two"], begun.split("\n")[1] + "\n" + frames)
    assert by_node(named)["gpu008"].text("cmdline") == "whose is it\n"


def test_a_log_without_its_head_says_what_to_ask_kubectl() -> None:
    tail = each_line(PODS["one"], "\n".join(log("gpu007").split("\n")[-11:]))
    assert not holds_pod_logs(tail)
    with pytest.raises(UsageError, match="begins amid the evidence") as refused:
        parse_pod_logs(tail)
    assert "--tail=-1" in refused.value.hint


def test_a_pod_whose_log_has_lost_its_head_is_named_and_nothing_is_known_of_its_node() -> None:
    tail = "\n".join(log("gpu007").split("\n")[-11:])
    text = each_line(PODS["one"], tail) + each_line(PODS["two"], log("gpu008", OTHER))
    assert by_node(text) == {"gpu008": OTHER, "gdr-probe-one": Evidence()}
    with pytest.raises(UsageError, match="begins amid the evidence"):
        parse_pod_logs(tail + log("gpu008", OTHER))


def test_what_came_of_a_bundle_is_no_evidence_of_the_node() -> None:
    engine = "= begin ok gdr-toolkit/1\n= 1.place ok place /etc/x\n= end ok 1\n"
    text = f"gdr-toolkit: node gpu007: apply {SUM}\n{engine}gdr-toolkit: node gpu007: ended 5\n"
    (carried,) = parse_carried(text + log("gpu007"))
    assert (carried.node, carried.sum, carried.ended) == ("gpu007", SUM, 5)
    assert carried.evidence.frame("1.place").source == "place /etc/x"
    assert by_node(text + log("gpu007")) == {"gpu007": ONE}
    cut = text[: text.index("gdr-toolkit: node gpu007: ended")]
    assert parse_carried(cut)[0].ended is None


# --- from disk -----------------------------------------------------------------------------


def test_a_saved_log_is_judged_as_evidence_is(tmp_path: Path) -> None:
    (tmp_path / "pods.log").write_text(each_line(PODS["one"], log("gpu007")))
    assert list(read_saved(tmp_path / "pods.log")) == [("gpu007", ONE)]


def test_a_folder_with_a_log_a_pod_is_its_nodes(tmp_path: Path) -> None:
    (tmp_path / "gdr-probe-a.log").write_text(log("gpu007"))
    (tmp_path / "gdr-probe-b.log").write_text(log("gpu008", OTHER))
    assert dict(read_saved(tmp_path)) == {"gpu007": ONE, "gpu008": OTHER}


def test_a_log_that_makes_no_sense_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "pods.log").write_text(mixed(log("gpu007"), log("gpu008", OTHER)))
    with pytest.raises(UsageError, match=r"pods\.log: the log mixes lines"):
        list(read_saved(tmp_path / "pods.log"))
