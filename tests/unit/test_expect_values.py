"""What may be expected of a node: how each key is read, refused and told."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.expect import Expect, ExpectKey, begins, link, read_expect, said, size, words

TAKEN: list[tuple[str, object, object]] = [
    *[(key, value, value) for key in ("gpus", "nvswitches", "hcas", "ports_up")
      for value in (0, 1, 999)],
    *[(key, value, value) for key in ("gpu_link", "hca_link")
      for value in ("gen5 x16", "32 GT/s x16", "x16", "GEN 4 x8", "2.5 GT/s PCIe x1")],
    *[(key, value, value) for key in ("driver", "kernel", "firmware")
      for value in ("570", "6.8.0-45~22.04+x:1")],
    ("gpu_model", "H100", "H100"),
    ("gpu_model", "10de:2330", "10de:2330"),
    ("bar1", "128 GiB", "128 GiB"),
    ("bar1", "256MiB", "256MiB"),
    ("firmware", {"b": "2", "a": "1.x"}, (("a", "1.x"), ("b", "2"))),
    ("link_layer", "InfiniBand", "InfiniBand"),
    ("link_layer", "Ethernet", "Ethernet"),
    ("rate", 400, 400),
    ("rate", 0.5, 0.5),
    ("mtu", 256, 256),
    ("mtu", 65536, 65536),
    *[("ofed", value, value) for value in ("inbox", "mlnx-ofed", "doca-ofed", "doca-ofed 25.10")],
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "read"), TAKEN)
def test_what_may_be_expected(key: str, value: object, read: object) -> None:
    found = read_expect({key: value})
    assert found.values == ((ExpectKey(key), read),)
    assert found[ExpectKey(key)] == read
    assert found[next(each for each in ExpectKey if each != key)] is None


REFUSED: list[tuple[str, object, str]] = [
    *[(key, value, f"{key} must be a number such as 8")
      for key in ("gpus", "nvswitches", "hcas", "ports_up")
      for value in (-1, 1000, True, "8", 1.0)],
    *[(key, value, f"{key} '{value}' is no link")
      for key in ("gpu_link", "hca_link")
      for value in ("gen8 x16", "gen0 x16", "x", "16", "gen5x16 x", "32 x16", "x160")],
    *[(key, "v570", f"{key} 'v570' is no version") for key in ("driver", "kernel", "firmware")],
    *[(key, value, f"{key} must be a string that says something")
      for key in ("gpu_link", "driver", "gpu_model", "bar1", "link_layer", "ofed", "firmware")
      for value in (5, "", "  ", "a\nb")],
    ("gpu_model", "NVIDIA", "gpu_model 'NVIDIA' is no name"),
    ("gpu_model", "--", "gpu_model '--' is no name"),
    *[("bar1", value, f"bar1 '{value}' is no size") for value in ("128", "128 GB", "1.5 GiB")],
    ("firmware", {}, "firmware must be a string"),
    ("firmware", {"a": "x"}, "firmware 'x' is no version"),
    ("link_layer", "IB", "link_layer 'IB' is not one of InfiniBand, Ethernet"),
    *[("rate", value, "rate must be Gb/s") for value in (0, -1, True, "400")],
    *[("mtu", value, "mtu must be bytes") for value in (255, 65537, True, "9000", 9000.0)],
    *[("ofed", value, "ofed '.*' is none such as") for value in ("ofed", "inbox x", "Inbox")],
    ("gpu", 8, "unknown key 'gpu'; keys: gpus, "),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "says"), REFUSED)
def test_what_cannot_be_expected(key: str, value: object, says: str) -> None:
    with pytest.raises(ValueError, match=f"^expect: {says}"):
        read_expect({key: value})


def test_keys_are_in_the_order_of_reports() -> None:
    with pytest.raises(ValueError, match="expect must be a table"):
        read_expect([1])
    found = read_expect({"kernel": "6.1", "gpus": 8, "mtu": 9000})
    assert list(found) == [(ExpectKey.GPUS, 8), (ExpectKey.MTU, 9000), (ExpectKey.KERNEL, "6.1")]
    over = found.under(read_expect({"gpus": 4, "rate": 1}))
    assert [*over] == [
        (ExpectKey.GPUS, 4),
        (ExpectKey.RATE, 1),
        (ExpectKey.MTU, 9000),
        (ExpectKey.KERNEL, "6.1"),
    ]
    assert Expect() == read_expect({})


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (ExpectKey.RATE, 400, "400 Gb/s"),
        (ExpectKey.RATE, 12.5, "12.5 Gb/s"),
        (ExpectKey.RATE, 400.0, "400 Gb/s"),
        (ExpectKey.MTU, 9000, "9000 bytes"),
        (ExpectKey.GPUS, 8, "8"),
        (ExpectKey.DRIVER, "570", "570"),
        (ExpectKey.FIRMWARE, (("a", "1"), ("b", "2")), "a 1, b 2"),
    ],
)
def test_a_value_for_a_person(key: ExpectKey, value: Any, text: str) -> None:
    assert said(key, value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1 MiB", 1 << 20), ("128 GiB", 128 << 30), ("2TiB", 2 << 40), ("9999999 MiB", 9999999 << 20)],
)
def test_sizes(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize(
    ("text", "speed", "lanes"),
    [
        *[(f"gen{n} x16", gts, 16) for n, gts in enumerate((2.5, 5, 8, 16, 32, 64, 128), start=1)],
        ("Gen 5 X8", 32, 8),
        ("2.5 GT/s PCIe x4", 2.5, 4),
        ("32 GT/s x16", 32, 16),
        ("x2", 0, 2),
    ],
)
def test_links(text: str, speed: float, lanes: int) -> None:
    assert link(text) == (speed, lanes)


@pytest.mark.parametrize(
    ("version", "wanted", "is_"),
    [
        ("570.86.15", "570", True),
        ("570.86.15", "570.86.15", True),
        ("570.86.15", "570.8", False),
        ("570.86.15", "57", False),
        ("570a", "570", False),
        ("570-1", "570", True),
        ("57", "570", False),
        ("", "", True),
        ("1.2", "2", False),
    ],
)
def test_a_version_of_a_branch(version: str, wanted: str, is_: bool) -> None:
    assert begins(version, wanted) is is_


def test_the_words_of_a_name() -> None:
    assert words("NVIDIA H100-80GB, HBM3") == ["h100", "80gb", "hbm3"]
    assert words("nvidia") == []
