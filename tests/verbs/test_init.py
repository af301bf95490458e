"""The folder that a site begins with: written once, left alone afterwards, and each file right."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.invoked import gdr, here
from toolkit.errors import ExitCode
from toolkit.hosts.inventory import read_inventory
from toolkit.want import DEFAULT_PROFILE, Role, Want

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/init.schema.json").read_text())
NAMES = ["ci.sh", "gdr.toml", "hosts.ini", "site.toml", "tasks.py"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = gdr("init", "--folder", str(folder / "new" / "site"), state=folder)
    assert done.returncode == 0, done.stderr
    return folder / "new" / "site"


def test_it_has_its_files_and_the_script_may_be_run(site: Path) -> None:
    assert sorted(each.name for each in site.iterdir()) == NAMES
    assert site.joinpath("ci.sh").stat().st_mode & 0o111


def test_its_inventory_and_its_site_file_are_read(site: Path) -> None:
    assert list(read_inventory(site / "hosts.ini").hosts) == [f"gpu00{n}" for n in range(1, 5)]
    assert Want.load(DEFAULT_PROFILE, site=site / "site.toml") == Want.load(DEFAULT_PROFILE)


def test_each_line_that_is_commented_out_is_right(site: Path, tmp_path: Path) -> None:
    text = re.sub(r"^# (?=[a-z_]+ = |\[)", "", (site / "site.toml").read_text(), flags=re.MULTILINE)
    (tmp_path / "site.toml").write_text(text)
    want = Want.load(DEFAULT_PROFILE, site=tmp_path / "site.toml")
    assert (want.role, want.ofed, len(want.waivers)) == (Role.BARE_METAL, "doca-ofed", 1)
    assert want.rollout.max_unavailable == 8


def test_plain_invoke_has_the_verbs_there(site: Path) -> None:
    words = (sys.executable, "-m", "invoke", "--list", "--list-format=flat")
    told = subprocess.run(words, cwd=site, capture_output=True, text=True, check=True).stdout
    assert {"doctor", "provision", "init"} <= {
        line.split()[0] for line in told.splitlines() if line
    }


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text('ofed = "inbox"\n')
    done = gdr("init", "--folder", str(tmp_path), state=tmp_path / "state")
    assert re.search("^site.toml +left alone", done.stdout, re.MULTILINE)
    assert (tmp_path / "site.toml").read_text() == 'ofed = "inbox"\n'
    assert (tmp_path / "tasks.py").exists()


def test_a_check_writes_nothing(tmp_path: Path) -> None:
    done = gdr("init", "--folder", str(tmp_path / "site"), "--check", state=tmp_path)
    assert done.stdout.count("to be written") == len(NAMES)
    assert done.returncode == ExitCode.PENDING
    assert not (tmp_path / "site").exists()


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").symlink_to(tmp_path / "elsewhere")
    done = gdr("init", "--folder", str(tmp_path), state=tmp_path / "state")
    assert re.search("^tasks.py +left alone", done.stdout, re.MULTILINE)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("folder", ["file", "~nobody-of-that-name/x"])
def test_a_folder_that_cannot_be_made_is_one_sentence(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = folder if folder[0] == "~" else str(tmp_path / folder)
    done = gdr("init", "--folder", place, state=tmp_path / "state")
    assert done.returncode == ExitCode.USAGE
    assert "cannot be written" in done.stderr


def test_the_document_tells_of_each_file_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.ini").touch()
    for words, word, code in (("--check",), "to be written", 7), ((), "written", 0):
        done = here(monkeypatch, "init", "--folder", str(tmp_path), "--json", *words)
        told = json.loads(capsys.readouterr().out)
        jsonschema.validate(told, SCHEMA)
        assert (done, told["exit_code"], told["folder"]) == (code, code, str(tmp_path))
        states = {each["name"]: each["state"] for each in told["files"]}
        assert states == dict.fromkeys(NAMES, word) | {"hosts.ini": "left alone"}
