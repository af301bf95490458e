"""What is planned for nodes that something ails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evidence.build import node
from tests.evidence.frames import ABSENT, Override
from tests.laws import tried
from tests.unit.planning import (
    LITTLE_MEMLOCK,
    NO_AUTOLOAD,
    NO_HOOKS,
    NO_PT,
    NOT_LOADED,
    OURS_BY_NAME,
    STUBBED,
    TRANSLATED,
    calls,
    carried_out,
    frames,
    placed,
    plan_for,
    rocky,
    sles,
)
from toolkit.checks.all import ALL, BY_ID
from toolkit.errors import Unsupported
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.artefacts import ARTEFACTS
from toolkit.plan.change import Action, When
from toolkit.plan.plan import make_plan
from toolkit.want import Iommu, PeerPath, Role, Waiver, Want

FRAGMENT = "/etc/dkms/nvidia.conf"
DMABUF = Want(path=PeerPath.DMABUF)


def test_a_healthy_node_is_left_alone() -> None:
    plan = plan_for({})
    assert plan.empty
    assert plan.blocked == ()


def test_every_proof_and_every_need_is_a_check() -> None:
    named = {check for artefact in ARTEFACTS for check in (*artefact.proofs, *artefact.needs)}
    assert named <= BY_ID.keys()


@pytest.mark.parametrize(
    ("begins", "needs"),
    [
        ("order.", ("peermem.file", "peermem.stub")),
        ("rebuild.", ("peermem.file", "peermem.stub")),
        ("modprobe.", ("peermem.file", "peermem.stub")),
        ("modules-load.", ("peermem.file", "peermem.stub")),
        ("dkms.driver", ("kernel.headers",)),
        ("dkms.peermem", ("kernel.headers",)),
        ("ofed.dkms", ("kernel.headers",)),
        ("ofed.force", ("kernel.headers",)),
    ],
)
def test_nothing_is_placed_before_what_it_builds_upon(begins: str, needs: tuple[str, ...]) -> None:
    found = [each for each in ARTEFACTS if each.id.startswith(begins)]
    assert {each.needs for each in found} == {needs}


@pytest.mark.parametrize(
    ("below", "trigger"),
    [
        ("/etc/systemd/", Trigger.DAEMON_RELOAD),
        ("/etc/depmod.d/", Trigger.DEPMOD),
        ("/etc/default/grub.d/", Trigger.UPDATE_BOOTLOADER),
        ("/etc/gdr-toolkit/kernel-arguments", Trigger.UPDATE_BOOTLOADER),
    ],
)
def test_what_reads_a_place_is_told_when_a_file_comes_and_when_it_goes(
    below: str, trigger: Trigger
) -> None:
    found = [each for each in ARTEFACTS if each.path.startswith(below)]
    assert found
    assert all(trigger in each.then and trigger in each.removed for each in found)


def test_a_translated_iommu_gets_a_drop_in_and_owes_a_reboot() -> None:
    plan = plan_for(TRANSLATED)
    assert [(each.artefact, each.action) for each in plan.changes] == [
        ("boot.arguments", Action.PLACE)
    ]
    assert plan.changes[0].text.endswith('$GRUB_CMDLINE_LINUX }iommu=pt"\n')
    assert [act.call for act in plan.acts] == ["UPDATE_BOOTLOADER update-grub"]
    assert plan.needs_reboot
    assert not plan.only_reboot


def test_written_and_not_booted_owes_only_the_reboot() -> None:
    applied = carried_out(TRANSLATED, plan_for(TRANSLATED))
    now = applied | {"cmdline": NO_PT + "\n", "iommu-groups": TRANSLATED["iommu-groups"]}
    plan = plan_for(now)
    assert plan.only_reboot
    assert plan.triggers == (Trigger.REBOOT,)
    assert plan.changes[0].action is Action.TRIGGER


def test_written_and_not_in_the_boot_menu_calls_for_the_triggers_again() -> None:
    applied = carried_out(TRANSLATED, plan_for(TRANSLATED))
    plan = plan_for(applied | TRANSLATED)
    assert plan.triggers == (Trigger.UPDATE_BOOTLOADER, Trigger.REBOOT)


@pytest.mark.parametrize(
    ("changed", "want", "arguments"),
    [
        pytest.param({}, Want(), "iommu=pt", id="x86"),
        pytest.param({"arch": "aarch64\n"}, Want(), "iommu.passthrough=1", id="arm64"),
        pytest.param({}, Want(role=Role.VM_HOST), "intel_iommu=on iommu=pt", id="intel-vm-host"),
        pytest.param(
            {"cpu": "vendor_id\t: AuthenticAMD\n"}, Want(role=Role.VM_HOST), "iommu=pt",
            id="amd-needs-no-argument-to-stay-on",
        ),
    ],
)  # fmt: skip
def test_the_kernel_arguments(changed: dict[str, Override], want: Want, arguments: str) -> None:
    plan = plan_for(TRANSLATED | changed, want)
    assert [each.values["arguments"] for each in plan.changes] == [arguments]


def test_an_iommu_that_may_be_as_it_is_stays_so() -> None:
    assert plan_for(TRANSLATED, Want(iommu=Iommu.ANY)).empty


def test_on_the_rhel_family_grubby_is_told() -> None:
    changed = TRANSLATED | rocky(NO_PT)
    assert calls(changed) == ["UPDATE_BOOTLOADER grubby --update-kernel=ALL --args=iommu=pt"]
    assert [each.path for each in plan_for(changed).changes] == [
        "/etc/gdr-toolkit/kernel-arguments"
    ]


def test_grubby_takes_away_what_the_file_no_longer_asks_for() -> None:
    path = "/etc/gdr-toolkit/kernel-arguments"
    old = placed({path: "# ours\nintel_iommu=on iommu=pt\n"})
    changed = TRANSLATED | rocky(NO_PT) | old
    assert calls(changed) == [
        "UPDATE_BOOTLOADER grubby --update-kernel=ALL --remove-args=intel_iommu=on --args=iommu=pt"
    ]
    gone = calls(rocky(f"{NO_PT} iommu=pt") | old, Want(iommu=Iommu.ANY))
    assert gone == [
        "UPDATE_BOOTLOADER grubby --update-kernel=ALL '--remove-args=intel_iommu=on iommu=pt'"
    ]


@pytest.mark.parametrize(
    ("menu", "hint"),
    [
        pytest.param(rocky, "--args='iommu=force,pt'", id="grubby"),
        pytest.param(sles, "pbl --add-option 'iommu=force,pt' && pbl --config", id="pbl"),
    ],
)
def test_a_tool_is_not_let_put_ours_in_the_place_of_somebody_elses(
    menu: Callable[[str], dict[str, Override]], hint: str
) -> None:
    plan = plan_for(TRANSLATED | menu(f"{NO_PT} iommu=force"))
    assert not plan.changes
    (blocked,) = plan.blocked
    assert "iommu=force is in the boot configuration" in blocked.reason
    assert hint in blocked.hint


def test_what_is_done_already_waits_for_no_value_of_somebody_elses() -> None:
    ours = placed({"/etc/gdr-toolkit/kernel-arguments": "# ours\niommu=pt\n"})
    plan = plan_for(rocky(f"{NO_PT} iommu=force iommu=pt") | ours)
    assert not plan.blocked


def test_on_suse_pbl_is_told_and_takes_back_what_the_file_no_longer_asks_for() -> None:
    path = "/etc/gdr-toolkit/kernel-arguments"
    old = placed({path: "# ours\nintel_iommu=on iommu=pt\n"})
    assert [each.path for each in plan_for(TRANSLATED | sles(NO_PT)).changes] == [path]
    assert calls(TRANSLATED | sles(NO_PT)) == [
        "UPDATE_BOOTLOADER pbl --add-option iommu=pt --config"
    ]
    [act] = plan_for(TRANSLATED | sles(NO_PT) | old).acts
    assert act.call == (
        "UPDATE_BOOTLOADER pbl --del-option intel_iommu=on --add-option iommu=pt --config"
    )
    assert act.undo == ((When.KEPT, ("pbl", "--add-option", "intel_iommu=on", "--config")),)
    assert act.keeps == ("/boot/grub2/grub.cfg", "/etc/default/grub")
    menu = act.keeps[0]
    assert act.names == ((menu, "vmlinu"), (menu, "iommu=pt")), "a line that pbl left as it was"


def test_a_menu_of_suse_that_is_made_from_another_file_is_the_operators() -> None:
    plan = plan_for(TRANSLATED | rocky(NO_PT) | {"os-release": sles(NO_PT)["os-release"]})
    [blocked] = plan.blocked
    assert blocked.artefact == "boot.arguments-suse"
    assert "pbl --add-option iommu=pt && pbl --config, and reboot" in blocked.hint


def test_a_module_that_nothing_loads_is_loaded_now_and_at_boot() -> None:
    plan = plan_for(frames(NOT_LOADED, NO_AUTOLOAD))
    assert [each.artefact for each in plan.changes] == ["modprobe.peermem", "modules-load.peermem"]
    assert [act.call for act in plan.acts] == [
        "RELOAD_MODULES reload nvidia_peermem nvidia-peermem"
    ]
    assert plan.changes[1].why == (
        "peermem.autoload: nothing loads it at boot",
        "peermem.loaded: nvidia-peermem is not loaded",
    )


def test_the_dmabuf_path_has_no_use_for_peermem() -> None:
    ours = {OURS_BY_NAME[key]: "old\n" for key in ("modules-load.peermem", "modprobe.peermem")}
    plan = plan_for(frames(STUBBED, placed(ours)), DMABUF)
    assert {(each.path, each.action) for each in plan.changes} == {
        (path, Action.REMOVE) for path in ours
    }
    assert plan.acts == ()


def test_memlock_is_for_logins_and_services() -> None:
    plan = plan_for(LITTLE_MEMLOCK)
    assert [each.artefact for each in plan.changes] == ["limits.logins", "limits.services"]
    assert [act.call for act in plan.acts] == ["DAEMON_RELOAD systemctl daemon-reload"]


def test_a_limit_that_others_override_is_told_and_not_repeated() -> None:
    applied = carried_out(LITTLE_MEMLOCK, plan_for(LITTLE_MEMLOCK))
    over = "limits.d/zz.conf:* soft memlock 64\n"
    plan = plan_for(applied | {"limits": str(applied["limits"]) + over})
    assert [each.artefact for each in plan.changes] == ["limits.services"]
    quiet = plan_for(applied)
    assert quiet.empty
    assert quiet.blocked == ()


def test_a_waived_failure_changes_nothing() -> None:
    waivers = tuple(
        Waiver(check, "a test", date(2026, 12, 31)) for check in ("iommu.passthrough", "iommu.boot")
    )
    here, want = Node(node(TRANSLATED)), Want(waivers=waivers)
    verdicts = {each.id: each(here, want) for each in ALL}
    assert make_plan(here, verdicts, want, today=date(2026, 12, 31)).empty
    assert not make_plan(here, verdicts, want, today=date(2027, 1, 1)).empty


def test_an_unknown_family_is_refused_before_anything() -> None:
    with pytest.raises(
        Unsupported, match=r'no build rule for "alpine" 3.20; known families: debian'
    ):
        plan_for({"os-release": "ID=alpine\nVERSION_ID=3.20\n"})


@pytest.mark.parametrize(
    ("os_release", "way"),
    [
        pytest.param("ID=talos\nVERSION_ID=v1.13.2\n", "system extensions", id="talos"),
        pytest.param("ID=bottlerocket\nVERSION_ID=1.56.0\n", "-nvidia", id="bottlerocket"),
        pytest.param(
            "ID=flatcar\nID_LIKE=coreos\nVERSION_ID=4459.2.0\n", "NVIDIA sysext", id="flatcar"
        ),
    ],
)
def test_a_system_that_is_an_image_is_refused_with_its_vendors_way(
    os_release: str, way: str
) -> None:
    with pytest.raises(Unsupported, match="takes modules with its image alone") as raised:
        plan_for({"os-release": os_release})
    assert way in str(raised.value.own_hint)


def test_a_relative_of_a_known_family_is_taken_for_it() -> None:
    assert plan_for({"os-release": 'ID=pop\nID_LIKE="ubuntu debian"\n'}).family == "debian"


def test_a_fact_that_was_not_read_blocks_and_changes_nothing() -> None:
    plan = plan_for(TRANSLATED | {"placed": ABSENT})
    assert plan.empty
    assert [each.artefact for each in plan.blocked] == ["boot.arguments"]


AILMENTS = st.lists(
    st.sampled_from([TRANSLATED, NOT_LOADED, NO_AUTOLOAD, NO_HOOKS, LITTLE_MEMLOCK, STUBBED]),
    unique_by=id,
)
FILES = st.lists(st.sampled_from(sorted(OURS_BY_NAME.values())), unique=True)

RELOAD = "DAEMON_RELOAD systemctl daemon-reload\n"
LEFT = [("644", ""), ("600", ""), ("644", RELOAD)]  # by older runs: mode of files, what is owed


@given(
    AILMENTS, FILES, st.sampled_from(LEFT),
    st.sampled_from([Want(), DMABUF, Want(iommu=Iommu.ANY)]), st.booleans(),
)  # fmt: skip
@tried(150)
def test_a_second_plan_is_empty(
    ailments: list[dict[str, Override]],
    files: list[str],
    left: tuple[str, str],
    want: Want,
    rhel: bool,
) -> None:
    changed, (mode, pending) = frames(*ailments), left
    if rhel:
        changed |= rocky(NO_PT if TRANSLATED in ailments else f"{NO_PT} iommu=pt")
        grub_d = OURS_BY_NAME["boot.arguments"]
        files = ["/etc/gdr-toolkit/kernel-arguments" if each == grub_d else each for each in files]
    changed |= placed(dict.fromkeys(files, "of an older version\n"), mode=mode)
    changed |= {"pending": pending}
    plan = plan_for(changed, want)
    second = plan_for(carried_out(changed, plan), want)
    assert second.empty, (second.changes, second.acts)
    assert second.blocked == ()
