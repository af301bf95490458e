"""Versions that no Python library reads as their makers mean them."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.versions import Version, parse_kernel_release, parse_ofed_version

OLDEST_FIRST = [
    "3.10.0-1160.el7.x86_64",
    "4.18.0-553.el8_10.x86_64",
    "5.4.0-97-generic",
    "5.14.0-427.el9.x86_64",
    "5.14.0-427.13.1.el9_4.x86_64",
    "5.15.0-1032-azure",
    "6.8.0-45-generic",
    "6.8.0-101-generic",
    "6.11.0-1013-nvidia-64k",
]


@pytest.mark.parametrize("text", OLDEST_FIRST)
def test_a_kernel_release_is_kept_as_written(text: str) -> None:
    assert str(parse_kernel_release(text + "\n")) == text


def test_kernel_releases_are_ordered_by_number_not_by_letter() -> None:
    versions = [Version(text) for text in OLDEST_FIRST]
    by_letter = [Version(text) for text in sorted(OLDEST_FIRST)]
    assert sorted(by_letter) == versions


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("linux", id="name-of-a-file"),
        pytest.param("6", id="one-number"),
        pytest.param("6.8.0 and more", id="two-words"),
        pytest.param("6.8.0\n6.9.0", id="two-lines"),
    ],
)
def test_what_is_no_kernel_release_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="kernel release: cannot read"):
        parse_kernel_release(text)


def test_zeroes_of_a_driver_version_are_kept() -> None:
    assert str(Version("595.71.05")) == "595.71.05"


@pytest.mark.parametrize(
    ("version", "numbers", "enough"),
    [
        pytest.param("515.43.04", (515, 43), True, id="exactly"),
        pytest.param("510.108.03", (515, 43), False, id="older"),
        pytest.param("570.86.15", (570,), True, id="branch"),
        pytest.param("5.12.0-rc1", (5, 12), True, id="release-candidate"),
        pytest.param("5.9.16", (5, 12), False, id="nine-is-less-than-twelve"),
    ],
)
def test_at_least(version: str, numbers: tuple[int, ...], enough: bool) -> None:
    assert Version(version).at_least(*numbers) is enough


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        pytest.param("MLNX_OFED_LINUX-24.10-2.1.8.0:\n", "24.10-2.1.8.0", id="mlnx-ofed"),
        pytest.param("MLNX_OFED_LINUX-5.4-3.0.3.0\n", "5.4-3.0.3.0", id="without-colon"),
        pytest.param("OFED-internal-25.10-1.7.1:\n", "25.10-1.7.1", id="doca-ofed"),
        pytest.param("MLNX_OFED_LINUX-4.9-0.1.7.0:\n", "4.9-0.1.7.0", id="lts"),
        pytest.param("OFED-internal-24.10-0.7.0.127:\n", "24.10-0.7.0.127", id="five-numbers"),
    ],
)
def test_the_version_of_ofed_wherever_it_stands(answer: str, version: str) -> None:
    assert str(parse_ofed_version(answer)) == version


@pytest.mark.parametrize("answer", ["", "doca-ofed 3.2.0\n", "MLNX_OFED_LINUX:\n"])
def test_an_answer_without_version_is_refused(answer: str) -> None:
    with pytest.raises(Unparsable, match="ofed_info -s: cannot read"):
        parse_ofed_version(answer)
