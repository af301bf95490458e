"""Logs of pods as text: whose evidence stands where, in one log or in those of many nodes at once.

Sources: kubectl logs, plain, with --prefix, with --timestamps or both; the files that a container
runtime writes below /var/log/pods (CRI logging format):

    gdr-toolkit: node gpu007: probe
    [pod/gdr-probe-x7c2p/probe] = begin ok gdr-toolkit/1
    [pod/gdr-probe-x7c2p/probe] 2026-11-21T10:00:00.123456789Z |6.8.0-45-generic
    2026-11-21T10:00:00.123456789Z stdout F = end ok 95

The first line is what pod.sh says before a node is read. Without --prefix, logs of several pods
are taken for evidence only where each is whole: lines that were mixed cannot be told apart.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from toolkit.errors import UsageError
from toolkit.evidence import Evidence

_PREFIX = re.compile(r"\[pod/([a-z0-9.-]+)/[a-z0-9.-]+\] ")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) ")
_CRI = re.compile(r"(?:stdout|stderr) ([FP]) ")
_SAID = re.compile(r"gdr-toolkit: node (\S+): (probe|apply [0-9a-f]{64}|ended \d+|.*)")
_NODE = re.compile(r"gdr-toolkit: node \S+: ")
_HINT = "kubectl logs -l LABEL --prefix --tail=-1: of a label it shows but ten lines otherwise"


class Read(Struct, frozen=True):
    """What the pod of one node says of it."""

    node: str
    evidence: Evidence
    pod: str = ""  # its name, where the log has it


class Carried(Struct, frozen=True):
    """What came of one node's bundle, in the words of the engine."""

    node: str
    sum: str  # SHA-256 of the bundle as it was rendered
    evidence: Evidence  # the engine's frames
    ended: int | None  # its status; None where the log ends before


class _Part(Struct):
    """The lines after one sentence of pod.sh's."""

    node: str
    said: str  # "probe", "apply SUM"; another sentence otherwise
    pod: str
    lines: list[str] = field(default_factory=list)
    ended: int | None = None
    alone: bool = True  # its lines cannot be another node's


def holds_pod_logs(text: str) -> bool:
    """Whether a pod of ours has written some of it."""
    return _NODE.search(text) is not None


def parse_pod_logs(text: str) -> tuple[Read, ...]:
    """The evidence in logs of pods: of each node the latest that is whole, else the latest.

    A node of which nothing arrived has evidence with nothing in it.

    :raises UsageError: where lines of several nodes are mixed, or no head of a log is there.
    """
    found: dict[str, Read] = {}
    for part in _parts(text):
        if part.said == "probe":
            read = Read(part.node, _evidence(part), part.pod)
            known = found.get(part.node, read).evidence
            if read.evidence.complete or not known.complete:
                found[part.node] = read
        elif not part.said.startswith(("apply ", "ended ")):
            found.setdefault(part.node, Read(part.node, Evidence(), part.pod))
    return tuple(found.values())


def parse_carried(text: str) -> tuple[Carried, ...]:
    """What came of bundles, in the order of the log.

    :raises UsageError: likewise.
    """
    return tuple(
        Carried(part.node, part.said.removeprefix("apply "), _evidence(part), part.ended)
        for part in _parts(text)
        if part.said.startswith("apply ")
    )


def _parts(text: str) -> list[_Part]:
    parts: list[_Part] = []
    open_parts: dict[str, _Part] = {}  # by pod; "" where lines do not tell theirs
    headless: set[str] = set()
    speaks_for: dict[str, str] = {}  # the node that a pod named first: it is on no other
    for pod, line in _lines(text):
        said = _SAID.fullmatch(line)
        if said is not None and pod and speaks_for.setdefault(pod, said[1]) != said[1]:
            said = None  # its node has printed that
        if said is not None:
            before = open_parts.get(pod)
            if said[2].startswith("ended ") and before and before.node == said[1]:
                before.ended = int(said[2].removeprefix("ended "))
                continue
            open_parts[pod] = _Part(said[1], said[2], pod)
            parts.append(open_parts[pod])
        elif pod in open_parts:
            open_parts[pod].lines.append(line)
        elif line.startswith("= end ok "):
            headless.add(pod)
    if headless and (not parts or "" in headless):
        raise UsageError("the log begins amid the evidence", hint=_HINT)
    parts += [_Part(pod, "the head is lost", pod) for pod in sorted(headless)]
    _refuse_mixed(parts)
    return parts


def _refuse_mixed(parts: list[_Part]) -> None:
    """Without --prefix, what --follow shows of several pods at once is nobody's evidence."""
    unnamed = [part for part in parts if not part.pod]
    if len({part.node for part in unnamed}) < 2:
        return
    for part in unnamed:
        part.alone = False
        heads = [line.split(" ", 2)[1] for line in part.lines if line.startswith("= ")]
        if len(heads) != len(set(heads)):
            raise UsageError(
                f"the log mixes lines of several nodes, {part.node} among them", hint=_HINT
            )


def _evidence(part: _Part) -> Evidence:
    """Of lines that may be others' too, only what is whole: the last frame counts the rest."""
    evidence = Evidence.parse("".join(f"{line}\n" for line in part.lines))
    return evidence if part.alone or evidence.complete else Evidence()


def _lines(text: str) -> list[tuple[str, str]]:
    """Each line with the pod that it is of, "" where it does not say; partial ones joined."""
    found: list[tuple[str, str]] = []
    partial: dict[str, str] = {}
    for line in text.replace("\r\n", "\n").split("\n"):
        pod, rest = "", line
        if prefix := _PREFIX.match(rest):
            pod, rest = prefix[1], rest[prefix.end() :]
        if time := _TIME.match(rest):
            rest = rest[time.end() :]
            if cri := _CRI.match(rest):
                rest = partial.pop(pod, "") + rest[cri.end() :]
                if cri[1] == "P":
                    partial[pod] = rest
                    continue
        found.append((pod, rest))
    if found and found[-1] == ("", ""):
        found.pop()  # what follows the last newline
    return found
