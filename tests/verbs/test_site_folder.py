"""A site's folder: templates before ours, checks beside ours, profiles, rows; and whose it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.invoked import gdr
from tests.unit.test_safe_file import NOBODYS
from toolkit.compat.reader import shipped
from toolkit.errors import ExitCode, UsageError
from toolkit.groups import resolved
from toolkit.hosts.host import Inventory
from toolkit.plan import templates
from toolkit.verbs.access import wanted
from toolkit.verbs.site_folder import load, made_from

PEERMEM = "modprobe/peermem.conf.j2"
ROW = (
    '[[consumers]]\nid = "nccl-own"\nname = "nccl"\nfirst = "99.1"\nsource = "ours"\n'
    'confidence = "H"\ndetects = ["/x"]\ndmabuf = true\nprefers = "dmabuf"\n'
)
CHECK = '''\
from toolkit.checks.check import Finding, Impact, check, failed
from toolkit.facts.node.node import Node
from toolkit.want import Want


@check("site.rack", impact=Impact.FRAGILE, source="our wiki", fix="name it by its rack")
def rack(node: Node, want: Want) -> Finding:
    """Hosts are named by their rack."""
    return failed(node.hostname, expected="rNN")
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as ``init`` begins it, with one thing of each kind."""
    folder = tmp_path_factory.mktemp("made") / "site"
    done = gdr("init", "--folder", str(folder), "--template", PEERMEM, state=folder.parent)
    assert done.returncode == 0, done.stderr
    changed = folder / "templates" / PEERMEM
    changed.write_text(changed.read_text().replace("softdep", "# Rack 7 of ours.\nsoftdep", 1))
    texts = {
        "checks/rack.py": CHECK,
        "profiles/lab.toml": 'path = "dmabuf"\nofed = "inbox"\n',
        "data/consumers.toml": ROW,
        "site.toml": 'role = "bare-metal"\n',
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "site"))


@pytest.fixture(autouse=True)
def _ours_again() -> object:
    yield
    load.cache_clear()
    templates.go_before({}, {})


def test_profiles_rows_and_the_sites_file_come_together(site: Path) -> None:
    want = wanted("lab", str(site))
    assert (want.path, want.ofed, want.role) == ("dmabuf", "inbox", "bare-metal")
    assert len(want.compat.consumers) == len(shipped().consumers) + 1
    assert [each.id for each in want.own] == ["site.rack"]


def test_a_group_has_its_profile_and_the_sites_checks(site: Path) -> None:
    (site / "site.toml").write_text('[[group]]\nhosts = "gpu1"\nprofile = "lab"\n')
    wants = resolved(load("auto", site), lambda: Inventory({}, {}), "site.toml")
    assert (wants.of("gpu1").path, wants.of("gpu2").path) == ("dmabuf", None)
    assert [each.id for each in wants.of("gpu1").own] == ["site.rack"]


def test_its_template_goes_before_ours_and_leaves_no_trace_of_its_first_line(site: Path) -> None:
    values: dict[str, str] = {}
    ours = templates.render_text(PEERMEM, values)
    load("auto", site)
    assert templates.render_text(PEERMEM, values).replace("# Rack 7 of ours.\n", "") == ours
    assert "# Rack 7 of ours.\n" in templates.render_text(PEERMEM, values)


def test_after_an_upgrade_a_template_of_an_older_one_is_told_and_nothing_is_made_of_it(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same folder, where another version ships another text under that name."""
    load("auto", site)
    assert not capsys.readouterr().err
    newer = shutil.copytree(templates.TEMPLATES, site.parent / "newer")
    (newer / PEERMEM).write_text("softdep nvidia_peermem pre: all\n")
    monkeypatch.setattr(templates, "TEMPLATES", newer)
    load.cache_clear()
    assert [each.id for each in load("auto", site).own] == ["site.rack"]
    said = f"{site}/templates/{PEERMEM} was made from {PEERMEM} as another version had it"
    assert capsys.readouterr().err == f"note: {said}; nothing is made of it\n"
    with pytest.raises(UsageError, match="as another version had it") as caught:
        templates.render_text(PEERMEM, {})
    assert str(newer / PEERMEM) in caught.value.hint
    assert templates.render_text("limits/memlock.conf.j2", {})


def test_one_that_does_not_say_what_it_was_made_from_is_not_rendered(site: Path) -> None:
    file = site / "templates" / PEERMEM
    file.write_text(file.read_text().removeprefix(made_from(PEERMEM)))
    load("auto", site)
    with pytest.raises(UsageError, match="does not say which of ours it was made from"):
        templates.render_text(PEERMEM, {})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("templates/no/such.j2", "", "there is no template no/such.j2", id="template"),
        pytest.param("profiles/auto.toml", "", "auto is a profile of the toolkit", id="profile"),
        pytest.param("playbooks/site.yml", "", "nothing takes its files in", id="playbook"),
        pytest.param("data/wrong.toml", "[[wrong]]\n", "unknown table 'wrong'", id="table"),
        pytest.param("checks/again.py", CHECK, "site.rack is there twice", id="twice"),
        pytest.param("checks/os.py", "import os\n", "os.py:1: write from os import", id="io"),
    ],
)
def test_what_would_be_passed_over_is_refused(name: str, text: str, said: str, site: Path) -> None:
    (site / name).parent.mkdir(parents=True, exist_ok=True)
    (site / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        load("auto", site)


def test_a_mistake_in_a_check_keeps_nobody_from_taking_back(site: Path) -> None:
    (site / "checks" / "os.py").write_text("import os\n")
    words = ("--site", str(site), "--hosts", "127.0.0.1:1", "--yes")
    done = gdr("rollback", *words, state=site.parent / "state", cwd=site.parent)
    assert done.returncode == ExitCode.UNREACHABLE, done.stderr
    assert gdr("plan", *words, state=site.parent / "state").returncode == ExitCode.USAGE


def test_a_folder_without_any_part_is_none_of_a_site(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder of a site"):
        wanted("auto", str(tmp_path))


@pytest.mark.parametrize("name", ["checks/rack.py", f"templates/{PEERMEM}", "checks", "."])
def test_nothing_is_run_that_others_may_write(name: str, site: Path) -> None:
    (site / name).chmod(0o777)
    with pytest.raises(UsageError, match=f"nothing is taken from {site}: .* may be written by"):
        load("auto", site)


def test_where_one_stands_its_checks_are_judged_listed_explained_and_asked_why(site: Path) -> None:
    """By gdr.toml in the folder above; one process each, as an operator types them."""
    (site / "below").mkdir()
    state = site.parent / "state"
    saved = str(Path(__file__).parents[1] / "evidence" / "healthy.txt")

    def told(*words: str) -> subprocess.CompletedProcess[str]:
        return gdr(*words, state=state, cwd=site / "below")

    done = told("doctor", "--from", saved, "--json")
    verdicts = {each["check"]: each for each in json.loads(done.stdout)["hosts"][0]["verdicts"]}
    assert verdicts["site.rack"]["status"] == "fail"
    assert done.returncode == ExitCode.FAILED
    only = told("doctor", "--from", saved, "--only", "site", "--json")
    assert json.loads(only.stdout)["checks"]["judged"] == 1
    assert told("checks").stdout.split("\n")[-2].split() == [
        *("site.rack", "fragile", "Hosts", "are", "named", "by", "their", "rack.")
    ]
    assert "fix       name it by its rack" in told("explain", "site.rack").stdout
    assert "expected  rNN" in told("why", "--from", saved, "site.rack").stdout
    assert "site.rack" in told("plan", "--from", saved, "--json").stdout


def test_a_failure_of_an_own_check_is_waived_as_any(site: Path) -> None:
    waiver = '[[waivers]]\ncheck = "site.rack"\nreason = "moving"\nuntil = 2999-01-31\n'
    (site / "site.toml").write_text(waiver)
    saved = str(Path(__file__).parents[1] / "evidence" / "healthy.txt")
    done = gdr("doctor", "--from", saved, "--site", str(site), state=site.parent / "state")
    assert (done.returncode, "moving" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.root
def test_a_gdr_toml_of_another_user_is_passed_over_aloud(site: Path) -> None:
    os.chown(site / "gdr.toml", NOBODYS, NOBODYS)
    done = gdr("checks", state=site.parent / "state", cwd=site)
    assert (done.returncode, "site.rack" in done.stdout) == (0, False)
    assert done.stderr == f"note: {site}/gdr.toml is passed over: it is another user's\n"


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        pytest.param('site = "."', 0o666, "may be written by others", id="open-to-others"),
        pytest.param('site = "gone"', 0o644, "there is no file or folder", id="gone"),
        pytest.param('sites = "."', 0o644, "it has one key, which is site", id="another-key"),
        pytest.param("site", 0o644, "cannot be read", id="no-toml"),
    ],
)
def test_a_gdr_toml_that_cannot_be_used_is_one_sentence(
    text: str, mode: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "gdr.toml").write_text(text)
    (tmp_path / "gdr.toml").chmod(mode)
    done = gdr("checks", state=tmp_path / "state", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert said in done.stderr.splitlines()[0]
