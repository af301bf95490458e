"""How the chosen path is told: to a person, and to machines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
from msgspec.structs import replace

from tests.checks.test_chosen import CLOSED, DMABUF, NO_NVLINK, VOLTA, of
from tests.evidence.build import OPEN, node
from tests.evidence.frames import Override
from tests.evidence.healthy_consumers import LIBS, nccl
from tests.invoked import gdr
from tests.unit.checkout import ROOT
from tests.unit.judged import TODAY
from toolkit.checks.judged import judge_node
from toolkit.errors import ExitCode, Outcome
from toolkit.report.document import Told, document, dumps
from toolkit.report.table import Painter
from toolkit.report.text import report
from toolkit.want import Want


def told(frames: Mapping[str, Override], *, verbose: bool = False, **asked: str) -> str:
    want = Want(consumers=tuple(sorted(asked.items())))
    hosts = ("gpu01", "gpu02")
    one = [judge_node(host, node(frames), want, TODAY) for host in hosts]
    return report([Outcome(e.host, e) for e in one], Painter(False), verbose=verbose)


ASKED = """\
path     NCCL 2.27              dmabuf    gpu[01-02]
         pairs     all 2 GPUs with their nearest HCA, sending and receiving
         why       driver and HCA can, and it prefers dma-buf
         farther   none: SYS, and the limit is PXB
         farther   none: PHB, and the limit is PXB
         otherwise peermem with NCCL_DMABUF_ENABLE=0
"""


def test_what_was_asked_for_is_told_once_for_all_nodes_that_agree() -> None:
    assert ASKED in told(NO_NVLINK, nccl="2.27")


def test_what_works_and_was_not_asked_for_is_told_to_those_who_want_all() -> None:
    assert "\npath     " not in "\n" + told({})
    assert "path     NCCL 2.27.3            dmabuf    gpu[01-02]" in told({}, verbose=True)


def test_a_library_that_takes_no_path_is_told_unasked_with_the_known_cause() -> None:
    text = told({**CLOSED, "libraries": nccl("2.22.3")})
    assert "path     NCCL 2.22.3            none      gpu[01-02]" in text
    assert f"library   {LIBS}/libnccl.so" in text
    assert "known     B01: OFED 24.04 and newer have no memory_peers;" in text
    assert "way out: use NCCL 2.23.4, UCX 1.18 or newer, or the open driver" in text


def test_directions_that_differ_are_told_apart() -> None:
    want = replace(Want(), consumers=(("nccl", "2.27"),))
    frames = {**NO_NVLINK, **CLOSED}
    judged = judge_node("gpu01", node(frames, board=VOLTA), want, TODAY)
    text = report([Outcome("gpu01", judged)], Painter(False))
    assert "peermem: 2 of 2 GPUs with their nearest HCA, receiving: no dma-buf:" in text
    assert "none: 2 of 2 GPUs with their nearest HCA, sending: older than Ampere" in text
    assert "library " not in text, "which version it is was asked, not read of a file"


def test_the_open_driver_is_open() -> None:
    """Guards the rows above: what makes the difference is the flavour alone."""
    assert of("nccl", {"nvidia-version": OPEN}).way is DMABUF


# --- what machines read ---


def made(frames: Mapping[str, Override], want: Want) -> dict[str, Any]:
    judged = judge_node("gpu01", node(frames), want, TODAY)
    when = datetime(2026, 11, 21, 12, tzinfo=UTC)
    told = document("doctor", "peermem", [Outcome("gpu01", Told(judged))], ExitCode.OK, when)
    loaded: dict[str, Any] = json.loads(dumps(told))
    return loaded


def test_the_document_has_every_choice_and_every_known_breakage() -> None:
    want = Want(consumers=(("nccl", "2.22.3"),))
    whole = made({**CLOSED, **NO_NVLINK}, want)
    jsonschema.validate(whole, json.loads((ROOT / "docs/report.schema.json").read_text()))
    (host,) = whole["hosts"]
    assert [each["id"] for each in host["known"]] == ["B01", "B02"]
    first = host["chosen"][0]
    assert (first["consumer"], first["version"], first["origin"], first["path"]) == (
        "nccl", "2.22.3", "asked", "none",
    )  # fmt: skip
    pairs = [pair for group in first["groups"] for pair in group["pairs"]]
    assert len(pairs) == 6
    assert {each["consumer"] for each in host["chosen"]} == {
        "nccl", "ucx", "perftest --use_cuda", "perftest --use_cuda --use_cuda_dmabuf",
    }  # fmt: skip


# --- as it is said on the command line ---


def doctor(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``doctor`` over the saved evidence of one node."""
    (folder / "gpu07.evidence").write_text(node(NO_NVLINK).dump())
    return gdr("doctor", "--from", str(folder), *words, state=folder / "state")


def test_another_version_is_asked_for_by_an_option(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--nccl-version", "2.12")
    assert "path     NCCL 2.12              none      gpu07" in done.stdout
    assert "NCCL 2.12: finds neither path here" in done.stdout
    assert done.returncode == ExitCode.FAILED


def test_an_option_goes_over_what_the_site_says(tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text('consumers = { nccl = "2.12", ucx = "1.18" }\n')
    done = doctor(tmp_path, "--site", str(site), "--nccl-version", "2.27")
    assert "NCCL 2.12" not in done.stdout
    assert "path     NCCL 2.27              dmabuf    gpu07" in done.stdout
    assert "path     UCX 1.18               dmabuf    gpu07" in done.stdout


def test_what_is_no_version_is_refused(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--nccl-version", "newest")
    assert done.returncode == ExitCode.USAGE
    assert "--nccl-version: version of nccl: 'newest' is none such as 2.27" in done.stderr
