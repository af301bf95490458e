"""What an operator reads."""

from __future__ import annotations

import io
from datetime import date

import pytest
from msgspec.structs import replace

from dev.run import ROOT as CHECKOUT
from tests.evidence.board import BOARD, GPUS, Fn
from tests.evidence.build import node
from tests.evidence.machines.held import evidence_of
from tests.unit.fleets import capture
from tests.unit.judged import BARE, HEALTHY, SICK, SLOW, TODAY, UNSURE, judged, verdict
from toolkit.checks.check import Gap, Status, failed, unknown
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import ExitCode, HostKeyError, Outcome, TransportError, worst
from toolkit.facts.text.foreign import foreign
from toolkit.report.foreign import foreign_lines
from toolkit.report.progress import PlainProgress
from toolkit.report.table import Painter, clean, columns, error_lines, labelled, wants_colour
from toolkit.report.text import count_line, findings, report, verdict_text
from toolkit.want import Waiver, Want

PLAIN = Painter(False)


def told(*nodes: Judged) -> str:
    return report([Outcome(node.host, node) for node in nodes], PLAIN)


def test_hosts_that_say_the_same_are_folded_into_one_paragraph() -> None:
    text = told(*(judged(f"gpu{at:03d}", iommu__passthrough=SLOW) for at in (1, 2, 3, 5)))
    assert text.count("translated: DMA-FQ") == 1
    assert "gpu[001-003,005]" in text


def test_hosts_whose_findings_differ_in_addresses_alone_are_told_of_once() -> None:
    at = [
        judged(
            f"gpu{n}", acs__redirect=failed("2 redirect", expected="none", details=(f"{n}:00.0",))
        )
        for n in (1, 1, 2, 3)
    ]
    nodes = [replace(each, host=f"gpu{n}") for n, each in enumerate(at)]
    text = told(*nodes)
    assert text.count("2 redirect") == 1
    assert "gpu[0-3]" in text
    assert "so on gpu[0-1], and otherwise on the others (--verbose)" in text
    whole = "\n".join(findings(nodes, PLAIN, verbose=True))
    assert "3:00.0" in whole
    assert "otherwise" not in whole


def test_a_failure_shows_what_was_found_and_the_fix_and_verbose_what_was_expected() -> None:
    text = told(SICK)
    assert "slow     iommu.passthrough       gpu002: translated: DMA-FQ on 16\n" in text
    assert "fix       iommu=pt (x86)" in text
    whole = "\n".join(findings([SICK], PLAIN, verbose=True))
    assert "fail     iommu.passthrough       slow     gpu002\n" in whole
    assert "found     translated: DMA-FQ on 16" in whole
    assert "expected  identity on every GPU and HCA" in whole


def test_a_long_name_does_not_run_into_that_of_the_node() -> None:
    node = judged("gpu7", kernel__config__infiniband=failed("none", expected="some"))
    shown = (told(node), "\n".join(findings([node], PLAIN, verbose=True)))
    assert ["kernel.config.infiniband " in text for text in shown] == [True, True]


def test_one_nodes_verdict_tells_of_no_others() -> None:
    node = judged("gpu7", iommu__passthrough=SLOW)
    [ill] = node.having(Status.FAIL)
    assert "others" not in verdict_text("gpu7", ill)
    assert verdict_text("gpu7", ill) in "\n".join(findings([node], PLAIN, verbose=True))


def test_the_hint_of_the_finding_goes_before_the_general_fix() -> None:
    text = told(judged("a", acs__redirect=failed("x", expected="y", hint="do just this")))
    assert "fix       do just this" in text


def test_a_repair_can_be_copied_as_it_stands() -> None:
    ill = failed("x", expected="y", hint="reload --hosts NODE, then on NODE: modprobe z")
    near = [judged(f"gpu{at}", acs__redirect=ill) for at in (1, 2)]
    assert "fix       reload --hosts gpu[1-2], then on gpu[1-2]: modprobe z" in told(*near)
    far = [judged(f"a-very-long-name-of-a-node-{at}x{at * 7}", acs__redirect=ill) for at in (1, 2)]
    assert "fix       reload --hosts NODE, then on NODE: modprobe z" in told(*far)
    [text] = [replace(each, text=True) for each in near[:1]]
    assert "reload --hosts NODE, then on NODE: modprobe z; NODE is the" in told(text)


def test_passes_are_counted_not_listed() -> None:
    text = told(HEALTHY)
    assert "kernel.version" not in text
    assert "1 of 1 node is ready for GPUDirect RDMA." in text


def test_what_was_asked_for_is_told_even_where_it_passes() -> None:
    lines = findings([HEALTHY], PLAIN, asked=("kernel.version",))
    assert [line.split()[:2] for line in lines if line[:1] > " "] == [["pass", "kernel.version"]]


def test_an_unknown_is_never_ready() -> None:
    text = told(HEALTHY, UNSURE)
    assert "unknown  pcie.bar1" in text
    assert "1 of 2 nodes are ready" in text


def test_a_node_without_gpus_is_neither_ready_nor_ill() -> None:
    text = told(HEALTHY, BARE)
    assert "1 of 2 nodes are ready for GPUDirect RDMA. 1 without GPUs." in text


ROOT = unknown("run as root: /proc/1/limits: permission denied", gap=Gap.ROOT)
MORE_ROOT = unknown("run as root: dmesg: permission denied", gap=Gap.ROOT)
NOT_HERE = unknown("cpu: not part of this evidence", gap=Gap.NOT_COLLECTED)


def test_what_only_root_may_read_is_one_paragraph_for_all_checks_and_hosts() -> None:
    nodes = [judged(f"gpu{at}", acs__redirect=ROOT, rdma__memlock=MORE_ROOT) for at in (1, 2)]
    assert findings(nodes, PLAIN) == [
        "unknown  2 checks                         gpu[1-2]",
        "         found     run as root: acs.redirect, rdma.memlock",
        "         next      log in as root, or become root by sudo (--become)",
        "",
    ]


def test_what_the_evidence_lacks_is_one_paragraph_without_names() -> None:
    partial = judged("gpu1", acs__redirect=NOT_HERE, rdma__memlock=NOT_HERE, pcie__bar1=ROOT)
    assert findings([partial], PLAIN) == [
        "unknown  1 check                          gpu1",
        "         found     run as root: pcie.bar1",
        "         next      log in as root, or become root by sudo (--become)",
        "",
        "unknown  2 checks                         gpu1",
        "         found     not judged: what they rest on is not part of this evidence (--verbose)",
        "",
    ]


def test_a_role_that_nobody_told_is_shown_as_assumed() -> None:
    partial = replace(
        judged("gpu1", acs__redirect=NOT_HERE), about=(("role", "bare-metal, assumed"),)
    )
    assert "taken as bare metal; --site says otherwise (role)" in told(partial)
    known = replace(partial, about=(("role", "bare-metal"),))
    assert "taken as" not in told(known)


def test_hosts_that_lack_different_things_are_told_apart() -> None:
    text = told(judged("gpu1", acs__redirect=ROOT), judged("gpu2", rdma__memlock=ROOT))
    assert "found     run as root: acs.redirect" in text
    assert "found     run as root: rdma.memlock" in text


def test_verbose_unfolds_what_was_folded() -> None:
    nodes = [judged("gpu1", acs__redirect=ROOT, rdma__memlock=NOT_HERE)]
    text = "\n".join(findings(nodes, PLAIN, verbose=True))
    assert "unknown  acs.redirect" in text
    assert "unknown  rdma.memlock" in text
    assert "1 check " not in text


def test_what_is_folded_is_counted_as_unknown_and_never_ready() -> None:
    partial = judged("gpu1", acs__redirect=NOT_HERE)
    assert partial.exit_code is ExitCode.UNKNOWN
    assert "0 of 1 node is ready" in told(partial)


def test_hosts_out_of_reach_are_folded_by_their_sentence() -> None:
    outcomes: list[Outcome[Judged]] = [
        Outcome(name, error=TransportError(f"{name}: refused", hint="is sshd up?"))
        for name in ("gpu1", "gpu2")
    ]
    text = report(outcomes, PLAIN)
    assert "error    gpu[1-2]" in text
    assert text.count("found     refused") == 1
    assert "next      is sshd up?" in text
    assert "0 of 2 nodes are ready" in text


def test_a_waived_failure_is_shown_as_waived_until_its_day() -> None:
    waiver = Waiver("iommu.passthrough", "bought that way", date(2026, 12, 1))
    waived = verdict("iommu.passthrough", SLOW, waiver)
    before = Judged("a", (waived,), date(2026, 12, 1))
    after = Judged("a", (waived,), date(2026, 12, 2))
    assert "waived   iommu.passthrough" in told(before)
    assert "until 2026-12-01: bought that way" in told(before)
    assert before.exit_code is ExitCode.OK
    assert "slow     iommu.passthrough" in told(after)
    assert after.exit_code is ExitCode.FAILED


def test_control_characters_of_a_node_do_not_reach_the_terminal() -> None:
    hostile = failed("\x1b]0;owned\x07\x1b[2J", expected="x", details=("a\rb",))
    text = told(judged("a", acs__redirect=hostile))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\x07" not in text


def test_no_line_is_wider_than_a_hundred_columns() -> None:
    long = failed("word " * 60, expected="other " * 40, details=("detail " * 30,))
    assert max(map(len, told(judged("a", acs__redirect=long)).split("\n"))) <= 100


def test_a_long_list_of_details_is_cut_and_says_so() -> None:
    many = failed("x", expected="y", details=tuple(f"0000:{at:02x}:00.0" for at in range(20)))
    text = told(judged("a", acs__redirect=many))
    assert "and 16 more (--verbose)" in text


def test_an_error_is_two_lines() -> None:
    error = HostKeyError("gpu07: the host key is not known", hint="ssh-keyscan gpu07")
    assert error_lines(error, PLAIN) == (
        "error: gpu07: the host key is not known\n next: ssh-keyscan gpu07"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        pytest.param(Terminal(), {}, True, id="terminal"),
        pytest.param(io.StringIO(), {}, False, id="pipe"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Terminal(), {"NO_COLOR": ""}, True, id="empty-NO_COLOR-does-not-count"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, id="dumb-terminal"),
    ],
)
def test_colour_only_where_it_is_wanted(
    stream: io.StringIO,
    environment: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(stream) is coloured


def test_columns_line_up_and_leave_no_blanks_behind() -> None:
    assert columns([("a", "bb", "c"), ("aaa", "b", "")]) == ["a    bb  c", "aaa  b"]


@pytest.mark.parametrize("text", ["", " "])
def test_a_label_without_text_is_no_line(text: str) -> None:
    assert labelled("next", text) == []


def test_clean_keeps_letters_of_every_script() -> None:
    assert clean("größe 大\t\u2028") == "größe 大 \ufffd"


def test_the_worst_host_decides_the_exit_code() -> None:
    assert worst([ExitCode.OK, ExitCode.UNKNOWN, ExitCode.FAILED]) is ExitCode.FAILED
    assert worst([ExitCode.FAILED, ExitCode.UNREACHABLE]) is ExitCode.UNREACHABLE
    assert worst([ExitCode.PENDING, ExitCode.OK]) is ExitCode.PENDING
    assert worst([]) is ExitCode.OK


def test_evidence_that_was_cut_off_is_out_of_reach_not_healthy() -> None:
    cut = Judged("a", HEALTHY.verdicts, HEALTHY.today, complete=False)
    assert cut.exit_code is ExitCode.UNREACHABLE
    assert "0 of 1 node is ready" in told(cut)


def test_plain_progress_speaks_after_two_seconds_and_then_every_ten() -> None:
    stream, now = io.StringIO(), [0.0]
    lines = PlainProgress(stream, clock=lambda: now[0])
    lines.begin("reading", 3)
    for at, host in ((1.0, "a"), (2.5, "b"), (5.0, "c"), (13.0, "d")):
        now[0] = at
        lines.done(host)
    assert stream.getvalue().split("\n") == [
        "reading: 2 of 3 after 2 s; b: done",
        "reading: 4 of 3 after 13 s; d: done",
        "",
    ]


def test_one_nodes_verdict_names_no_others() -> None:
    text = verdict_text(
        "gpu01", verdict("pcie.link", failed("2", expected="0", details=("a", "b")))
    )
    assert "others" not in text
    assert "so on" not in text
    many = tuple(f"detail {number}" for number in range(30))
    text = verdict_text("gpu01", verdict("pcie.link", failed("2", expected="0", details=many)))
    assert all(f"{each}\n" in f"{text}\n" for each in many)
    assert "--verbose" not in text


def test_a_node_without_gpudirect_by_design_is_not_called_ready() -> None:
    one = judge_node("spark", evidence_of("spark"), Want(path=None), TODAY)
    assert (one.state, one.exit_code) == ("n/a", ExitCode.OK)
    assert count_line([Outcome("spark", one)]) == (
        "0 of 1 node is ready for GPUDirect RDMA. 1 without it, by design: "
        "CPU and GPU share one memory (GB10), and host buffers serve."
    )


def test_what_a_lost_gpu_keeps_nvidia_smi_from_telling_stands_below_that_gpu() -> None:
    one = judge_node("gpu-lost", evidence_of("gpu-lost"), Want(path=None), TODAY)
    text = report([Outcome("gpu-lost", one)], Painter(False), verbose=False)
    assert "13 checks follow: gpu.xid, gpu.reset, gpu.ecc," in text
    assert "ended with status" not in text
    assert "unknown  12 checks" not in text


def test_amd_s_gpus_are_told_as_out_of_scope_and_never_counted() -> None:
    board = BOARD
    for address in GPUS:
        board = board.but(address, ids=(0x1002, 0x74A1), klass=0x120000, driver="amdgpu")
    one = judge_node("mi300", node(board=board), Want(), TODAY)
    assert one.state == "no GPU"
    assert {each.status for each in one.verdicts} <= {Status.NA, Status.PASS}
    assert count_line([Outcome("mi300", one)]).endswith(
        "1 without GPUs. mi300: 2 AMD GPUs, out of scope."
    )
    beside = Fn("0000:e5:00.0", "pci0000:e0", (0x1002, 0x164E), 0x030000, "amdgpu")
    both = judge_node("desk", node(board=BOARD.plus(beside)), Want(), TODAY)
    assert "AMD" not in count_line([Outcome("desk", both)])


def test_the_demo_s_kinds_of_illness_are_told_on_less_than_a_screen() -> None:
    kinds = ("healthy", "kernel", "stub", "rocky")
    text = told(*(judge_node(each, capture(each), Want(path=None), TODAY) for each in kinds))
    assert "12 checks follow: kernel.pending_reboot," in text
    assert "at boot, besides: peermem.autoload on stub; peermem.rebuild on kernel,stub" in text
    # Of the demo itself it is the README that shows what a run prints: test_project_shown.py.
    shown = (CHECKOUT / "README.md").read_text().partition("$ ./invokew doctor --hosts demo\n")[2]
    assert 0 < len(shown.partition("\n```")[0].split("\n")) < 25


def test_of_many_files_that_were_not_understood_some_are_named_and_the_rest_counted() -> None:
    aside = [foreign(f"f{number}", "x") for number in range(10)]
    lines = foreign_lines(aside, Painter(False), verbose=False)
    assert [line.split()[-1] for line in lines if " file " in line] == [f"f{n}" for n in range(8)]
    assert lines[-2].strip() == "and 2 more (--verbose)"
    assert not any(
        "more" in line for line in foreign_lines(aside[:8], Painter(False), verbose=False)
    )
