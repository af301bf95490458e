"""Everything that can go wrong, as one tree.

    ToolkitError              70  a bug of ours, unless a subclass says better
    ├── UsageError            64  what was asked for makes no sense
    │   └── InventoryError        a host file or an inventory cannot be read
    ├── TransportError         4  whether a script ran to its end cannot be known
    │   ├── HostKeyError          the node's key is unknown, or is not the known one
    │   ├── LoginError            the node refuses our user, key or password
    │   ├── BecomeError           we are in, and may not become root
    │   ├── FloodError            the node says more than any node has to say
    │   └── BmcError              a BMC cannot be reached, or makes no sense
    │       ├── BmcCertificate        its certificate is not one that we trust
    │       ├── BmcLogin              it refuses the user or the password
    │       ├── BmcRefused            it answers, and refuses this one request
    │       └── BmcSilent             it did not answer in time
    ├── ApplyError             5  a bundle stopped on the node
    │   ├── StaleError            the node is not in the state the plan was made for
    │   └── LockedError           another run holds the node
    ├── Unsupported            6  no rule for this family, release or machine
    ├── NoEvidence             3  a source was not read, so nothing rests on it
    │   ├── CutOff                the evidence ends before it
    │   ├── NotCollected          it is whole, and this source is not part of it
    │   └── NeedsRoot             the source is there, and for root alone
    ├── Unparsable             3  a source has a shape that we do not know
    └── Unwritten              3  what was read or made could not be put on the disk here

Each is a sentence that says what is so, and a hint that says what to do about it.
Over many hosts an error is a value: see ``Outcome``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class ExitCode(IntEnum):
    """What the process ends with; 1 is Invoke's own and means nothing of ours."""

    OK = 0  # as wanted
    FAILED = 2  # a check fails
    UNKNOWN = 3  # only unknowns remain
    UNREACHABLE = 4  # hosts out of reach
    STOPPED = 5  # apply stopped
    UNSUPPORTED = 6
    PENDING = 7  # changes pending (--check)
    USAGE = 64
    BUG = 70
    INTERRUPTED = 130


# When hosts end differently, the run ends with the first of these that occurred.
WORST_FIRST = (
    ExitCode.BUG,
    ExitCode.INTERRUPTED,
    ExitCode.STOPPED,
    ExitCode.UNREACHABLE,
    ExitCode.USAGE,  # of one node: its journal has no run of that name
    ExitCode.UNSUPPORTED,
    ExitCode.FAILED,
    ExitCode.PENDING,
    ExitCode.UNKNOWN,  # where nothing else is
    ExitCode.OK,
)


def worst(codes: list[ExitCode]) -> ExitCode:
    """The exit code of a run whose hosts ended with ``codes``; OK for none."""
    return min(codes, key=WORST_FIRST.index, default=ExitCode.OK)


class ToolkitError(Exception):
    """What is so, in one sentence; what to do about it, in another."""

    exit_code = ExitCode.BUG
    usual = ""  # the hint of a kind whose errors all call for the same

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or self.usual

    def __reduce__(self) -> tuple[object, ...]:
        """As it is, for another process: not made again of other arguments."""
        return _made, (type(self), self.args), self.__dict__

    @property
    def own_hint(self) -> str:
        """What is to be done about this one, rather than about any of its kind."""
        return "" if self.hint == self.usual else self.hint


def _made(kind: type[ToolkitError], args: tuple[object, ...]) -> ToolkitError:
    made = kind.__new__(kind)
    made.args = args
    return made


class UsageError(ToolkitError):
    """What was asked for makes no sense; nothing was done."""

    exit_code = ExitCode.USAGE


class InventoryError(UsageError):
    """A host file or an inventory cannot be read; nothing was done."""


class TransportError(ToolkitError):
    """It cannot be known whether the script ran to its end."""

    exit_code = ExitCode.UNREACHABLE


@dataclass(frozen=True, slots=True)
class NewKey:
    """A host key that nobody has known before, as it would be written down."""

    file: str  # of known hosts
    name: str  # "[gpu7]:2222"
    kind: str  # "ssh-ed25519"
    blob: bytes  # as it goes over the wire
    host: str  # whose it is, as we call it: of a jump host its own name


class HostKeyError(TransportError):
    """The node's host key is unknown, or differs from the known one; nothing was sent."""

    key: NewKey | None = None  # where no key of the node was known before


class LoginError(TransportError):
    """The node refuses the user, the key or the password; nothing was run."""


class BecomeError(TransportError):
    """Logged in, but not allowed to become root; nothing was run as root."""


class FloodError(TransportError):
    """The node says more than any node has to say; it was not listened to any further."""


class BmcError(TransportError):
    """A BMC cannot be reached, or what it answers makes no sense."""


class BmcCertificate(BmcError):
    """The BMC's certificate is not one that we trust; nothing was sent."""


class BmcLogin(BmcError):
    """The BMC refuses the user or the password; it is not tried again, for it counts."""


class BmcRefused(BmcError):
    """The BMC understood a request and refused it; what it said is in the sentence."""

    def __init__(self, message: str, status: int = 0, *, codes: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint="what the BMC says goes before what we expect of it")
        self.status = status  # of HTTP
        self.codes = codes  # message ids without their versions: "PropertyNotWritable"


class BmcSilent(BmcError):
    """The BMC did not answer in time; what it did with the request is not known."""


class ApplyError(ToolkitError):
    """One step of a bundle failed; what came before it stands, what came after was not begun."""

    exit_code = ExitCode.STOPPED


class StaleError(ApplyError):
    """The node is not in the state that the plan was made for; nothing was touched."""


class LockedError(ApplyError):
    """Another run holds the node's lock; nothing was touched."""


class Unsupported(ToolkitError):
    """No rule for this family, release or machine; nothing was touched."""

    exit_code = ExitCode.UNSUPPORTED


class NoEvidence(ToolkitError):
    """A source was absent, refused, cut off or timed out: nothing can rest on it."""

    exit_code = ExitCode.UNKNOWN
    usual = "read that source on the node itself; then ask again, as root"


class CutOff(NoEvidence):
    """The evidence was cut off before this source."""


class NotCollected(NoEvidence):
    """The evidence is whole without it: an older probe wrote it, or it was put together by hand."""


class NeedsRoot(NoEvidence):
    """The source is there, and only root may read it."""

    usual = "ask again as root: log in as root, or add --become"


class Unwritten(ToolkitError):
    """What was read or made could not be put on the disk here; nodes were only looked at."""

    exit_code = ExitCode.UNKNOWN

    def __init__(self, path: object, why: OSError) -> None:
        super().__init__(
            f"{path}: cannot be written: {why.strerror or why}",
            hint="make room, or name a place that can be written",
        )


class Unparsable(ToolkitError):
    """A source has a shape that we do not know; it is refused, not guessed at."""

    exit_code = ExitCode.UNKNOWN

    def __init__(self, source: str, line: str, number: int = 0) -> None:
        where = f"cannot read line {number}" if number else "cannot read"
        super().__init__(
            f"{source}: {where}: {line[:120]!r}",
            hint="attach the evidence to a bug report; a new shape is one row in a table",
        )


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What came of one host: a value, or the error that stood in its way."""

    host: str  # the host's name, as the operator wrote it
    value: T | None = None
    error: ToolkitError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None

    def get(self) -> T:
        """The value.

        :raises ToolkitError: the error, where there is one instead.
        """
        if self.error is not None:
            raise self.error
        assert self.value is not None  # an Outcome without error always carries a value
        return self.value

    def map(self, make: Callable[[T], U]) -> Outcome[U]:
        """The same of what is made of the value; an error stays as it is."""
        value = None if self.value is None else make(self.value)
        return Outcome(self.host, value, self.error)


def read_or(read: Callable[[], T], otherwise: U) -> T | U:
    """What ``read`` makes of evidence; ``otherwise`` where it is not there, or not understood.

    For what a sentence may lack. A verdict that rests on it lets the error pass.
    """
    try:
        return read()
    except (NoEvidence, Unparsable):
        return otherwise


def unless_cut(read: Callable[[], T], otherwise: U) -> T | U:
    """The same, but what evidence that was cut off could not tell any more is left open.

    :raises CutOff: there.
    """
    try:
        return read()
    except CutOff:
        raise
    except (NoEvidence, Unparsable):
        return otherwise


class Ended(Protocol):
    """What came of one host, with an exit code of its own."""

    @property
    def exit_code(self) -> ExitCode: ...


E = TypeVar("E", bound=Ended)


def code_of(outcome: Outcome[E]) -> ExitCode:
    """The error's, where there is one; else that of what came of the host."""
    return outcome.error.exit_code if outcome.error else outcome.get().exit_code
