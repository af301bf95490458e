"""The file of ours that holds kernel arguments, by family: one for all who ask for any.

Files about ACS: the list of bridges, a program that clears bits, and a unit that runs it early.

Where the next kernel has an argument that does it, that is one of boot_arguments.py instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping

from toolkit.errors import NoEvidence, Unparsable, Unsupported
from toolkit.facts.boot.next_boot import Loader, TrialOutcome
from toolkit.facts.distros import (
    Family,
    has_grubby,
    has_pbl,
    makes_menu,
    reads_drop_ins,
    with_systemd,
)
from toolkit.facts.node.node import Node
from toolkit.plan.acs import UNIT, acs_unit
from toolkit.plan.artefact import Artefact, Told, Trigger, never
from toolkit.plan.boot_arguments import CONTRIBUTORS, PROOFS, Argument, arguments_in, bare, quoted
from toolkit.want import Want

LIST = "/etc/gdr-toolkit/kernel-arguments"
GENERATOR = "/etc/grub.d/42_gdr-toolkit"
HELD = "/etc/default/grub.d/zz-gdr-toolkit-kernel.cfg"
ENTRY = "gdr-toolkit-trial"  # what next_entry names; the same for every trial
ENTRY_FILE = f"/boot/loader/entries/{ENTRY}.conf"
_FOR = re.compile(
    r"^# Placed by gdr-toolkit until the kernel (?P<kernel>\S+) has [^']*"
    r"^GRUB_DEFAULT='(?:(?P<menu>[^'>]*)>)?(?P<entry>[^'>]*)'$",
    re.MULTILINE,
)
_BOOT = (Trigger.UPDATE_BOOTLOADER, Trigger.REBOOT)
_PROOFS = ("acs.redirect", "acs.persistence")
_START = (Trigger.START_UNITS,)
_RELOAD = (Trigger.DAEMON_RELOAD,)


_BY_HAND = {
    Loader.SYSTEMD_BOOT: "add {words} to /etc/kernel/cmdline, then for each kernel: "
    "kernel-install add RELEASE /lib/modules/RELEASE/vmlinuz; and reboot",
    Loader.UKI: "add {words} to /etc/kernel/cmdline, have the image made and signed anew "
    "(kernel-install, ukify or dracut --uefi), and reboot",
    Loader.OSTREE: "rpm-ostree kargs --append-if-missing=..., once for each of {words} (on "
    "OpenShift kernelArguments of a MachineConfig, by bootc a file in "
    "/usr/lib/bootc/kargs.d of the image); and reboot. The deployment before it stays in the menu",
    Loader.TRANSACTIONAL: "add {words} to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then: "
    "transactional-update grub.cfg; and reboot. snapper has the one from before",
    Loader.OTHER: "add {words} to the kernel's command line where this node keeps it, and reboot",
}


def in_a_file(node: Node, needed: tuple[Argument, ...]) -> Mapping[str, str]:
    """Where GRUB boots, and a file of ours can hold them.

    :raises Unsupported: under another loader: what we would write, nobody would read.
    """
    if (node.live or node.boot_entries) and (hint := _BY_HAND.get(node.loader)):
        words = " ".join(each.word for each in needed)
        raise Unsupported(
            f"the command line belongs to {node.loader} here, which is left alone",
            hint=hint.format(words=words),
        )
    return {"arguments": " ".join(quoted(each.word) for each in needed)}


def by_grubby(node: Node, needed: tuple[Argument, ...]) -> Mapping[str, str]:
    """Where grubby puts arguments into each entry; see _one_for_each_key."""
    return _one_for_each_key(node, needed, "grubby", "grubby --update-kernel=ALL --args='{both}'")


def by_pbl(node: Node, needed: tuple[Argument, ...]) -> Mapping[str, str]:
    """Where pbl puts arguments into SUSE's /etc/default/grub; see _one_for_each_key.

    :raises Unsupported: also in an image, where the menu is made by whoever makes the image, and
        where the menu is not made from that file (grub2-bls).
    """
    values = in_a_file(node, needed)
    if node.live and not any(entry.fields for entry in node.boot_menu.entries):
        return _one_for_each_key(node, needed, "pbl", "pbl --add-option '{both}' && pbl --config")
    words = " && ".join(f"pbl --add-option {shlex.quote(word)}" for word in values.values())
    raise Unsupported(
        "its boot menu is not made from /etc/default/grub here",
        hint=f"SUSE's own tool knows where they go: {words} && pbl --config, and reboot; "
        "pbl --del-option takes one back",
    )


def _one_for_each_key(
    node: Node, needed: tuple[Argument, ...], tool: str, command: str
) -> Mapping[str, str]:
    """For a tool that keeps one value for each key.

    :raises Unsupported: where an entry has another value of somebody else's: it would be lost,
        though the kernel reads each of several ``pci=``.
    :raises NoEvidence: where the entries were not read.
    """
    values = in_a_file(node, needed)
    old = arguments_in(node.ours.get(LIST, "")) if LIST in node.placed else ()
    ours = {*old, *(each.word for each in needed)}
    lines = [tuple(map(bare, entry.cmdline.words)) for entry in node.boot_menu.entries]
    if old and all(ours <= set(line) for line in lines):
        return values  # it has nothing to do
    keys = {word.partition("=")[0]: word for word in (each.word for each in needed)}
    for word in (word for line in lines for word in line if word not in ours):
        key = word.partition("=")[0]
        if key in keys:
            both = f"{word},{keys[key].partition('=')[2]}"
            raise Unsupported(
                f"{word} is in the boot configuration, and {tool} would replace it by {keys[key]}",
                hint=f"let one word say both: {command.format(both=both)}; or take it away there",
            )
    return values


def held_for(node: Node) -> Mapping[str, str]:
    """What our file that holds the default says: its kernel is the one that is to be tried.

    :returns: nothing where there is none.
    :raises NoEvidence: its text was not read.
    """
    if HELD not in node.owned or HELD not in node.placed:
        return {}
    found = _FOR.search(node.ours.get(HELD, ""))
    if found is None:
        raise NoEvidence(f"{HELD}: its text was not read")
    return found.groupdict(default="")


def given_up(node: Node) -> str:
    """Why nothing of this boot is to be kept; "" where it is no trial, or none that was given up.

    A job may have kept the node in it.
    """
    tried = node.trials.get(node.trial)
    if tried is None or tried.outcome is not TrialOutcome.GIVEN_UP:
        return ""
    return f"this boot is a trial that was given up at {tried.when}: {tried.why}"


def held(node: Node, want: Want) -> Mapping[str, str] | None:
    """What an upgrade placed stays until the kernel that it is for has booted well, or is gone.

    Or is to be the default without that.
    """
    said = held_for(node)
    if want.upgrade.untried and said.get("kernel") == want.upgrade.kernel:
        return None
    if not said or (said["kernel"] == node.kernel and not given_up(node)):
        return None
    return said if said["kernel"] in {each.release for each in node.kernels if each.image} else None


def _arguments(
    name: str, path: str, template: str, families: Callable[[Family], bool], told: Told
) -> Artefact:
    return Artefact(
        name,
        "boot with the kernel arguments that GPUDirect needs",
        path,
        template,
        never,
        _BOOT,
        PROOFS,
        removed=_BOOT,
        families=families,
        asking=CONTRIBUTORS,
        told=told,
    )


_DROP_IN = "/etc/default/grub.d/zz-gdr-toolkit.cfg"
_LIST = "boot/kernel-arguments.j2"
BOOT = (
    _arguments("boot.arguments", _DROP_IN, "boot/grub.cfg.j2", reads_drop_ins, in_a_file),
    _arguments("boot.arguments-grubby", LIST, _LIST, has_grubby, by_grubby),
    _arguments("boot.arguments-suse", LIST, _LIST, has_pbl, by_pbl),
    Artefact(
        "boot.kernel",
        "leave the default of the boot as it is, until another kernel has booted well",
        HELD,
        "boot/kernel.cfg.j2",
        held,
        (Trigger.UPDATE_BOOTLOADER,),
        (),
        removed=(Trigger.UPDATE_BOOTLOADER,),
        families=reads_drop_ins,
    ),
    Artefact(
        "boot.trial",
        "take away a trial that was left in the boot menu",
        GENERATOR,
        "boot/trial.sh.j2",
        never,
        (),
        (),
        removed=(Trigger.UPDATE_BOOTLOADER,),
        families=makes_menu,
        mode=0o755,
    ),
    Artefact(
        "boot.trial-bls",
        "take away a trial that was left in the boot menu",
        ENTRY_FILE,
        "",
        never,
        (),
        (),
        removed=(Trigger.UPDATE_BOOTLOADER,),
        families=has_grubby,
    ),
)


def with_the_list(node: Node, want: Want) -> Mapping[str, str] | None:
    """For what the list of bridges is nothing without; what is in its way, the list tells."""
    try:
        return None if acs_unit(node, want) is None else {}
    except (NoEvidence, Unparsable, Unsupported):
        if UNIT in node.placed:
            raise
        return None


ACS = (
    Artefact(
        "acs.bridges",
        "name the bridges between GPUs and HCAs whose ACS redirection is to be off",
        "/etc/gdr-toolkit/acs",
        "acs/bridges.j2",
        acs_unit,
        _START,
        _PROOFS,
        families=with_systemd,
    ),
    Artefact(
        "acs.program",
        "turn it off there, and on again when asked to",
        "/usr/lib/gdr-toolkit/acs",
        "acs/acs.sh.j2",
        with_the_list,
        _START,
        _PROOFS,
        families=with_systemd,
        mode=0o755,
    ),
    Artefact(
        "acs.unit",
        "do so before the drivers are loaded",
        UNIT,
        "acs/acs.service.j2",
        with_the_list,
        (*_RELOAD, *_START),
        _PROOFS,
        families=with_systemd,
        removed=(*_RELOAD, *_START),
    ),
    Artefact(
        "acs.early",
        "start that unit at each boot",
        "/etc/systemd/system/sysinit.target.d/gdr-toolkit-acs.conf",
        "acs/early.conf.j2",
        with_the_list,
        _RELOAD,
        _PROOFS,
        families=with_systemd,
        removed=_RELOAD,
    ),
)
