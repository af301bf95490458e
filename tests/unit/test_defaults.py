"""What nobody gave is nothing: defaults are empty, zero, False or None, but for a few.

Those stand in ``defaults.txt``: one that says something is a decision. Whoever makes one, or
another, accepts it by GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

from msgspec import Struct

import toolkit

HOME = Path(toolkit.__file__).parent
APART = ("toolkit/suites/", "toolkit/node/scripts/")  # they are imported by pytest, and never
IMPORTS = "*.py"
KEPT = Path(__file__).with_name("defaults.txt")
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"
PLAIN = (str, bool, int, float)


def modules() -> Iterator[ModuleType]:
    for file in sorted(HOME.rglob("*.py")):
        name = file.relative_to(HOME.parent).with_suffix("")
        if file.stem != "__main__" and not str(name).startswith(APART):
            yield importlib.import_module(".".join(name.parts).removesuffix(".__init__"))


def functions(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, each in vars(module).items():
        if getattr(each, "__module__", "") != module.__name__:
            continue
        if inspect.isfunction(each):
            yield name, each
        elif inspect.isclass(each) and not issubclass(each, Enum):
            own = {"__init__"} if dataclasses.is_dataclass(each) else set()
            for inner, found in vars(each).items():
                plain = getattr(found, "__func__", found)
                if inspect.isfunction(plain) and inner not in own:
                    yield f"{name}.{inner}", plain


def defaults() -> Iterator[str]:
    """Each default that says something, as a line."""
    for module in modules():
        where = module.__name__.removeprefix("toolkit.")
        for name, each in functions(module):
            for parameter in inspect.signature(each).parameters.values():  # type: ignore[arg-type]  # it is one
                yield from _told(f"{where}.{name}({parameter.name})", parameter.default)
        for name, each in vars(module).items():
            if not inspect.isclass(each) or each.__module__ != module.__name__:
                continue
            own = vars(each).get("__annotations__", {})
            for field, default in _fields(each):
                if field in own:
                    yield from _told(f"{where}.{name}.{field}", default)


def _fields(kind: type) -> Iterator[tuple[str, object]]:
    """Those of a record that have a default, by name."""
    if issubclass(kind, Struct):
        usual = kind.__struct_defaults__
        yield from zip(
            kind.__struct_fields__[len(kind.__struct_fields__) - len(usual) :], usual, strict=True
        )
    elif dataclasses.is_dataclass(kind):
        yield from ((each.name, each.default) for each in dataclasses.fields(kind))


def _told(where: str, default: object) -> Iterator[str]:
    if isinstance(default, PLAIN) and not isinstance(default, Enum) and default:
        yield f"{where} = {default!r}"


def test_what_nobody_gave_is_nothing_but_for_these() -> None:
    text = "".join(f"{line}\n" for line in defaults())
    if ACCEPT:
        KEPT.write_text(text)
    assert text == KEPT.read_text()
