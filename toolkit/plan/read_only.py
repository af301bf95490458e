"""Systems whose /usr belongs to an image: what is placed there, or made there, cannot stay.

Source: ostree(1), deployments; rpm-ostree(1), kargs and install; bootc, filesystem; SUSE,
transactional-update(8).
"""

from __future__ import annotations

from toolkit.errors import NoEvidence, Unparsable, Unsupported
from toolkit.facts.boot.loader import Loader
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Artefact

OF_THE_IMAGE = ("/usr/", "/lib/", "/boot/{image}")
_WAYS = {
    Loader.OSTREE: "into the image: a layer by bootc or rpm-ostree (on OpenShift a MachineConfig "
    "with osImageURL), or drivers from containers (GPU and network operator)",
    Loader.TRANSACTIONAL: "transactional-update shell, and what is wanted there; in force after a "
    "reboot",
}


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
    try:
        loader = node.loader
    except (NoEvidence, Unparsable):
        return
    if way := _WAYS.get(loader):
        why = f"/usr belongs to an image here ({loader}) and is read-only, and this rests on it"
        raise Unsupported(why, hint=way)
