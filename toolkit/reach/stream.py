"""Output as it arrives: lines to the sink at once, every byte kept."""

from __future__ import annotations

from toolkit.errors import TransportError
from toolkit.reach import become, trouble
from toolkit.reach.transport import Result, Sink


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class Lines:
    """Collects stdout and hands each whole line on, split at newlines alone."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parts: list[bytes] = []
        self._open = b""  # the line that has not ended yet

    def feed(self, data: bytes) -> None:
        self._parts.append(data)
        *lines, self._open = (self._open + data).split(b"\n")
        for line in lines:
            self._sink(decode(line))

    def end(self) -> str:
        """The whole text; a last line without newline goes to the sink now."""
        if self._open:
            self._sink(decode(self._open))
            self._open = b""
        return decode(b"".join(self._parts))


def conclude(host: str, stdout: str, stderr: bytes) -> Result:
    """What a closed channel amounts to.

    :raises BecomeError: sudo did not let the script begin.
    :raises TransportError: the script's end was not seen, or its beginning.
    """
    told = become.read_marks(decode(stderr))
    if told.begun and told.status is not None:
        return Result(told.status, stdout, told.stderr)
    why: TransportError | None = become.refusal(host, told)
    if why is None and told.begun:
        why = trouble.cut(host, "the script ran")
    if why is None:
        said = [line.strip() for line in told.noise.split("\n") if line.strip()]
        if not said:
            why = trouble.cut(host, "the script was started")
        else:
            why = TransportError(
                f"{host}: its login shell did not start the script: {said[-1][:200]}",
                hint=f"the account needs a shell that runs commands; try: ssh {host} true",
            )
    raise why
