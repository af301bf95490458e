"""Plans for composed nodes, and what becomes of a node when a plan is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from tests.evidence.build import (
    HEALTHY,
    KERNEL,
    PEERMEM,
    PEERMEM_INFO,
    groups,
    modinfo,
    module_state,
    node,
    without_module,
)
from tests.evidence.frames import ABSENT, Override
from tests.evidence.healthy_boot import grub
from toolkit.checks.all import ALL
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Action
from toolkit.plan.plan import Plan, make_plan
from toolkit.want import Want

NO_PT = "root=UUID=1 ro quiet"
STUB = modinfo(PEERMEM, depends="", version="580.126.16", srcversion="9" * 23)

# What ails a node: the frames that differ from the healthy one's.
TRANSLATED: dict[str, Override] = {
    "cmdline": NO_PT + "\n",
    "iommu-groups": groups("DMA-FQ"),
    "boot-entries": grub(NO_PT),
}
NOT_LOADED: dict[str, Override] = {"module-state": without_module("nvidia_peermem")}
NO_AUTOLOAD: dict[str, Override] = {"modules-load": ""}
LITTLE_MEMLOCK: dict[str, Override] = {"limits": "", "service-limits": ""}
NO_HOOKS: dict[str, Override] = {"rebuild-hooks": ""}
STUBBED: dict[str, Override] = {"peermem-modinfo": STUB, **NOT_LOADED, **NO_HOOKS}
OURS_BY_NAME = {
    "modules-load.peermem": "/etc/modules-load.d/gdr-toolkit.conf",
    "modprobe.peermem": "/etc/modprobe.d/gdr-toolkit.conf",
    "boot.arguments": "/etc/default/grub.d/zz-gdr-toolkit.cfg",
    "limits.logins": "/etc/security/limits.d/gdr-toolkit.conf",
    "limits.services": "/etc/systemd/system.conf.d/gdr-toolkit.conf",
}
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'
BLS = f"1-{KERNEL}.conf:"


def rocky(arguments: str) -> dict[str, Override]:
    """The frames of a RHEL-family node whose boot entry has these arguments."""
    entry = (
        f"{BLS}title Rocky Linux\n{BLS}version {KERNEL}\n"
        f"{BLS}linux /vmlinuz-{KERNEL}\n{BLS}initrd /initramfs-{KERNEL}.img\n"
        f"{BLS}options {arguments}\n{BLS}grub_users $grub_users\n"
        'grub2/grub.cfg:   set default="${next_entry}"\n'
        'grub2/grub.cfg:   set default="${saved_entry}"\n'
    )
    return {
        "os-release": ROCKY,
        "boot-entries": entry,
        "boot-default": f"/boot/vmlinuz-{KERNEL}\n",
        "grub-env": f"saved_entry=1-{KERNEL}\n",
        "grub-fs": "xfs\n",
    }


def frames(*ailments: Mapping[str, Override]) -> dict[str, Override]:
    """The healthy node's frames with those of each ailment over them."""
    found: dict[str, Override] = {}
    for each in ailments:
        found |= each
    return found


def placed(
    texts: Mapping[str, str], *, mode: str = "644", owned: bool = True
) -> dict[str, Override]:
    """The frames of a node that holds these files, by path."""
    lines = [
        f"{sha256(text.encode()).hexdigest()} {mode} 0 0 {path}\n" for path, text in texts.items()
    ]
    shown = "".join(
        f"{path[1:]}:{line}\n" for path, text in texts.items() for line in text.split("\n")[:-1]
    )
    return {
        "placed": "".join(lines),
        "ours": shown,
        "owned": "".join(f"{path}\n" for path in texts) if owned else ABSENT,
    }


def plan_for(changed: Mapping[str, Override], want: Want | None = None) -> Plan:
    """The plan for the healthy node with these frames changed."""
    here, want = Node(node(changed)), want or Want()
    return make_plan(here, {each.id: each(here, want) for each in ALL}, want)


def sles(arguments: str) -> dict[str, Override]:
    """The frames of a SUSE node whose boot entry has these arguments."""
    entries = grub(arguments).replace("grub/grub.cfg:", "grub2/grub.cfg:")
    return {"os-release": 'ID="sles"\nVERSION_ID="15.6"\nID_LIKE="suse"\n', "boot-entries": entries}


def calls(changed: Mapping[str, Override], want: Want | None = None) -> list[str]:
    """The commands of the plan, as the node would note them."""
    return [act.call for act in plan_for(changed, want).acts]


def texts_of(changed: Mapping[str, Override]) -> dict[str, str]:
    """The files that the frames say lie on the node."""
    here = Node(node(changed))
    return {path: here.ours.get(path, "") for path in here.placed}


def carried_out(changed: dict[str, Override], plan: Plan) -> dict[str, Override]:
    """The frames after the plan, as a node would show them: files first, then triggers."""
    files = texts_of(changed)
    for change in plan.files:
        if change.action is Action.PLACE:
            files[change.path] = change.text
        else:
            del files[change.path]
    modes = {change.path: f"{change.mode:o}" for change in plan.files}
    after = changed | placed(files) | _in_effect(files, changed, plan)
    lines = str(after["placed"]).split("\n")[:-1]
    for number, line in enumerate(lines):
        words = line.split(" ")
        lines[number] = " ".join((words[0], modes.get(words[4], words[1]), *words[2:]))
    return after | {"placed": "".join(line + "\n" for line in lines), "pending": ABSENT}


def _in_effect(
    files: Mapping[str, str], changed: Mapping[str, Override], plan: Plan
) -> dict[str, Override]:
    """What the system reads from our files, and what the triggers bring about."""
    after: dict[str, Override] = {}
    if OURS_BY_NAME["modules-load.peermem"] in files:
        after["modules-load"] = "/etc/modules-load.d/gdr-toolkit.conf:nvidia-peermem\n"
    if OURS_BY_NAME["limits.logins"] in files:
        text = files[OURS_BY_NAME["limits.logins"]]
        lines = (f"limits.d/gdr-toolkit.conf:{line}\n" for line in text.split("\n") if line)
        after["limits"] = "".join(lines)
    if OURS_BY_NAME["limits.services"] in files:
        after["service-limits"] = "system.conf.d/gdr-toolkit.conf:DefaultLimitMEMLOCK=infinity\n"
    hooks = str(changed.get("rebuild-hooks", HEALTHY["rebuild-hooks"]))
    for change in plan.files:
        if change.artefact.startswith("rebuild."):
            hooks += f"{'runs' if change.mode & 0o111 else 'text'} {change.path}\n"
    after["rebuild-hooks"] = hooks
    done = set(plan.triggers)
    if Trigger.BUILD_DKMS in done:
        after["peermem-modinfo"] = PEERMEM_INFO
        after["peermem-resolve"] = HEALTHY["peermem-resolve"]
    if Trigger.RELOAD_MODULES in done:
        after["module-state"] = module_state()
    pt = OURS_BY_NAME["boot.arguments"] in files or "/etc/gdr-toolkit/kernel-arguments" in files
    arguments = f"{NO_PT} iommu=pt" if pt else NO_PT
    rhel = changed.get("os-release") == ROCKY
    if Trigger.UPDATE_BOOTLOADER in done:
        after |= rocky(arguments) if rhel else {"boot-entries": grub(arguments)}
    if Trigger.REBOOT in done:
        after["cmdline"] = f"{arguments}\n"
        after["iommu-groups"] = groups("identity" if pt else "DMA-FQ")
    return after
