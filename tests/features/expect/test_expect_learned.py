"""What is learned of two hundred nodes, and that doctor then fails those that differ."""

from __future__ import annotations

import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.board import BOARD, GPUS, Board
from tests.evidence.build import INFINIBAND, node
from tests.evidence.frames import TIMEOUT, Override
from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.checks.learned import Had, Learned, had, learn
from toolkit.demo.create import environment, make_node
from toolkit.demo.machine import Machine
from toolkit.demo.nodes import Recipe
from toolkit.errors import LoginError
from toolkit.evidence import Evidence
from toolkit.expect import ExpectKey, read_expect
from toolkit.facts.node.node import Node
from toolkit.features.expect.cli import had_of, text
from toolkit.groups import resolved
from toolkit.hosts.host import NOTHING
from toolkit.node.collect import probe_script
from toolkit.verbs.doctor import examine_saved
from toolkit.verbs.each import on_saved
from toolkit.want import Want

TODAY = date(2026, 11, 22)
DELL = Machine(pairs=4, nvswitches=0, vendor="Dell Inc.", product="PowerEdge XE8640")
# Two kinds are one machine with other cards in it; names tell nothing.
KINDS = {
    "sm": Recipe("healthy"),
    "four": Recipe("healthy", machine=DELL),
    "two": Recipe("healthy", machine=replace(DELL, pairs=2)),
}


def probed(folder: Path, kind: str) -> Evidence:
    place = folder / kind
    place.mkdir()
    make_node(place, KINDS[kind], kind)
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=probe_script().encode(),
        env=environment(place),
        capture_output=True,
        check=True,
    )
    return Evidence.parse(done.stdout.decode())


def changed(evidence: Evidence, key: str, *words: tuple[str, str]) -> Evidence:
    """With words of one frame replaced, the first time that each comes."""
    frame = evidence.frames[key]
    told = frame.text
    for old, new in words:
        assert old in told
        told = told.replace(old, new, 1)
    return Evidence({**evidence.frames, key: replace(frame, text=told)}, evidence.complete)


def without_gpu(evidence: Evidence) -> Evidence:
    """As after Xid 79 and a boot: neither the bus nor the driver knows of it."""
    gone = Node(evidence).pci.gpus[-1].address
    frames = dict(evidence.frames)
    for key in ("pci", "pci-links", "pci-resources"):
        kept = [line for line in frames[key].text.split("\n") if not line.startswith(gone)]
        frames[key] = replace(frames[key], text="\n".join(kept))
    rows = frames["nvidia-smi"].text.splitlines(keepends=True)
    kept = [row for row in rows if gone.upper() not in row.upper()]
    assert len(kept) == len(rows) - 1
    frames["nvidia-smi"] = replace(frames["nvidia-smi"], text="".join(kept))
    return Evidence(frames, evidence.complete)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    folder = tmp_path_factory.mktemp("kinds")
    kinds = {kind: probed(folder, kind) for kind in KINDS}
    order = [*("sm",) * 80, *("four",) * 60, *("two",) * 60]
    nodes = {f"node{n:03d}": kinds[kind] for n, kind in enumerate(order, start=1)}
    nodes["node017"] = without_gpu(nodes["node017"])
    rate = ("400 Gb/sec (4X NDR)", "200 Gb/sec (2X NDR)")
    nodes["node099"] = changed(nodes["node099"], "infiniband", rate)
    down = ("state:4: ACTIVE", "state:1: DOWN")
    nodes["node200"] = changed(nodes["node200"], "infiniband", down)
    return nodes


ODD = {"node017", "node099", "node200"}


@pytest.fixture(scope="module")
def kinds(fleet: dict[str, Evidence]) -> tuple[Learned, ...]:
    return learn([each.get() for each in on_saved(fleet.items(), had_of)])


def test_two_hundred_nodes_are_three_kinds_whatever_they_are_called(
    kinds: tuple[Learned, ...],
) -> None:
    told = {
        (len(each.hosts), each.about, each.expect[ExpectKey.GPUS], each.expect[ExpectKey.HCAS])
        for each in kinds
    }
    assert told == {
        (80, "Supermicro SYS-821GE-TNHR", 8, 8),
        (60, "Dell Inc. PowerEdge XE8640", 4, 4),
        (60, "Dell Inc. PowerEdge XE8640", 2, 2),
    }


def test_exactly_the_three_that_differ_are_named(kinds: tuple[Learned, ...]) -> None:
    named = {host: each.key for kind in kinds for each in kind.dissents for host in each.hosts}
    assert named.keys() == ODD
    assert named["node017"] is ExpectKey.GPUS
    assert named["node099"] is ExpectKey.RATE


def test_the_next_doctor_with_that_file_fails_exactly_those(
    fleet: dict[str, Evidence], kinds: tuple[Learned, ...], tmp_path: Path
) -> None:
    site = tmp_path / "expect.toml"
    site.write_text(text(kinds, ()))
    wants = resolved(Want.load("peermem", site=site), lambda: NOTHING, str(site))
    outcomes = [each.get() for each in examine_saved(fleet.items(), wants, TODAY)]
    assert {each.host for each in outcomes if each.having(Status.FAIL)} == ODD
    for each in outcomes:
        assert bool(failing(each)) == (each.host in ODD)
    assert failing(outcomes[16]) == {"expect.gpus"}


def failing(judged: Judged) -> set[str]:
    ids = {each.check.id for each in judged.having(Status.FAIL)}
    return {each for each in ids if each.startswith("expect.")}


def of(host: str, frames: dict[str, Override] | None = None, board: Board = BOARD) -> Had:
    return had(host, Node(node(frames, board=board)))


ONE_GPU = BOARD.without(GPUS[1])


def test_of_two_nodes_the_one_with_less_has_lost_it() -> None:
    (kind,) = learn([of("gpu1", board=ONE_GPU), of("gpu2")])
    assert kind.expect[ExpectKey.GPUS] == 2
    assert {host for each in kind.dissents for host in each.hosts} == {"gpu1"}


def test_a_node_that_lost_all_its_gpus_is_no_kind_of_its_own() -> None:
    bare = BOARD.without(*GPUS)
    kinds = learn([*(of(f"gpu{n}") for n in range(4)), of("gone", board=bare)])
    assert [each.hosts for each in kinds] == [("gpu0", "gpu1", "gpu2", "gpu3", "gone")]
    assert {each.hosts for each in kinds[0].dissents} == {("gone",)}


def test_few_that_lost_the_same_are_no_kind() -> None:
    """A bad batch of risers: two of nine nodes."""
    nodes = [of(f"gpu{n}", board=ONE_GPU if n < 2 else BOARD) for n in range(9)]
    (kind,) = learn(nodes)
    assert kind.expect[ExpectKey.GPUS] == 2
    assert {each.hosts for each in kind.dissents if each.key is ExpectKey.GPUS} == {
        ("gpu0", "gpu1")
    }


def test_nodes_without_gpus_are_a_kind_where_many_are_so() -> None:
    bare = BOARD.without(*GPUS)
    nodes = [*(of(f"gpu{n}") for n in range(3)), *(of(f"cpu{n}", board=bare) for n in range(3))]
    assert [each.expect[ExpectKey.GPUS] for each in learn(nodes)] == [2, 0]


def test_what_slurm_gives_to_jobs_counts() -> None:
    """Where most nodes have lost one, the number that most have is the wrong one."""
    nodes = [of("gpu1", board=ONE_GPU), of("gpu2", board=ONE_GPU), of("gpu3")]
    (kind,) = learn(nodes, {"gpu1": 2, "gpu2": 2, "gpu3": 2})
    assert kind.expect[ExpectKey.GPUS] == 2
    assert [each.hosts for each in kind.dissents if each.key is ExpectKey.GPUS] == [
        ("gpu1", "gpu2")
    ]


def test_what_was_not_read_is_neither_alike_nor_different() -> None:
    nodes = [of("gpu1"), of("gpu2"), of("gpu3", {"infiniband": TIMEOUT})]
    (kind,) = learn(nodes)
    assert kind.expect[ExpectKey.RATE] == 400
    assert not kind.dissents
    assert dict(kind.unread)[ExpectKey.RATE] == ("gpu3",)


def test_a_value_that_most_do_not_share_is_not_expected() -> None:
    older = INFINIBAND.replace("28.43.2026", "28.39.1002")
    (kind,) = learn([of("gpu1"), of("gpu2", {"infiniband": older})])
    assert kind.expect[ExpectKey.FIRMWARE] is None
    assert dict(kind.open)[ExpectKey.FIRMWARE] == "28.43.2026 on 1, 28.39.1002 on 1 of 2 nodes"


def test_two_boards_have_a_firmware_each() -> None:
    lines = INFINIBAND.replace("mlx5_1/fw_ver:28.43.2026", "mlx5_1/fw_ver:32.43.1014")
    lines = lines.replace("mlx5_1/board_id:MT_0000000838", "mlx5_1/board_id:MT_0000000884")
    (kind,) = learn([of("gpu1", {"infiniband": lines})])
    own = tomllib.loads(text((kind,), ()))["group"][0]["expect"]
    assert own["firmware"] == {"MT_0000000838": "28.43.2026", "MT_0000000884": "32.43.1014"}
    assert read_expect(own) == kind.expect


def test_a_board_with_two_versions_has_no_firmware_that_a_file_could_name() -> None:
    lines = INFINIBAND.replace("mlx5_1/fw_ver:28.43.2026", "mlx5_1/fw_ver:28.39.1002")
    (kind,) = learn([of("gpu1", {"infiniband": lines})])
    assert kind.expect[ExpectKey.FIRMWARE] is None


@pytest.mark.parametrize(
    ("key", "frames", "value"),
    [
        (ExpectKey.RATE, {"infiniband": INFINIBAND.replace("400 Gb", "2.5 Gb")}, 2.5),
        (ExpectKey.LINK_LAYER, {}, "InfiniBand"),
        (
            ExpectKey.LINK_LAYER,
            {"infiniband": INFINIBAND.replace("layer:InfiniBand", "layer:Ethernet", 1)},
            None,
        ),
    ],
)
def test_one_value_is_one_that_all_of_a_node_have(
    key: ExpectKey, frames: dict[str, Override], value: object
) -> None:
    (kind,) = learn([of("gpu1", frames)])
    assert kind.expect[key] == value


def test_a_quarter_of_a_machine_s_nodes_are_a_kind_and_fewer_are_not() -> None:
    four = [of(f"gpu{n}", board=ONE_GPU if n < 2 else BOARD) for n in range(8)]
    assert [len(each.hosts) for each in learn(four)] == [6, 2]
    assert [len(each.hosts) for each in learn([*four, of("gpu8")])] == [9]


def test_who_tells_of_no_gpus_at_all_is_a_kind_like_any_other() -> None:
    (kind,) = learn([of("gpu1", {"pci": TIMEOUT}), of("gpu2", {"pci": TIMEOUT})])
    assert kind.expect[ExpectKey.GPUS] is None
    assert kind.hosts == ("gpu1", "gpu2")


def test_what_is_written_is_read_as_what_was_learned(kinds: tuple[Learned, ...]) -> None:
    groups = tomllib.loads(text(kinds, ()))["group"]
    assert [read_expect(each["expect"]) for each in groups] == [each.expect for each in kinds]


def test_hosts_that_gave_nothing_and_names_that_no_set_can_have_are_told() -> None:
    kinds = learn([of("gpu1"), of("what, ever")])
    lines = text(kinds, [("gpu2", LoginError("gpu2: refused"))]).split("\n")
    assert "# not read: gpu2: gpu2: refused" in lines
    assert "# no node set can name 'what, ever': left out" in lines
    assert 'hosts = "gpu1"' in lines
