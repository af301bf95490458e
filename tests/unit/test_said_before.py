"""What an earlier run had been told, and what of it counts when it is resumed or taken back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from toolkit.cli.options import Said
from toolkit.errors import UsageError
from toolkit.features.bios.cli import _task
from toolkit.features.bios.plan_reading import KeptAttribute, KeptBios
from toolkit.hosts.host import Host
from toolkit.rollout.events import KEPT
from toolkit.rollout.journal import About, Event, Journal, Story
from toolkit.rollout.plan.batches import Past, Phase, Step
from toolkit.verbs.access import Fleet
from toolkit.verbs.cli.rollout import Resumed, _max_fail, _words, resumption, said_before

DEFAULTS: dict[str, str | int | bool] = {
    "fanout": 64, "hook_timeout": 600, "serial": "", "drain": "", "pass_fd": -1, "json": False,
}  # fmt: skip


def told(**words: str | int | bool) -> About:
    return About("bios", "op@adm", "2026-11-22T12:00:00+00:00", "", json.dumps(DEFAULTS | words))


@pytest.mark.parametrize(
    ("then", "now", "means"),
    [
        ({"fanout": 4}, {}, {"fanout": 4}),
        ({"fanout": 4}, {"fanout": 8}, {"fanout": 8}),
        ({"hook_timeout": 1800}, {}, {"hook_timeout": 1800}),
        ({"serial": "1,10%"}, {"serial": ""}, {"serial": "1,10%"}),
        ({}, {"pass_fd": 0}, {"pass_fd": 0}),
        ({}, {"json": True}, {"json": True}),
        (
            {"max_fail": "3"},
            {"max_fail": "", "max_fail_percentage": "5"},
            {"max_fail": "", "max_fail_percentage": "5"},
        ),
    ],
)
def test_what_is_not_said_anew_is_as_it_was_said_at_first(
    then: dict[str, str | int | bool],
    now: dict[str, str | int | bool],
    means: dict[str, str | int | bool],
) -> None:
    again = said_before(Said(DEFAULTS | now), Story(told(**then), (), (), ()))
    assert {name: again.values[name] for name in means} == means


def test_what_an_older_version_was_told_counts_under_the_name_of_today() -> None:
    story = Story(told(hook_limit=1800, boot_limit=99), (), (), ())
    values = said_before(Said({}), story).values
    assert (values["hook_timeout"], values["boot_timeout"]) == (1800, 99)


def test_an_undo_of_bioses_goes_about_it_as_it_is_told_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = tmp_path / "gdr-toolkit/runs/2026-11-22T12-00-00-bios"
    kept = KeptBios("Dell Inc.", (KeptAttribute("SriovGlobalEnable", "Disabled", None, "Enabled"),))
    file = str(tmp_path / "pw")
    words = told(
        fanout=4, json=True, drain="drain {host}", bmc_password_file=file, bmc_insecure=True
    )
    with Journal.create(run, words) as journal:
        journal.add(Event("gpu1", KEPT, detail=kept.dump()))
    now: dict[str, str | int | bool] = {"undo": run.name, "serial": "1,10%", "hosts": ""}
    now |= {"bmc_password_file": "", "bmc_pass_fd": 3, "bmc_insecure": False, "bmc_pin": "ab"}
    task = _task(Said(DEFAULTS | now))
    values = task.said.values
    assert (values["bmc_password_file"], values["bmc_pass_fd"]) == ("", 3)
    assert (values["bmc_insecure"], values["bmc_pin"]) == (False, "ab")
    assert (values["serial"], values["fanout"], values["json"]) == ("1,10%", 4, False)
    assert values["drain"] == "drain {host}"


PATHS = (
    *("site", "inventory", "hosts_file", "ssh_config", "key", "cache", "stop_file"),
    *("bmc_map", "bmc_ca", "bmc_password_file"),
)
SECRET = ("ask_pass", "ask_become_pass", "pass_fd", "become_pass_fd", "bmc_pass_fd", "resume")


def test_a_run_remembers_no_secret_and_paths_that_hold_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the yes of another day."""
    monkeypatch.chdir(tmp_path)
    said: dict[str, str | int | bool] = {"yes": True, "profile": "f/p.toml", "reason": "f/\udcff"}
    said |= [*((name, 3) for name in SECRET), *((name, f"f/{name}") for name in PATHS)]
    kept = _words(Said(said))
    assert json.loads(kept) == {
        **{name: f"{tmp_path}/f/{name}" for name in PATHS},
        "profile": f"{tmp_path}/f/p.toml",
        "reason": "f/\udcff",
    }
    assert kept.encode(), "what was typed as no text is kept, too"
    named: dict[str, str | int | bool] = {"profile": "v1.2", "site": "", "fanout": 4}
    assert json.loads(_words(Said(named))) == named


def test_a_run_of_another_verb_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = tmp_path / "gdr-toolkit/runs/2026-11-22T12-00-00-bios"
    with Journal.create(run, told()):
        pass
    with pytest.raises(UsageError, match="was bios, which is not resumed"):
        resumption(Said({"resume": run.name}))
    assert resumption(Said({"resume": ""})) is None


@pytest.mark.parametrize(
    ("past", "left"),
    [
        ({}, "a b"),  # killed before it wrote of any
        ({"a": [Phase.FAILED, Phase.DONE], "b": [Phase.DONE, Phase.FAILED]}, "b"),
        ({"b": []}, "b"),  # a is none of the run's
        ({"a": [Phase.NOTHING]}, ""),
    ],
)
def test_what_is_left_of_a_run_has_not_ended_well(
    past: dict[str, Sequence[Phase]], left: str
) -> None:
    class Hosts(Struct, frozen=True):
        hosts: tuple[Host, ...] = (Host("a"), Host("b"))

    known = {h: Past(tuple(Step(h, each) for each in phases)) for h, phases in past.items()}
    run = Resumed(Said({}), None, None, known)  # type: ignore[arg-type] # neither is asked
    fleet = cast("Fleet", Hosts())
    if left:
        assert " ".join(host.name for host in run.left(fleet).hosts) == left
    else:
        with pytest.raises(UsageError, match="every host of that run has ended"):
            run.left(fleet)


@pytest.mark.parametrize(
    ("number", "share", "means"), [("", "", ""), ("3", "", "3"), ("", "5", "5%"), ("", "5%", "5%")]
)
def test_a_share_of_failures_is_said_with_or_without_its_sign(
    number: str, share: str, means: str
) -> None:
    assert _max_fail(Said({"max_fail": number, "max_fail_percentage": share})) == means
    with pytest.raises(UsageError, match="say the same"):
        _max_fail(Said({"max_fail": "3", "max_fail_percentage": "5"}))


@pytest.mark.parametrize(
    "now",
    [
        {"reboot": True},
        {"drain": "out {host}"},
        {"user": "root"},
        {"become": False},
        {"hosts": "a"},
        {"ssh_config": "a"},
    ],
)
def test_what_a_run_may_not_be_told_anew_is_refused_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: dict[str, str | int | bool]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = tmp_path / "gdr-toolkit/runs/2026-11-22T12-00-00-provision"
    first = {"reboot": False, "drain": "drain {host}", "become": True}
    about = replace(told(), verb="provision", words=json.dumps(first))
    with Journal.create(run, about):
        pass
    same = Said({"resume": run.name, "drain": "drain {host}", "fanout": 8})
    assert resumption(same) is not None
    (name,) = now
    with pytest.raises(UsageError, match=f"--resume and --{name.replace('_', '-')}: ") as refused:
        resumption(Said({"resume": run.name, **now}))
    assert (refused.value.exit_code, bool(refused.value.hint)) == (64, True)
