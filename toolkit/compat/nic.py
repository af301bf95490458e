"""Settings in the firmware of ConnectX and BlueField that decide on GPUDirect RDMA.

Names are those of mlxconfig, without the number of a port: LINK_TYPE is LINK_TYPE_P1 and
LINK_TYPE_P2. Source: Mellanox/mstflint mlxconfig; Mellanox/nic-configuration-operator README.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SWITCH = {"on": 1, "true": 1, "off": 0, "false": 0}
# What each is, and the words that may stand for its numbers.
SETTINGS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "ATS_ENABLED": ("address translation by the HCA", _SWITCH),
    "PCI_WR_ORDERING": ("order of its writes", {"per_mkey": 0, "force_relax": 1}),
    "ROCE_CC_PRIO_MASK": ("priorities with congestion control", {"all": 255}),
    "LINK_TYPE": ("link layer of a port", {"ib": 1, "eth": 2}),
    "SRIOV_EN": ("virtual functions", _SWITCH),
    "MAX_ACC_OUT_READ": ("outstanding reads", {"auto": 0}),
    "ADVANCED_PCI_SETTINGS": ("shows further settings of PCIe, such as the last one", _SWITCH),
    "INTERNAL_CPU_OFFLOAD_ENGINE": ("DPU mode of BlueField", {"enabled": 0, "disabled": 1}),
}
_ALSO = {"ROCE_CC": "ROCE_CC_PRIO_MASK", "SRIOV": "SRIOV_EN"}
_PORT = re.compile(r"_P\d+$")


def without_port(name: str) -> str:
    """LINK_TYPE_P1 as LINK_TYPE."""
    return _PORT.sub("", name)


def port_of(name: str) -> str:
    """ "_P1" of LINK_TYPE_P1; "" for a setting of the whole card."""
    found = _PORT.search(name)
    return found[0] if found else ""


def setting(name: str) -> str:
    """A setting by the tool's own name, with or without its port.

    :raises ValueError: for one that we do not know.
    """
    bare = name.upper().replace("-", "_")
    bare = _ALSO.get(bare, bare)
    if without_port(bare) not in SETTINGS:
        raise ValueError(f"no setting {name[:60]!r}; settings: {', '.join(SETTINGS)}")
    return bare


def number(name: str, word: str) -> int:
    """What a word means of a setting: "eth" of LINK_TYPE is 2.

    :raises ValueError: for no value of it.
    """
    words = SETTINGS[without_port(name)][1]
    if word.isdecimal() and len(word) < 6:
        if set(words.values()) == {0, 1} and int(word) > 1:
            raise ValueError(f"{word} is no value of {name}; 0 or 1")
        return int(word)
    if word.lower() not in words:
        known = ", ".join(words)
        raise ValueError(f"{word[:60]!r} is no value of {name}; a number, or {known}")
    return words[word.lower()]


def read_wanted(value: Any) -> tuple[tuple[str, int], ...]:  # noqa: ANN401 of TOML
    """The table [nic] of a site: setting in the firmware of HCAs, and a number or a word for it.

    :raises ValueError: it is no table, or has a setting or a value that is not known.
    """
    if not isinstance(value, dict):
        raise ValueError('nic must be a table: nic = { LINK_TYPE = "eth" }')
    found = {}
    for name, word in value.items():
        if isinstance(word, bool) or not isinstance(word, str | int):
            raise ValueError(f"nic: {name} must be a number or a word, not {word!r}")
        known = setting(name)
        found[known] = number(known, str(word))
    return tuple(sorted(found.items()))
