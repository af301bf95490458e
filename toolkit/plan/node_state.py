"""All that a plan for one node rests on, and what has been decided of it so far.

Systems whose /usr belongs to an image: what is placed there, or made there, cannot stay.

Source: ostree(1), deployments; rpm-ostree(1), kargs and install; bootc, filesystem; SUSE,
transactional-update(8).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from msgspec import Struct, field

from toolkit.built.plan.model import Built
from toolkit.checks.check import Status, Tense, Verdict
from toolkit.errors import Unsupported, read_or
from toolkit.facts.boot.next_boot import Loader
from toolkit.facts.distros import Family
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Artefact
from toolkit.plan.change import Blocked, Change, Wanted
from toolkit.want import Want

OF_THE_IMAGE = ("/usr/", "/lib/", "/boot/{image}")
_WAYS = {
    Loader.OSTREE: "into the image: a layer by bootc or rpm-ostree (on OpenShift a MachineConfig "
    "with osImageURL), or drivers from containers (GPU and network operator)",
    Loader.TRANSACTIONAL: "transactional-update shell, and what is wanted there; in force after a "
    "reboot",
}


class Situation(Struct):
    """One node and all that was judged of it; and what has been decided so far."""

    node: Node
    want: Want
    verdicts: Mapping[str, Verdict]
    family: Family
    today: date | None
    builts: tuple[Built, ...] = ()  # what may be delivered to it
    changes: list[Change] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    mended: set[str] = field(default_factory=set)  # checks that the changes so far will mend
    kept: dict[str, Wanted] = field(default_factory=dict)  # what is wanted, by path
    unsure: set[str] = field(default_factory=set)  # artefacts that may be wanted
    idle: list[tuple[Artefact, str]] = field(default_factory=list)  # in place, calling for nothing

    def failing(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Those that count and fail, and whose failure the site does not live with."""
        return tuple(each for each in ids if self.fails(each) and self.want.checks.has(each))

    def unknown(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each for each in ids if self._open(each) and self.want.checks.has(each))

    def lacking(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Those that fail or are unknown, whichever checks count."""
        return tuple(each for each in ids if self.fails(each) or self._open(each))

    def asks_for(self, artefact: Artefact) -> bool:
        """Whether a check that counts is one of its proofs; no other file is touched."""
        return not self.want.checks or any(map(self.want.checks.has, artefact.proofs))

    def found(self, checks: tuple[str, ...]) -> tuple[str, ...]:
        """One line a check: what it saw."""
        known = {
            each: self.verdicts[each].finding.found for each in checks if each in self.verdicts
        }
        return tuple(f"{each}: {known.get(each, 'not judged')}" for each in checks)

    def hint(self, checks: tuple[str, ...]) -> str:
        """What the first of the checks that says so would have done."""
        known = (self.verdicts[each].finding.hint for each in checks if each in self.verdicts)
        return next(filter(None, known), "")

    def next_boot_has(self, artefact: Artefact) -> bool:
        """Its checks of the next boot pass, and there are such."""
        known = [self.verdicts[each] for each in artefact.proofs if each in self.verdicts]
        at_boot = [each.status for each in known if each.check.tense is Tense.AT_BOOT]
        return bool(at_boot) and all(status is Status.PASS for status in at_boot)

    def _open(self, check: str) -> bool:
        return check not in self.verdicts or self.verdicts[check].status is Status.UNKNOWN

    def fails(self, check: str) -> bool:
        verdict = self.verdicts.get(check)
        if verdict is None or verdict.status is not Status.FAIL:
            return False
        return self.today is None or not verdict.waived(self.today)


def topics(artefacts: tuple[Artefact, ...]) -> frozenset[str]:
    """What rests on files of the image: a unit below /etc is of no use without its program."""
    below = (each.id for each in artefacts if each.path.startswith(OF_THE_IMAGE))
    return frozenset(each.partition(".")[0] for each in below)


def refuse(artefact: Artefact, among: frozenset[str], node: Node) -> None:
    """Let pass what lies below /etc and is read there.

    :param among: the topics that rest on files of the image.
    :raises Unsupported: for what the image alone can bring.
    """
    if artefact.id.partition(".")[0] not in among:
        return
    loader = read_or(lambda: node.loader, Loader.OTHER)
    if way := _WAYS.get(loader):
        why = f"/usr belongs to an image here ({loader}) and is read-only, and this rests on it"
        raise Unsupported(why, hint=way)
