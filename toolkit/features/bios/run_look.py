"""BIOS: read by its BMC, beside what is wanted and what is asked for; changes nothing.

A BMC may vanish for a while: it is logged in to while it answers, and again once it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.firmware.bios_wanted import wanted
from toolkit.checks.role import role as role_of
from toolkit.errors import ApplyError, BmcLogin, NoEvidence, Outcome, ToolkitError, UsageError
from toolkit.evidence import Evidence, State
from toolkit.facts.firmware.redfish_bmc import BmcMachine, Same, same_machine
from toolkit.facts.node.node import Node
from toolkit.features.bios.plan import BiosPlan, plan_bios
from toolkit.features.bios.plan_reading import BiosReading, lines_of
from toolkit.features.bios.plan_wishes import BiosRequest, BiosWish
from toolkit.hosts.host import Host
from toolkit.node.collect import collect
from toolkit.redfish.client import Bmc
from toolkit.redfish.registry import RegistryCache
from toolkit.rollout.runs import RunFolder
from toolkit.verbs.access import Fleet
from toolkit.verbs.each import on_hosts
from toolkit.want import Role, Want

T = TypeVar("T")


class LoginRefused(BmcLogin):
    """The password is not the BMC's any more; whoever waits for the BMC waits in vain."""


class BmcLine:
    """One host's BMC. As a block: whichever way it ends, its session is closed."""

    def __init__(self, host: Host, reach: Callable[[Host], Bmc]) -> None:
        self._host, self._reach = host, reach
        self._bmc: Bmc | None = None

    def __enter__(self) -> BmcLine:
        return self

    def __exit__(self, *_: object) -> None:
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


Reach = Callable[[Host], Bmc]  # not logged in yet; raises UsageError where a host has no BMC


class BiosQuery(Struct, frozen=True):
    """What the operator wants to know, and by what it is judged."""

    want: Want
    asked: BiosRequest | None = None  # None: nothing is to be planned
    back: Mapping[str, tuple[BiosWish, ...]] = field(default_factory=dict)  # by host, of an undo


def look_all(
    fleet: Fleet, reach: Reach, asking: BiosQuery, folder: RunFolder
) -> list[Outcome[BiosReading]]:
    """Read every BMC once, and plan; nothing is sent."""
    known = RegistryCache()  # of this run alone: what can be changed is said anew each time

    def work(host: Host) -> BiosReading:
        try:
            way = reach(host)
        except UsageError as why:  # among many, one without a BMC is not a slip of the whole
            raise NoEvidence(str(why), hint=why.hint) from why
        with way as bmc:
            evidence = Evidence({each.key: each for each in bmc.read(known)}, complete=True)
        folder.keep_evidence(host.name, evidence, "bmc")
        # A BIOS may have none; one that is there, and not read, makes half a plan a guess.
        registry = evidence.frame("bmc-bios-registry")
        plans = asking.asked is not None or asking.back
        if plans and registry.state not in {State.OK, State.ABSENT}:
            raise NoEvidence(
                f"{host.name}: the registry of its BIOS was not read ({registry.text.strip()})",
                hint="it tells what depends on what: nothing is planned without it; try again",
            )
        role, remarks = _beside(fleet, host, asking, Node(evidence).bmc_machine)
        return replace(judged(host.name, evidence, asking, role), remarks=remarks)

    return on_hosts(fleet, "reading BMCs", work)


def judged(host: str, evidence: Evidence, asking: BiosQuery, role: Role | None) -> BiosReading:
    """One BMC's evidence beside what is wanted and asked for.

    :raises NoEvidence, Unparsable: what nothing can do without was not read.
    """
    node = Node(evidence)
    wants = wanted(role, dict(asking.want.bios))
    wishes = asking.back.get(host, ())
    if not asking.back and asking.asked is not None:
        wishes = asking.asked.on(wants)
    plan = BiosPlan()
    if wishes:
        plan = plan_bios(node.bios, node.bios_settings, wishes, node.bmc_lockdown)
    return BiosReading(node.bmc, node.bios, lines_of(node.bios_settings, wants), plan, role)


def _beside(
    fleet: Fleet, host: Host, asking: BiosQuery, machine: BmcMachine
) -> tuple[Role | None, tuple[str, ...]]:
    """The role that was said, else that which the node shows; and whose BMC it is.

    The node is asked where its role was not said, and before anything is planned for it. One
    that does not answer may be down, and is no reason not to plan.

    :returns: the role, and remarks.
    """
    role, plans = asking.want.role, asking.asked is not None or bool(asking.back)
    if role is not None and not plans:
        return role, ()
    transport = fleet.connect(host)
    try:
        node = Node(collect(transport))
        found = role or role_of(node, asking.want)
        same, why = same_machine(node.dmi, machine)
    except ToolkitError as error:
        told = str(error).removeprefix(f"{host.name}: ")
        unknown = "" if role else "; its role is not known, so say --role"
        return role, (f"the node itself could not be asked ({told}){unknown}",)
    finally:
        transport.close()
    if same is Same.NO and plans:
        raise AnotherMachine(
            f"{host.name}: its BMC sits in another machine: {why}",
            hint="nothing was sent; mend the line in --bmc-map, or bmc= in the inventory",
        )
    return found, () if same is Same.YES else (f"whether this BMC is its: {why}",)


class AnotherMachine(ApplyError):
    """The BMC that was given is another machine's; nothing was sent."""
