"""What holds for any machine and any accident: laws, tried on boards and cuts that are drawn.

``test_laws`` tries every cut of a few nodes; here the nodes are drawn as well.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, HCAS, PORTS, Board, Fn
from tests.evidence.boards import SPEEDS, WIDTHS, boards, unrelated
from tests.evidence.build import DRIVER, INFINIBAND, hca_lines, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override
from tests.evidence.machines.held import TODAY, rows, text_of
from tests.evidence.machines.held import evidence_of as machine_named
from tests.evidence.machines.losing import counters, devices, logged, without, without_port
from tests.laws import few, sample, tried
from toolkit.checks.all import ALL
from toolkit.checks.check import Finding, Impact, Status
from toolkit.checks.consumers.chosen import taken
from toolkit.checks.judged import Judged, judge_node
from toolkit.compat.gpus import XidAction, xid_rows
from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.expect import read_expect
from toolkit.facts.kinds import KINDS, named
from toolkit.facts.node.node import Node
from toolkit.facts.pci.topology import all_pairs, pair
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.want import PeerPath, Want

Told = tuple[Status, str, str]
LONG = True
UP = ("4: ACTIVE", "5: LinkUp")
# What one verdict may be worth: a machine that got worse must not climb.
RANK = {Status.FAIL: 0, Status.UNKNOWN: 1, Status.NA: 2, Status.PASS: 2}


def told(finding: Finding) -> Told:
    return finding.status, finding.found, finding.expected


def judge(evidence: Evidence, path: PeerPath = PeerPath.PEERMEM) -> dict[str, Told]:
    shared = Node(evidence)
    return {check.id: told(check(shared, Want(path=path)).finding) for check in ALL}


def machine(board: Board, frames: dict[str, Override] | None = None) -> Evidence:
    """The healthy node on another board, with an RDMA device for each HCA of it."""
    hcas = [each.address for each in board.functions if each.driver == "mlx5_core"]
    devices = "".join(hca_lines(f"mlx5_{at}", address, UP) for at, address in enumerate(hcas))
    return node({"infiniband": devices, **(frames or {})}, board=board)


LOST = st.dictionaries(
    st.sampled_from(sorted(node().frames)), st.sampled_from((ABSENT, DENIED, TIMEOUT)), max_size=4
)


@tried(60)
@given(boards(), LOST, st.data())
def test_a_cut_at_any_byte_leaves_each_verdict_as_it_is_or_unknown(
    board: Board, lost: dict[str, Override], data: st.DataObject
) -> None:
    text = machine(board, lost).dump().encode()
    whole = judge(Evidence.parse(text.decode()))
    cut = text[: data.draw(st.integers(0, len(text)), label="cut")]
    for check, verdict in judge(Evidence.parse(cut.decode("utf-8", "surrogateescape"))).items():
        assert verdict == whole[check] or verdict[0] is Status.UNKNOWN, check


@tried(40)
@given(boards(), LOST, st.randoms())
def test_the_order_of_frames_changes_no_verdict(
    board: Board, lost: dict[str, Override], chance: object
) -> None:
    evidence = machine(board, lost)
    frames = list(evidence.frames.items())
    chance.shuffle(frames)  # type: ignore[attr-defined] # hypothesis' Random, which has no name to import
    assert judge(Evidence(dict(frames), evidence.complete)) == judge(evidence)


@cache
def healthy_text() -> bytes:
    return node().dump().encode()


@tried(120)
@given(st.data(), st.binary(min_size=1, max_size=40))
def test_bytes_that_nobody_wrote_end_no_run(data: st.DataObject, odd: bytes) -> None:
    text = healthy_text()
    at = data.draw(st.integers(0, len(text)), label="at")
    over = data.draw(st.sampled_from((0, len(odd))), label="written over")
    damaged = text[:at] + odd + text[at + over :]
    begun = damaged.startswith(b"= begin ok gdr-toolkit/1\n")
    evidence = Evidence.parse(damaged.decode("utf-8", "surrogateescape")) if begun else Evidence()
    assert set(judge(evidence)) == {check.id for check in ALL}


@tried(25)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(text=st.binary(max_size=300))
def test_a_loose_file_of_any_content_ends_no_run(kind: object, text: bytes) -> None:
    named = next(each for each in KINDS if each is kind)
    try:
        frames = frames_of(text.decode("utf-8", "surrogateescape"), "file", named)
    except UsageError:
        return  # all of it stood behind prompts of commands that nobody knows
    verdicts = judge(evidence_of(frames))
    assert set(verdicts) == {check.id for check in ALL}


@tried(40)
@given(boards(), unrelated())
def test_a_device_that_has_no_part_in_it_changes_no_verdict(
    board: Board, more: tuple[Fn, ...]
) -> None:
    before, after = judge(machine(board)), judge(machine(board.plus(*more)))
    assert {check: each[0] for check, each in after.items()} == {
        check: each[0] for check, each in before.items()
    }


@tried(60)
@given(boards(), unrelated())
def test_a_device_that_has_no_part_in_it_changes_no_pair(
    board: Board, more: tuple[Fn, ...]
) -> None:
    alone, joined = (Node(machine(each)) for each in (board, board.plus(*more)))
    assert all_pairs(joined.pci, joined.hcas) == all_pairs(alone.pci, alone.hcas)


@tried(100)
@given(boards())
def test_a_distance_is_the_same_from_either_end(board: Board) -> None:
    tree = Node(machine(board)).pci
    ends = [f for f in tree.functions.values() if f.driver in {"nvidia", "mlx5_core"}]
    for one in ends:
        for other in ends:
            there, back = pair(tree, one, other), pair(tree, other, one)
            assert there.pcie is back.pcie, (one.address, other.address)
            assert there.distance is back.distance, (one.address, other.address)
            assert set(there.bridges) == set(back.bridges)


@tried(50)
@given(
    st.sampled_from((*GPUS, *HCAS, *PORTS)),
    st.sampled_from(SPEEDS),
    st.sampled_from(WIDTHS),
    st.sampled_from(SPEEDS),
    st.sampled_from(WIDTHS),
)
def test_a_slower_link_improves_no_verdict(
    address: str, speed: str, width: int, then_speed: str, then_width: int
) -> None:
    slower = (max(speed, then_speed, key=SPEEDS.index), min(width, then_width))
    first = judge(node(board=BOARD.but(address, now=(speed, width))))
    after = judge(node(board=BOARD.but(address, now=slower)))
    for check, (status, *_) in after.items():
        assert RANK[status] <= RANK[first[check][0]], (check, first[check], after[check])


@tried(40)
@given(boards(), st.data())
def test_a_slower_link_improves_no_verdict_on_any_board(board: Board, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(board.functions), label="at")
    slow = data.draw(st.sampled_from(SPEEDS)), data.draw(st.sampled_from(WIDTHS))
    first, after = judge(machine(board)), judge(machine(board.but(chosen.address, now=slow)))
    for check, (status, *_) in after.items():
        assert RANK[status] <= RANK[first[check][0]], (check, first[check], after[check])


def test_the_drawn_machines_are_like_the_composed_one() -> None:
    """Were the helper to forget the HCAs, the laws above would hold for nothing."""
    frames = machine(BOARD).frames["infiniband"].text
    assert frames.count("/device:") == INFINIBAND.count("/device:")
    assert len(Node(machine(BOARD)).hcas) == len(HCAS)


# The worst first. A node that is known to have no GPU is not the better for it.
GRAVITY = (*Impact, "unknown", "ready")
MACHINES = sorted({row.machine for row in rows() if row.state})
WHOLE = cache(machine_named)
AUTO = Want(path=None)


@cache
def state_of(machine: str) -> str:
    return gravity(judge_node(machine, WHOLE(machine), AUTO, TODAY))


def gravity(judged: Judged) -> str:
    return "ready" if judged.state in {"no GPU", "n/a"} else judged.state


def better(now: str, before: str) -> bool:
    return GRAVITY.index(now) > GRAVITY.index(before)


def less_is_no_better(before: Judged, less: Evidence, *names: str) -> None:
    """What was wrong with the very device goes with it; all else is as bad as it was."""
    now = judge_node("node", less, AUTO, TODAY)
    others = tuple(each for each in before.verdicts if not any(n in text_of(each) for n in names))
    if now.state != "no GPU" or before.state == "no GPU":
        assert not better(gravity(now), gravity(replace(before, verdicts=others))), names


@pytest.mark.parametrize("machine", few(MACHINES, 3, "a device less"))
def test_a_gpu_hca_or_port_less_makes_no_machine_better(machine: str) -> None:
    whole = WHOLE(machine)
    names, before = Node(whole).hca_names, judge_node("node", whole, AUTO, TODAY)
    for at in sample([at for each in devices(whole) for at in each], machine):
        less_is_no_better(before, without(whole, at), at, names.get(at, at))
    for at, name in sample(sorted(names.items()), machine):
        less_is_no_better(before, without_port(whole, name), at, name)


@tried(40)
@given(boards(), st.data())
def test_a_device_less_makes_no_board_better(board: Board, data: st.DataObject) -> None:
    ends = [each.address for each in board.functions if each.driver in {"nvidia", "mlx5_core"}]
    gone = data.draw(st.sampled_from(ends), label="gone")
    whole, less = (listed(each) for each in (board, board.without(gone)))
    before = judge_node("node", whole, AUTO, TODAY)
    less_is_no_better(before, less, gone, Node(whole).hca_names.get(gone, gone))


def listed(board: Board) -> Evidence:
    """A machine whose driver has the GPUs of the board; of other tools that count them, none."""
    gpus = [each.address.upper() for each in board.functions if each.driver == "nvidia"]
    rows = "".join(
        f"0000{at}, NVIDIA H100 80GB HBM3, {DRIVER}, 81559 MiB, Enabled\n" for at in gpus
    )
    tools = dict.fromkeys(("dcgm", "nvidia-topology", "nvidia-smi-q"), ABSENT)
    return machine(board, {"nvidia-smi": rows, **tools})


def troubles(gpu: str, hca: str) -> list[str]:
    """A line of each kind that the kernel logs of GPUs, NVSwitches and HCAs."""
    head, tails = f"NVRM: Xid (PCI:{gpu[:-2]})", ("Fatal, Link 02", "Nonfatal, Link 02", "pid=7")
    word = [f"{head}: {row.first}, {tail}" for row in xid_rows() for tail in tails
            if row.act is XidAction.WORD]  # fmt: skip
    mlx5 = (
        "Fatal error 1 detected", "Fatal error 3 detected", "device's health compromised",
        "Health issue observed, firmware internal error, severity(3) ERROR:",
        "synd 0x1: firmware internal error", "synd 0x10: High temperature",
        "CREATE_MKEY(0x200) timeout. Will cause a leak of a command resource", "Link down",
    )  # fmt: skip
    return [
        *(f"{head}: {row.first}, pid=7, name=python" for row in xid_rows()),
        *word,
        f"{head}: 999, nobody knows it",
        "NVRM: Xid (PCI:0000:",
        f"NVRM: GPU at PCI:{gpu}: GPU has fallen off the bus.",
        *(f"nvidia-nvswitch0: SXid (PCI:0000:d8:00.0): 20034{rest}"
          for rest in (", Fatal, Link 02", ", Non-fatal, Link 02", "")),
        *(f"mlx5_core {hca}: poll_health:827:(pid 0): {said}" for said in mlx5),
        f"pcieport 0000:15:01.0: AER: Uncorrected (Fatal) error received: {gpu}",
    ]  # fmt: skip


AER = ("correctable:TOTAL_ERR_COR", "nonfatal:TOTAL_ERR_NONFATAL", "fatal:TOTAL_ERR_FATAL")


@tried(200)
@given(st.sampled_from(MACHINES), st.data())
def test_a_line_of_trouble_makes_no_machine_better(machine: str, data: st.DataObject) -> None:
    whole = WHOLE(machine)
    gpus, hcas = devices(whole)
    gpu = data.draw(st.sampled_from(gpus or ("0000:18:00.0",)))
    hca = data.draw(st.sampled_from(hcas or ("0000:19:00.0",)))
    lines = st.lists(st.sampled_from(troubles(gpu, hca)), max_size=3)
    ill = logged(whole, *data.draw(lines))
    errors = st.tuples(st.sampled_from((gpu, hca)), st.sampled_from(AER), st.integers(1, 10**9))
    for at, kind, count in data.draw(st.lists(errors, max_size=1)):
        ill = counters(ill, f"{at}/aer_dev_{kind} {count}")
    assert not better(gravity(judge_node(machine, ill, AUTO, TODAY)), state_of(machine))


# They count what is there, or say that all of it is.
COUNTING = tuple(
    check for check in ALL
    if check.id in {"gpu.count", "hca.count", "nvidia.nvswitches", "nvidia.present", "dcgm.gdr"}
    or check.id in {"rdma.devices", "gpu.lost", "pcie.distance"} or check.id.startswith("expect.")
)  # fmt: skip


def counts(evidence: Evidence, want: Want) -> dict[str, Status]:
    node = Node(evidence)
    return {check.id: check(node, want).status for check in COUNTING}


@tried(150)
@given(st.sampled_from(MACHINES), st.integers(0, 2), st.data())
def test_a_text_cut_at_any_line_counts_nothing_that_was_not_all_there(
    machine: str, more: int, data: st.DataObject
) -> None:
    """Held to what is there, and to more; who expects less than there is may read just that."""
    whole = WHOLE(machine)
    gpus, hcas = (len(each) + more for each in devices(whole))
    switches = len(Node(whole).nvswitches) + more
    table = {"gpus": gpus, "hcas": hcas, "nvswitches": switches, "ports_up": hcas}
    want = taken(Node(whole), Want(path=None, expect=read_expect(table)))
    lines = whole.dump().splitlines(keepends=True)
    cut = Evidence.parse("".join(lines[: data.draw(st.integers(1, len(lines) - 1), label="cut")]))
    before = counts(whole, want)
    for check, status in counts(cut, want).items():
        assert status is not Status.PASS or before[check] is Status.PASS, check


LISTS = {
    "nvidia-smi.csv": "pci.bus_id, name, driver_version\n"
    + "".join(f"00000000:{bus:02X}:00.0, NVIDIA H100, 570.124.06\n" for bus in range(24, 32)),
    "nvidia-smi.txt": "| NVIDIA-SMI 580.65.06  Driver Version: 580.65.06  CUDA Version: 13.0 |\n"
    + "".join(
        f"|   {at}  NVIDIA H100 80GB HBM3     On  |   00000000:{at + 24:02X}:00.0 Off |      0 |\n"
        "| N/A   34C    P0      71W /  700W |       1MiB /  81559MiB |      0%      Default |\n"
        "|                                  |                        |             Disabled |\n"
        "+----------------------------------+------------------------+----------------------+\n"
        for at in range(8)
    )
    + "| Processes:                                                                        |\n",
    "nvidia-smi.xml": "<nvidia_smi_log>\n<driver_version>580.65.06</driver_version>\n"
    + "".join(
        f'<gpu id="00000000:{at + 24:02X}:00.0">\n<product_name>H100</product_name>\n</gpu>\n'
        for at in range(8)
    )
    + "</nvidia_smi_log>\n",
    "ibstat.txt": "".join(
        f"CA 'mlx5_{at}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n"
        "\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
        "\t\tLink layer: InfiniBand\n"
        for at in range(8)
    ),
    "lspci.txt": "".join(
        f"{bus:02x}:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
        f"{bus + 1:02x}:00.0 Infiniband controller: Mellanox Technologies MT2910 [ConnectX-7]\n"
        for bus in range(16, 32, 2)
    ),
}


@pytest.mark.parametrize("there", [8, 9])
@pytest.mark.parametrize("name", LISTS)
def test_a_loose_list_cut_at_any_line_counts_nothing_that_was_not_all_there(
    name: str, there: int
) -> None:
    want = Want(expect=read_expect(dict.fromkeys(("gpus", "hcas", "ports_up"), there)))
    whole = counts(evidence_of(frames_of(LISTS[name], name)), want)
    lines = LISTS[name].splitlines(keepends=True)
    for count in range(1, len(lines)):
        part = evidence_of(frames_of("".join(lines[:count]), name))
        for check, status in counts(part, want).items():
            assert status is not Status.PASS or whole[check] is Status.PASS, (check, count)


@pytest.mark.parametrize("name", ["nvidia-smi.txt", "nvidia-smi.xml"])
def test_a_form_that_tells_its_end_passes_nothing_when_it_is_cut(name: str) -> None:
    """Not even what is true of the GPUs that are left."""
    lines = LISTS[name].splitlines(keepends=True)
    whole = Node(evidence_of(frames_of(LISTS[name], name)))
    assert {check(whole, Want()).status for check in ALL} >= {Status.PASS}
    for count in range(1, len(lines)):
        part = Node(evidence_of(frames_of("".join(lines[:count]), name, named(KIND[name]))))
        assert Status.PASS not in {check(part, Want()).status for check in ALL}, count


KIND = {"nvidia-smi.txt": "nvidia-smi-table", "nvidia-smi.xml": "nvidia-smi-q"}
