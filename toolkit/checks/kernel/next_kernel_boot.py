"""How another kernel would be booted, and which signatures it would ask for."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.checks.check import Finding, failed, passed
from toolkit.checks.kernel.signatures import mistrusted
from toolkit.checks.modules.fixes import files_of, menu_again
from toolkit.errors import NoEvidence
from toolkit.facts.boot.kernel import InstalledKernel
from toolkit.facts.boot.next_boot import BootEntry
from toolkit.facts.firmware.secureboot import ENROL, SecureBoot
from toolkit.facts.node.node import Node
from toolkit.want import Want

LEVELS = ("integrity", "confidentiality")
LOCKED = "CONFIG_LOCK_DOWN_KERNEL_FORCE_"
BY_FIRMWARE = "CONFIG_LOCK_DOWN_IN_EFI_SECURE_BOOT"  # of the distributions that have the patch


@dataclass(frozen=True, slots=True)
class Boot:
    """A kernel that is installed, and how it would be booted."""

    kernel: InstalledKernel
    following: bool  # it is that of the next boot, not one named by hand

    @property
    def release(self) -> str:
        return self.kernel.release


def entry_of(node: Node, boot: Boot) -> BootEntry:
    """The line of the boot menu that would start the kernel.

    :raises NoEvidence: where there is none, or its arguments are not known.
    """
    usable = [e for e in node.boot_entries if e.kernel == boot.release and not e.recovery]
    entry = node.next_boot if boot.following else next(iter(usable), None)
    if entry is None:
        add = f"kernel-install add {boot.release} /lib/modules/{boot.release}/vmlinuz"
        raise NoEvidence(f"no boot entry starts {boot.release}", hint=menu_again(node, add))
    if entry.unresolved:
        raise NoEvidence(f"boot entry of {boot.release}: its variables were not read")
    return entry


def _demanded(node: Node, boot: Boot) -> str:
    """What would make that kernel refuse unsigned modules; "" where nothing would.

    :raises NoEvidence: where neither its configuration nor its command line tells.
    """
    config = node.kernel_configs.get(boot.release, {})
    if config.get("CONFIG_MODULE_SIG_FORCE") == "y":
        return "CONFIG_MODULE_SIG_FORCE"
    if any(config.get(f"{LOCKED}{level.upper()}") == "y" for level in LEVELS):
        return "lockdown by its configuration"
    if boot.release == node.kernel or node.lockdown != "none":
        if now := node.signatures_demanded:
            return now
    elif config.get(BY_FIRMWARE) == "y" and node.secure_boot is SecureBoot.ON:
        return "lockdown under Secure Boot"
    told = entry_of(node, boot).cmdline
    if "module.sig_enforce" in told:
        return "module.sig_enforce"
    level = told["lockdown"]
    if not config and boot.release != node.kernel and level not in LEVELS:
        raise NoEvidence(f"the configuration of {boot.release} was not read", hint="run as root")
    return f"lockdown ({level})" if level in LEVELS else ""


def signatures(node: Node, want: Want, boot: Boot) -> Finding:
    """Where signatures are asked for, the modules have one, by a key that is known."""
    demanded = _demanded(node, boot)
    if not demanded:
        return passed("no signature is asked for")
    # A kernel knows the key of its own modules; its packages may hold a driver signed by others.
    files = files_of(node, boot.release)
    mine = [each for each in files if "/kernel/drivers/" not in each.filename]
    if not mine:
        raise NoEvidence(f"modinfo says nothing of modules for {boot.release}")
    unsigned = sorted({each.name for each in mine if not each.signed})
    if unsigned:
        return failed(
            f"unsigned: {', '.join(unsigned)}, under {demanded}",
            expected="modules signed by an enrolled key",
            hint="let DKMS sign them: mokutil --import /var/lib/dkms/mok.pub, then build again",
        )
    wrong = [why for each in mine if (why := mistrusted(node, each, demanded))]
    if wrong:
        return failed("; ".join(wrong), expected="modules signed by an enrolled key", hint=ENROL)
    names = sorted({each.signer for each in mine})
    return passed(f"{demanded}; signed by {', '.join(names)}, which this kernel knows")
