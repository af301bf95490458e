"""A second reading of port counters: the newest earlier run since the same boot, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence.build import node
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.verbs.reading import earlier_ports
from toolkit.want import Want

PORT = "mlx5_0/ports/1/counters/symbol_error"
NOW = "2026-11-23T12-00-00-doctor"


def reading(symbols: int, hours: float, boot: str = "a\n") -> Evidence:
    """Of a node that has been up for so long, and has counted so many errors of symbols."""
    plain = node()
    lines = [
        line
        for line in plain.text("infiniband").split("\n")
        if line and not line.startswith(f"{PORT}:")
    ]
    aer = f"uptime:{int(hours * 3600)}\nfunctions:12\n"
    infiniband = "".join(f"{line}\n" for line in (*lines, f"{PORT}:{symbols}"))
    return node({"infiniband": infiniband, "aer": aer, "boot-id": boot})


def kept(folder: Path, name: str, evidence: Evidence) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "gpu7.evidence").write_text(evidence.dump())


def asked(runs: Path, now: Evidence) -> tuple[Frame, ...]:
    return earlier_ports(runs, "gpu7", now, but=runs / NOW)


def status(runs: Path, now: Evidence) -> Status:
    judged = now.plus(asked(runs, now))
    return BY_ID["port.errors"](Node(judged), Want()).status


def test_a_link_that_is_bad_since_an_hour_does_not_hide_in_the_mean(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-23T11-00-00-doctor", reading(1_000, 999))
    now = reading(90_000, 1000)
    assert status(tmp_path, now) is Status.FAIL
    finding = BY_ID["port.errors"](Node(now.plus(asked(tmp_path, now))), Want()).finding
    assert finding.found == "errors on 1 of 4 ports in the last 60 min"
    assert finding.details[-1].endswith(", in the last 60 min")


@pytest.mark.parametrize(
    ("symbols", "hours", "boot"),
    [(80_000, 999, "a\n"), (1_000, 999, "b\n"), (1_000, 999.9, "a\n"), (100_000, 999, "a\n")],
    ids=["few-since", "booted-since", "minutes-ago", "counted-anew"],
)
def test_what_makes_no_rate_leaves_the_mean(
    tmp_path: Path, symbols: int, hours: float, boot: str
) -> None:
    kept(tmp_path, "2026-11-23T11-00-00-doctor", reading(symbols, hours, boot))
    assert status(tmp_path, reading(90_000, 1000)) is Status.PASS


def test_the_newest_other_run_that_read_the_node_counts(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-20T11-00-00-doctor", reading(1_000, 928))
    kept(tmp_path, "2026-11-22T11-00-00-plan", reading(2_000, 976))
    (tmp_path / "2026-11-23T11-00-00-hosts").mkdir()
    kept(tmp_path, NOW, reading(3_000, 1000))
    (frame,) = asked(tmp_path, reading(3_000, 1000))
    assert frame.source.startswith("run 2026-11-22T11-00-00-plan: ")


def test_without_a_count_no_run_is_looked_into(tmp_path: Path) -> None:
    kept(tmp_path, "2026-11-23T11-00-00-doctor", reading(0, 999))
    assert asked(tmp_path, reading(0, 1000)) == ()
    assert asked(tmp_path, Evidence({}, complete=True)) == ()


def test_a_run_that_read_no_counters_is_no_reading(tmp_path: Path) -> None:
    before = node(
        {"infiniband": "mlx5_0/fw_ver:1\n", "aer": "uptime:9\nfunctions:12\n", "boot-id": "a\n"}
    )
    kept(tmp_path, "2026-11-23T11-00-00-doctor", before)
    assert asked(tmp_path, reading(90_000, 1000)) == ()


def test_a_run_with_bytes_of_no_alphabet_is_a_reading(tmp_path: Path) -> None:
    before = reading(1_000, 999).plus([Frame("dmesg", State.OK, "dmesg", "\udcff\n")])
    (folder := tmp_path / "2026-11-23T11-00-00-doctor").mkdir()
    data = before.dump().encode("utf-8", "surrogateescape")
    (folder / "gpu7.evidence").write_bytes(data)
    (frame,) = asked(tmp_path, reading(90_000, 1000))
    assert frame.text.startswith(f"uptime:{999 * 3600}\n")


@pytest.mark.parametrize("text", ["", "= begin ok gdr-toolkit/1\n", "\0", None])
def test_a_run_that_cannot_be_read_is_passed_over(tmp_path: Path, text: str | None) -> None:
    runs = tmp_path / "runs"
    if text is not None:
        (runs / "2026-11-23T11-00-00-doctor").mkdir(parents=True)
        (runs / "2026-11-23T11-00-00-doctor" / "gpu7.evidence").write_text(text)
    assert asked(runs, reading(90_000, 1000)) == ()
