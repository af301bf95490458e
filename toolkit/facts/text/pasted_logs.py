"""What other tools printed, put into frames: ``topo``, ``dmesg``, ``dkms`` and their like.

Operators rarely have our evidence and nearly always have something: a topology matrix in
a ticket, a kernel log, an NCCL log. Each is one kind, told by its content; a file may hold
the answers to several commands, each after a shell prompt:

    $ cat /proc/cmdline
    BOOT_IMAGE=/boot/vmlinuz-6.8.0-101-generic ro iommu=pt
    $ dmesg | grep -i passthrough
    [    5.261710] iommu: Default domain type: Passthrough (set via kernel command line)

The text between is kept word for word; prompts are not part of it. Answers without prompts are
told apart by their heads (``kinds.parted``). What nvidia-bug-report.sh wrote has a line of
underscores before each, and below it the command, or "*** /proc/cmdline": of it no other text
counts, for it quotes logs of earlier boots too. Source: that script, append and report_command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, field

from toolkit.errors import UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.kinds import BY_NAME, Kind, commanded, parted, plain, recognise
from toolkit.facts.text.dressed import EDGE, undressed

# "# lspci", "> lspci", "+ lspci", "=== lspci ===": each also opens or rules off what is no command.
# A heading, or what set -x echoes.
_MARKED = re.compile(r"(?:#+|\++|[%>]|[=*-]{2,})\s*(?=[^\s#+%=*-])")
_RULE_BEHIND = re.compile(r"(?<![=*-])[=*-]{2,}$")
_TYPED = re.compile(
    r"\S+(?: (?:status|topo -\w+|nvlink -+\w+|diag -.*|[-|/].*))?|modinfo [\w-]+"
    r"|rdma (?:-\w+ )*(?:link|dev|system|resource)(?: show)?|dmesg .*"
)
_OPTION_ALONE = re.compile(r"[a-z][\w-]+ -{1,2}[A-Za-z][\w-]*")
# "=== GPUs ===" of a script that asks for several things; journalctl's are between dashes.
_HEADING = re.compile(r"\s*(={2,5}) \S.{0,60}? \1\s*")
# "# Logs" of whoever writes in Markdown, between two texts of which no prompt tells the command.
_TITLE = re.compile(r"#{1,6} [^\s#][^:=#]{0,60}:?\s*")
_RULE = re.compile(r"^_{40,}[ \t]*$", re.MULTILINE)
_RULED = 3  # such lines make a report
_PROGRAM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/\S+(?: .*)?")
_JOINED = frozenset({"make-log"})  # a failed build beside one that succeeded is not passed over
_SEARCHED = re.compile(r"(?:sudo )?lsmod *\| *(?:sudo )?[ef]?grep ")
_LOGS = frozenset({"dmesg", "nccl-log", "make-log", "fabricmanager-log", "modprobe-said"})
_TALKS = frozenset({"setpci-said"})  # what was asked, or written, tells what is said next
_SEVERAL = 2
_ENDLESS = frozenset({"rdma-nodes-said"})  # lists whose last line does not tell that it is the last
_FOLLOWED = " (to the next prompt)"
EARLIER_BOOT = "earlier-boot"  # a frame of kernel logs that are not of the present boot
IMPORTED = "imported from "  # in the source of a frame that no probe has read


class NotUnderstood(UsageError):
    """A file that is of no kind of evidence: alone it is a mistake, beside others it is listed."""


class Said(Struct, frozen=True):
    """One command of a capture and what it printed."""

    command: str  # "" where the text does not say
    text: str
    ruled: bool = False  # whether it is a section of a report, which says of each what it is
    by_root: bool = False  # whether a "#" prompted for it
    followed: bool = False  # by another command or a prompt: it was not cut at its end
    loose: bool = False  # whether it begins where code among prose does, and not at a prompt


class _Open(Struct):
    command: str
    lines: list[str] = field(default_factory=list)
    ruled: bool = False
    ended: bool = False  # by the next prompt: where nothing stands between, nothing was printed
    by_root: bool = False
    loose: bool = False
    hashed: bool = False  # whether a line of it begins with "#"

    @property
    def tells(self) -> bool:
        """Whether it is an answer; nothing is one to a search for modules, and to a write."""
        searched = self.ended and _SEARCHED.match(self.command) is not None
        if searched or any(line.strip() for line in self.lines):
            return True
        if "setpci" not in self.command:
            return False
        from toolkit.facts.pci.acs_commands import writes_control  # noqa: PLC0415 only they pay for it

        return writes_control(self.command)

    @property
    def untitled(self) -> bool:
        """Whether a title may come next: behind a blank line, where "#" was no tool's so far."""
        bare = self.command or self.hashed or not self.lines
        return not bare and not self.lines[-1].strip()

    def told(self, *, followed: bool) -> Said:
        text = "\n".join(self.lines)
        return Said(self.command, text, self.ruled, self.by_root, followed, self.loose)


def is_report(text: str) -> bool:
    """Whether nvidia-bug-report.sh wrote it: of one machine, a rule before each section."""
    return len(_RULE.findall(text)) >= _RULED


def said(text: str) -> list[Said]:
    """The text, parted at its shell prompts; one part without command where it has none.

    A line that is nothing but one of the commands counts as a prompt: it was copied without; a
    first line does with whatever stands behind it.
    """
    parts = _sections(text) if is_report(text) else _prompted(text)
    behind = [not each.loose for each in parts[1:]] + [False]
    return [
        each.told(followed=prompted)
        for each, prompted in zip(parts, behind, strict=True)
        if each.tells
    ]


def _prompted(text: str) -> list[_Open]:
    parts = [_Open("")]
    for number, line in enumerate(text.split("\n")):
        typed = plain(line)
        prompt = prompt_of(typed)
        if line == EDGE or (_HEADING.fullmatch(line) and not _marked(typed, first=False)):
            if not parts[-1].command or any(each.strip() for each in parts[-1].lines):
                parts.append(_Open("", loose=True))
        elif prompt is not None:
            parts[-1].ended = True
            before = typed.rstrip().removesuffix(prompt.command).rstrip()
            parts.append(_Open(prompt.command, by_root=before.endswith("#")))
        elif marked := _marked(typed, first=not number):
            parts.append(_Open(marked, by_root=typed.lstrip().startswith("#")))
        elif _TITLE.fullmatch(line) and parts[-1].untitled and not parted(line)[0][0]:
            parts.append(_Open("", loose=True))
        else:
            parts[-1].lines.append(line)
            parts[-1].hashed = parts[-1].hashed or line.startswith("#")
    return parts


def _sections(text: str) -> list[_Open]:
    """What stands before the first rule, and each section; what none names has no command."""
    parts, heading = [_Open("")], False
    for line in text.split("\n"):
        if _RULE.fullmatch(line):
            parts.append(_Open("", ruled=True))
            heading = True
        elif heading and line.strip():
            named = line.strip().removeprefix("*** ").removesuffix(":")
            file = named.startswith("/") and not _PROGRAM.fullmatch(named)
            parts[-1].command = f"cat {named}" if file else named
            heading = False
        elif line.startswith("uname: "):  # of its head
            parts += [_Open("uname -a", [line], ruled=True), _Open("", ruled=True)]
        elif len(parts) > 1 and _PROGRAM.fullmatch(line):
            parts.append(_Open(line.strip(), ruled=True))
        elif not line.startswith("*** ls: "):
            parts[-1].lines.append(line)
    return parts


def _marked(line: str, *, first: bool) -> str:
    """The command that a line is, though no shell prompted for it; "" for none."""
    command = line.strip()
    if (first or _TYPED.fullmatch(command)) and commanded(command) and recognise(line) is None:
        return command
    found = _MARKED.match(command)
    command = _RULE_BEHIND.sub("", command[found.end() :]).rstrip() if found else ""
    bare = re.sub(r"^sudo ", "", command)
    if _TYPED.fullmatch(bare) and commanded(command):
        return command
    # Another answer of a program that we know, at root's prompt.
    return command if _OPTION_ALONE.fullmatch(bare) and commanded(bare.split()[0]) else ""


def frames_of(text: str, source: str, kind: Kind | None = None) -> list[Frame]:
    """One capture as frames.

    :param text: the whole of it; the answers of commands that we do not know are left out.
    :param source: where it came from, as the frames shall say it.
    :param kind: what it is said to be, where no prompt in it says otherwise.
    :returns: one frame a kind. Of the same command given twice the last answer counts,
        different commands of one kind are joined.
    :raises NotUnderstood: where no part of it is of a known kind.
    """
    parts = said(undressed(text))
    texts: dict[str, dict[str, str]] = {}  # frame -> command -> text
    talks: dict[str, list[tuple[str, str]]] = {}  # frame -> each command with its text, in order
    for part in parts or ([Said("", "")] if kind else []):  # nothing is an answer as well
        for name, body in _parted(part, kind):
            answers = texts.setdefault(name, {})
            if part.ruled and name not in _JOINED:  # of several forms that which tells most
                if answers and max(map(len, answers.values())) > len(body):
                    continue
                answers.clear()
            whole = part.command and part.followed and name in _ENDLESS
            before = _ended(answers.get("", "")) if part.loose else ""
            answers[part.command + _FOLLOWED if whole else part.command] = before + body
            if name in _TALKS:
                asked = f"{'#' if part.by_root else '$'} {part.command}\n" if part.command else ""
                talks.setdefault(name, []).append((part.command, asked + _ended(body)))
    for name, answers in texts.items():
        if name not in _LOGS and _asked_anew(answers):
            del answers[""]
    if not texts:
        raise NotUnderstood(
            f"{source}: not recognised as evidence",
            hint="give the whole answer of a command, as nvidia-smi -q, nvidia-smi topo -m, lspci "
            "-vvv -nn, dmesg or ibstat; or say what it is: KIND=FILE (an unknown KIND is answered "
            "with the list)",
        )
    return [
        Frame(name, State.OK, _source(answers, source), _joined(answers, talks.get(name)))
        for name, answers in texts.items()
    ]


def _joined(answers: dict[str, str], talk: list[tuple[str, str]] | None) -> str:
    """All answers; of a talk as it went, with what was asked."""
    if talk is None:
        return "".join(map(_ended, answers.values()))
    return "".join(body for command, body in talk if command in answers)


def _asked_anew(answers: dict[str, str]) -> bool:
    """Whether a command was asked for the whole of what stands there without one too.

    The latter is what a manual shows, or another machine's. Some lines of an answer are no whole,
    but of modules: who searches for one there asks whether it is loaded.
    """
    asked = [each for each in answers if each]
    return "" in answers and any("|" not in each or _SEARCHED.match(each) for each in asked)


def _parted(part: Said, kind: Kind | None) -> list[tuple[str, str]]:
    """The frames that one part gives: by its command, by what was said, else by its shape."""
    if of_other_boot(part.command):
        return [(EARLIER_BOOT, part.text)]
    known = commanded(part.command) if part.command else kind
    whole = [(known or recognise(part.text), part.text)]
    if part.ruled:
        parts = whole if known else []
    else:
        parts = parted(part.text, known) if part.text.strip() and not kind else whole
        if not known and len({each for each, _ in parts if each}) < _SEVERAL:
            parts = whole
    frames: dict[str, str] = {}
    for found, text in parts:
        kind_of = found or recognise(text)
        if kind_of is None:
            continue
        mok = kind_of.name == "mokutil"
        for name, body in _with_signers(text) if mok else [(kind_of.frame, text)]:
            frames[name] = _ended(frames[name]) + body if name in frames else body
    if "dmesg" in frames:
        before, frames["dmesg"] = last_boot(frames["dmesg"])
        frames |= {EARLIER_BOOT: before} if before else {}
    return list(frames.items())


def _with_signers(text: str) -> list[tuple[str, str]]:
    """mokutil's answer, and the lines "nvidia.ko: signer" that a loop of modinfo left behind."""
    lines = [line for line in text.split("\n") if line.strip()]
    signers = [line for line in lines if re.match(r"[\w-]+\.ko(?:\.\w+)?:\s", line)]
    rest = [line for line in lines if line not in signers]
    parted = [(BY_NAME["mokutil"].frame, rest), (BY_NAME["modinfo"].frame, signers)]
    return [(frame, "\n".join(part)) for frame, part in parted if part]


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _source(commands: Iterable[str], source: str) -> str:
    told = ", ".join(each for each in commands if each)[:120]
    return f"{told}, {IMPORTED}{source}" if told else f"{IMPORTED}{source}"


def evidence_of(frames: Iterable[Frame]) -> Evidence:
    """Frames from loose files as the evidence of one node: whole, though it has but few.

    :raises UsageError: where two files give the same frame.
    """
    made: dict[str, Frame] = {}
    for frame in frames:
        if frame.key in made:
            raise UsageError(
                f"{frame.key}: given twice, {made[frame.key].source} and {frame.source}",
                hint="evidence is of one node at one moment",
            )
        made[frame.key] = frame
    return Evidence(made, complete=True)


_OTHER = re.compile(
    r"journalctl\b(?:.*\s)?(?:-[a-zA-Z]*b ?|--boot[= ])(?:-0*[1-9]\d*|[1-9]\d*(?!\S)|[0-9a-f]{32})"
)
_BETWEEN = re.compile(r"^-- (?:Reboot|Boot [0-9a-f]{32}) --[ \t]*$", re.MULTILINE)
_BEGINS = re.compile(
    r"^(?:\S.*? (\S+) kernel: )?(?:<\d+>)?(?:\[ *0\.000000\](?:\[ *[TC]\d+\])? )?"
    r"Linux version \d.*$",
    re.MULTILINE,
)
_LOGGED_BY = re.compile(r"^\S.*? (\S+) kernel: ", re.MULTILINE)


def of_other_boot(command: str) -> bool:
    """Whether a command asked for the log of a boot that is not the present one."""
    return _OTHER.search(command) is not None


def last_boot(text: str) -> tuple[str, str]:
    """What a log has of earlier boots, and of its last; what begins a boot is of that.

    A log of several machines is left as it is.
    """
    at = max((each.end() + 1 for each in _BETWEEN.finditer(text)), default=0)
    for each in _BEGINS.finditer(text):
        host = _LOGGED_BY.search(text)
        if each.start() > at and (each[1] is None or host is None or each[1] == host[1]):
            at = each.start()
    return (text[:at], text[at:]) if text[:at].strip() else ("", text)


class Prompt(Struct, frozen=True):
    """One line at which somebody typed something."""

    host: str  # "" where the prompt does not name it
    command: str  # "" for a prompt at which nothing was typed


_BEFORE = r"^\s*(?:\([\w.-]+\) ?)?"  # "(base) ", an environment of Python's
_SIGNED = (
    # "user@host:~$ ", "[root@host dir]# ", "user@host:~> ", "user@host ~ % "
    r"\[?[\w.-]+@(?P<at>[\w.-]+)(?:[^$#\n]*\]?\s?[$#]|[: ][~/][^\s>%]* ?[>%](?=\s|$))",
    r"(?P<of>[\w.-]+):[~/]\S* ?[$#>%]",  # "host:~ # "
    r"(?:ba|z|k)?sh-[\d.]+[$#]|\$",
    r"[~/][\w./~-]* ?[$#](?=\s|$)",  # "/ # ", "/workspace# "
    r"PS [^>\n]*>(?=\s|$)|[A-Z]:\\[^>\n]*>",
    r"[\u250c\u256d][\u2500\u2574]*\S*?\(?[\w.-]+[@\u327f](?P<above>[\w.-]+)[^\n$#]*(?=$)",
    r"[\u2514\u2570][\u2500\u2574>\u27a4]*[$#\u276f\u27a4]?(?=\s|$)",
    r"(?P<arrow>[\u279c\u276f\u03bb\u00bb\u25b6\u2771])(?=\s|$)",
)
_PROMPT = re.compile(
    _BEFORE + "(?:" + "|".join(_SIGNED) + r")(?:(?:\s+|(?<=\S>)(?=\S))(?P<typed>.*))?$"
)
_GIT = re.compile(r"^git:\(\S*\) *|^[\u2717\u2718\u00b1] *")
_PLACE = re.compile(r"^\S+ +")


def prompt_of(line: str) -> Prompt | None:
    """The prompt that a line is, without colours; None for one that a tool printed."""
    found = _PROMPT.match(line)
    if found is None:
        return None
    typed = (found["typed"] or "").strip()
    if found["arrow"]:
        typed = _behind_arrow(typed)
    return Prompt(found["at"] or found["of"] or found["above"] or "", typed)


def _behind_arrow(typed: str) -> str:
    """Without the folder and the branch that themes put before what is typed."""
    for text in (typed, _PLACE.sub("", typed, count=1)):
        bare = text
        while (shorter := _GIT.sub("", bare)) != bare:
            bare = shorter
        if commanded(bare) is not None:
            return bare
    return typed
