"""Evidence without what identifies a site: for tickets and bug reports.

Every name, serial, GUID and address becomes another of the same form, the same one each
time, so that whatever was equal stays equal and every parser still reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from toolkit.errors import NoEvidence
from toolkit.evidence import INSIDE, Evidence, Frame
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.text.identity import Identities
from toolkit.facts.text.pasted_logs import IMPORTED
from toolkit.facts.text.scrub_bmc import PREFIX, hidden, names_in
from toolkit.facts.text.secrets import hide_secrets

_SERIAL_CAPABILITY = 0x0003  # its eight bytes are the device's serial number, of its MAC mostly
_ROW = re.compile(r"([0-9a-f]{2,6})(:? )((?:[0-9a-f]{2} ?)+)")
# Where numbers with dots are versions.
_VERSIONS = ("dkms", "ofed", "libraries", "kernels", "registration")
_BELOW = f"{INSIDE}/"  # of a container the same, and more whose names end with a version
_VERSIONS_BELOW = (*_VERSIONS, "providers", "cuda-libraries", "mlx5-libraries", "verbs-libraries")
_LOGS = ("dmesg", "nccl-log", "openibd-log")
_BYTES = ("pci-config", "acpi-bytes", "peermem-elf")  # long, and hardly a word in them
_NOT_BYTES = re.compile(r"(?m)^(?![0-9a-f]{6}(?: [0-9a-f]{2})+$).+$")
# Names of hosts in logs of jobs and of kernels, which may be those of other nodes.
_SPEAKERS = (
    re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]*):\d+:\d+ \[\d+\] "),  # NCCL
    re.compile(
        r"(?m)^(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S+) (\S+) [\w./-]+(?:\[\d+\])?: "
    ),
    re.compile(r"(?:Hostname set to|hostname to) <([^>]+)>"),
)


def scrub(evidence: Evidence, host: str) -> Evidence:
    """The same evidence, with names, serials, GUIDs and addresses replaced.

    :param host: the name under which the node was reached; replaced like its own hostname.
        "" where there was no host.
    """
    return Scrubber((host,)).scrub(evidence)


class Scrubber:
    """Scrubs the nodes of one fleet: each knows the names of all, and what is equal stays so."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._identities = Identities()
        self._registries: dict[str, str] = {}  # as served, and with stand-ins
        self._identities.learn(each for each in hosts if each)

    def scrub(self, evidence: Evidence) -> Evidence:
        own = evidence.frames.get("hostname")
        if own is not None:
            self._identities.learn([own.text])
        self._identities.learn(names_in(evidence.frames.values()))
        for key, frame in evidence.frames.items():
            if key in _LOGS:
                self._identities.learn(n for each in _SPEAKERS for n in each.findall(frame.text))
            if key not in _BYTES:
                self._identities.learn_from(frame.text)
        return Evidence(
            {key: self._frame(frame) for key, frame in evidence.frames.items()}, evidence.complete
        )

    def text(self, text: str) -> str:
        """A text that goes with the evidence."""
        return self._identities.hide(text)

    def _frame(self, frame: Frame) -> Frame:
        source, imported, _ = frame.source.partition(IMPORTED)
        source = f"{source}{imported}{frame.key}" if imported else self._identities.hide(source)
        text = frame.text
        if frame.key == "peermem-elf":
            text = _dumped(text, self._identities.hide_bytes)
        if frame.key.startswith(PREFIX):
            return replace(frame, source=source, text=self._of_bmc(frame))
        if frame.key in {"pci-config", "lspci"}:
            text = _dumped(text, self._serial_number)
        if frame.key in _BYTES:
            text = _NOT_BYTES.sub(lambda line: self._hidden(line[0], addresses=True), text)
        else:
            below = frame.key.startswith(_BELOW)
            known = _VERSIONS_BELOW if below else _VERSIONS
            versions = frame.key.removeprefix(_BELOW).startswith(known)
            versions = versions or frame.key.endswith("modinfo")
            text = self._hidden(text, addresses=not versions)
        if frame.key == INSIDE:  # what a site calls its jobs and images
            source = source.partition(" ")[0] + " container"
            text = re.sub(r"(?m)^name .*$", "name container", text)
        return replace(frame, source=source, text=text)

    def _hidden(self, text: str, *, addresses: bool) -> str:
        return self._identities.hide(hide_secrets(text), addresses=addresses)

    def _of_bmc(self, frame: Frame) -> str:
        """Registries are large, and equal machines have equal ones: each is gone through once."""
        if frame.text not in self._registries:
            known = self._identities
            text = hidden(
                replace(frame, text=hide_secrets(frame.text)), known.hide, known.serial, known.hide
            )
            if frame.key != "bmc-bios-registry":
                return text
            self._registries[frame.text] = text
        return self._registries[frame.text]

    def _serial_number(self, data: bytes) -> bytes:
        """A config space with another device serial number."""
        try:
            at = ConfigSpace("", data).extended(_SERIAL_CAPABILITY)
        except NoEvidence:
            return data
        if at is None or at + 12 > len(data):
            return data
        serial = data[at + 4 : at + 12][::-1].hex(":", 2)
        stand_in = bytes.fromhex(self._identities.guid(serial).replace(":", ""))[::-1]
        return data[: at + 4] + stand_in + data[at + 12 :]


@dataclass(slots=True)
class _Run:
    """Bytes without a gap, and the lines that print them."""

    start: int
    data: bytearray
    rows: list[tuple[int, int, int]]  # number of the line, where its bytes begin and end

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def _dumped(text: str, edit: Callable[[bytes], bytes]) -> str:
    """Hex dumps, "OFFSET BYTES" with "*" for repeated lines, after an edit that keeps lengths."""
    lines = text.split("\n")
    runs: list[_Run] = []
    folded = open_run = False
    for number, line in enumerate(lines):
        row = _ROW.fullmatch(line)
        if row is None:
            folded = line == "*"
            open_run = open_run and folded
            continue
        offset, data = int(row[1], 16), bytes.fromhex(row[3])
        if open_run and folded:
            last = runs[-1].rows[-1]
            above = bytes(runs[-1].data[last[1] : last[2]])
            runs[-1].data += above * ((offset - runs[-1].end) // len(above))
        if not open_run or offset != runs[-1].end:
            runs.append(_Run(offset, bytearray(), []))
        at = len(runs[-1].data)
        runs[-1].data += data
        runs[-1].rows.append((number, at, at + len(data)))
        folded, open_run = False, True
    for run in runs:
        edited = edit(bytes(run.data))
        if edited == run.data:
            continue
        for number, begin, end in run.rows:
            row = _ROW.fullmatch(lines[number])
            if row is not None:
                lines[number] = row[1] + row[2] + edited[begin:end].hex(" ")
    return "\n".join(lines)
