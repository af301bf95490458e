"""Tables of TOML as rows: frozen dataclasses, each value checked against its field's type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, TypeVar

from toolkit.compat.rows import Row

T = TypeVar("T", bound=Row)
Enums = Mapping[str, type[StrEnum]]  # by the name that annotations use


def rows(where: str, kind: type[T], tables: object, enums: Enums) -> list[T]:
    """The rows of one table, in the order of the file.

    :param where: the table's name as an operator writes it: "compat.consumers".
    :raises ValueError: for an unknown key, a missing or mistyped value, or an id used twice.
    """
    if not isinstance(tables, list) or not tables:
        raise ValueError(f"{where} must be tables: [[{where}]]")
    made = [
        _row(f"{where}, row {number}", kind, table, enums)
        for number, table in enumerate(tables, start=1)
    ]
    twice = repeated(row.id for row in made)
    if twice:
        raise ValueError(f"{where}: two rows have the id {twice!r}")
    return made


def repeated(ids: Iterable[str]) -> str:
    """The first id that stands there a second time; "" for none."""
    seen: set[str] = set()
    for each in ids:
        if each in seen:
            return each
        seen.add(each)
    return ""


def _row(where: str, kind: type[T], table: object, enums: Enums) -> T:
    """One TOML table as a row of its kind."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} is no table")
    known = {each.name: each for each in fields(kind)}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    missing = [
        name for name, each in known.items() if name not in table and each.default is MISSING
    ]
    if missing:
        raise ValueError(f"{where}: {missing[0]} is missing")
    # Any: what follows from the fields' own annotations is beyond a type checker.
    values: dict[str, Any] = {
        name: _value(f"{where}: {name}", str(known[name].type), table[name], enums)
        for name in table
    }
    return kind(**values)


def _value(where: str, kind: str, value: object, enums: Enums) -> object:
    """One TOML value as its field's type."""
    # A field that may be None is None by leaving it out; TOML has no such value.
    kind = kind.removesuffix(" | None")
    fits = {
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        **{name: value in list(each) for name, each in enums.items()},
        "tuple[str, ...]": isinstance(value, list) and all(isinstance(e, str) for e in value),
    }
    if not fits[kind]:
        raise ValueError(f"{where} must be {_words(kind, enums)}, not {value!r}")
    if kind in enums:
        return enums[kind](str(value))
    return tuple(value) if isinstance(value, list) else value


def _words(kind: str, enums: Enums) -> str:
    if kind == "Confidence":
        return "H, M or L"
    if kind in enums:
        return f"one of {', '.join(enums[kind])}"
    return _WORDS[kind]


_WORDS = {
    "str": "a string",
    "bool": "true or false",
    "int": "a whole number",
    "tuple[str, ...]": "a list of strings",
}
