"""What a report tells of BMCs beside verdicts: those not read, those nobody vouches for."""

from __future__ import annotations

from datetime import date

import pytest

from tests.evidence.build import node
from toolkit.checks.judged import Judged, judge_node
from toolkit.errors import Outcome
from toolkit.evidence import Frame, State
from toolkit.report.table import Painter
from toolkit.report.text import report
from toolkit.want import Want

SOURCE = "https://10.0.0.7/redfish/v1/"
WANT = Want.load("peermem")


def judged(*frames: Frame, host: str = "gpu1") -> Judged:
    return judge_node(host, node().plus(frames), WANT, date(2026, 1, 1))


def told(*each: Judged) -> str:
    return report([Outcome(one.host, one) for one in each], Painter(False))


def read(verified: str) -> Frame:
    text = f"address 10.0.0.7\nverified {verified}\nmodel PowerEdge R750\nbios 1.8.2\n"
    return Frame("bmc", State.OK, SOURCE, text)


@pytest.mark.parametrize("verified", ["ca", "pinned"])
def test_a_bmc_that_was_verified_needs_no_words(verified: str) -> None:
    one = judged(read(verified))
    assert dict(one.about)["bmc"] == "PowerEdge R750, BIOS 1.8.2"
    assert "BMC not" not in told(one)


def test_a_bmc_that_anybody_may_have_been_is_told_of_once_for_all() -> None:
    lines = told(judged(read("no")), judged(read("no"), host="gpu2")).splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("BMC not verified")]
    assert lines[at].endswith("gpu[1-2]")
    assert "--bmc-insecure" in lines[at + 1]


def test_a_bmc_that_was_not_read_is_told_of_with_the_reason() -> None:
    why = Frame("bmc", State.FAILED, SOURCE, "10.0.0.7: refuses the connection\n", 1)
    one = judged(why)
    assert dict(one.about)["bmc"] == "not read: 10.0.0.7: refuses the connection"
    assert "10.0.0.7: refuses the connection" in told(one)


def test_a_bmc_of_another_machine_is_told_of_with_what_differs() -> None:
    system = Frame("bmc-system", State.OK, SOURCE, '{"SerialNumber": "THEIRS01"}\n')
    dmi = Frame("dmi", State.OK, "/sys", "product_serial:OURS0001\n")
    one = judged(read("no"), system, dmi)
    assert "of another machine: serial THEIRS01" in dict(one.about)["bmc"]
    text = told(one)
    assert "BMC of another machine" in text
    assert "BMC not verified" in text
    assert ", certificate not verified" not in text


def test_a_host_that_the_map_forgot_is_told_of() -> None:
    text = told(judged(read("ca")), judged(host="gpu2"))
    (line,) = [each for each in text.splitlines() if each.startswith("no BMC given")]
    assert line.endswith("gpu2")


def test_who_gave_no_bmc_hears_of_none() -> None:
    one = judged()
    assert "bmc" not in dict(one.about)
    assert "BMC" not in told(one)
