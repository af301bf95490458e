"""Modules as they are in their files: symbols, their versions, signatures; and who checks them."""

from __future__ import annotations

import re
from functools import partial

from toolkit.errors import NeedsRoot, NoEvidence, Unparsable
from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.firmware.secureboot import (
    Enrolment,
    KeyFile,
    Keys,
    SecureBoot,
    parse_efi_byte,
    parse_key_files,
    parse_keys,
    parse_said_signers,
    parse_sb_state,
    parse_test_key,
)
from toolkit.facts.lines import blocks, named_lines
from toolkit.facts.modules.module_file import (
    Exports,
    ModuleImage,
    parse_exports,
    parse_image,
    parse_module_deps,
    parse_symbol_versions,
)
from toolkit.facts.modules.refusals import NotInserted, parse_not_inserted
from toolkit.facts.node.modules import KernelModules
from toolkit.facts.node.system import System
from toolkit.facts.reading import given, parsed, where_given
from toolkit.facts.text.pasted_logs import IMPORTED

HIDDEN = "/sys/kernel/security/lockdown: not there, and Secure Boot is on"
MOUNT = "mount -t securityfs securityfs /sys/kernel/security"

# Of one module's fields, in modinfo's order: the file, and below it what it depends on.
_PEERMEM_DEPENDS = re.compile(
    r"^filename:\s+\S*nvidia(?:-current)?-peermem\.ko\S*$(?:\n(?!filename:).*)*?"
    r"\ndepends:[ \t]*(.*)$",
    re.MULTILINE,
)


def _framework(name: str, text: str) -> str:
    """A setting of DKMS's framework.conf; the last word counts, as for its own shell."""
    lines = (line for _, line in named_lines(text, "/etc/dkms"))
    found = [re.match(rf"\s*{name}=[\"']?([^\"'\s]+)", line) for line in lines]
    return next((each[1] for each in reversed(found) if each), "")


class Files(System, KernelModules):
    """Modules as they are in their files: symbols, their versions, signatures."""

    # Whether the evidence has the bytes of modules; an older probe sent none.
    knows_images = given("peermem-elf")

    @fact
    def peermem_image(self) -> ModuleImage | None:
        """The nvidia-peermem that modprobe takes, from its bytes; None where it takes none.

        :raises NoEvidence: where the bytes were not sent.
        """
        chosen = self.peermem_chosen
        if chosen is None:
            return None
        names = (chosen.filename, chosen.filename.removeprefix("/usr"))
        for path, lines in blocks(self._text("peermem-elf"), "module files"):
            if path.removeprefix("/usr") in names:
                return parse_image(path, lines)
        raise NoEvidence(f"{chosen.filename}: its bytes are not part of this evidence")

    @fact
    def peermem_changed(self) -> bool:
        """Whether the nvidia-peermem that modprobe takes was changed after it was signed.

        Where no certificate on the node is that of the signature, nobody can tell, and it is
        not said; nor where the kernel looks at no signatures.
        """
        if not self._given("peermem-verified") or not self._there("peermem-verified"):
            return False
        chosen = self.peermem_chosen
        bad = [
            line.removeprefix("bad ").removeprefix("/usr")
            for line in self._text("peermem-verified").split("\n")
            if line.startswith("bad ")
        ]
        return chosen is not None and chosen.filename.removeprefix("/usr") in bad

    @fact
    def exports(self) -> tuple[Exports, ...]:
        """What each installed module that nvidia-peermem may need offers it."""
        return self.exports_for(self.kernel)

    def exports_for(self, release: str) -> tuple[Exports, ...]:
        """The same, of another kernel on disk; files outside of /lib/modules count for all."""
        told = parse_exports(self._text("exports"))
        plain = {each.path: each.path.removeprefix("/usr") for each in told}
        at = (f"/lib/modules/{release}/", "/lib/modules/")
        return tuple(
            each
            for each in told
            if plain[each.path].startswith(at[0]) or not plain[each.path].startswith(at[1])
        )

    @fact
    def symbol_versions(self) -> dict[str, dict[str, int]]:
        """Checksums by symbol, of each Module.symvers of OFED and of the driver."""
        return {
            **parse_symbol_versions(self._text("symvers")),
            **parse_symbol_versions(self._text("p2p-symvers")),
        }

    @fact
    def module_deps(self) -> dict[str, tuple[str, ...]]:
        """Files that each file needs, as depmod wrote it down."""
        return parse_module_deps(self._text("module-deps"), self.kernel)

    @fact
    def peermem_params(self) -> dict[str, str]:
        """Parameters of the loaded nvidia-peermem; none where it is not loaded."""
        if not self.live:
            return {}
        rows = named_lines(self._text("peermem-params"), "/sys/module/nvidia_peermem/parameters")
        return dict(rows)

    @fact
    def signatures_demanded(self) -> str:
        """What makes the kernel refuse unsigned modules; "" where nothing does.

        :raises NoEvidence: where lockdown is likely and the kernel's file of it is not there.
        """
        if not self.live:
            # In an image: what its kernel, or the arguments in its boot menu, say of any node.
            if self.kernel_config.get("CONFIG_MODULE_SIG_FORCE") == "y":
                return "CONFIG_MODULE_SIG_FORCE"
            words = self.next_cmdline.words if self.boot_entries else ()
            return "module.sig_enforce" if "module.sig_enforce" in words else ""
        if self._there("sig-enforce") and self._text("sig-enforce").strip() == "Y":
            return "module.sig_enforce"
        if self.lockdown_hidden:
            raise NoEvidence(HIDDEN, hint=MOUNT)
        return "" if self.lockdown == "none" else f"lockdown ({self.lockdown})"

    @fact
    def lockdown_hidden(self) -> bool:
        """Whether lockdown is likely, and the kernel's file of it is not there.

        A kernel built without lockdown has no such file; others hide it with securityfs.
        """
        if self._there("lockdown") or self.secure_boot is not SecureBoot.ON:
            return False
        return self.kernel_config.get("CONFIG_SECURITY_LOCKDOWN_LSM") != "n"

    @fact
    def let_unsigned_in(self) -> bool:
        """Whether a module without a good signature was loaded since boot.

        Source: Documentation/admin-guide/tainted-kernels.rst, bit 13.
        """
        told = self._text("tainted").strip()
        if not told.isdecimal():
            raise Unparsable("/proc/sys/kernel/tainted", told)
        return bool(int(told) & 1 << 13)

    @fact
    def keys(self) -> Keys:
        """The certificates that the kernel holds.

        :raises NeedsRoot: where its keyrings were not shown.
        """
        keys = parse_keys(self._text("trusted-keys"))
        if not keys.seen:
            raise NeedsRoot("/proc/keys: the kernel's keyrings are shown to root alone")
        return keys

    @fact
    def secure_boot(self) -> SecureBoot:
        """Whether Secure Boot is on: from the firmware variable, else from mokutil.

        :raises NoEvidence: where neither could be asked; in an image always.
        """
        if not self.live:
            raise NoEvidence("an image has no firmware: each node's own says it")
        if self._given("efi-secureboot") and self._there("efi-secureboot"):
            return parse_efi_byte(self._text("efi-secureboot"))
        if self._state("mokutil") is State.FAILED:
            return parse_sb_state(self.sources.frame("mokutil").text)
        if self._given("efi-secureboot") and not self._there("mokutil"):
            return SecureBoot.NO_EFI
        return parse_sb_state(self._text("mokutil"))

    @fact
    def own_key(self) -> tuple[str, Enrolment] | None:
        """The certificate that DKMS signs with here, and how it stands; None for none.

        :raises NoEvidence: where mokutil gave no answer.
        """
        if not self._there("mok-key"):
            return None
        frame = self.sources.frame("mok-key")
        text = frame.text if frame.state is State.FAILED else self._text("mok-key")
        return frame.source.rpartition(" ")[2], parse_test_key(text)

    # The certificate, and the key, that DKMS was told to sign with; "" for that of its default.
    configured_certificate = parsed("dkms-fragments", partial(_framework, "mok_certificate"))
    configured_key = parsed("dkms-fragments", partial(_framework, "mok_signing_key"))

    @fact
    def key_files(self) -> dict[str, KeyFile]:
        """Files where keys for modules usually lie, by path; nothing of what is in them.

        :raises NoEvidence: where an older probe did not look.
        """
        return parse_key_files(self._text("signing-files"))

    @fact
    def unsupported_gate(self) -> tuple[tuple[str, str], ...]:
        """Lines that say whether SUSE's modprobe takes modules of others, by their file."""
        return tuple(named_lines(self._text("unsupported-modules"), "modprobe.d"))

    # What modprobe answered to somebody; "" where nobody has told.
    modprobe_said = where_given("modprobe-said", str, "")

    @fact
    def not_inserted(self) -> tuple[NotInserted, ...]:
        """Modules that a loader could not insert, as it told somebody, or a journal that was given.

        Of a node that was probed its files tell more than what was refused earlier.
        """
        given = IMPORTED in self.sources.source("dmesg")
        log = self._text("dmesg") if given else ""
        return parse_not_inserted(f"{self.modprobe_said}\n{log}".split("\n"))

    # Signers by module, where somebody has listed them.
    said_signers = where_given("modinfo-said", parse_said_signers, dict[str, str]())

    @fact
    def peermem_said(self) -> str | None:
        """What nvidia-peermem depends on, as somebody's modinfo said; None where none did."""
        if not self._given("modinfo-said"):
            return None
        found = _PEERMEM_DEPENDS.search(self._text("modinfo-said"))
        return found[1].strip() if found else None

    @fact
    def lsmod(self) -> dict[str, tuple[str, ...]] | None:
        """Users by loaded module, from lsmod given as a loose file; None where it was not."""
        if not self._given("lsmod"):
            return None
        loaded = {}
        for line in self._text("lsmod").split("\n"):
            words = line.split()
            words = words[:4] if len(words) > 5 and words[4] == "Live" else words  # /proc/modules
            if len(words) in {3, 4} and words[1].isdecimal() and words[2].isdecimal():
                users = words[3].split(",") if len(words) == 4 else []
                loaded[words[0]] = tuple(each for each in users if each not in {"", "-"})
        # Of an excerpt: who uses a module is loaded too.
        users_of_all = {user for users in loaded.values() for user in users}
        return {**dict.fromkeys(sorted(users_of_all), ()), **loaded}

    @property
    def users(self) -> dict[str, tuple[str, ...]]:
        """Modules that use each loaded one: from /sys/module, else from lsmod as a loose file."""
        if not self.knows_state and self.lsmod is not None:
            return self.lsmod
        return {name: state.holders for name, state in self.module_state.items()}

    # Whether the evidence has /sys/module; loose files have lsmod at best.
    knows_state = given("module-state")
