"""When hosts may be begun."""

from __future__ import annotations

from datetime import datetime

import pytest

from toolkit.errors import UsageError
from toolkit.rollout.plan.window import parse_window

# 2026-11-21 is a Saturday.
NOON = datetime(2026, 11, 21, 12)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute)


@pytest.mark.parametrize(
    ("said", "now", "is_open"),
    [
        pytest.param("", NOON, True, id="not-said"),
        pytest.param("Sat 22:00-04:00", at(21, 21, 59), False, id="before"),
        pytest.param("Sat 22:00-04:00", at(21, 22), True, id="as-it-opens"),
        pytest.param("Sat 22:00-04:00", at(22, 3, 59), True, id="after-midnight"),
        pytest.param("Sat 22:00-04:00", at(22, 4), False, id="as-it-closes"),
        pytest.param("Sat 22:00-04:00", at(21, 2), False, id="the-night-before"),
        pytest.param("Sun 00:00-24:00", at(22, 23, 59), True, id="a-whole-day"),
        pytest.param("Sun 00:00-24:00", at(23, 0), False, id="and-no-more"),
        pytest.param("mon-fri 01:00-05:00", at(23, 2), True, id="a-weekday"),
        pytest.param("mon-fri 01:00-05:00", at(22, 2), False, id="no-weekday"),
        pytest.param("fri-mon 01:00-05:00", at(22, 2), True, id="over-the-weekend"),
        pytest.param("tue 01:00-02:00, 11:00-13:00", NOON, True, id="one-of-two"),
        pytest.param("22:00-04:00", at(22, 1), True, id="every-night"),
        pytest.param("  ", NOON, True, id="blank"),
        pytest.param(" SAT  11:59 - 12:01 ", NOON, True, id="case-and-blanks"),
        pytest.param("sat-sat 11:00-13:00", NOON, True, id="from-a-day-to-itself"),
        pytest.param("sat-sat 11:00-13:00", at(22, 12), False, id="to-itself-and-no-more"),
        pytest.param("sun-fri 11:00-13:00", NOON, False, id="all-but-one"),
        pytest.param("sat 00:00-00:01", at(21, 0), True, id="at-midnight"),
        pytest.param("sun-sat 00:00-24:00", NOON, True, id="always"),
    ],
)
def test_a_window_is_open(said: str, now: datetime, is_open: bool) -> None:
    assert parse_window(said, NOON).open_at(now) is is_open


def test_a_length_counts_from_now() -> None:
    window = parse_window("90m", NOON)
    assert window.open_at(at(21, 13, 29))
    assert not window.open_at(at(21, 13, 30))
    assert window.opens_after(at(21, 14)) is None
    assert parse_window("4h", NOON).open_at(at(21, 15, 59))
    assert not parse_window("4h", NOON).open_at(at(21, 16))
    assert parse_window(" 1 H ", NOON).until == at(21, 13)
    assert parse_window("1m", NOON).until == at(21, 12, 1)
    assert window.said == "90m"
    assert parse_window("9999m", NOON).until is not None


def test_it_is_told_when_a_window_opens() -> None:
    assert parse_window("Sat 22:00-04:00", NOON).opens_after(NOON) == at(21, 22)
    assert parse_window("Sat 22:00-04:00", NOON).opens_after(at(21, 23)) == at(28, 22)
    assert parse_window("Sat 22:00-04:00", NOON).opens_after(at(21, 22)) == at(28, 22)
    two = parse_window("Mon 01:00-02:00,Sun 01:00-02:00", NOON)
    assert (two.opens_after(NOON), two.said) == (at(22, 1), "Mon 01:00-02:00,Sun 01:00-02:00")
    assert parse_window("", NOON).opens_after(NOON) is None


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (" sat ", "--window: cannot read 'sat'"),
        ("22:00", "--window: cannot read '22:00'"),
        (" Sab 22:00-04:00 ", "--window: no such day in 'Sab 22:00-04:00'"),
        ("Sat-Sab 22:00-04:00", "--window: no such day in 'Sat-Sab 22:00-04:00'"),
        (" Sat 25:00-26:00 ", "--window: no such time in 'Sat 25:00-26:00'"),
        ("Sat 22:60-23:00", "--window: no such time in 'Sat 22:60-23:00'"),
        ("Sat 23:00-24:01", "--window: no such time in 'Sat 23:00-24:01'"),
        (" 1:00-1:00 ", "--window '1:00-1:00': begins and ends at once"),
        ("0h", "--window: cannot read '0h'"),
        ("10000m", "--window: cannot read '10000m'"),
        ("22:00-04:00,", "--window: cannot read ''"),
        ("22:00-04:00, x ", "--window: cannot read 'x'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(said: str, found: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_window(said, NOON)
    assert str(refused.value) == found
    assert "Sat 22:00-04:00" in refused.value.hint
