"""JSON, TOML and YAML from outside: the one place that reads them.

A text of some kilobytes may cost its reader all memory or hours: brackets within brackets, keys of
ten thousand parts, aliases of aliases. Here such a text is a ValueError, as one that is malformed.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit.errors import InventoryError, UsageError

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")
_DEEPEST = 64  # tables within lists within tables; what BMCs, clusters and sites write has 20
_MOST_TEXT = 32 << 20  # bytes of a file of a site; an inventory of 100,000 hosts has 10 MiB
_MOST_NODES = 1_000_000  # of a YAML text once its aliases are followed
_DEEP = "nested too deeply"
# tomllib looks at each part of a key once for every part behind it.
_LONG_KEY = re.compile(r"(?<![\w.\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){64}")


class Unreadable(ValueError):
    """The text is malformed, or made to cost more than its bytes."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.line = line  # 0 where that is not known


def read_json(text: str | bytes, *, constant: Callable[[str], object] | None = None) -> Any:  # noqa: ANN401 as json.loads has it
    """What a text in JSON says.

    :param constant: called for NaN and Infinity, which are no JSON.
    :raises Unreadable: it is none, or too deep.
    """
    return _shallow(_plainly(lambda: json.loads(text, parse_constant=constant)))


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a text in TOML. ``Any``: its values have no common type.

    :raises Unreadable: it is none, too deep, or has a key of too many parts.
    """
    if long := _LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise Unreadable(f"line {line}: a key of too many parts", line)
    return _shallow(_plainly(lambda: tomllib.loads(text)))


def read_yaml_nodes(text: str) -> yaml.Node | None:
    """The nodes of a text in YAML: no tag is run, no alias is copied.

    :raises Unreadable: it is none; it is too deep; an alias stands within what it names, or
        aliases of aliases stand for more than anyone has written.
    """
    import yaml  # noqa: PLC0415 only they pay for it

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            self.depth += 1
            if self.depth > _DEEPEST:
                raise Unreadable(_DEEP, self.line + 1)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    try:
        root = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + 1 if why.problem_mark else 1
        raise Unreadable(f"not YAML: {why.problem}", line) from why
    except yaml.YAMLError as why:
        raise Unreadable(f"not YAML: {why}") from why
    if root is not None:
        _Weights().of(root)
    return root


def read_file(file: Path) -> str:
    """A text that a site has written; a pipe is one, too.

    :raises UsageError: it is no UTF-8, or longer than any.
    :raises OSError: it cannot be read.
    """
    with file.open("rb") as opened:
        data = opened.read(_MOST_TEXT + 1)
    if len(data) > _MOST_TEXT:
        raise UsageError(
            f"{file}: longer than {_MOST_TEXT >> 20} MiB", hint="no site writes so much by hand"
        )
    return data.decode("utf-8").replace("\r\n", "\n")


def read_host_text(file: Path) -> str:
    """The same of a file of hosts.

    :raises InventoryError: it cannot be read, or is no text.
    """
    try:
        return read_file(file)
    except UnicodeDecodeError as why:
        raise InventoryError(f"{file}: is not UTF-8 text", hint="save it as UTF-8") from why
    except OSError as why:
        raise InventoryError(
            f"{file}: cannot be read: {why.strerror}", hint="name a file that can be read"
        ) from why


class _Weights:
    """How much a YAML text stands for: nodes, and their depth, by node."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int] | None] = {}  # None: amid it

    def of(self, node: yaml.Node) -> tuple[int, int]:
        """Each node is looked at once, whatever number of aliases leads there."""
        line = node.start_mark.line + 1
        if id(node) in self._known:
            known = self._known[id(node)]
            if known is None:
                raise Unreadable("an alias stands within what it names", line)
            return known
        self._known[id(node)] = None
        count, depth = 1, 1
        if not isinstance(node.value, str):
            for entry in node.value:
                for each in entry if isinstance(entry, tuple) else (entry,):
                    more, below = self.of(each)
                    count, depth = count + more, max(depth, below + 1)
        if count > _MOST_NODES:
            raise Unreadable(f"its aliases stand for more than {_MOST_NODES} values", line)
        if depth > _DEEPEST:
            raise Unreadable(_DEEP, line)
        self._known[id(node)] = count, depth
        return count, depth


def _plainly(read: Callable[[], T]) -> T:
    try:
        return read()
    except RecursionError as why:
        raise Unreadable(_DEEP) from why
    # Among them whole numbers of thousands of digits, which Python refuses to read.
    except ValueError as why:
        raise Unreadable(str(why)) from why


def _shallow(value: T) -> T:
    """The value, where no reader of ours can lose its stack in it."""
    level = _holders([value])
    for _ in range(_DEEPEST):
        if not level:
            return value
        level = _holders(
            inner for each in level for inner in (each.values() if isinstance(each, dict) else each)
        )
    raise Unreadable(_DEEP)


def _holders(values: Iterable[object]) -> list[dict[str, object] | list[object]]:
    return [each for each in values if isinstance(each, (dict, list))]
