"""JSON that a BMC served, read with nothing taken on trust."""

from __future__ import annotations

import json
import math
from typing import TypeAlias, cast

from toolkit.errors import Unparsable
from toolkit.untrusted import read_json

Raw: TypeAlias = str | int | float | bool | None  # an attribute's value, as served
Tree: TypeAlias = dict[str, object]


def read_object(source: str, text: str) -> Tree:
    """One resource.

    :param source: the frame's key, for the message.
    :raises Unparsable: where it is no JSON, or JSON that is no object.
    """
    try:
        found: object = read_json(text, constant=_no_number)
    except ValueError as why:
        raise Unparsable(source, text.strip().split("\n", 1)[0] or "nothing at all") from why
    if not isinstance(found, dict):
        raise Unparsable(source, text.strip().split("\n", 1)[0])
    return cast("Tree", found)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def tree(value: object) -> Tree:
    """An object within; an empty one where it is none."""
    return cast("Tree", value) if isinstance(value, dict) else {}


def trees(value: object) -> list[Tree]:
    """The objects of a list; whatever else is in it is left out."""
    if not isinstance(value, list):
        return []
    return [cast("Tree", each) for each in value if isinstance(each, dict)]


def words(value: object) -> str:
    """A string; "" where it is none."""
    return value if isinstance(value, str) else ""


def flag(value: object) -> bool:
    """A switch that is on; a string is none, whatever it says."""
    return value is True


def whole(value: object) -> int | None:
    """A whole number; None where it is none. True is a switch, not a one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def raw(value: object) -> Raw:
    """An attribute's value; a list or an object, which none may be, becomes its text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return json.dumps(value) if isinstance(value, list | dict) else str(value)
