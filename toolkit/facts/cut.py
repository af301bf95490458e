"""Whether a text that somebody gave may have lost its end.

The probe's frames say how their commands ended; a loose file has its text alone. What a tool always
prints last tells: a text without it proves no health, though a fault in it is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_GPU = re.compile(r"^GPU [0-9a-fA-F]{4,8}:", re.MULTILINE)
_PROCESSES = re.compile(r"^    Processes\b", re.MULTILINE)
_TABLE_PROCESSES = re.compile(r"^\|\s*Processes:", re.MULTILINE)
_BORDER = re.compile(r"\+-+\+-+\+\s*")


def _smi_query(text: str) -> bool:
    """Each GPU ends with its processes, unless sections were chosen (-d); XML is judged as such."""
    if "Product Name" not in text:
        return True
    return bool(_PROCESSES.search(_GPU.split(text)[-1]))


def _smi_table(text: str) -> bool:
    return bool(_TABLE_PROCESSES.search(text))


def _diag(text: str) -> bool:
    lines = [line for line in text.split("\n") if line[:1] in {"|", "+"}]
    return bool(lines) and bool(_BORDER.fullmatch(lines[-1]))


def _ibstat(text: str) -> bool:
    return "Link layer:" in re.split(r"^\s*(?:CA '|Port \d+:)", text, flags=re.MULTILINE)[-1]


def _devinfo(text: str) -> bool:
    parts = re.split(r"^\s*(?:hca_id:|port:)\s", text, flags=re.MULTILINE)
    return len(parts) == 1 or "link_layer:" in parts[-1]  # one: it says that there is none


_WHOLE: dict[str, Callable[[str], bool]] = {
    "nvidia-smi-q": _smi_query,
    "nvidia-smi-table": _smi_table,
    "dcgmi-diag": _diag,
    "ibstat": _ibstat,
    "ibv-devinfo": _devinfo,
}


def lost_its_end(key: str, text: str) -> bool:
    """Whether what the tool prints last is missing; False of those whose end does not tell."""
    whole = _WHOLE.get(key)
    return whole is not None and not whole(text)
