"""Pages that need nothing but themselves: one file, no network, readable without script.

A page is a template of this folder over ``base.html``, with ``base.css`` and further styles and
scripts of this folder put into it. Its policy (CSP) allows these very bytes by their hashes and
nothing else: whatever a node said cannot run, load or send anything, even where an escape were
forgotten. So a page has no style attributes; what varies is a class or an attribute of SVG.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from toolkit.package_data import as_called

_FOLDER = Path(__file__).parent


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {"breakable": _breakable, "as_called": as_called}
    return made


def render(
    template: str,
    values: Mapping[str, object],
    *,
    styles: tuple[str, ...] = ("base.css",),
    scripts: tuple[str, ...] = (),
) -> Iterator[str]:
    """The page, part by part; every value is escaped.

    :param template: a file of this folder that extends ``base.html``.
    :param values: what it is made of; every text of it is made ``plain``.
    :param styles: files of this folder, joined in this order; likewise ``scripts``.
    """
    style, script = _joined(styles), _joined(scripts)
    head = {"style": Markup(style), "script": Markup(script), "policy": policy(style, script)}  # noqa: S704 # bytes of ours, from this folder
    return _environment().get_template(template).generate({**values, **head})


def policy(style: str, script: str) -> str:
    """What the page may do: apply this style, run this script, and no more."""
    return (
        f"default-src 'none'; style-src {_hashed(style)}; script-src {_hashed(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashed(text: str) -> str:
    if not text:
        return "'none'"
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def plain(text: str) -> str:
    """The text without control characters, and without those that turn the direction of writing.

    Undecodable bytes, which reach us as surrogates, are no characters either.
    """
    # Most are ASCII: to look at their characters one by one took half the time of a large page.
    return text if text.isprintable() else _UNUSUAL.sub(_visible, text)


_UNUSUAL = re.compile(r"[^\n\t -~]")


def _visible(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else "\ufffd"


def _breakable(names: str) -> Markup:
    """A folded set of names that may go on in the next line after each comma."""
    return Markup("<wbr>").join(part for part in re.split(r"(?<=,)", plain(names)))


def _shown(value: object) -> object:
    """What jinja writes in place of a value, before it escapes it; markup is of our own making."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value
