"""DKMS, headers, compilers, what the next boot would find, and the passport of an image."""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.boot.kernel import parse_config, parse_initramfs
from toolkit.facts.fact import fact
from toolkit.facts.lines import blocks, filled, rows
from toolkit.facts.modules.build_env import Compiler, parse_cc_version, parse_gcc_major, parse_tools
from toolkit.facts.modules.dkms import parse_build_failures, parse_dkms_version, parse_make_log
from toolkit.facts.modules.kernel_modules import parse_modinfo_files, parse_symvers
from toolkit.facts.modules.module_file import parse_build_id
from toolkit.facts.modules.ofed import (
    LEFTOVER,
    OfedFolders,
    parse_ofed_folders,
    parse_openib_conf,
    parse_unit,
)
from toolkit.facts.modules.placed_files import REBUILD, HookFile, parse_hooks
from toolkit.facts.passport import VERIFIED, parse
from toolkit.facts.reading import Reading, parsed, there, where_given, where_there

NO_AUTOINSTALL = "/etc/dkms/no-autoinstall"
CALLED_BY = "called by:"  # the line before those that call DKMS


class Builds(Reading):
    """DKMS, headers, compilers, and what the next boot would find."""

    @property
    def given_kernel(self) -> bool:
        """Whether the evidence says which kernel runs; a listing by itself does not.

        :raises CutOff: where the evidence was cut off before it.
        """
        return self._given("kernel-release") or self._given("uname")

    # Names of the commands that builds need, as far as the node has them.
    tools = parsed("tools", parse_tools)

    @fact
    def kernel_compiler(self) -> Compiler:
        """What the running kernel was compiled with.

        :raises NoEvidence: where its configuration does not say.
        """
        config = parse_config(self._text("kernel-config"))
        if "CONFIG_CC_VERSION_TEXT" not in config:
            raise NoEvidence("kernel config: no CONFIG_CC_VERSION_TEXT", hint="see /proc/version")
        return parse_cc_version(config["CONFIG_CC_VERSION_TEXT"])

    # Major version of the node's gcc.
    gcc_major = parsed("gcc-version", parse_gcc_major)

    @fact
    def kernel_configs(self) -> dict[str, dict[str, str]]:
        """Options by kernel release; none where that kernel's configuration was not read."""
        found = blocks(self._text("kernel-configs"), "/boot/config-*")
        return {release: parse_config("\n".join(lines)) for release, lines in found}

    # The driver, peer-memory and RDMA core modules of every kernel, by path.
    kernel_modules = parsed("all-modinfo", parse_modinfo_files)
    has_dkms = there("dkms-version")
    dkms_version = parsed("dkms-version", parse_dkms_version)
    # What lies in /var/lib/dkms, and whether /etc/dkms/no-autoinstall does.
    dkms_tree = where_there("dkms-tree", filled, ())

    @fact
    def autoinstall_off(self) -> bool:
        return NO_AUTOINSTALL in self.dkms_tree

    @fact
    def dkms_callers(self) -> tuple[str, ...] | None:
        """Hooks that call DKMS for a new kernel, and its unit; None where nobody looked."""
        if CALLED_BY not in self.dkms_tree:
            return None
        found = self.dkms_tree[self.dkms_tree.index(CALLED_BY) + 1 :]
        return tuple(line.partition(" -> ")[0] for line in found)

    # What has nvidia-peermem rebuilt, by path; and the plugin that dnf needs for it.
    rebuild_hooks = parsed("rebuild-hooks", parse_hooks)

    @fact
    def can_rebuild(self) -> bool:
        """Whether the program of ours that rebuilds can be run there.

        :raises NoEvidence: where nobody looked.
        """
        return self.rebuild_hooks.get(REBUILD) is HookFile.RUNS

    # Logs that failed builds left; none where there is no DKMS.
    build_failures = where_there("dkms-failures", parse_build_failures, ())
    # A build log that was handed to us by itself; None on evidence of a whole node.
    make_log = where_given("make-log", parse_make_log, None)

    @fact
    def ofed_folders(self) -> OfedFolders:
        return parse_ofed_folders(
            self._text("sources"),
            parse_symvers(self._text("symvers")),
            leftover=LEFTOVER in self.dkms_tree,
        )

    @fact
    def ofed_container(self) -> bool:
        """Whether a driver container keeps the RDMA stack below /run/mellanox/drivers."""
        return self._there("ofed-container") and bool(self._text("ofed-container").strip())

    # openibd's settings; none where it has no file of them.
    openib_conf = where_there("openib-conf", parse_openib_conf, dict[str, str]())
    # What systemd says of openibd; nothing on a node without it.
    openibd = where_there("openibd-state", parse_unit, dict[str, str]())

    @fact
    def openibd_log(self) -> tuple[str, ...]:
        """What openibd said since the boot."""
        return tuple(line for line in self._text("openibd-log").split("\n") if line.strip())

    # The running kernel's; None where it has none, or nothing that would list it.
    initramfs = where_there("initramfs", parse_initramfs, None)

    @fact
    def has_initramfs(self) -> bool:
        """Whether its kernel has one, listed or not."""
        return self._there("initramfs") or not self.sources.frame("initramfs").source.startswith(
            "/boot/"
        )

    # That of the newest other kernel; None where there is no other.
    initramfs_next = where_there("initramfs-next", parse_initramfs, None)


# The passport that a node's image was born with, and what of the node it is laid beside.
ABSENT = "absent"
_ROW = re.compile(r"([0-9a-f]{64}|absent|denied) (/.+)")
_SINCE = re.compile(r"(\S+) ([0-9a-f]{64}|absent) (/.+)")
_LOADED = re.compile(r"(\w+) (-|[0-9A-F]{1,40})")


class LoadedBuild(Struct, frozen=True):
    """Which build of a module the kernel holds."""

    srcversion: str  # "" where the kernel does not tell
    build_id: str  # lower-case hex; likewise


class Left(Struct, frozen=True):
    """What our latest run that touched a file left there."""

    run: str  # its name on the node: "20260102T030405Z-17"; "rebuild" for the program of ours
    sha256: str  # or "absent"


class Passports(Reading):
    """The passport, and the node beside it."""

    passport = where_there("passport", parse, None)
    # The very bytes, which a signature is over.
    passport_text = parsed("passport", str)

    @fact
    def passport_hashes(self) -> dict[str, str]:
        """SHA-256 of each file that the passport names, or "absent", by path.

        :raises NoEvidence: where one is there and could not be read.
        """
        found = {}
        for row in rows(self._text("passport-files"), _ROW, "files of the passport"):
            if row[1] == "denied":
                raise NoEvidence(f"{row[2]}: permission denied")
            found[row[2]] = row[1]
        return found

    @fact
    def passport_loaded(self) -> dict[str, LoadedBuild]:
        """Of the modules that the passport names those that are loaded."""
        lines = self._text("passport-loaded").split("\n")[:-1]
        at = next((at for at, line in enumerate(lines) if line.startswith("ids ")), len(lines))
        # Notes that follow one another, in the order of the modules in the line above them.
        notes = lines[at + 1 :]
        try:
            data = bytes.fromhex("".join(notes))
        except ValueError as why:
            raise Unparsable("build ids of loaded modules", notes[0]) from why
        builds = {}
        for name in " ".join(lines[at : at + 1]).split()[1:]:
            size = 16 + int.from_bytes(data[4:8], "little")
            size += -size % 4
            builds[name] = parse_build_id(name, data[:size])
            data = data[size:]
        if data:
            raise Unparsable("build ids of loaded modules", data[:40].hex())
        head = "".join(f"{line}\n" for line in lines[:at])
        return {
            row[1]: LoadedBuild(row[2].strip("-"), builds.get(row[1], ""))
            for row in rows(head, _LOADED, "modules of the passport")
        }

    @fact
    def passport_since(self) -> dict[str, tuple[Left, ...]]:
        """What runs of ours left at files of the passport, by path; those at its birth too."""
        if not self._there("passport-since"):
            return {}
        found: dict[str, tuple[Left, ...]] = {}
        for row in rows(self._text("passport-since"), _SINCE, "runs since the passport"):
            found[row[3]] = (*found.get(row[3], ()), Left(row[1], row[2]))
        return found

    @fact
    def passport_verified(self) -> tuple[bool, str]:
        """Whether the signature is good, and who made it or what is wrong, as judged here.

        :raises NoEvidence: where nobody asked for it.
        """
        word, _, rest = self._text(VERIFIED).partition(" ")
        return word == "good", rest.strip()
