"""Templates and values become text. Nothing that a node said can add a line of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader, StrictUndefined

from toolkit.errors import Unparsable, UsageError

_HERE = Path(__file__).parents[1]
# Beside the package in a checkout, inside it once installed.
TEMPLATES = next(
    (each for each in (_HERE / "templates", _HERE.parent / "templates") if each.is_dir()),
    _HERE / "templates",
)

_VALUE = re.compile(r"[A-Za-z0-9._+~:=,@/ -]*")
_WORDS = re.compile(r"[A-Za-z0-9._+~:=,@/ ;\"-]*")  # between quotes, wherever they land
_ARGUMENTS = frozenset({"arguments", "add", "drop"})
_OWN: dict[str, str] = {}  # of a site, by name
_REFUSED: dict[str, str] = {}  # of these, and why
_PART = re.compile(r"[A-Za-z0-9._+~:@-]+")


def go_before(own: Mapping[str, str], refused: Mapping[str, str]) -> None:
    """From now on a site's templates stand in place of ours of the same name.

    :param refused: of these, by name, and why: nothing may be made of them.
    """
    for known, given in ((_OWN, own), (_REFUSED, refused)):
        known.clear()
        known.update(given)
    _environment.cache_clear()


@cache
def _environment() -> Environment:
    return Environment(
        loader=ChoiceLoader([DictLoader(_OWN), FileSystemLoader(TEMPLATES)]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 # no HTML; what values may hold is checked below
    )


def render_text(template: str, values: Mapping[str, str]) -> str:
    """The file that ``template`` (a path below templates/) makes of ``values``.

    :raises Unparsable: where a value holds anything but plain words: what lands on a node is
        read by root's shells, and some values come from the node itself.
    :raises UsageError: the site's template of that name was made from one that has changed since.
    """
    if template in _REFUSED:
        hint = f"compare it with {TEMPLATES / template}, and see docs/site.md"
        raise UsageError(_REFUSED[template], hint=hint)
    for name, value in values.items():
        if not (_WORDS if name in _ARGUMENTS else _VALUE).fullmatch(value):
            raise Unparsable(f"{template}, {name}", value)
    return _environment().get_template(template).render(dict(values))


def render_document(
    template: str,
    values: Mapping[str, str],
    *,
    rows: Mapping[str, Sequence[Mapping[str, str]]],
    texts: Mapping[str, str],
) -> str:
    """What is no file of a node's, and has lists and whole texts of ours in it.

    :param rows: lists by name; their values are checked as all others are.
    :param texts: put in as they stand: scripts of ours.
    :raises Unparsable: where a value or a row holds anything but plain words.
    """
    for name, row in [("values", values), *((k, row) for k, each in rows.items() for row in each)]:
        for key, value in row.items():
            if not _VALUE.fullmatch(value):
                raise Unparsable(f"{template}, {name}, {key}", value)
    return _environment().get_template(template).render({**values, **rows, **texts})


def render_path(path: str, values: Mapping[str, str]) -> str:
    """The place of a file: {NAMES} in ``path`` are taken from ``values``, one part each.

    :raises Unparsable: where a value would lead out of its folder.
    """
    for name, value in values.items():
        if f"{{{name}}}" in path and (not _PART.fullmatch(value) or value.startswith(".")):
            raise Unparsable(f"{path}, {name}", value)
    return path.format(**values)
