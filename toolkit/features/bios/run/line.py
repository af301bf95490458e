"""A BMC over a time in which it may vanish: logged in while it answers, and again once it does."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from toolkit.errors import BmcLogin
from toolkit.evidence import Evidence
from toolkit.hosts.host import Host
from toolkit.redfish.client import Bmc

T = TypeVar("T")


class LoginRefused(BmcLogin):
    """The password is not the BMC's any more; whoever waits for the BMC waits in vain."""


class Line:
    """One host's BMC. As a block: whichever way it ends, its session is closed."""

    def __init__(self, host: Host, reach: Callable[[Host], Bmc]) -> None:
        self._host, self._reach = host, reach
        self._bmc: Bmc | None = None

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.hang_up()

    def ask(self, work: Callable[[Bmc], T]) -> T:
        """Do ``work`` on the BMC.

        A BMC that does not answer keeps the session, so we keep it too: left behind, it would
        be one of the few that there are. One that has ended is begun anew the next time.

        :raises LoginRefused: not to be asked again: BMCs lock after a few.
        :raises BmcError: what ``work`` raised.
        """
        if self._bmc is None:
            bmc = self._reach(self._host)
            try:
                bmc.__enter__()
            except BmcLogin as why:
                raise LoginRefused(str(why), hint=why.hint) from why
            self._bmc = bmc
        try:
            return work(self._bmc)
        except BmcLogin:
            self.hang_up()
            raise

    def hang_up(self) -> None:
        """Log out; once is enough."""
        bmc, self._bmc = self._bmc, None
        if bmc is not None:
            bmc.leave()


def active(bmc: Bmc, before: Evidence) -> Evidence:
    """The values of now in the place of those of before; the registry is not read again."""
    return before.plus(bmc.active())
