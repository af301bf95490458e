"""Reading sources from evidence, and remembering which ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self, TypeVar, overload

from toolkit.errors import NeedsRoot, NoEvidence, NotCollected
from toolkit.evidence import Evidence, State
from toolkit.facts.fact import fact
from toolkit.facts.kinds import plain
from toolkit.facts.recall import Sources
from toolkit.facts.text.pasted_logs import IMPORTED

T = TypeVar("T")
E = TypeVar("E")
Many = Callable[[str], tuple[T, ...]]

# Tools that print what they have and then say that they could not go on. The probe has their
# status; a loose file has their words alone. Sources: infiniband-diags ibstat.c, IBPANIC;
# libibverbs examples/devinfo.c; nvidia-smi.
_BREAK_OFF = frozenset(
    {"ibstat", "ibv-devinfo", "ibdev2netdev", "ibstatus", "rdma-link", "nvidia-smi-q"}
    | {"nvidia-smi-table", "nvlink-status", "nvidia-topology"}
)
_SAYS_SO = (
    r"ibpanic: .*|Failed to (?:open device|query (?:device|port)|get (?:IB )?devices? list).*"
    r"|Unable to determine the device handle .*|Fatal error: +device (?!'[*]').*"
    r"|Failed to initialize NVML: .*|NVIDIA-SMI has failed because .*|No devices were found\s*"
)
# All that a shell says of a command that it does not find: bash, dash, zsh, sudo; Ubuntu's handler.
_NO_COMMAND = re.compile(
    r"\s*(?:\S+: .*(?:command )?not found(?:: \S+)?|Command '[^']+' not found\b[\s\S]*)\s*"
)
# What a shell, kubectl or ssh says below what a command could print; a log may quote anything.
_ENDED = (
    r"Segmentation fault.*|(?:Aborted|Bus error|Killed|Terminated)(?: \(core dumped\))?|\^C"
    r"|.*\bcommand terminated with exit code .*|error: (?:unable to upgrade|lost) connection.*"
    r"|(?:Connection to \S+ closed by remote host|client_loop: send disconnect: .*|timeout: .*)\.?"
)
_BROKE_OFF = re.compile(rf"^(?:{_SAYS_SO}|{_ENDED})$", re.MULTILINE)
_CUT_OFF = re.compile(rf"^(?:{_ENDED})$", re.MULTILINE)
_LOGS = frozenset(
    {"dmesg", "nccl-log", "make-log", "fabricmanager-log", "peermem-container", "nccl-tests"}
    | {"perftest-run", "ucx-perftest", "device-plugin-log", "ucx-log", "verbs-log"}
    | {"driver-container", "cufile-log", "cuda-said"}
)
_SHORT = 1000  # characters: longer texts are answers
# Of these a refusal, or what was not found, is what they tell.
_OF_OTHERS = (_LOGS - {"dmesg"}) | {"modprobe-said", "modinfo-said"}
# Of these a pass says that all entries are well; of the others that one line is there.
_LISTS = _BREAK_OFF | {"lspci", "dkms-status", "gdscheck", "nvidia-params"}
_FILTER = re.compile(r"\|\s*(?:sudo )?(?:[ef]?grep|rg|head|tail|awk|sed|findstr)\b")
# All that a tool says to who may not ask: sudo, util-linux dmesg, mft.
_NOT_ROOT = re.compile(
    r"\s*(?:sudo: .*password.*|\S+: .*(?:Operation not permitted|Permission denied)"
    r"|-E- .*\broot\b.*)\s*"
)


def _chosen(flags: str, pattern: str, word: str) -> bool:
    """Whether grep prints a line with the word; of a pattern beyond plain words nobody knows."""
    if "v" in flags:
        return False
    parts = re.split(r"\\?\|", pattern)
    case = str.lower if "i" in flags else str
    return any(bool(each) and case(each) in case(word) for each in parts)


class Reading:
    """One machine's evidence. Asking for a source that was not read raises NoEvidence."""

    def __init__(self, evidence: Evidence | Sources) -> None:
        if isinstance(evidence, Evidence):
            evidence = Sources(evidence.within(), type(self))
        self.sources = evidence
        self.cited: list[str] = []  # keys of frames, in the order they were named

    def fresh(self) -> Self:
        """The same machine with nothing cited yet; what was computed once is shared."""
        return type(self)(self.sources)

    @property
    def live(self) -> bool:
        """Running, rather than an image: it has a boot id, readable or not.

        What was put together from loose files was printed by a running machine.

        :raises CutOff: where the evidence was cut off before it.
        """
        return not self._given("boot-id") or self.sources.state("boot-id") is not State.ABSENT

    def _text(self, key: str) -> str:
        self.cited.append(key)
        text = self.sources.text(key)  # raises NoEvidence unless it was read in full
        given = IMPORTED in self.sources.source(key)
        text = plain(text) if given else text
        alone = text if given and key not in _OF_OTHERS and len(text) < _SHORT else ""
        if _NOT_ROOT.fullmatch(alone):
            raise NeedsRoot(f"{key}: {text.strip()}")
        if _NO_COMMAND.fullmatch(alone):
            raise NoEvidence(
                f"{key}: {text.strip().split(chr(10))[0]}",
                hint="ask again as root; where it is not installed, that is no fault by itself",
            )
        says = _BROKE_OFF if key in _BREAK_OFF else _CUT_OFF if given and key not in _LOGS else None
        if says is not None and (said := says.search(text)):
            raise NoEvidence(f"{key}: broke off: {said[0].strip()}")
        return text

    def cut(self) -> str:
        """Which of the loose files cited may have lost its end, or lines; "" for none."""
        for key in self.cited:
            if key in _LISTS and self.filtered(key):
                return f"{key}: matching lines alone: what the others say is not known"
            if IMPORTED not in self.sources.source(key):
                continue
            if lost_its_end(key, plain(self.sources.frame(key).text)):
                return f"{key}: it has not its end: what was cut off is not known"
        return ""

    def filtered(self, key: str) -> bool:
        """Whether a loose file has only some lines of what its command said, as by grep."""
        return IMPORTED in self.sources.source(key) and bool(_FILTER.search(self._typed(key)))

    def hides(self, key: str, word: str) -> bool:
        """Whether what some lines were chosen by would have passed over those with this word."""
        if not self.filtered(key):
            return False
        shape = r"grep((?: -\w+)*) +(\"[^\"]*\"|'[^']*'|[^\s,|]+)"
        chosen = re.findall(shape, self._typed(key))
        if not chosen:
            return True
        return any(not _chosen(flags, pattern.strip("\"'"), word) for flags, pattern in chosen)

    def _typed(self, key: str) -> str:
        """The commands behind whose prompts a loose file stood; "" where it had none."""
        return self.sources.source(key).partition(IMPORTED)[0]

    def _given(self, key: str) -> bool:
        """Whether the evidence has this source at all; loose files are few of them.

        :raises CutOff: where the evidence was cut off, so that nobody knows.
        """
        try:
            self.sources.state(key)
        except NotCollected:
            return False
        return True

    def _there(self, key: str) -> bool:
        """Whether the source exists: absent is an answer, refused or cut off is none."""
        return self._state(key) is not State.ABSENT

    def _read_well(self, key: str) -> bool:
        """Whether an optional source was read; a tool that fails here only tells less."""
        return self._state(key) is State.OK

    def _state(self, key: str) -> State:
        self.cited.append(key)
        return self.sources.state(key)


def parsed(key: str, parse: Callable[[str], T]) -> fact[Reading, T]:
    """A fact that one frame tells by itself, to be put into a class of ``Reading``."""
    return fact(lambda node: parse(node._text(key)))


@overload
def where_given(key: str, parse: Many[T], none: tuple[()]) -> fact[Reading, tuple[T, ...]]: ...
@overload
def where_given(key: str, parse: Callable[[str], T], none: E) -> fact[Reading, T | E]: ...
def where_given(key: str, parse: Callable[[str], T], none: E) -> fact[Reading, T | E]:
    """The same of a source that some evidence has not; ``none`` there."""
    return fact(lambda node: parse(node._text(key)) if node._given(key) else none)


@overload
def where_there(key: str, parse: Many[T], none: tuple[()]) -> fact[Reading, tuple[T, ...]]: ...
@overload
def where_there(key: str, parse: Callable[[str], T], none: E) -> fact[Reading, T | E]: ...
def where_there(key: str, parse: Callable[[str], T], none: E) -> fact[Reading, T | E]:
    """The same of a source that some nodes have not; ``none`` there."""
    return fact(lambda node: parse(node._text(key)) if node._there(key) else none)


def given(key: str) -> fact[Reading, bool]:
    """Whether the evidence has this source at all."""
    return fact(lambda node: node._given(key))


def there(key: str) -> fact[Reading, bool]:
    """Whether the node has this source."""
    return fact(lambda node: node._there(key))


# Truncated files: has a text that was given as a file lost its end?
#
# The probe's frames say how their commands ended; a loose file has its text alone. What a tool
# always prints last tells: a text without it proves no health, though a fault in it is a fault.

_GPU = re.compile(r"^GPU [0-9a-fA-F]{4,8}:", re.MULTILINE)
_PROCESSES = re.compile(r"^    Processes\b", re.MULTILINE)
_TABLE_PROCESSES = re.compile(r"^\|\s*Processes:", re.MULTILINE)
_LAYER = re.compile(
    r"link[ _]layer:\s+(?:InfiniBand|Ethernet|Unspecified|Unknown)\b", re.IGNORECASE
)
_BORDER = re.compile(r"\+-+\+-+\+\s*")


def _smi_query(text: str) -> bool:
    """Each GPU ends with its processes, unless sections were chosen (-d); XML is judged as such."""
    if "Product Name" not in text:
        return True
    return bool(_PROCESSES.search(_GPU.split(text)[-1]))


def _diag(text: str) -> bool:
    lines = [line for line in text.split("\n") if line[:1] in {"|", "+"}]
    return bool(lines) and bool(_BORDER.fullmatch(lines[-1]))


def _ibstat(text: str) -> bool:
    last = re.split(r"^\s*(?:CA '|Port \d+:)", text, flags=re.MULTILINE)[-1]
    return _LAYER.search(last) is not None


def _devinfo(text: str) -> bool:
    parts = re.split(r"^\s*(?:hca_id:|port:)\s", text, flags=re.MULTILINE)
    return len(parts) == 1 or bool(_LAYER.search(parts[-1]))  # one: it says that there is none


_WHOLE: dict[str, Callable[[str], bool]] = {
    "nvidia-smi-q": _smi_query,
    "nvidia-smi-table": lambda text: bool(_TABLE_PROCESSES.search(text)),
    "dcgmi-diag": _diag,
    "ibstat": _ibstat,
    "ibv-devinfo": _devinfo,
    # In the order of nv-reg.h, with strings last, that of RmMsg among them.
    "nvidia-params": lambda text: "ResmanDebugLevel: " in text and "\nRmMsg: " in text,
}


def lost_its_end(key: str, text: str) -> bool:
    """Whether what the tool prints last is missing; False of those whose end does not tell."""
    whole = _WHOLE.get(key)
    return whole is not None and not whole(text)
