"""The folder for Ansible: whole or not there, and with nothing that the controller lacks."""

from __future__ import annotations

import json
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from dev.run import ROOT
from tests.evidence.build import node
from tests.invoked import gdr, here
from tests.unit.imaging import NOT_BUILT, planned
from tests.unit.planning import NO_AUTOLOAD, STUBBED, frames
from toolkit.cli import Gdr, verbs
from toolkit.errors import ExitCode, Outcome, TransportError, Unwritten, UsageError
from toolkit.evidence import Evidence
from toolkit.features.ansible import cli
from toolkit.features.ansible.run import Written, write_playbook
from toolkit.hosts.host import Host
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Access, Fleet
from toolkit.verbs.plan import Planned, bundle_files, plan_node
from toolkit.want import Want

TODAY = date(2026, 11, 22)


def nobody(host: Host) -> Transport:
    raise AssertionError(f"{host.name} was asked")


def outcomes() -> list[Outcome[Planned]]:
    """One that is ill, one that is well, one that did not answer."""
    ill = plan_node("root@gpu1:2222", node(frames(STUBBED, NO_AUTOLOAD)), Want(), TODAY)
    well = plan_node("gpu2", node({}), Want(), TODAY)
    away = TransportError("gpu3: does not answer")
    return [Outcome("root@gpu1:2222", ill), Outcome("gpu2", well), Outcome("gpu3", error=away)]


def fleet(tmp_path: Path) -> Fleet:
    config = tmp_path / "ssh_config"
    config.write_text("Host gpu2\n  User root\n")
    hosts = (Host("root@gpu1:2222", "gpu1", "root", 2222), Host("gpu2"), Host("gpu3"))
    return Fleet(hosts, nobody, Access(ssh_config=str(config)))


def write(tmp_path: Path, *, profile: str = "peermem", site: str = "") -> Written:
    out = tmp_path / "new" / "site"
    return write_playbook(fleet(tmp_path), outcomes(), out, profile=profile, site=site)


def test_the_folder_holds_all_that_plays_ask_for(tmp_path: Path) -> None:
    written = write(tmp_path)
    assert (written.bundles, written.idle) == (("root@gpu1:2222",), ("gpu2",))
    assert [host for host, _ in written.places] == ["root@gpu1:2222", "gpu2"]
    site = written.folder
    bundle = site / "bundles/root_gpu1_2222"
    assert {each.name for each in (site / "bundles").iterdir()} == {bundle.name}
    assert dict(written.places)["root@gpu1:2222"] == bundle
    assert {"run.sh", "changes.diff", "manifest.json", "apply.sh", "steps"} <= {
        each.name for each in bundle.iterdir()
    }
    assert "+++ b/etc/modprobe.d/gdr-toolkit.conf" in (bundle / "changes.diff").read_text()
    assert (bundle / "run.sh").read_text().endswith('gdr_apply "$@"\n')
    assert (site / "scripts/probe.sh").read_text().startswith("#!/bin/sh\n")
    assert sorted(each.name for each in (site / "scripts").iterdir()) == [
        *("gdr-node", "gdr-node.sudoers", "jobs.json", "jobs.sh", "probe.sh"),
    ]
    assert set(json.loads((site / "scripts/jobs.json").read_text())) == {
        "daemons", "first_person", "work"
    }  # fmt: skip
    assert stat.S_IMODE((site / "evidence").stat().st_mode) == 0o700
    for file in (ROOT / "playbooks").rglob("*.yml"):
        copied = site / "playbooks" / file.relative_to(ROOT / "playbooks")
        assert copied.read_bytes() == file.read_bytes()
    assert list((tmp_path / "new").iterdir()) == [site], "something was left beside it"


def test_a_node_of_which_something_could_not_be_told_is_not_one_with_nothing_to_do(
    tmp_path: Path,
) -> None:
    noroot = Evidence.parse((ROOT / "tests/evidence/noroot.txt").read_text())
    read = plan_node("gpu9", noroot, Want(), TODAY)
    fleet9 = Fleet((Host("gpu9"),), nobody, Access())
    outcome = [Outcome("gpu9", read)]
    told = write_playbook(fleet9, outcome, tmp_path / "site", profile="peermem", site="")
    assert (told.idle, told.blocked) == ((), ("gpu9",))


def test_what_could_not_be_told_is_named_and_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    noroot = str(ROOT / "tests/evidence/noroot.txt")
    argv = ["gdr", "bundle", "--from", noroot, "--out", str(tmp_path / "bundles")]
    with pytest.raises(SystemExit) as ended:
        Gdr(namespace=verbs()).run(argv)
    assert ended.value.code == ExitCode.UNKNOWN
    assert "blocked   acs.bridges: config space of 0000:17:00.0" in capsys.readouterr().out


def test_hosts_are_those_that_answered_and_root_needs_no_sudo(tmp_path: Path) -> None:
    inventory = yaml.safe_load((write(tmp_path).folder / "inventory.yml").read_text())["all"]
    assert set(inventory["hosts"]) == {"root_gpu1_2222", "gpu2"}
    assert inventory["children"]["gdr_bundles"] == {"hosts": {"root_gpu1_2222": None}}
    assert {v["ansible_user"] for v in inventory["hosts"].values()} == {"root"}
    assert not any(v["ansible_become"] for v in inventory["hosts"].values())
    assert inventory["vars"] == {"gdr_profile": "peermem"}


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (Access(transport="local"), {"ansible_connection": "local", "ansible_become": True}),
        (Access(transport="local", become=False),
         {"ansible_connection": "local", "ansible_become": False}),
        (Access(become=False), {"ansible_become": False, "ansible_ssh_private_key_file": "KEY"}),
        (Access(), {"ansible_become": True, "ansible_ssh_private_key_file": "KEY"}),
    ],
)  # fmt: skip
def test_the_way_that_was_said_is_the_one_that_ansible_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, access: Access, expected: dict[str, object]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "ssh_config"
    config.write_text("Host *\n  User ops\n")
    one = Fleet((Host("gpu2", key_file="keys/id"),), nobody,
                replace(access, ssh_config="ssh_config"))  # fmt: skip
    well = [Outcome("gpu2", plan_node("gpu2", node({}), Want(), TODAY))]
    folder = write_playbook(one, well, tmp_path / "out", profile="peermem", site="").folder
    (found,) = yaml.safe_load((folder / "inventory.yml").read_text())["all"]["hosts"].values()
    for key, value in expected.items():
        assert found[key] == (str(tmp_path / "keys/id") if value == "KEY" else value)
    args = found.get("ansible_ssh_common_args", "")
    assert args.startswith(f"-F {config} ") or access.transport == "local"


def test_what_a_site_wishes_goes_with_it(tmp_path: Path) -> None:
    profile, site = tmp_path / "mine.toml", tmp_path / "ours.toml"
    profile.write_text('path = "peermem"\n')
    site.write_text('role = "bare-metal"\n')
    folder = write(tmp_path, profile=str(profile), site=str(site)).folder
    assert (folder / "profile.toml").read_text() == profile.read_text()
    assert (folder / "site.toml").read_text() == site.read_text()


def test_a_sites_folder_goes_with_it_and_nothing_else_that_lies_there(tmp_path: Path) -> None:
    for name in ("checks/rack.py", "site.toml", "secrets/key"):
        (tmp_path / "of" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "of" / name).write_text("")
    site = write(tmp_path, site=str(tmp_path / "of")).folder / "site"
    files = {str(each.relative_to(site)) for each in site.rglob("*") if each.is_file()}
    assert files == {"checks/rack.py", "site.toml"}


def test_the_verb_says_who_has_what_to_do_and_how_it_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def opened(_: object) -> Iterator[Fleet]:
        yield fleet(tmp_path)

    monkeypatch.setattr(cli, "fleet", opened)
    monkeypatch.setattr(cli, "plan_all", lambda *_, **__: outcomes())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    site = tmp_path / "site"
    words = ("playbook", "--hosts", "gpu[1-3]", "--out", str(site))
    assert here(monkeypatch, *words) == ExitCode.UNREACHABLE
    told = capsys.readouterr().out
    assert "1 node has something to do: root@gpu1:2222\n1 node has nothing to do: gpu2\n" in told
    assert f"\nansible-playbook -i {site}/inventory.yml {site}/playbooks/provision.yml\n" in told
    assert "gpu3" in told.rpartition("provision.yml")[2]
    assert here(monkeypatch, *words) == ExitCode.USAGE
    assert "site: is there already" in capsys.readouterr().err


def test_nodes_of_the_demo_are_served_to_no_playbook(tmp_path: Path) -> None:
    out = tmp_path / "site"
    done = gdr("playbook", "--hosts", "demo-acs", "--out", str(out), state=tmp_path / "state")
    assert (done.returncode, out.exists()) == (ExitCode.USAGE, False)
    assert "demo nodes are served only while a verb of ours runs" in done.stderr


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    out = write(tmp_path).folder
    before = sorted(out.rglob("*"))
    with pytest.raises(UsageError, match="site: is there already"):
        write(tmp_path)
    assert sorted(out.rglob("*")) == before


def test_it_is_made_on_the_file_system_where_it_is_to_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    assert write(tmp_path).folder.is_dir()


def test_a_folder_that_cannot_be_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(Unwritten, match="site: cannot be written: No space left on device"):
        write(tmp_path)
    assert list((tmp_path / "new").iterdir()) == []


def test_the_bundle_of_an_image_has_what_runs_it_in_a_tree() -> None:
    of_image = bundle_files(planned(NOT_BUILT))
    assert {"run.sh", "image.sh"} <= of_image.keys()
    text = of_image["image.sh"].decode()
    assert of_image["run.sh"].decode() in text
    assert text.endswith('\nin_image "$@"\n')
    ill = plan_node("gpu1", node(frames(STUBBED, NO_AUTOLOAD)), Want(), TODAY)
    assert "image.sh" not in bundle_files(ill), "a node that runs is no image"
