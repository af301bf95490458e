"""What identifies a site is hidden, and every parser still reads the rest."""

from __future__ import annotations

import pytest

from tests.evidence.build import node
from tests.unit.judged import TODAY
from toolkit.checks.judged import judge_node
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.scrub import scrub
from toolkit.want import Want


def scrubbed(text: str, host: str = "gpu07.site.example") -> str:
    frames = {
        "hostname": Frame("hostname", State.OK, "hostname", "gpu07\n"),
        "x": Frame("x", State.OK, "x", text),
    }
    return scrub(Evidence(frames, complete=True), host).frames["x"].text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        pytest.param("mac 9c:63:c0:12:34:56\n", "9c:63", id="mac"),
        pytest.param("mlx5_0/node_guid:9c63:c003:00f0:1234\n", "9c63", id="guid"),
        pytest.param("root=UUID=1b4e28ba-2fa1-11d2-883f-0016d3cca427 ro\n", "1b4e28ba", id="uuid"),
        pytest.param("ip 10.20.30.40 is up\n", "10.20.30.40", id="ipv4"),
        pytest.param("nfs 2001:4860:4860:0:0:0:0:8888 ro\n", "4860", id="ipv6"),
        pytest.param("gpu07 kernel: hello\n", "gpu07", id="short-name"),
        pytest.param("from gpu07.site.example\n", "site.example", id="long-name"),
        pytest.param("Serial Number: 1654022000123\n", "1654022000123", id="serial"),
    ],
)
def test_what_identifies_a_site_is_hidden(text: str, hidden: str) -> None:
    assert hidden not in scrubbed(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0000:19:00.0/vendor:0x10de\n", id="pci-address"),
        pytest.param("MLNX_OFED_LINUX-24.10-2.1.8.0:\n", id="ofed-version"),
        pytest.param("mlnx-ofed-kernel/24.10.OFED.24.10.2.1.8.1: added\n", id="dkms"),
        pytest.param("version:570.124.06\n", id="driver-version"),
        pytest.param("srcversion:4B1C2D3E4F5A6B7C8D9E0F1\n", id="srcversion"),
        pytest.param("000010 de 10 30 23 06 04 10 00 a1 00 02 03 00 00 80 00\n", id="config-space"),
    ],
)
def test_what_verdicts_rest_on_stays(text: str) -> None:
    assert scrubbed(text) == text


def test_equal_things_stay_equal_and_different_ones_different() -> None:
    first, second, third = scrubbed("10.0.0.1\n10.0.0.2\n10.0.0.1\n").split()
    assert first == third != second


def test_scrubbed_evidence_is_judged_alike() -> None:
    whole = node()
    verdicts = judge_node("gpu07", whole, Want(), TODAY).verdicts
    hidden = judge_node("gpu07", scrub(whole, "gpu07"), Want(), TODAY).verdicts
    assert [each.finding for each in hidden] == [each.finding for each in verdicts]
