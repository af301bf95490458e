"""Two nodes before and after a test, without a node: evidence of demo nodes, words composed."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.exercise import Measured, Role, Test, frames_of, parse_exercise
from toolkit.features.exercise.plan import Exercise, ExerciseTerms, plan_exercise
from toolkit.features.exercise.plan_rails import ExerciseNode

CAPTURES = Path(__file__).parents[2] / "evidence"
SAID = CAPTURES / "perftest"
TOOLS = "ib_write_bw /x\nib_read_bw /x\nib_send_lat /x\n"
GPUS = "00000000:18:00.0, GPU-near\n00000000:9A:00.0, GPU-far\n"


def captured(name: str) -> Evidence:
    return Evidence.parse((CAPTURES / f"{name}.txt").read_text())


def frame(name: str, text: str) -> Frame:
    return Frame(name, State.OK, name, text)


def look(tools: str = TOOLS, gpus: str = GPUS, address: str = "10.0.0.1/24") -> Evidence:
    told = {
        "exercise-tools": tools,
        "exercise-gpus": gpus,
        "exercise-addresses": f"2: eno1    inet {address} brd 10.0.0.255 scope global eno1\n",
    }
    return Evidence({name: frame(name, text) for name, text in told.items()}, True)


def view(name: str, evidence: Evidence | None = None, seen: Evidence | None = None) -> ExerciseNode:
    last = name[-1] if name[-1].isdecimal() else "9"
    return ExerciseNode(
        name, Node(evidence or captured("healthy")), seen or look(address=f"10.0.0.{last}/24")
    )


def planned(one: ExerciseNode, other: ExerciseNode, terms: ExerciseTerms | None = None) -> Exercise:
    return plan_exercise(one, other, terms or ExerciseTerms())


def table(test: Test, megabytes: float, *, cuda: str = "18:00", memory: str = "DMA-BUF") -> str:
    """What perftest would print of a bandwidth; MB/s of 2^20 bytes."""
    head = (SAID / "25.01.write_bw.txt").exists() and (SAID / "25.01.shallow.txt").read_text()
    text = str(head)
    text = text.replace("Gb/sec", "MiB/sec").replace("rxe0", test.drive.hca)
    row = f" {test.size}     1000             0.00               {megabytes}   \t\t     0.000421\n"
    lines = [row if each.startswith(" 131072") else f"{each}\n" for each in text.split("\n")]
    gpu = f"CUDA device 0: PCIe address is {cuda}\n\nPicking device No. 0\n"
    gpu += "using DMA-BUF for GPU buffer address at 0x7f\n" if memory == "DMA-BUF" else ""
    gpu += "allocated GPU buffer of a 1 address at 0x1 for type CUDA_MEM_DEVICE\n"
    own = test.drive.buffer.gpu and memory != "host"
    return (gpu if own else "") + "".join(lines)


def counters(test: Test, device: str, sent: int, received: int, errors: int = 0) -> Frame:
    lead = f"{device}/ports/{test.drive.port}/counters"
    text = (
        f"{lead}/port_xmit_data:{sent // 4}\n{lead}/port_rcv_data:{received // 4}\n"
        f"{lead}/symbol_error:{errors}\n"
    )
    return frame("", text)


def end_frames(
    test: Test, role: Role, text: str, *, device: str = "", errors: int = 0, state: State = State.OK
) -> tuple[Frame, ...]:
    """What one end's evidence has: the port that was asked for moved the bytes.

    :param device: of the port that did, where it is another.
    """
    moved = test.size * 1000
    sends = (role is Role.DRIVE) == (test.tool != "ib_read_bw")
    own = dict(test.ends)[role].hca
    both = (moved, 0) if sends else (0, moved)
    after = counters(test, device or own, *both, errors).text
    before = counters(test, device or own, 0, 0).text
    if device:
        idle = counters(test, own, 0, 0).text
        before, after = before + idle, after + idle
    found = (
        Frame("run", state, test.tool, text, 1 if state is State.FAILED else 0),
        frame("boot-id-run", f"{dict(test.ends)[role].host}\n"),
        frame("counters-before", before),
        frame("counters-after", after),
    )
    return frames_of(test, role, found)


def measured(test: Test, text: str, **serve: str) -> Measured:
    """A test whose both ends said what they should.

    :param serve: what the end that listens said, where that matters.
    """
    hosts = {
        end.host: Evidence(
            {
                each.key: each
                for each in end_frames(
                    test, role, serve.get("serve", text) if role is Role.SERVE else text
                )
            },
            True,
        )
        for role, end in test.ends
    }
    [found] = parse_exercise(hosts)
    return found


def changed(found: Measured, role: Role, frames: tuple[Frame, ...]) -> Measured:
    """The same where one end has other frames."""
    host = dict(found.test.ends)[role].host
    [one] = parse_exercise({host: Evidence({each.key: each for each in frames}, True)})
    return replace(found, said={**found.said, **one.said})
