"""A transport that answers the probe from saved evidence: no host, no network."""

from __future__ import annotations

from toolkit.errors import TransportError
from toolkit.evidence import Evidence
from toolkit.node.collect import probe_script
from toolkit.ssh.limits import Hearing
from toolkit.ssh.stream import Lines
from toolkit.ssh.transport import Result, Sink, quiet


class ReplayTransport:
    """Says what a node said when its evidence was saved, and can do nothing else."""

    def __init__(self, name: str, evidence: Evidence) -> None:
        self._name = name
        self._evidence = evidence

    @property
    def name(self) -> str:
        return self._name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        del limit_s  # saved evidence is never late
        if script != probe_script():
            raise TransportError(
                f"{self._name}: this is saved evidence, which can only be judged",
                hint="name a host to act on: --hosts",
            )
        data = self._evidence.dump().encode("utf-8", "surrogateescape")
        lines = Lines(sink, Hearing(self._name, len(data), lines=len(data)))
        lines.feed(data)
        return Result(0, lines.end(), "")

    def close(self) -> None:
        """There is nothing to let go of."""
