"""The compatibility tables: each row has its source; a site can put its own in their place."""

from __future__ import annotations

import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from tests.evidence.build import node, rdma_core
from tests.evidence.frames import ABSENT, Override
from toolkit.checks.consumers.path import dmabuf_nic_gap
from toolkit.compat import reader
from toolkit.compat.reader import (
    DATA,
    Compat,
    Confidence,
    Consumer,
    Row,
    Span,
    numbers,
    read,
    shipped,
)
from toolkit.errors import UsageError
from toolkit.facts.node.node import Node
from toolkit.want import Want

TABLES = [each.name for each in fields(Compat)]
ROWS: list[tuple[str, Row]] = [
    (table, row) for table in TABLES for row in getattr(shipped(), table)
]

INBOX: dict[str, Override] = {
    "ofed-info": ABSENT,
    "dkms-status": "",
    "rdma-modinfo": rdma_core("/lib/modules/5.4.0-200-generic/kernel", version=""),
}


def site(tmp_path: Path, text: str) -> Want:
    file = tmp_path / "site.toml"
    file.write_text(text)
    return Want.load("peermem", site=file)


# --- the rows that we ship ---


@pytest.mark.parametrize(("table", "row"), ROWS, ids=lambda each: getattr(each, "id", each))
def test_every_row_names_its_source_and_how_sure_it_is(table: str, row: Row) -> None:
    assert len(row.source) > 5
    assert row.confidence in Confidence


def test_ids_are_there_once_in_all_tables_together() -> None:
    ids = [row.id for _, row in ROWS]
    assert len(set(ids)) == len(ids)


def test_the_breakages_are_b01_to_b20_each_with_a_way_out() -> None:
    breakages = shipped().breakages
    assert [each.id for each in breakages] == [f"B{number:02}" for number in range(1, 21)]
    assert all(each.title and each.effect and each.action for each in breakages)


def test_the_tables_are_read_once() -> None:
    assert shipped() is shipped()
    assert Want().compat is Want().compat


VERSIONS = (
    *("2.4.8", "2.9.6", "2.9.8", "2.12.12", "2.13.4", "2.18.3", "2.21.5", "2.22.3", "2.23.4"),
    *("2.24.3", "2.26.2", "2.27.3", "2.27.7", "2.28.3", "2.29.7", "2.30.7", "2.99"),
)


def test_a_table_of_ours_is_read_once_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def table(_folder: Path, name: str) -> tuple[str]:
        asked.append(name)
        return (name,)

    monkeypatch.setattr(reader, "_table", table)
    ours = shipped.__wrapped__()
    assert asked == []
    found = [getattr(ours, each)[0] for each in ("cuda", "hcas", "cuda")]
    assert (found, asked) == (["cuda", "hcas", "cuda"], ["cuda", "hcas"])
    assert not hasattr(ours, "gpus")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_nccl_is_in_one_row_of_each_table(version: str) -> None:
    compat = shipped()
    assert len([e for e in compat.consumers if e.name == "nccl" and e.covers(version)]) == 1
    assert len([each for each in compat.distances if each.covers(version)]) == 1


@pytest.mark.parametrize("row", [r for _, r in ROWS if isinstance(r, Span)], ids=lambda r: r.id)
def test_no_span_ends_before_it_begins(row: Span) -> None:
    assert row.covers(row.first)


def test_a_limit_is_one_of_the_names() -> None:
    for row in shipped().distances:
        assert row.limit in row.names
        assert not row.c2c or row.c2c in row.names


def test_driver_branches_go_up_and_so_does_their_cuda() -> None:
    branches = shipped().drivers
    assert [b.branch for b in branches] == sorted({b.branch for b in branches})
    told = [numbers(each.cuda) for each in branches if each.cuda]
    assert told == sorted(told)


# --- what they answer ---


@pytest.mark.parametrize(
    ("version", "number", "path"),
    [
        ("2.7.8", 4, "PHB"),
        ("2.9.6", 4, "PXB"),
        ("2.12.12", 5, "PXN"),
        ("2.18.3", 4, "PXB"),
        ("2.24.3", 6, "PHB"),
        ("2.26.2", 7, "PHB"),
        ("2.27.3", 8, "PHB"),  # "distance 8 > 5": PHB > PXB
        ("2.27.3", 5, "PXB"),
        ("2.27.3", 7, "P2C"),
        ("2.28.3", 7, "PXN"),
        ("2.29.2", 6, "P2C"),
        ("2.30.7", 7, "PXN"),
        ("2.30.7", 9, "SYS"),
        ("2.30.7", 12, ""),
        ("2.30.7", -1, ""),
    ],
)
def test_a_printed_distance_means_what_its_version_says(
    version: str, number: int, path: str
) -> None:
    assert shipped().path_name(version, number) == path


@pytest.mark.parametrize(
    ("version", "row"),
    [
        ("2.9.6", "nccl-2.0"),
        ("2.9.8", "nccl-2.9.8"),
        ("2.12.12", "nccl-2.9.8"),
        ("2.13.4", "nccl-2.13"),
        ("2.21.5", "nccl-2.13"),
        ("2.22.3", "nccl-2.22"),
        ("2.23", "nccl-2.23"),
        ("2.23.4", "nccl-2.23"),
    ],
)
def test_detection_by_version(version: str, row: str) -> None:
    found = shipped().consumer("nccl", version)
    assert found is not None
    assert found.id == row


def test_ofed_and_driver_belong_to_the_last_row_that_is_not_above_them() -> None:
    compat = shipped()
    releases = [compat.ofed_release(each) for each in ("24.01-0.3.3", "24.04-0.6.6", "24.10-2.1.8")]
    assert [each and each.memory_peers for each in releases] == [True, False, False]
    assert [each and each.symbol for each in releases] == ["ib_core", "ib_core", "ib_uverbs"]
    assert compat.ofed_release("3.4-1.0.0") is None
    assert compat.branch("582.10").id == "driver-580"
    assert compat.branch("390.157").peermem is False


def test_versions_are_compared_by_their_numbers() -> None:
    assert numbers("2.9.8") < numbers("2.12") < numbers("2.100")
    assert numbers("2.23") == numbers("2.23.0")
    assert numbers("6.8.0-45-generic") == (6, 8)


# --- a site's own ---

ROW = """\
[[compat.consumers]]
id = "{id}"
name = "nccl"
first = "2.22"
before = "2.23"
detects = ["/sys/module/nvidia_peermem/version"]
dmabuf = true
prefers = "dmabuf"
source = "our own build"
confidence = "H"
"""


def test_a_site_replaces_a_row_by_its_id(tmp_path: Path) -> None:
    compat = site(tmp_path, ROW.format(id="nccl-2.22")).compat
    found = compat.consumer("nccl", "2.22.3")
    assert isinstance(found, Consumer)
    assert found.detects == ("/sys/module/nvidia_peermem/version",)
    assert len(compat.consumers) == len(shipped().consumers)
    assert compat.drivers is shipped().drivers


def test_a_site_adds_a_row(tmp_path: Path) -> None:
    compat = site(tmp_path, ROW.format(id="ours")).compat
    assert len(compat.consumers) == len(shipped().consumers) + 1


def test_what_a_site_says_stays_its_own(tmp_path: Path) -> None:
    site(tmp_path, ROW.format(id="ours"))
    assert all(each.id != "ours" for each in Want().compat.consumers)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("compat = 3\n", "compat must hold tables of rows", id="no-table"),
        pytest.param(
            '[[compat.consumer]]\nid = "x"\n',
            "compat: unknown table 'consumer'",
            id="unknown-table",
        ),
        pytest.param(
            ROW.format(id="x") + 'colour = "red"\n',
            "compat.consumers, row 1: unknown key 'colour'",
            id="unknown-key",
        ),
        pytest.param(
            ROW.format(id="x").replace('source = "our own build"\n', ""),
            "compat.consumers, row 1: source is missing",
            id="without-source",
        ),
        pytest.param(
            ROW.format(id="x").replace('"H"', '"sure"'),
            "confidence must be H, M or L, not 'sure'",
            id="confidence",
        ),
        pytest.param(
            ROW.format(id="x").replace("dmabuf = true", "dmabuf = 1"),
            "dmabuf must be true or false, not 1",
            id="type",
        ),
        pytest.param(
            ROW.format(id="x").replace('["/sys', '[7, "/sys'),
            "detects must be a list of strings",
            id="list",
        ),
        pytest.param(
            ROW.format(id="x") + ROW.format(id="x"), "two rows have the id 'x'", id="twice"
        ),
        pytest.param("[compat]\nconsumers = []\n", "must be tables: [[compat.", id="empty"),
        pytest.param('consumers = "nccl"\n', "consumers must be a table", id="consumers"),
        pytest.param('consumers = { rccl = "2.1" }\n', "consumer 'rccl' is not one", id="library"),
        pytest.param('consumers = { nccl = "new" }\n', "'new' is none such as", id="version"),
        pytest.param('consumers = { nccl = "22.7" }\n', "'22.7' is none: they are", id="a-slip"),
        pytest.param("consumers = { nccl = 2.27 }\n", "2.27 is none such as", id="a-number"),
    ],
)
def test_what_is_wrong_in_a_sites_file_is_said(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        site(tmp_path, text)
    assert why in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "site.toml"))


def test_libraries_that_jobs_bring_are_named_with_their_version(tmp_path: Path) -> None:
    want = site(tmp_path, 'consumers = { ucx = "1.17.0", nccl = "2.27" }\n')
    assert want.consumers == (("nccl", "2.27"), ("ucx", "1.17.0"))


def test_a_damaged_table_is_refused_with_its_row(tmp_path: Path) -> None:
    folder = shutil.copytree(DATA, tmp_path / "data")
    ofed = folder / "ofed.toml"
    ofed.write_text(ofed.read_text().replace("memory_peers = false", 'memory_peers = "no"', 1))
    with pytest.raises(ValueError, match=r"compat\.ofed, row 4: memory_peers must be true or"):
        read(folder)


def test_a_sites_row_moves_a_verdict(tmp_path: Path) -> None:
    """A kernel that its distribution patched: dma-buf registration from 5.4 on."""
    text = """\
[[compat.kernels]]
id = "dmabuf-mr"
first = "5.4"
feature = "patched in"
source = "our kernel team"
confidence = "H"
"""
    old = Node(node({**INBOX, "kernel-release": "5.4.0-200-generic\n"}))
    assert "cannot register dma-buf" in dmabuf_nic_gap(old.fresh(), Want())
    assert dmabuf_nic_gap(old.fresh(), site(tmp_path, text)) == ""
