"""What other tools printed, put into frames: ``topo``, ``dmesg``, ``dkms`` and their like.

Operators rarely have our evidence and nearly always have something: a topology matrix in
a ticket, a kernel log, an NCCL log. Each is one kind, told by its content; a file may hold
the answers to several commands, each after a shell prompt:

    $ cat /proc/cmdline
    BOOT_IMAGE=/boot/vmlinuz-6.8.0-101-generic ro iommu=pt
    $ dmesg | grep -i passthrough
    [    5.261710] iommu: Default domain type: Passthrough (set via kernel command line)

The text between is kept word for word; prompts are not part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from toolkit.errors import UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.dressed import undressed


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of text."""

    name: str  # what an operator says: "topo"
    frame: str  # the frame that it becomes: "nvidia-topology"
    command: str  # pattern of the commands that print it, without sudo; "" for none
    shape: str  # pattern of its content, searched with ^ and $ at lines


_PCI = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
# The more telling shape first: an NCCL log may quote anything, an address opens many lines.
KINDS = (
    Kind("nccl-log", "nccl-log", "", r"NCCL (?:INFO|WARN|TRACE) |"
         r"GPU Direct RDMA (?:Enabled|Disabled) for"),
    Kind("nccl-topology", "nccl-topology", "", r"^\s*<(?:system|busid|graphs)\b[^>]*version="),
    Kind("topo", "nvidia-topology", r"nvidia-smi topo\b", r"^\s*GPU0\b.*CPU Affinity|"
         r"^\s*GPU0\s+X\s"),
    Kind("nvlink-status", "nvlink-status", r"nvidia-smi nvlink (?:.* )?(?:-s|--status)\b",
         r"^\s*Link \d+: (?:[\d.]+ GB/s|<inactive>)\s*$"),
    Kind("nvidia-smi-table", "nvidia-smi-table", r"nvidia-smi(?: -i \S+)?\s*$",
         r"^\| NVIDIA-SMI \d[\d.]+ "),
    Kind("nvidia-smi-q", "nvidia-smi-q", r"nvidia-smi (?:-q|--query)(?: |$)",
         r"^=+NVSMI LOG=+$|^\s*<nvidia_smi_log>|^Unable to determine the device handle for |"
         r"^Failed to initialize NVML: "),
    Kind("dcgmi-diag", "dcgmi-diag", r"dcgmi diag\b", r"^\| Diagnostic\s+\| Result\b"),
    Kind("rdma-topo", "rdma-topo", r"rdma_topo check\b",
         r"^(?:OK|FAIL)\s+(?:ACS for |Kernel iommu_group for |All ConnectX DMA )"),
    Kind("fi-info", "fi-info", r"fi_info\b", r"^fi_getinfo: |^provider: \S"),
    Kind("gdsio", "gdsio", r"\S*gdsio\b", r"^IoType: \w+ XferType: "),
    Kind("fabricmanager-log", "fabricmanager-log", r"(?:cat|tail|less) .*fabricmanager\.log\b",
         r"^\[\w{3} \d\d \d{4} [\d:]{8}\] \[(?:INFO|WARNING|ERROR|CRITICAL)\] \[tid \d+\]"
         r"|\bnv-fabricmanager\[\d+\]: "),
    Kind("peermem-container", "peermem-container", "",
         r"^(?:\S+ )?(?:waiting for mellanox ofed and nvidia drivers|(?:successfully loaded|"
         r"failed to load) nvidia-peermem module)"),
    Kind("nvidia-smi-csv", "nvidia-smi-csv", r"nvidia-smi --query-gpu=",
         r"^(?=.*\b(?:pci\.bus_id|driver_version|name|uuid)\b)[\w.]+(?: \[[^]]*\])?(?:, ?[\w.]+"
         r"(?: \[[^]]*\])?){2,}$"),
    Kind("dmidecode", "dmidecode", r"dmidecode(?! \d)", r"^# dmidecode \d|^SMBIOS [\d.]+ present"),
    Kind("lspci-tree", "lspci-tree", r"lspci(?: -\w+)*? -\w*t", r"^\s*-[+-]?-?\[[0-9a-f]{4}:"),
    Kind("iommu-groups", "iommu-groups-list", "", rf"^IOMMU Group \d+:?\s+{_PCI} "),
    Kind("lspci", "lspci", r"lspci\b", rf"^{_PCI} (?:\"|.*(?::|\]) )|"
         r"^\s*ACSC(?:tl|ap):\s+SrcValid[+-]"),
    Kind("ibstat", "ibstat", r"ibstat\b", r"^CA '[^']+'$"),
    Kind("ibv-devinfo", "ibv-devinfo", r"ibv_devinfo\b", r"^hca_id:\s"),
    Kind("ibdev2netdev", "ibdev2netdev", r"ibdev2netdev\b", r"^\S+ port \d+ ==> "),
    Kind("gdscheck", "gdscheck", r"\S*gdscheck\b", r"^\s*GDS release version\b"),
    Kind("gdrcopy-sanity", "gdrcopy-sanity", r"\S*(?:gdrcopy_)?sanity\b",
         r"^Total: \d+, Passed: \d+, Failed: \d+"),
    Kind("nccl-tests", "nccl-tests", r"\S*(?:all_reduce|all_gather|alltoall|broadcast|sendrecv|"
         r"reduce_scatter)_perf\b", r"^# nThread \d|\bout-of-place\b.*\bin-place\b|"
         r"^# Avg bus bandwidth"),
    Kind("perftest", "perftest", r"ib_(?:write|read|send|atomic)_(?:bw|lat)\b",
         r"\b(?:RDMA_(?:Write|Read)|Send|Atomic\w*) (?:BW|Latency|Bidirectional BW) Test|"
         r"^\s*#bytes\s+#iterations\s"),
    Kind("ucx-perftest", "ucx-perftest", r"ucx_perftest\b", r"bandwidth \(MB/s\).*message rate"),
    Kind("ucx-info", "ucx-info", r"ucx_info\b", r"^#\s+(?:Transport:|Memory domain:|component:)"),
    Kind("mst-status", "mst-status", r"mst status\b", r"^MST modules:$"),
    Kind("grub-default", "grub-default", r"cat /etc/default/grub\b", r"^GRUB_CMDLINE_LINUX"),
    Kind("os-release", "os-release", r"cat /etc/os-release\b",
         r"^(?:ID|PRETTY_NAME|VERSION_ID)="),
    Kind("mokutil", "mokutil", r"mokutil\b", r"^SecureBoot (?:enabled|disabled)\b"),
    Kind("modprobe", "modprobe-said", r"(?:modprobe|insmod) (?!-c)", r"^(?:modprobe|insmod): "),
    Kind("modinfo", "modinfo-said", r"modinfo\b", r"^filename:\s+\S+\.ko|^[\w-]+\.ko(?:\.\w+)?:\s"),
    Kind("dmesg", "dmesg", r"(?:dmesg|journalctl(?= .*-\w*k))\b", r"^(?:<\d+>)?\[\s*\d+\.\d{6}\] |"
         r"^\d+,\d+,\d+,[-c][^;]*;|^kern\s+:\w+\s*: |^\[\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\] |"
         r"^\w{3} [ \d]\d [\d:]{8} \S+ kernel: |^NVRM: "),
    Kind("make-log", "make-log", r"cat \S*make\.log\b", r"^(?:DKMS make\.log|Error! Bad return "
         r"status for module build|Building (?:initial )?module|warning: the compiler differs|"
         r"make(?:\[\d+\])?: |DKMS: \w+ completed|dkms autoinstall on \S+ \w+ for |"
         r"Warning: .* BUILD_EXCLUSIVE |Module \S+ already installed on kernel )|: error: "
         # but not below a list of dkms status
         r"|\A(?![\s\S]*?^[\w.+-]+/[^,\n/]+(?:, [^,\n]+, \w+)?: (?:added|built|installed|"
         r"broken)\b)[\s\S]*?^Error! "),
    Kind("dkms", "dkms-status", r"dkms status\b", r"^[\w.+-]+(?:, |/)[^,\n/]+(?:, [^,\n]+, \w+)?: "
         r"(?:added|built|installed|broken)\b"),
    Kind("ofed-info", "ofed-info", r"ofed_info\b", r"^(?:MLNX_OFED_LINUX|OFED-internal|DOCA\w*)-"),
    Kind("lsmod", "lsmod", r"lsmod\b", r"^Module\s+Size\s+Used by|^\s*[a-z]\w*\s+\d{4,}\s+\d+"
         r"(?:\s+[\w,-]+)?$"),
    Kind("cmdline", "cmdline", r"cat /proc/cmdline\b", r"\A\s*(?:BOOT_IMAGE=|initrd=|(?:ro|rw) |"
         r"(?:\S+ )*root=)\S*[^\n]*\s*\Z"),
    Kind("bios", "bios", "", r"\A\s*\{(?=[\s\S]*\"@odata\.)(?=[\s\S]*[Bb]ios)"),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
_SHAPES = [(kind, re.compile(kind.shape, re.MULTILINE)) for kind in KINDS]
_COMMANDS = [(kind, re.compile(kind.command)) for kind in KINDS if kind.command]
# "$ ", "user@host:~$ ", "[root@host dir]# ", "host:~ # ", "bash-5.1# ", "(base) user@host:~$ ".
_PROMPT = re.compile(
    r"^\s*(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[^$#\n]*\]?\s?[$#]|[\w.-]+:[~/]\S* ?[$#]"
    r"|(?:ba|z|k)?sh-[\d.]+[$#]|\$)(?:\s+(.*))?$"
)
# "# lspci", "+ lspci", "=== lspci ===": each also opens or rules off what is no command.
_MARKED = re.compile(r"^\s*(?:#+|\++|%|[=*-]{2,})\s*([^\s#+%=*-].*?)(?:\s*[=*-]{2,})?\s*$")
_TYPED = re.compile(r"\S+(?: (?:status|topo -\w+|nvlink -+\w+|diag -.*|[-|/].*))?")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_BEFORE = re.compile(r"^(?:sudo(?: -\w+)*|time|[A-Z_]+=\S+)\s+")
IMPORTED = "imported from "  # in the source of a frame that no probe has read
_LOOKED_AT = 200_000  # characters in which a shape must show


class NotUnderstood(UsageError):
    """A file that is of no kind of evidence: alone it is a mistake, beside others it is listed."""


@dataclass(frozen=True, slots=True)
class Said:
    """One command of a capture and what it printed."""

    command: str  # "" where the text does not say
    text: str


@dataclass(slots=True)
class _Open:
    command: str
    lines: list[str] = field(default_factory=list)


def named(name: str) -> Kind:
    """The kind that an operator names; the name of its frame will do as well.

    :raises UsageError: where there is none of that name.
    """
    for kind in KINDS:
        if name in (kind.name, kind.frame):
            return kind
    raise UsageError(f"{name!r} is no kind of evidence", hint=known_kinds())


def known_kinds() -> str:
    return "the kinds are " + ", ".join(sorted(BY_NAME))


def plain(text: str) -> str:
    """Without what terminals and web pages put into a text; the evidence keeps it."""
    text = text.replace("\u00a0", " ")
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def recognise(text: str) -> Kind | None:
    """What sort of text this is, by its shape; None where it is none that we know."""
    looked_at = plain(text[:_LOOKED_AT])
    return next((kind for kind, shape in _SHAPES if shape.search(looked_at)), None)


def commanded(command: str) -> Kind | None:
    """What the command prints; None for one that we do not know."""
    while (shorter := _BEFORE.sub("", command)) != command:
        command = shorter
    return next((kind for kind, pattern in _COMMANDS if pattern.match(command)), None)


def said(text: str) -> list[Said]:
    """The text, parted at its shell prompts; one part without command where it has none.

    A first line that is one of the commands counts as a prompt: it was copied without.
    """
    parts = [_Open("")]
    for number, line in enumerate(text.split("\n")):
        typed = plain(line)
        prompt = _PROMPT.match(typed)
        if prompt is not None:
            parts.append(_Open((prompt[1] or "").strip()))
        elif marked := _marked(typed, first=not number):
            parts.append(_Open(marked))
        else:
            parts[-1].lines.append(line)
    return [
        Said(each.command, "\n".join(each.lines))
        for each in parts
        if any(line.strip() for line in each.lines)
    ]


def _marked(line: str, *, first: bool) -> str:
    """The command that a line is, though no shell prompted for it; "" for none."""
    command = line.strip()
    if first and commanded(command) and recognise(line) is None:
        return command
    found = _MARKED.match(line)
    command = found[1] if found else ""
    bare = re.sub(r"^sudo ", "", command)
    return command if _TYPED.fullmatch(bare) and commanded(command) else ""


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
    for part in parts or ([Said("", "")] if kind else []):  # nothing is an answer as well
        for name, body in _parted(part, kind):
            texts.setdefault(name, {})[part.command] = body
    if not texts:
        raise NotUnderstood(
            f"{source}: not recognised as evidence",
            hint=f"say what it is: KIND=FILE; {known_kinds()}",
        )
    return [
        Frame(name, State.OK, _source(answers, source), "".join(map(_ended, answers.values())))
        for name, answers in texts.items()
    ]


def _parted(part: Said, kind: Kind | None) -> list[tuple[str, str]]:
    """The frames that one part gives: by its command, by what was said, else by its shape."""
    known = commanded(part.command) if part.command else kind
    found = known or recognise(part.text)
    if found is None:
        return []
    if found.name == "mokutil":
        return _with_signers(part.text)
    return [(found.frame, part.text)]


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
