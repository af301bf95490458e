"""When a command line is tried by one boot, how, and where that cannot be."""

from __future__ import annotations

import pytest

from tests.evidence.build import HEALTHY, KERNEL, node
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_boot import grub
from tests.unit.planning import (
    NO_PT,
    TRANSLATED,
    calls,
    frames,
    placed,
    plan_for,
    rocky,
    sles,
)
from toolkit.checks.all import ALL
from toolkit.facts.boot.next_boot import Loader, TrialOutcome, parse_loader, parse_trials
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action
from toolkit.plan.plan import Plan, make_plan
from toolkit.plan.trial import Trial
from toolkit.want import Iommu, Want

DROP_IN = "/etc/default/grub.d/zz-gdr-toolkit.cfg"
PLACED = placed({DROP_IN: 'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }a=b"\n'})
WELL = f"{NO_PT} iommu=pt"
RHEL = TRANSLATED | rocky(NO_PT)
UBUNTU_WAITS = (  # as 00_header has it, with GRUB_RECORDFAIL_TIMEOUT=-1; its else is not read
    'grub/grub.cfg:if [ "${recordfail}" = 1 ] ; then\ngrub/grub.cfg:  set timeout=-1\n'
    "grub/grub.cfg:    set timeout=0\n"
)


def trial(changed: dict[str, Override], want: Want | None = None) -> Trial:
    found = plan_for(changed, want).trial
    assert found is not None
    return found


def blocked(plan: Plan) -> str:
    """Why the command line is left alone, and what to do."""
    assert plan.trial is None
    assert not any(each.artefact.startswith("boot.arguments") for each in plan.changes)
    [found] = [each for each in plan.blocked if each.artefact.startswith("boot.arguments")]
    return f"{found.reason}; {found.hint}"


def test_a_changed_line_is_tried_and_until_then_nothing_is_sent() -> None:
    plan = plan_for(TRANSLATED)
    assert (trial(TRANSLATED).words, trial(TRANSLATED).gone) == (("iommu=pt",), ())
    assert plan.sent.empty
    assert plan.trying is not None
    assert [each.call for each in plan.trying.acts] == [
        "UPDATE_BOOTLOADER update-grub",
        "UPDATE_BOOTLOADER grub-editenv - set next_entry=gdr-toolkit-trial",
    ]
    assert plan.trying.changes[0].path == "/etc/grub.d/42_gdr-toolkit"


def test_on_suse_its_own_menu_is_made_by_its_own_tool_and_is_what_the_trial_copies() -> None:
    plan = plan_for(TRANSLATED | sles(NO_PT))
    assert plan.trying is not None
    assert [each.call for each in plan.trying.acts] == [
        "UPDATE_BOOTLOADER pbl --config",
        "UPDATE_BOOTLOADER grub2-editenv - set next_entry=gdr-toolkit-trial",
    ]
    [entry] = plan.trying.changes
    assert entry.path == "/etc/grub.d/42_gdr-toolkit"
    assert "\nwas=${GDR_ROOT:-}/boot/grub2/grub.cfg\n" in entry.text
    assert {file for file, _ in plan.trying.acts[0].names} == {"/boot/grub2/grub.cfg"}


@pytest.mark.parametrize(("menu", "again"), [({}, "update-grub"), (sles(WELL), "pbl --config")])
def test_a_trial_that_was_left_goes_from_the_menu_too(
    menu: dict[str, Override], again: str
) -> None:
    left = placed({"/etc/grub.d/42_gdr-toolkit": "#!/bin/sh\n"})
    assert calls(menu | left)[-1] == f"UPDATE_BOOTLOADER {again}"


def test_the_same_line_has_the_same_name_and_another_has_another() -> None:
    assert trial(TRANSLATED).id == trial(TRANSLATED).id
    other = TRANSLATED | {"boot-entries": grub(f"{NO_PT} nosmt")}
    assert trial(other).id != trial(TRANSLATED).id


def test_what_the_file_no_longer_asks_for_is_tried_without() -> None:
    line: dict[str, Override] = {"cmdline": f"{NO_PT} a=b\n", "boot-entries": grub(f"{NO_PT} a=b")}
    found = trial(frames(TRANSLATED, PLACED, line))
    assert (found.words, found.gone) == (("iommu=pt",), ("a=b",))
    gone = trial(PLACED | line, Want(iommu=Iommu.ANY))
    assert (gone.words, gone.gone) == ((), ("a=b",))


def test_what_the_running_kernel_was_told_needs_no_boot() -> None:
    """An operator typed it at the boot prompt, or a trial did."""
    plan = plan_for({"boot-entries": grub(NO_PT)})
    assert plan.trial is None
    assert plan.triggers == (Trigger.UPDATE_BOOTLOADER,)
    assert [each.action for each in plan.changes] == [Action.PLACE]


def test_what_has_no_effect_though_it_was_told_is_not_written() -> None:
    told = blocked(plan_for(TRANSLATED | {"cmdline": f"{NO_PT} iommu=pt\n"}))
    assert "was told iommu=pt, and still iommu.passthrough: translated" in told


def test_a_menu_that_waits_after_a_failure_stands_in_no_way_of_a_node_that_came_up() -> None:
    found = plan_for(TRANSLATED | {"boot-entries": UBUNTU_WAITS + grub(NO_PT)})
    assert found.trial is not None


def test_by_flag_it_is_written_at_once() -> None:
    here = Node(node(TRANSLATED | {"grub-abstraction": "lvm\n"}))
    verdicts = {each.id: each(here, Want()) for each in ALL}
    plan = make_plan(here, verdicts, Want(), untried=True)
    assert plan.trial is None
    assert plan.triggers == (Trigger.UPDATE_BOOTLOADER, Trigger.REBOOT)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param({"grub-abstraction": "diskfilter lvm\n"}, "write to diskfilter lvm", id="lvm"),
        pytest.param({"grub-fs": "btrfs\n"}, "cannot write to btrfs", id="btrfs"),
        pytest.param({"grub-fs": "zfs\n"}, "cannot write to zfs", id="zfs"),
        pytest.param(
            {"boot-entries": grub(NO_PT).replace("${next_entry}", "0")},
            "does not ask for next_entry",
            id="an-old-grub.cfg",
        ),
        pytest.param({"grub-env": "boot_counter=2\n"}, "something else counts", id="greenboot"),
        pytest.param(
            {"grub-env": "recordfail=1\n", "boot-entries": UBUNTU_WAITS + grub(NO_PT)},
            "recordfail=1; GRUB_RECORDFAIL_TIMEOUT=30 in /etc/default/grub",
            id="waits-after-a-failed-boot",
        ),
        pytest.param(
            {"boot-entries": "grub/grub.cfg:  set timeout=-1\n" + grub(NO_PT)},
            "its timeout is -1; GRUB_TIMEOUT=5 in /etc/default/grub",
            id="waits-always",
        ),
        pytest.param({"grub-env": "next_entry=0\n"}, "boot of '0' is asked for", id="anothers"),
        pytest.param({"grub-fs": ABSENT}, "grub-fs", id="grub-probe-is-not-there"),
        pytest.param({"grub-env": ABSENT}, "grub-env", id="grub-editenv-is-not-there"),
    ],
)
def test_where_grub_cannot_forget_nothing_is_tried_or_written(
    changed: dict[str, Override], why: str
) -> None:
    told = blocked(plan_for(TRANSLATED | changed))
    assert why in told


def test_a_menu_entry_whose_name_a_shell_would_carry_out_is_not_copied() -> None:
    usual = "'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-1'"
    assert usual in grub(NO_PT)
    menu = grub(NO_PT).replace(usual, "\"Ours'; reboot; '\" --class ubuntu")
    assert "odd name" in blocked(plan_for(TRANSLATED | {"boot-entries": menu}))


def test_the_flag_is_named_where_it_would_help() -> None:
    assert "--boot-without-trial " in blocked(plan_for(TRANSLATED | {"grub-fs": "btrfs\n"}))


@pytest.mark.parametrize("saved", ["0", "", "gone-5.14"])
def test_a_default_that_one_entry_more_would_move_is_no_ground_for_a_trial(saved: str) -> None:
    """A number counts from the top, and GRUB takes the first for a name that is gone."""
    environment: dict[str, Override] = {"grub-env": f"saved_entry={saved}\n"}
    assert "which is the id of no entry" in blocked(plan_for(RHEL | environment))


def test_an_entry_of_its_own_has_the_options_with_variables_in_place() -> None:
    changed = TRANSLATED | rocky("$kernelopts $tuned_params")
    changed |= {
        "grub-env": f"saved_entry=1-{KERNEL}\nkernelopts=root=UUID=1 ro quiet\ntuned_params=nosmt\n"
    }
    found = trial(changed)
    assert found.file.path == "/boot/loader/entries/gdr-toolkit-trial.conf"
    assert found.file.text == (
        "# Placed by gdr-toolkit for one trial of a command line, and taken away after it.\n"
        f"title gdr-toolkit: trial {found.id}\nversion {KERNEL}\nlinux /vmlinuz-{KERNEL}\n"
        f"initrd /initramfs-{KERNEL}.img\ngrub_users $grub_users\n"
        "options root=UUID=1 ro quiet nosmt iommu=pt panic=30 rd.shell=0 rd.emergency=reboot "
        f"gdr_toolkit.trial={found.id}\n"
    )


def test_an_entry_that_was_not_read_in_full_is_not_copied() -> None:
    entries = str(RHEL["boot-entries"])
    lines = [line for line in entries.split("\n") if ":initrd" not in line]
    assert "names no initramfs" in blocked(plan_for(RHEL | {"boot-entries": "\n".join(lines)}))


@pytest.mark.parametrize(
    ("line", "added"), [("", True), ("panic=0", True), ("panic=10", False), ("panic=-1", False)]
)
def test_a_kernel_that_panics_resets_the_node_by_itself(line: str, added: bool) -> None:
    found = trial(RHEL | rocky(f"{NO_PT} {line}".rstrip()))
    assert ("panic=30" in found.file.text) is added


BOOT = str(HEALTHY["boot-id"]).strip()


def tried(outcome: str) -> dict[str, Override]:
    name = trial(TRANSLATED).id
    return {"boot-trials": f"{name} {outcome}\n"}


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ("given-up 2026-11-22T08:00:00Z it was slow", "not tried again: it was slow"),
        *(
            (f"open 2026-11-22T08:00:00Z{boot}", "not tried again: nobody was told how it ended")
            for boot in ("", " 0b5c7f0e-3b1f-4a53-9d3e-5d9d8a1f2c12")  # of an older us; another
        ),
        (f"given-up 2026-11-22T08:00:00Z {BOOT}", "not tried again: 0b5c"),
    ],
)
def test_what_was_tried_is_not_tried_again(outcome: str, why: str) -> None:
    told = blocked(plan_for(TRANSLATED | tried(outcome)))
    assert why in told
    assert "/var/lib/gdr-toolkit/trials" in told


def test_what_was_noted_in_this_very_boot_was_never_booted() -> None:
    again = plan_for(TRANSLATED | tried(f"open 2026-11-22T08:00:00Z {BOOT}"))
    assert again.trial == trial(TRANSLATED)


def test_what_could_not_be_read_is_tried_once_more() -> None:
    again = plan_for(TRANSLATED | tried("unread 2026-11-22T08:00:00Z the end of the evidence"))
    assert again.trial is not None
    assert again.trial.last
    assert not trial(TRANSLATED).last


def test_a_trial_that_runs_is_kept_where_it_works_and_was_not_given_up() -> None:
    name = trial(TRANSLATED).id
    runs: dict[str, Override] = {
        "cmdline": f"{NO_PT} iommu=pt gdr_toolkit.trial={name}\n",
        "boot-entries": grub(NO_PT),
        "boot-trials": f"{name} open 2026-11-22T08:00:00Z\n",
    }
    plan = plan_for(runs)
    assert [each.path for each in plan.changes] == [DROP_IN]
    assert plan.triggers == (Trigger.UPDATE_BOOTLOADER,)
    given_up: dict[str, Override] = {
        "boot-trials": f"{name} given-up 2026-11-22T08:00:00Z ports were down\n"
    }
    assert "given up at 2026-11-22T08:00:00Z: ports were down" in blocked(plan_for(runs | given_up))


def test_what_a_trial_of_something_else_has_not_told_is_not_said_to_be_tried() -> None:
    """A kernel that is tried has the mark, too, and the words of its own entry."""
    marked = TRANSLATED | {"cmdline": f"{NO_PT} panic=30 gdr_toolkit.trial=0a\n"}
    [change] = plan_for(marked).changes
    assert not [each for each in change.why if "this boot tries it" in each]


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("/etc/grub.d/42_gdr-toolkit", "grub-editenv"),
        ("/boot/loader/entries/gdr-toolkit-trial.conf", "grub2-editenv"),
    ],
)
def test_what_a_dead_run_left_in_the_menu_is_taken_away(path: str, call: str) -> None:
    changed = placed({path: "x\n"})
    if call == "grub2-editenv":
        changed |= rocky(f"{NO_PT} iommu=pt")
    plan = plan_for(changed)
    assert [(each.path, each.action) for each in plan.changes] == [(path, Action.REMOVE)]
    assert plan.acts[0].call == f"UPDATE_BOOTLOADER {call} - unset next_entry"


@pytest.mark.parametrize(
    ("lines", "loader", "hint"),
    [
        ("grub /boot/grub\nostree\n", Loader.OSTREE, "rpm-ostree kargs"),
        ("grub /boot/grub2\nread-only root\n", Loader.TRANSACTIONAL, "transactional-update grub"),
        ("LoaderInfo systemd-boot 252\nStubInfo systemd-stub 252\n", Loader.UKI, "signed anew"),
        ("LoaderInfo systemd-boot 252.1-1\n", Loader.SYSTEMD_BOOT, "kernel-install add"),
        ("", Loader.OTHER, "where this node keeps it"),
    ],
)
def test_what_another_loader_reads_is_left_to_the_operator(
    lines: str, loader: Loader, hint: str
) -> None:
    assert parse_loader(lines) is loader
    told = blocked(plan_for(TRANSLATED | {"loader": lines}))
    assert str(loader) in told
    assert hint in told
    assert "iommu=pt" in told


def test_what_the_node_remembers_is_read_by_its_form_alone() -> None:
    found = parse_trials("0a given-up 2026-11-22T08:00:00Z with it these were worse: x\n")
    assert found["0a"].outcome is TrialOutcome.GIVEN_UP
    assert found["0a"].why == "with it these were worse: x"
