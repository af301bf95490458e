"""Output as it arrives: lines to the sink at once, every byte kept."""

from __future__ import annotations

from toolkit.errors import TransportError
from toolkit.ssh import become, transport_errors
from toolkit.ssh.limits import Hearing, Stream
from toolkit.ssh.transport import Result, Sink, Whole, quiet


def decode(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")


class Lines:
    """Collects stdout and hands each whole line on, split at newlines alone."""

    def __init__(self, sink: Sink, hearing: Hearing | None = None) -> None:
        self.hearing = hearing or Hearing("the node")
        self._sink = sink
        self._heard = Stream(self.hearing, "stdout")
        self.at_once = sink is quiet or isinstance(sink, Whole)  # nobody waits for a line
        self._told = 0  # bytes that the sink has had

    def feed(self, data: bytes) -> None:
        """:raises FloodError: the node says too much."""
        before = len(self._heard.data)
        self._heard.feed(data)
        if isinstance(self._sink, Whole):
            self._sink.heard = self._heard.data
        if self.at_once:
            return
        # Looked for in what is new alone: a line may be as long as all that a node may say.
        end = self._heard.data.rfind(b"\n", before)
        if end < 0:
            return
        for line in self._heard.data[self._told : end].split(b"\n"):
            self._sink(decode(line))
        self._told = end + 1

    def end(self) -> str:
        """The whole text; a last line without newline goes to the sink now."""
        if not self.at_once and self._told < len(self._heard.data):
            self._sink(decode(self._heard.data[self._told :]))
            self._told = len(self._heard.data)
        return decode(self._heard.data)


def conclude(host: str, stdout: str, stderr: bytes | bytearray) -> Result:
    """What a closed channel amounts to.

    :raises BecomeError: sudo did not let the script begin.
    :raises TransportError: the script's end was not seen, or its beginning.
    """
    told = become.read_marks(decode(stderr))
    if told.begun and told.status is not None:
        return Result(told.status, stdout, told.stderr)
    why: TransportError | None = become.refusal(host, told)
    if why is None and told.begun:
        why = transport_errors.cut(host, "the script ran")
    if why is None:
        said = [line.strip() for line in told.noise.split("\n") if line.strip()]
        if not said:
            why = transport_errors.cut(host, "the script was started")
        else:
            why = TransportError(
                f"{host}: its login shell did not start the script: {said[-1][:200]}",
                hint=f"the account needs a shell that runs commands; try: ssh {host} true",
            )
    raise why
