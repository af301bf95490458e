"""A test of bandwidth or latency: what was asked of both ends, and what each of them said.

It lies in the evidence of each host that was part of it, under keys such as
"exercise.3.drive.run"; what was asked lies beside it, so that it can be judged again elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import NoEvidence, Unparsable
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.rdma.hca_health import Moved, moved, parse_hca_counters

_KEY = "exercise."
_ASKED = "asked"


class Role(StrEnum):
    SERVE = "serve"  # listens
    DRIVE = "drive"  # connects, and reports
    ALONE = "alone"  # a tool that needs no other end


class Kind(StrEnum):
    DEEP = "deep queue"  # many messages in flight hide a longer path
    SHALLOW = "one in flight"  # what a library's pipeline is nearer to
    LATENCY = "latency"
    COLLECTIVE = "collective"


class Buffer(StrEnum):
    """Where the data lies at one end."""

    HOST = "host memory"
    PEERMEM = "GPU memory, by peermem"
    DMABUF = "GPU memory, by dma-buf"
    GPU = "GPU memory, as the library likes"

    @property
    def gpu(self) -> bool:
        return self is not Buffer.HOST


class End(Struct, frozen=True):
    """One end of a test."""

    host: str
    hca: str  # "mlx5_0"
    port: int = 1
    gid: int = -1  # index in the GID table; -1 on InfiniBand, which needs none
    buffer: Buffer = Buffer.HOST
    gpu: str = ""  # "0000:18:00.0"; "" for host memory
    uuid: str = ""  # by which CUDA is told of that GPU and of no other
    address: str = ""  # of the host, by which the other end finds it

    @property
    def said(self) -> str:
        """ "gpu01 mlx5_0, 0000:18:00.0"."""
        return f"{self.host} {self.hca}" + (f", {self.gpu}" if self.gpu else "")


class Test(Struct, frozen=True):
    """What is asked for; ``serve`` is None for a tool that runs alone."""

    number: int
    tool: str  # "ib_write_bw"
    kind: Kind
    size: int  # bytes of a message
    depth: int  # messages in flight
    seconds: int  # at most so long
    iterations: int  # 0 where the duration alone bounds it
    drive: End
    serve: End | None = None

    __test__ = False  # no test of ours, whatever pytest makes of its name

    @property
    def ends(self) -> tuple[tuple[Role, End], ...]:
        if self.serve is None:
            return ((Role.ALONE, self.drive),)
        return ((Role.SERVE, self.serve), (Role.DRIVE, self.drive))

    @property
    def gpu(self) -> bool:
        """Whether data of a GPU is moved at either end."""
        return any(end.buffer.gpu for _, end in self.ends)

    @property
    def looped(self) -> bool:
        """Whether both ends are one port of one host."""
        one = self.drive
        return self.serve is not None and (one.host, one.hca) == (self.serve.host, self.serve.hca)

    @property
    def within(self) -> bool:
        """Whether both ends are one host."""
        return self.serve is None or self.serve.host == self.drive.host

    @property
    def title(self) -> str:
        """ "ib_write_bw, GPU memory, deep queue"."""
        other = self.serve or self.drive
        memory = self.drive.buffer if self.drive.buffer.gpu else other.buffer
        return f"{self.tool}, {memory}, {self.kind}"


class Said(Struct, frozen=True):
    """What one end came to."""

    state: State
    trouble: str  # of the frame; "" where the tool ended well
    text: str  # all that it printed
    boot_id: str  # of the machine, so that one machine by two names is one machine
    ports: tuple[Moved, ...]  # what every port of that host did meanwhile
    uncounted: str = ""  # why the ports are not known


class Measured(Struct, frozen=True):
    """One test with what its ends said; an end whose evidence is not here is missing."""

    test: Test
    said: dict[Role, Said]


def key(test: Test, role: Role, part: str) -> str:
    return f"{_KEY}{test.number}.{role}.{part}"


def frames_of(test: Test, role: Role, found: Iterable[Frame]) -> tuple[Frame, ...]:
    """The frames of one end as they are kept, with what was asked."""
    asked = Frame(key(test, role, _ASKED), State.OK, "what was asked", asked_text(test))
    kept = (
        Frame(key(test, role, each.key), each.state, each.source, each.text, each.exit)
        for each in found
    )
    return (asked, *kept)


def asked_text(test: Test) -> str:
    """The test as lines of "name value"."""
    own = [f"{name} {getattr(test, name)}" for name in _OWN]
    ends = [
        f"{role}.{field} {getattr(end, field)}"
        for role, end in test.ends
        for field in End.__struct_fields__
    ]
    return "\n".join([*own, *ends, ""])


_OWN = ("number", "tool", "kind", "size", "depth", "seconds", "iterations")


def parse_asked(text: str) -> Test:
    """Read what ``asked_text`` wrote.

    :raises Unparsable: where something is missing, or is no number.
    """
    told = dict(line.partition(" ")[::2] for line in text.split("\n")[:-1])
    try:
        ends = {}
        for role in (each for each in Role if f"{each}.host" in told):
            host, hca, port, gid, buffer, *rest = (
                told[f"{role}.{e}"] for e in End.__struct_fields__
            )
            ends[role] = End(host, hca, int(port), int(gid), Buffer(buffer), *rest)
        number, tool, kind, *numbers = (told[name] for name in _OWN)
        size, depth, seconds, iterations = map(int, numbers)
        asked = (int(number), tool, Kind(kind), size, depth, seconds, iterations)
        return Test(*asked, ends.get(Role.DRIVE) or ends[Role.ALONE], ends.get(Role.SERVE))
    except (KeyError, ValueError) as why:
        raise Unparsable("what was asked of a test", str(why)) from why


def parse_exercise(evidence: dict[str, Evidence]) -> tuple[Measured, ...]:
    """Every test that the evidence of these hosts tells of, by number.

    :raises Unparsable: where what was asked makes no sense.
    """
    found: dict[int, Measured] = {}
    for one in evidence.values():
        for name, frame in one.frames.items():
            parts = name.split(".")
            if not name.startswith(_KEY) or parts[-1] != _ASKED or len(parts) != 4:
                continue
            test, role = parse_asked(frame.text), Role(parts[2])
            measured = found.setdefault(test.number, Measured(test, {}))
            measured.said[role] = _said(one, test, role)
    return tuple(found[number] for number in sorted(found))


def _said(evidence: Evidence, test: Test, role: Role) -> Said:
    try:
        run = evidence.frame(key(test, role, "run"))
    except NoEvidence:
        nothing = f"{dict(test.ends)[role].host}: nothing came back of it"
        return Said(State.TIMEOUT, nothing, "", "", (), nothing)
    ports: tuple[Moved, ...] = ()
    uncounted = ""
    try:
        looks = [
            parse_hca_counters(evidence.text(key(test, role, f"counters-{at}")))
            for at in ("before", "after")
        ]
        ports = moved(*looks)
    except (NoEvidence, Unparsable) as why:
        uncounted = str(why)
    try:
        boot = evidence.text(key(test, role, "boot-id-run")).strip()
    except NoEvidence:
        boot = ""
    return Said(run.state, run.trouble, run.text, boot, ports, uncounted)
