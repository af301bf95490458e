"""The rows of bios.toml: each well made, with a source, and none that claims what it should not."""

from __future__ import annotations

import re

import pytest

from toolkit.compat.bios import BiosRole, BiosRows, read, shipped
from toolkit.compat.rows import Confidence

VENDORS = """
[[vendors]]
id = "dell"
names = ["^dell"]
signs = ['System\\.Embedded']
source = "test"
confidence = "H"
[[vendors]]
id = "lenovo"
names = ["lenovo"]
source = "test"
confidence = "H"
"""


def rows(body: str) -> BiosRows:
    return read(f'[[bios]]\n{body}\nsource = "test"\nconfidence = "H"\n{VENDORS}')


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        pytest.param(
            'id = "a"\nsetting = "acs"', "bios: a: names or display is missing", id="none",
        ),
        pytest.param(
            'id = "a"\nsetting = "acs"\nnames = ["("]', "bios: a: missing ), unterminated",
            id="pattern",
        ),
        pytest.param(
            'id = "a"\nsetting = "afs"\nnames = ["a"]',
            "bios, row 1: setting must be one of above-4g, mmio-window", id="setting",
        ),
        pytest.param(
            'id = "a"\nsetting = "acs"\nnames = ["a"]\nvendors = ["del"]',
            "bios: a: unknown vendor 'del'", id="vendor",
        ),
        pytest.param(
            'id = "a"\nsetting = "acs"\nnames = ["a"]\nvendor = ["dell"]',
            "bios, row 1: unknown key 'vendor'", id="key",
        ),
        pytest.param(
            'id = "a"\nsetting = "acs"\nnames = "a"',
            "bios, row 1: names must be a list of strings, not 'a'", id="list",
        ),
        pytest.param(
            'id = "a"\nsetting = "acs"\nnames = ["a"]\nvendors = ["dell", "dell"]',
            "bios: a: a vendor is named twice", id="twice",
        ),
        pytest.param(
            'id = "a"\nsetting = "acs"\nnames = ["P(\\\\d)"]\nscope = "slot {1}"',
            "bios: a: scope", id="scope",
        ),
    ],
)  # fmt: skip
def test_a_row_that_is_not_well_made_is_refused_with_its_place(body: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        rows(body)


def test_a_site_without_rows_is_told_how_they_look() -> None:
    with pytest.raises(ValueError, match=r"bios must be tables: \[\[bios\]\]"):
        read(VENDORS)


def test_every_setting_is_found_by_a_row_with_a_source() -> None:
    assert {row.setting for row in shipped().rows if not row.mistaken} == set(BiosRole)
    assert all(row.source for row in shipped().rows)


def test_what_is_mistaken_says_what_it_is_instead() -> None:
    assert [row.id for row in shipped().rows if row.mistaken and not row.note] == []


def test_what_deceives_stands_before_what_it_would_deceive() -> None:
    order = [row.mistaken for row in shipped().rows]
    assert order == sorted(order, reverse=True)


def test_no_row_rests_on_less_than_it_says() -> None:
    """H is a capture or a resource that somebody read; the others are documents and scripts."""
    read_there = re.compile("capture|resource|DGX|AMI board|BIOS of")
    doubtful = [
        row.id
        for row in shipped().rows
        if row.confidence is Confidence.HIGH and not read_there.search(row.source)
    ]
    assert doubtful == []


@pytest.mark.parametrize(
    ("names", "signs", "vendor"),
    [
        pytest.param(("Dell Inc.",), (), "dell", id="manufacturer"),
        pytest.param(("Unknown", "Lenovo"), (), "lenovo", id="the-next-that-is-known"),
        pytest.param(("NVIDIA", "AMI"), (), "nvidia", id="the-surest-first"),
        pytest.param(("Hpe",), (), "hpe", id="a-key-under-oem"),
        pytest.param(("HP",), (), "hpe", id="an-older-name"),
        pytest.param((), ("/redfish/v1/Systems/System.Embedded.1/Bios",), "dell", id="address"),
        pytest.param(("HPE",), ("#DellBios.RunBIOSLiveScanning",), "hpe", id="a-name-beats-signs"),
        pytest.param(("To be filled by O.E.M.",), (), "", id="nobody"),
        pytest.param((), (), "", id="nothing"),
    ],
)
def test_whose_bios_it_is(names: tuple[str, ...], signs: tuple[str, ...], vendor: str) -> None:
    assert shipped().vendor(names, signs) == vendor
