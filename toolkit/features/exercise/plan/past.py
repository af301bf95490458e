"""A test of an earlier run of ``exercise``, from the document that the run kept. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolkit.facts.rdma.exercise import Test
from toolkit.features.exercise.plan.proof import Proof
from toolkit.throughput.estimate import Unit


@dataclass(frozen=True, slots=True)
class Part:
    """One end of a test, as far as it tells whether two tests are the same."""

    role: str  # "serve"
    host: str
    hca: str
    port: str
    buffer: str  # "GPU memory, by dma-buf"
    gpu: str  # "0000:18:00.0"; "" for host memory


@dataclass(frozen=True, slots=True)
class Same:
    """By what a test is known again: its tool and its ends, whatever its number."""

    tool: str
    kind: str
    size: int  # bytes of a message
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Earlier:
    """One test of an earlier run."""

    run: str  # the folder's name
    when: str  # "2026-11-20T09:00:00+00:00"
    same: Same  # what must be equal for two tests to be the same
    gpu: bool  # data of a GPU was moved at either end
    value: float
    unit: str
    status: str
    simulated: bool = False  # nothing was moved
    fell_back: bool = False  # what was to be tested was not what happened

    @property
    def title(self) -> str:
        """ "ib_write_bw, GPU, deep queue (simulated)"."""
        told = f"{self.same.tool}, {'GPU' if self.gpu else 'host'}, {self.same.kind}"
        return told + " (simulated)" * self.simulated


def same(test: Test) -> Same:
    parts = tuple(
        Part(role.value, end.host, end.hca, str(end.port), end.buffer.value, end.gpu)
        for role, end in test.ends
    )
    return Same(test.tool, test.kind.value, test.size, parts)


def parse_kept(run: str, told: dict[str, Any]) -> Iterator[Earlier]:
    """Tests that came to a figure.

    :param run: the name of the folder that kept it.
    :param told: Any, as it may be of another version.
    :raises KeyError, TypeError, ValueError, AttributeError: where it is.
    """
    for each in told["results"]:
        if each["value"] is None:
            continue
        parts = tuple(
            Part(role, *(str(end[name]) for name in ("host", "hca", "port", "buffer", "gpu")))
            for role, end in each["ends"].items()
        )
        yield Earlier(
            run=run,
            when=str(told["time"]),
            same=Same(str(each["tool"]), str(each["kind"]), int(each["size"]), parts),
            gpu=bool(each["gpu"]),
            value=float(each["value"]),
            unit=Unit(each["unit"]).value,  # of another version: no figure that can be told
            status=str(each["status"]),
            simulated=bool(told.get("simulated")),
            fell_back=any(point["proof"] == Proof.REFUTED for point in each.get("points", ())),
        )
