"""Answers of several machines in one text, parted: two machines are never judged as one.

Whose answer it is stands in the shell's prompt, or tools that ask many machines at once say it:

    root@gpu01:~# lsmod
    gpu01: nvidia_peermem 16384 0                         pdsh, clush, srun -l
    [pod/nvidia-driver-x7c2p/ctr] nvidia_peermem 16384 0  kubectl logs --prefix
    gpu01 | CHANGED | rc=0 >>                             ansible, above an answer
    [1] 10:00:00 [SUCCESS] gpu01                          pssh

and gpu[01-03] between two lines of dashes for clush -b and dshbak. Headings that people write,
and those of tail and head, count where both have an answer of the same kind: "==> gpu01 <==",
"=== gpu01 ===", "gpu01:", "Node 2:". Where the head of an answer that has but one comes again,
another answer begins. Sources: chaos/pdsh src/modules and scripts/dshbak; cea-hpc/clustershell
CLI/Display.py; ansible plugins/callback/minimal.py; lilydjwg/pssh psshlib/task.py; kubectl
logs.go, addPrefixIfNeeded; coreutils tail.c, write_header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from toolkit.evidence import Frame
from toolkit.facts.kinds import commanded, plain, recognise
from toolkit.facts.text.dressed import undressed
from toolkit.facts.text.pasted_logs import NotUnderstood, Prompt, frames_of, is_report, prompt_of

Lines = list[str]
Machines = dict[str, Lines]
Typed = list[tuple[Prompt | None, Lines]]  # at each prompt; first what stands before, with None
_HOST = r"[A-Za-z0-9][\w.-]*"
# What runs one command elsewhere: ssh with a command, kubectl and oc in a pod or on a node.
_REMOTE = re.compile(
    r"(?:sudo )?(?:ssh (?:-\w+ )*(?:[\w.-]+@)?([\w.-]+) +\S"
    r"|(?:kubectl|oc) (?:-\S+ \S+ )*(?:exec|debug) (?:-[nc] \S+ |--?[\w-]+(?:=\S+)? )*"
    r"(?:pods?/|node/)?([\w.-]+))"
)
_LINE_OF = re.compile(rf"(?:({_HOST}):|\[pod/([a-z0-9.-]+)/[a-z0-9.-]+\])(?: (.*))?")
_FAN = re.compile(  # what runs a command on many machines
    r"(?:sudo )?(?:pdsh|clush|p(?:arallel-)?ssh|srun|mpirun|ansible|salt|x?dsh|psh|kubectl|for)\b"
)
_OF_THE_TOOL = re.compile(r"(?:pdsh@\S+|clush|srun|pssh): ")  # what it says of itself
_SAYS = frozenset({"error", "warning", "info", "note", "fatal"})  # and names nobody
_DASHES = re.compile(r"-{10,}\s*")
_NODE_SET = re.compile(r"([A-Za-z0-9][\w.,\[\]-]*)(?: \(\d+\))?\s*")
_ABOVE = re.compile(
    rf"({_HOST}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE)!?(?: \| rc=-?\d+)? (?:>>|=> ?\{{)\s*"
    rf"|\[\d+\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] (\S+).*"
)
_FILE = re.compile(r"==> (.+) <==\s*")
# "=== gpu01 ===", "## gpu01", "**gpu01**", "gpu01:"; a name without a number is nobody's.
_RULED = re.compile(rf"(?:[#=*+>-]+ *(?=\S*\d)({_HOST})\s*[#=*+<:-]*|(?=\S*\d)({_HOST}):)\s*")
_WORDED = re.compile(
    r"(?i)(?=.{3,48}$)[^\w\n]*((?:[\w'-]+ +){0,4}(?:node|host|server|machine|worker|vm)"
    r"(?: ?#?[\w.-]*\w)?)(?: \([^()]*\))?\W*"
)
# What bears a number and is no machine.
_PART = re.compile(
    r"(?i:mlx|eth|ib|en[opsx]|bond|nvme|sd|cpu|numa|rdma|efa|bnxt|irdma|hfi|qedr|nic|port|dev"
    r"|step|fig|xid|v|mst|mt)\d\S*|GPU\d+|NODE\d|\d+"
)
# Lines that one answer has once: heads, and those that begin what is told of one device.
_ONCE = re.compile(
    r"((?=\s*GPU0\b).*CPU Affinity|Module +Size +Used by|\| NVIDIA-SMI (?=\d)"
    r"|CA '[^']+'|hca_id:\s+\S+|Infiniband device '[^']+' port \d+|link \S+/\d+ "
    r"|\S+ port \d+ ==> |[a-z]\w* +(?=\d{4,} +\d+(?:\s|$)))"
)
_TWO = 2
_LONG = 80  # characters that no heading has
# "Nov 11 08:00:01 gpu01 kernel: ", by journalctl and syslog daemons, in their time or ISO 8601's.
_KERNEL = " kernel: "
_FROM = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT\S+) (\S+) kernel: "
)
_ANYBODY = frozenset({"localhost", "(none)", "ubuntu", "debian", "fedora", "linux"})


def machines(text: str, source: str) -> list[tuple[str, list[Frame]]]:
    """The frames of each machine in a text, with its name; "" for the only one, and for the first.

    :param source: where the text came from, as the frames shall say it.
    :raises NotUnderstood: where no part of it is of a known kind.
    """
    typed = [] if is_report(text) else list(_typed(undressed(text)))
    for parted, sure in _WAYS:
        found = parted(typed)
        its: list[tuple[str, list[Frame]]] = []
        for name, lines in found.items():
            with suppress(NotUnderstood):
                its.append((name, frames_of("\n".join(lines), source)))
        keys = [frame.key for _, frames in its for frame in frames]
        if its and (sure or len(keys) > len(set(keys))):
            return its
    return [("", frames_of(text, source))]


# Shells.


def _typed(text: str) -> Iterator[tuple[Prompt | None, Lines]]:
    prompt: Prompt | None = None
    lines: Lines = []
    for line in text.split("\n"):
        if (found := prompt_of(plain(line))) is not None:
            yield prompt, lines
            prompt, lines = found, []
        lines.append(line)
    yield prompt, lines


def _shells(typed: Typed) -> Machines:
    """What was typed at each machine whose prompts name it.

    What stands before the first such prompt is of its machine, and of "" where none has a name; a
    prompt without a name is of the shell before; what ssh was given to run is of the machine that
    it names.
    """
    found: Machines = {}
    before: Lines = []
    first = ""  # shell that has a name
    own = before  # of the shell, which may ask elsewhere by one command
    for prompt, lines in typed:
        here = own
        if prompt is not None:
            if prompt.host:
                own = here = found.setdefault(prompt.host, [])
                first = first or prompt.host
            if remote := _REMOTE.match(prompt.command):
                here = found.setdefault(remote[1] or remote[2], [])
        here += lines
    if len(found) < _TWO:
        return {}
    found[first] = [*before, *found.get(first, [])]
    return found


# Tools that ask many.


def _asked(typed: Typed) -> Machines:
    """What a tool that asks many machines has of each; "" for the rest of the text."""
    found: Machines = {"": []}
    for prompt, lines in typed:
        body = lines[1:] if prompt is not None else lines
        ran = _ran(prompt.command) if prompt is not None else ""
        its = _prefixed(body, ran) or _below_names(body)
        if not its:
            found[""] += lines
        for name, part in its.items():
            mine = found.setdefault(name, [])
            mine += [f"$ {ran}", *part] if ran and name else part
    return found if len(found) >= _TWO else {}


def _ran(command: str) -> str:
    """Of "pdsh -w gpu[01-04] 'dkms status'" what the machines ran, where we know it."""
    words = command.split() if _FAN.match(command) else []
    tails = (" ".join(words[at:]).strip("'\"") for at in range(1, len(words)))
    return next((each for each in tails if commanded(each) is not None), "")


def _prefixed(lines: Lines, ran: str) -> Machines:
    """Where every line says whose it is; one command's answer, or recognised for what it is."""
    its = [each for each in lines if each.strip() and not _OF_THE_TOOL.match(each)]
    found: Machines = {}
    pods = False
    for match in (_LINE_OF.fullmatch(plain(each)) for each in its):
        if match is None:
            return {}
        pods |= match[2] is not None
        name = match[1] or match[2]
        found.setdefault(name, []).append(match[3] or "")
    if (
        not pods
        and not ran
        and (_SAYS & set(map(str.lower, found)) or recognise("\n".join(its)) is not None)
    ):
        return {}  # "modprobe: ERROR: ..." is a line as its tool wrote it
    if len(found) == 1 and not any(map(str.isdecimal, "".join(found))):
        return {}
    known = bool(ran) or any(recognise("\n".join(part)) is not None for part in found.values())
    return found if known else {}


def _below_names(lines: Lines) -> Machines:
    """Where names stand above answers: in a line that the tool makes so, or between dashes."""
    found: Machines = {"": []}
    here = found[""]
    at = 0
    while at < len(lines):
        name, taken = _name_at(lines, at)
        if name:
            here = found.setdefault(name, [])
        else:
            here.append(lines[at])
        at += taken
    return found if len(found) >= _TWO else {}


def _name_at(lines: Lines, at: int) -> tuple[str, int]:
    line = plain(lines[at])
    if above := _ABOVE.fullmatch(line):
        return above[1] or above[2], 1
    if _DASHES.fullmatch(line) and len(lines) > at + _TWO and _DASHES.fullmatch(lines[at + _TWO]):
        name = _NODE_SET.fullmatch(plain(lines[at + 1]))
        if name and commanded(name[1]) is None:
            return name[1], 3
    return "", 1


# Headings.


def _headed(typed: Typed) -> Machines:
    """From each heading to the next; "" for what stands before the first."""
    found: Machines = {"": []}
    here = found[""]
    for line in (line for _, lines in typed for line in lines):
        if len(line) < _LONG and (name := _heading(plain(line))):
            here = found.setdefault(name, [])
        else:
            here.append(line)
    return found if len(found) >= _TWO else {}


def _heading(line: str) -> str:
    if found := _FILE.fullmatch(line):
        return found[1]
    if found := _RULED.fullmatch(line):
        name: str = found[1] or found[2]
        return "" if _PART.fullmatch(name) or commanded(name) is not None else name
    worded = _WORDED.fullmatch(line)
    return worded[1] if worded else ""


def _logged(typed: Typed) -> Machines:
    """By the host that each line of a journal or of a syslog server is from."""
    lines = [line for _, its in typed for line in its]
    if sum(_KERNEL in each for each in lines) < _TWO:
        return {}
    found: Machines = {}
    here: Lines = []  # of a line that names no host, or a name that any machine has while it boots
    for line in lines:
        from_ = _FROM.match(line)
        name = from_[1].partition(".")[0] if from_ else ""
        if name and name not in _ANYBODY:
            found[name] = found.get(name, here if not found else [])
            here = found[name]
        here.append(line)
    return found if len(found) >= _TWO else {}


def _again(typed: Typed) -> Machines:
    """Cut where the head of an answer comes again, in a text without prompts."""
    if len(typed) > 1:
        return {}  # of a command given twice the last answer counts
    seen: set[str] = set()
    found: Machines = {"": []}
    here = found[""]
    for line in typed[0][1] if typed else ():
        if head := _ONCE.match(plain(line)):
            if head[1] in seen:
                here = found.setdefault(f"answer {len(found) + 1}", [])
                seen.clear()
            seen.add(head[1])
        here.append(line)
    return found if len(found) >= _TWO else {}


# Whether a way is sure by itself, or by two that have an answer of the same kind.
_WAYS = (
    (_asked, True),
    (_shells, False),
    (_headed, False),
    (_logged, False),
    (_again, False),
)
