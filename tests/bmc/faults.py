"""What goes wrong on the way to an answer, once or several times."""

from __future__ import annotations

import threading
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from tests.bmc.asked import Asked


class Kind(StrEnum):
    BUSY = "busy"  # 503, with Retry-After where retry_after_s is not negative
    STATUS = "status"  # ``code``, and nothing of use beside it
    HTML = "html"  # a login page with status 200
    GARBAGE = "garbage"  # 200, said to be JSON, and none
    LIST = "list"  # 200 and JSON, and no object
    HUGE = "huge"  # 200 and JSON without an end in sight
    REDIRECT = "redirect"  # 302 to ``location``
    DROP = "drop"  # the connection is cut, and nothing was done
    DROP_AFTER = "drop-after"  # it was done, and then the connection is cut
    CUT = "cut"  # done; half of the answer, then the connection is cut
    HANG = "hang"  # nothing is done and nothing said, until the BMC is closed
    SLOW = "slow"  # done; the answer comes in ten parts over ``slow_s``


class Fault(Struct, frozen=True):
    """Lets requests of ``method`` whose path holds ``path`` go wrong, ``times`` times."""

    kind: Kind
    method: str = ""  # "" for any
    path: str = ""
    times: int = 1
    retry_after_s: int = 1
    code: int = 500
    location: str = ""
    slow_s: float = 1.0

    def meets(self, asked: Asked) -> bool:
        return self.method in {"", asked.method} and self.path in asked.path


class Faults:
    """Those still to come; the first that meets a request is taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._coming: list[Fault] = []

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._coming.append(fault)

    def take(self, asked: Asked) -> Fault | None:
        with self._lock:
            for place, fault in enumerate(self._coming):
                if fault.meets(asked):
                    left = [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
                    self._coming[place : place + 1] = left
                    return fault
        return None

    def clear(self) -> None:
        with self._lock:
            self._coming.clear()
