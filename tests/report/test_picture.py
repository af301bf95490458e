"""The writer of pictures: how wide a text is at most, where it is cut, and what is written."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

import pytest

from toolkit.report.picture import Box, Picture, PictureLine, PictureText, fitted, measured, svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("text", "ems"),
    [
        ("ijl|'.,:;! ", 11 * 0.36),
        ("frt()[]-/", 9 * 0.46),
        ("mwMW@%", 6 * 1.0),
        ("ABCDEFGHKLNOPQRSTUVXYZ", 22 * 0.79),
        ("abc09IJé", 8 * 0.66),
        ("語…\u0300\u0394", 1.05 * 3),
        ("", 0),
    ],
)
def test_no_letter_is_wider_than_is_reckoned(text: str, ems: float) -> None:
    assert measured(text) == pytest.approx(ems * 12)
    assert measured(text, 10) == pytest.approx(ems * 10)


@pytest.mark.parametrize(
    ("width", "size", "kept"),
    [
        (measured("ab ab"), 12, "ab ab"),
        (measured("ab ab") - 0.1, 12, "ab…"),
        (measured("ab…"), 12, "ab…"),
        (measured("ab…") - 0.1, 12, "a…"),
        (measured("ab ab", 6), 6, "ab ab"),
        (measured("…"), 12, "…"),
        (measured("…") - 0.1, 12, ""),
    ],
)
def test_a_text_is_cut_where_it_would_not_fit(width: float, size: float, kept: str) -> None:
    assert fitted(" ab\n ab ", width, size) == kept
    assert measured(fitted(" ab\n ab ", width, size), size) <= width


def test_no_blank_is_left_before_the_cut() -> None:
    assert fitted("ab cdef", measured("ab …")) == "ab…"


PICTURE = Picture(
    "id&",
    100.5,
    50,
    "Title <b>",
    "told & so",
    (
        Box(1, 2, 30, 40, "gpu", (("one\ttwo", ""), ("B&W", "bad")), "A box", stop=True),
        Box(50, 2, 30, 40, "nic", (), "Another"),
    ),
    (PictureLine(((1, 2.5), (3, 4)), "link"), PictureLine(((0, 0),), "link worn", "worn out")),
    (PictureText(5, 6, "left"), PictureText(7, 8, "mid", "dim", "middle")),
)


def test_what_is_written_of_boxes_lines_and_words() -> None:
    root = Xml.fromstring(svg(PICTURE))
    named = {name: root.get(name) for name in ("viewBox", "width", "height", "role", "class")}
    assert named == {
        "viewBox": "0 0 100.5 50",
        "width": "100.5",
        "height": "50",
        "role": "group",
        "class": "picture",
    }
    assert root.get("aria-labelledby") == "id&-title id&-told"
    assert [(each.get("id"), each.text) for each in root[:2]] == [
        ("id&-title", "Title <b>"),
        ("id&-told", "told & so"),
    ]
    first, other = root.iter(f"{SVG}polyline")
    assert (first.get("points"), first.get("class"), len(first)) == ("1,2.5 3,4", "link", 0)
    assert (other[0].tag, other[0].text) == (f"{SVG}title", "worn out")
    gpu, nic = root.iter(f"{SVG}g")
    told = {"class": "gpu", "tabindex": "0", "role": "img", "aria-label": "A box"}
    assert (gpu.attrib, nic.attrib) == (told, {"class": "nic"})
    assert [each[0].text for each in (gpu, nic)] == ["A box", "Another"]
    assert gpu[1].attrib == {"x": "1", "y": "2", "width": "30", "height": "40", "rx": "6"}
    assert [(each.attrib, each.text) for each in gpu[2:]] == [
        ({"x": "10", "y": "18.82"}, "one two"),
        ({"x": "10", "y": "33.82", "class": "bad"}, "B&W"),
    ]
    words = [*root.findall(f"{SVG}text")]
    assert [each.attrib for each in words] == [
        {"x": "5", "y": "6"},
        {"x": "7", "y": "8", "class": "dim", "text-anchor": "middle"},
    ]


def test_alone_in_a_file_it_brings_its_style_and_a_ground() -> None:
    assert "<style>" not in svg(PICTURE)
    root = Xml.fromstring(svg(PICTURE, 'a>b{font:"x"}'))
    assert root.findtext(f"{SVG}style") == 'a>b{font:"x"}'
    ground = root.find(f"{SVG}rect")
    assert ground is not None
    assert ground.attrib == {"class": "ground", "width": "100.5", "height": "50"}
