"""What a site expects to find in its nodes: the table [expect] of its own file.

    [expect]
    gpus = 8                           nvswitches = 4
    gpu_model = "H100 80GB"            words of its name, or a PCI id: "10de:2330"
    hcas = 8                           ports_up = 8
    rate = 400                         Gb/s
    link_layer = "InfiniBand"          or "Ethernet"
    mtu = 4096                         of the RDMA port; more than 4096 is the net device's
    bar1 = "128 GiB"
    gpu_link = "gen5 x16"              hca_link = "32 GT/s x16"
    firmware = "28.43.2026"            or by board: { MT_0000000838 = "28.43.2026" }
    driver = "570.86"                  kernel = "6.8.0-45-generic"
    ofed = "doca-ofed 25.10"           versions begin so: "570" is any of that branch

Values are kept as the file has them, once they are known to be readable, so that reports say
what the site has written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum

from msgspec import Struct

Value = int | float | str | tuple[tuple[str, str], ...]


class ExpectKey(StrEnum):
    """What may be expected, in the order in which files and reports have it."""

    GPUS = "gpus"
    GPU_MODEL = "gpu_model"
    NVSWITCHES = "nvswitches"
    GPU_LINK = "gpu_link"
    BAR1 = "bar1"
    HCAS = "hcas"
    HCA_LINK = "hca_link"
    FIRMWARE = "firmware"
    PORTS_UP = "ports_up"
    LINK_LAYER = "link_layer"
    RATE = "rate"
    MTU = "mtu"
    DRIVER = "driver"
    OFED = "ofed"
    KERNEL = "kernel"


class Expect(Struct, frozen=True):
    """The keys that were given, each with its value."""

    values: tuple[tuple[ExpectKey, Value], ...] = ()

    def __getitem__(self, key: ExpectKey) -> Value | None:
        """None where nothing is expected of it."""
        return next((value for each, value in self.values if each is key), None)

    def __iter__(self) -> Iterator[tuple[ExpectKey, Value]]:
        return iter(self.values)

    def under(self, other: Expect) -> Expect:
        """The same with what ``other`` says laid over it, key by key."""
        return _ordered(dict(self.values) | dict(other.values))


def _ordered(values: dict[ExpectKey, Value]) -> Expect:
    return Expect(tuple((key, values[key]) for key in ExpectKey if key in values))


def read_expect(table: object) -> Expect:
    """The table as TOML has it.

    :raises ValueError: an unknown key, or a value that its key does not take.
    """
    if not isinstance(table, dict):
        raise ValueError("expect must be a table: [expect] and gpus = 8")
    values: dict[ExpectKey, Value] = {}
    for name, value in table.items():
        if name not in list(ExpectKey):
            raise ValueError(f"expect: unknown key {name!r}; keys: {', '.join(ExpectKey)}")
        key = ExpectKey(name)
        values[key] = _READERS[key](key, value)
    return _ordered(values)


def said(key: ExpectKey, value: Value) -> str:
    """A value for a person: with its unit where the file has none."""
    if isinstance(value, tuple):
        return ", ".join(f"{board} {version}" for board, version in value)
    unit = {ExpectKey.RATE: " Gb/s", ExpectKey.MTU: " bytes"}.get(key, "")
    return f"{value:g}{unit}" if isinstance(value, float) else f"{value}{unit}"


_SIZE = re.compile(r"(\d{1,7}) ?(MiB|GiB|TiB)")
_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LINK = re.compile(r"(?:gen ?([1-7]) |(\d{1,2}(?:\.\d)?) GT/s (?:PCIe )?)?x(\d{1,2})", re.I)
_SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0}
_VERSION = re.compile(r"\d[\w.+:~-]*", re.ASCII)


def size(text: str) -> int:
    """Bytes of "128 GiB".

    :raises ValueError: for what is no such size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is no size such as "128 GiB" or "256 MiB"')
    return int(found[1]) * _UNITS[found[2]]


def link(text: str) -> tuple[float, int]:
    """Speed in GT/s and lanes of "gen5 x16", "32 GT/s x16" or "x16"; speed 0 where not said.

    :raises ValueError: for what is no link.
    """
    found = _LINK.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is no link such as "gen5 x16", "32 GT/s x16" or "x16"')
    speed = _SPEEDS[int(found[1])] if found[1] else float(found[2] or 0)
    return speed, int(found[3])


def begins(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one or one of its branch: "570.86.15" is a "570"."""
    return version == wanted or (
        version.startswith(wanted) and not version[len(wanted) :][:1].isalnum()
    )


def words(name: str) -> list[str]:
    """What tells a product's name apart: "NVIDIA H100 80GB HBM3" is h100, 80gb, hbm3."""
    return [each for each in re.split(r"[^a-z0-9]+", name.lower()) if each not in {"", "nvidia"}]


def _count(key: ExpectKey, value: object) -> Value:
    if type(value) is not int or not 0 <= value < 1000:  # a boolean is an integer too
        raise ValueError(f"expect: {key} must be a number such as 8, not {value!r}")
    return value


def _rate(key: ExpectKey, value: object) -> Value:
    if type(value) not in {int, float} or not value > 0:  # type: ignore[operator] # a number
        raise ValueError(f"expect: {key} must be Gb/s as a number such as 400, not {value!r}")
    return value  # type: ignore[return-value] # likewise


def _mtu(key: ExpectKey, value: object) -> Value:
    if type(value) is not int or not 256 <= value <= 65536:
        raise ValueError(f"expect: {key} must be bytes, such as 4096 or 9000, not {value!r}")
    return value


def _text(key: ExpectKey, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"expect: {key} must be a string that says something, not {value!r}")
    return value


def _model(key: ExpectKey, value: object) -> Value:
    text = _text(key, value)
    if not words(text):
        raise ValueError(f'expect: {key} {text!r} is no name such as "H100", nor "10de:2330"')
    return text


def _layer(key: ExpectKey, value: object) -> Value:
    text = _text(key, value)
    if text not in {"InfiniBand", "Ethernet"}:
        raise ValueError(f"expect: {key} {text!r} is not one of InfiniBand, Ethernet")
    return text


def _parsed(parse: Callable[[str], object]) -> Callable[[ExpectKey, object], Value]:
    def read(key: ExpectKey, value: object) -> Value:
        text = _text(key, value)
        try:
            parse(text)
        except ValueError as why:
            raise ValueError(f"expect: {key} {why}") from None
        return text

    return read


def _version(key: ExpectKey, value: object) -> Value:
    text = _text(key, value)
    if not _VERSION.fullmatch(text):
        raise ValueError(f"expect: {key} {text!r} is no version")
    return text


def _firmware(key: ExpectKey, value: object) -> Value:
    if isinstance(value, dict) and value:
        return tuple((board, str(_version(key, each))) for board, each in sorted(value.items()))
    return _version(key, value)


def _ofed(key: ExpectKey, value: object) -> Value:
    text = _text(key, value)
    flavour, _, version = text.partition(" ")
    flavours = {"inbox", "mlnx-ofed", "doca-ofed"}
    if flavour not in flavours or (version and not _VERSION.fullmatch(version)):
        raise ValueError(f'expect: {key} {text!r} is none such as "inbox" or "doca-ofed 25.10"')
    return text


_READERS: dict[ExpectKey, Callable[[ExpectKey, object], Value]] = {
    **dict.fromkeys(
        (ExpectKey.GPUS, ExpectKey.NVSWITCHES, ExpectKey.HCAS, ExpectKey.PORTS_UP), _count
    ),
    **dict.fromkeys((ExpectKey.GPU_LINK, ExpectKey.HCA_LINK), _parsed(link)),
    **dict.fromkeys((ExpectKey.DRIVER, ExpectKey.KERNEL), _version),
    ExpectKey.GPU_MODEL: _model,
    ExpectKey.BAR1: _parsed(size),
    ExpectKey.FIRMWARE: _firmware,
    ExpectKey.LINK_LAYER: _layer,
    ExpectKey.RATE: _rate,
    ExpectKey.MTU: _mtu,
    ExpectKey.OFED: _ofed,
}
