"""A BMC of our own on loopback: real TLS, and a state that outlives its requests.

    with Simulator(dell(), authority) as bmc:
        requests.get(f"{bmc.url}/redfish/v1", verify=bmc.ca)

``python -m tests.bmc.simulator dell hpe`` serves some for trying by hand.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from tests.bmc.asked import Log
from tests.bmc.faults import Fault, Faults, Kind
from tests.bmc.machine import Machine
from tests.bmc.persona import Persona
from tests.bmc.personas import PERSONAS
from tests.bmc.service import Service
from tests.bmc.sessions import PASSWORD, USER
from tests.bmc.tls import Authority, Certificate
from tests.bmc.wire import Wire


class Simulator:
    """One BMC that listens from the moment it is made until it is closed.

    ``bmc.log``       every request: ``bmc.log.writes``, ``bmc.log.of("PATCH")``
    ``bmc.machine``   what is behind it: ``active``, ``pending``, ``power``, ``boots``, ``jobs``
    ``bmc.fails(..)`` lets requests to come go wrong
    ``bmc.manners``   how it behaves, see ``persona.Manners``
    """

    user, password = USER, PASSWORD

    def __init__(
        self,
        persona: Persona,
        authority: Authority,
        *,
        certificate: Certificate = Certificate.GOOD,
        tls: bool = True,
        system: Mapping[str, Any] | None = None,
        **manners: Any,
    ) -> None:
        """
        :param tls: False for one that speaks plain HTTP on its port.
        :param system: what its system tells otherwise, as {"SerialNumber": "..."}.
        :param manners: fields of ``Manners`` that shall differ from the persona's.
        """
        self.persona = persona
        persona.tree[persona.system] |= system or {}
        self.manners = replace(persona.manners, **manners)
        shown = authority.shown[certificate]
        self.ca, self.fingerprint = authority.ca, shown.fingerprint
        self.log, self._faults = Log(), Faults()
        self._service = Service(replace(persona, manners=self.manners), self.manners)
        context = shown.context() if tls else None
        self._wire = Wire(self._service, self.log, self._faults, context)
        self._thread = threading.Thread(target=self._wire.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``, as an inventory's ``bmc``."""
        return f"127.0.0.1:{self._wire.server_port}"

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    @property
    def machine(self) -> Machine:
        """The machine as it is now; a boot whose time has come has ended."""
        with self._service.lock:
            self._service.machine.settle()
            return self._service.machine

    @property
    def sessions(self) -> int:
        """How many are open; 0 is what every client must leave behind."""
        return len(self._service.sessions.open)

    @property
    def logins(self) -> int:
        """How many sessions were opened since the beginning."""
        return self._service.sessions.opened

    def expire(self) -> None:
        """Let every session be over, as after a long pause."""
        with self._service.lock:
            self._service.sessions.open.clear()

    def fails(self, kind: Kind, method: str = "", path: str = "", **how: Any) -> None:
        """Let the next request of ``method`` whose path holds ``path`` go wrong; see Fault."""
        self._faults.add(Fault(kind, method, path, **how))

    def heals(self) -> None:
        """Forget the faults that are still to come."""
        self._faults.clear()

    def close(self) -> None:
        """Stop.

        :raises AssertionError: where the simulator itself has stumbled.
        """
        self._wire.end()
        self._thread.join()
        assert not self._wire.surprises, self._wire.surprises

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def made(name: str, authority: Authority, **settings: Any) -> Simulator:
    """A simulator of a persona by its name; ``settings`` as Simulator's."""
    return Simulator(PERSONAS[name](), authority, **settings)


def _serve(names: list[str], wait: Callable[[], object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.make(Path(folder))
        bmcs = [made(name, authority, post_s=5.0) for name in names or PERSONAS]
        print(f"user {USER}, password {PASSWORD!r}, authority {authority.ca}")
        for bmc in bmcs:
            print(f"{bmc.persona.name}: {bmc.url} sha256 {bmc.fingerprint}", flush=True)
        try:
            wait()
        except KeyboardInterrupt:
            print("done")
        finally:
            for bmc in bmcs:
                bmc.close()


if __name__ == "__main__":
    _serve(sys.argv[1:], threading.Event().wait)
