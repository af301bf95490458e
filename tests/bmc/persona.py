"""What a simulated BMC is: a tree of resources, and the manners of its maker."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

from msgspec import Struct

from tests.bmc.rules import Resource, entries


class Etag(StrEnum):
    """What becomes of a PATCH and its If-Match."""

    NONE = "none"  # no resource has an ETag
    OFFERED = "offered"  # one that does not match is refused with 412
    REQUIRED_428 = "required-428"  # a PATCH without one is refused, as AMI does
    REQUIRED_412 = "required-412"  # and here with the other number


class Pending(StrEnum):
    """What the pending resource shows."""

    CHANGES = "changes"  # only what is to change; Attributes is {} where nothing is
    FULL = "full"  # every attribute, with the value that it is to have
    BARE = "bare"  # as CHANGES, and without Attributes where nothing is to change


class Manners(Struct, frozen=True, kw_only=True):
    """How a BMC behaves; a test may set each of them: ``simulate("dell", post_s=1)``."""

    etag: Etag = Etag.OFFERED
    etag_header: bool = True  # else in the body alone
    pending: Pending = Pending.FULL
    apply_times: tuple[str, ...] = ()  # the annotation with others is refused
    resets: tuple[str, ...] = ("On", "ForceOff", "ForceRestart", "GracefulRestart")
    accepts: int = 200  # the status of a PATCH that is taken
    jobs: str = ""  # Dell: where jobs lie; nothing is applied but by a job
    job_fails: bool = False
    quiet_when_pending: bool = False  # Dell, newer: 200 without Location then, and no second job
    unlocks_together: bool = False  # read-only state is judged by the request's own values too
    live_registry: bool = False  # the registry served has ReadOnly as it is just now
    lockdown: bool = False
    outcome: bool = False  # @Redfish.Settings tells what came of the last change
    drops: tuple[str, ...] = ()  # attributes that a boot does not take over, in silence
    action_if_match: bool = True  # else an action with If-Match is answered by 412
    progress: bool = False  # the system tells BootProgress
    any_case: bool = False  # paths in any case
    session_service: bool = True  # else there is basic authentication alone
    basic: bool = True
    basic_sessions: bool = False  # each request with basic authentication takes a session
    session_timeout_s: float = 300.0
    session_limit: int = 8
    bad_logins: int = 5  # then every login is refused, also with the right password
    post_s: float = 0.05  # from a reset until the new values are in force
    vanishes: bool = False  # while the machine boots, connections are dropped
    deaf: bool = False  # a graceful reset is accepted, and the machine does not heed it
    latency_s: float = 0.0  # before each answer
    connections: int = 0  # more at a time are dropped; 0 for no limit


class Persona(Struct, frozen=True, dict=True):
    """One kind of BMC.

    :param tree: every resource by its path, as written in @odata.id, without a slash at its
        end. What lives (power, pending values, sessions, jobs) is laid over it when served.
    """

    name: str
    tree: dict[str, Resource]
    manners: Manners

    @cached_property
    def system(self) -> str:
        """The path of the first system that has a Bios."""
        return next(path for path, each in self.tree.items() if _is_system(each))

    @cached_property
    def bios(self) -> str:
        return self.find(self.tree[self.system]["Bios"]["@odata.id"])

    @cached_property
    def waiting(self) -> str:
        """The path of the pending resource, whether or not it is announced."""
        settings = self.tree[self.bios].get("@Redfish.Settings", {}).get("SettingsObject")
        if settings:
            return self.find(settings["@odata.id"])
        return next(
            path for path in (f"{self.bios}/SD", f"{self.bios}/Settings") if path in self.tree
        )

    @cached_property
    def registry(self) -> str:
        """The path of the attribute registry; "" where none is served."""
        return next((path for path, each in self.tree.items() if entries(each)), "")

    def find(self, path: str) -> str:
        """The path by which the tree has ``path``; itself where it has none.

        One vendor writes the same path in two ways and answers to both.
        """
        bare = path.partition("?")[0].rstrip("/") or "/"
        if bare in self.tree or not self.manners.any_case:
            return bare
        small = bare.casefold()
        return next((each for each in self.tree if each.casefold() == small), bare)


def _is_system(resource: Resource) -> bool:
    return "Bios" in resource and ".ComputerSystem" in resource.get("@odata.type", "")
