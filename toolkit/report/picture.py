"""Pictures as boxes, lines and words, with one writer, SVG.

Units are pixels at a scale of one; y grows downwards. What varies is a class, never a style, so
that the policy of a page can forbid every style but its own. All text is escaped here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from html import escape

from msgspec import Struct

from toolkit.report.pages import plain

SIZE = 12.0  # of type
LEADING = 15.0
PAD = 9.0  # between a box and its words

# Advance widths in ems, those of DejaVu Sans rounded up: no font of our stack is wider.
_WIDTHS = {
    **dict.fromkeys("ijl|'.,:;! ", 0.36),
    **dict.fromkeys("frt()[]-/", 0.46),
    **dict.fromkeys("mwMW@%", 1.0),
    **dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ", 0.79),
}
_USUAL, _WIDE = 0.66, 1.05


class PictureText(Struct, frozen=True):
    """One line of text; ``y`` is its baseline."""

    x: float
    y: float
    text: str
    look: str = ""
    anchor: str = "start"


class Box(Struct, frozen=True):
    """A thing, with what it is called and what is told of it when pointed at, or read aloud."""

    x: float
    y: float
    width: float
    height: float
    look: str
    lines: tuple[tuple[str, str], ...]  # text and look; already fitted
    told: str  # whole sentences: the title on hover, and what a screen reader says
    stop: bool = False  # reached by the keyboard

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        return self.x + self.width


class PictureLine(Struct, frozen=True):
    points: tuple[tuple[float, float], ...]
    look: str
    told: str = ""


class Picture(Struct, frozen=True):
    id: str  # of its title and description, unique in a page
    width: float
    height: float
    title: str
    told: str  # the whole of it in words, for who does not see it
    boxes: tuple[Box, ...]
    lines: tuple[PictureLine, ...] = ()
    words: tuple[PictureText, ...] = ()


def measured(text: str, size: float = SIZE) -> float:
    """The width of a text, pixels, at most."""
    return sum(_WIDTHS.get(char) or _unusual(char) for char in text) * size


def _unusual(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    return _WIDE if ord(char) > 0x2FF else _USUAL


def fitted(text: str, width: float, size: float = SIZE) -> str:
    """The text, cut where it is wider than ``width`` pixels."""
    whole = plain(" ".join(text.split()))
    if measured(whole, size) <= width:
        return whole
    kept = whole
    while kept and measured(kept + "…", size) > width:
        kept = kept[:-1]
    return kept.rstrip() + "…" if measured("…", size) <= width else ""


def svg(picture: Picture, style: str = "") -> str:
    """The picture, to stand in a page or, with a style, alone in a file."""
    return "".join(_parts(picture, style))


def _parts(picture: Picture, style: str) -> Iterator[str]:
    wide, high = f"{picture.width:g}", f"{picture.height:g}"
    ids = f"{picture.id}-title {picture.id}-told"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}" role="group" aria-labelledby="{escape(ids)}">\n'
    )
    yield f'<title id="{escape(picture.id)}-title">{_escaped(picture.title)}</title>\n'
    yield f'<desc id="{escape(picture.id)}-told">{_escaped(picture.told)}</desc>\n'
    if style:
        yield f"<style>{escape(style, quote=False)}</style>\n"
        yield f'<rect class="ground" width="{wide}" height="{high}"/>\n'
    yield from map(_line, picture.lines)
    yield from map(_box, picture.boxes)
    yield from map(_words, picture.words)
    yield "</svg>\n"


def _line(line: PictureLine) -> str:
    points = " ".join(f"{x:g},{y:g}" for x, y in line.points)
    told = f"<title>{_escaped(line.told)}</title>" if line.told else ""
    return f'<polyline class="{escape(line.look)}" points="{points}">{told}</polyline>\n'


def _box(box: Box) -> str:
    stop = f' tabindex="0" role="img" aria-label="{_escaped(box.told)}"' if box.stop else ""
    parts = [
        f'<g class="{escape(box.look)}"{stop}><title>{_escaped(box.told)}</title>',
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6"/>',
    ]
    first = box.middle - (len(box.lines) - 1) * LEADING / 2 + SIZE * 0.36
    for number, (text, look) in enumerate(box.lines):
        parts.append(_words(PictureText(box.x + PAD, first + number * LEADING, text, look)))
    return "".join(parts) + "</g>\n"


def _words(words: PictureText) -> str:
    anchor = f' text-anchor="{escape(words.anchor)}"' if words.anchor != "start" else ""
    look = f' class="{escape(words.look)}"' if words.look else ""
    return f'<text x="{words.x:g}" y="{words.y:g}"{look}{anchor}>{_escaped(words.text)}</text>\n'


def _escaped(text: str) -> str:
    return escape(plain(text).replace("\t", " "))
