"""The examples for Packer and mkosi, read by those programs themselves. No guest, no network."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dev.run import ROOT

pytestmark = [pytest.mark.machine, pytest.mark.pipelines]
FOLDER = ROOT / "docs/pipelines"


def _said(*words: str, folder: Path) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _rows(text: str) -> list[tuple[str, str, str]]:
    return [line.partition(":") for line in text.splitlines()]


def test_packer_takes_the_template(tmp_path: Path) -> None:
    template = FOLDER / "gpu-node.pkr.hcl"
    given = ("-var", "base=https://example.org/base.qcow2", "-var", "checksum=sha256:" + 64 * "0")
    _said("packer", "validate", *given, str(template), folder=tmp_path)
    _said("packer", "fmt", "-check", str(template), folder=tmp_path)


def test_packer_refuses_a_word_that_it_does_not_know(tmp_path: Path) -> None:
    text = (FOLDER / "gpu-node.pkr.hcl").read_text().replace("disk_size ", "disk_sise ")
    wrong = tmp_path / "wrong.pkr.hcl"
    wrong.write_text(text)
    given = ("-var", "base=x", "-var", "checksum=none")
    with pytest.raises(AssertionError, match="disk_sise"):
        _said("packer", "validate", *given, str(wrong), folder=tmp_path)


def test_mkosi_reads_the_settings_and_finds_our_script(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER / "mkosi", tmp_path / "mkosi")
    said = _said("mkosi", "summary", folder=folder)
    told = {name.strip(): value.strip() for name, _, value in _rows(said)}
    assert told["Distribution"] == "debian"
    assert told["Output Format"] == "tar"
    assert told["Finalize Script"] == str(folder / "mkosi.finalize")
    assert "linux-headers-amd64" in said
