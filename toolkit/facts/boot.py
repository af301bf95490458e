"""What the boot loader would start next.

Sources: grub.cfg as grub-mkconfig writes it, Boot Loader Specification entries
(/boot/loader/entries/*.conf), ``grubby --default-kernel``, ``grub-editenv list``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.facts.cmdline import Cmdline, parse_cmdline
from toolkit.facts.lines import named_lines

_MENU = re.compile(r"\s*menuentry\s+(?:'([^']*)'|\"([^\"]*)\")(.*)")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(\S*?vmlinu[xz]-(\S+))\s*(.*)")
_DEFAULT = re.compile(r"\s*set default=\"?([^\"]*)\"?")
_ID = re.compile(r"menuentry_id_option\s+['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class BootEntry:
    """One entry that boots a kernel."""

    title: str
    kernel: str  # kernel release
    cmdline: Cmdline
    id: str = ""  # what saved_entry may name: menu id, title or file stem

    @property
    def recovery(self) -> bool:
        return "recovery" in self.title.lower() or "rescue" in f"{self.title}{self.id}".lower()


@dataclass(frozen=True, slots=True)
class BootMenu:
    entries: tuple[BootEntry, ...]  # in menu order
    default: str  # what "set default" says: "0", a title, "${saved_entry}"; "" for none


def parse_boot_entries(text: str, grub_env: str = "") -> BootMenu:
    """Read the probe's extract of boot configurations.

    :param text: "grub/grub.cfg:<line>" and "NAME.conf:<line>" lines.
    :param grub_env: ``grub-editenv list``; BLS entries may refer to its variables.
    """
    variables = dict(line.split("=", 1) for line in grub_env.split("\n") if "=" in line)
    files: dict[str, list[str]] = {}
    for name, line in named_lines(text, "boot entries"):
        files.setdefault(name, []).append(line)
    bls = [
        _bls(name, lines, variables)
        for name, lines in sorted(files.items(), key=lambda item: _bls_key(item[0]), reverse=True)
        if name.endswith(".conf")
    ]
    grub = [line for name, lines in files.items() if name.endswith(".cfg") for line in lines]
    # Every kernel's block first opens "set default" under a condition: the last one in the
    # unconditional branch is "0" or ${saved_entry}; the first is for next_entry.
    defaults = [found[1] for line in grub if (found := _DEFAULT.match(line))]
    default = next((each for each in defaults if each != "${next_entry}"), "")
    entries = tuple(entry for entry in bls if entry) + tuple(_grub(grub))
    return BootMenu(
        entries, variables.get("saved_entry", "") if "saved" in default or bls else default
    )


def _bls_key(name: str) -> list[tuple[int, str]]:
    """Order file names as the boot loader does: by version."""
    return [(int(run), "") if run.isdigit() else (-1, run) for run in re.split(r"(\d+)", name)]


def _bls(name: str, lines: list[str], variables: dict[str, str]) -> BootEntry | None:
    values = dict(line.split(None, 1) for line in lines if len(line.split(None, 1)) == 2)
    options = re.sub(
        r"\$(\w+)", lambda found: variables.get(found[1], ""), values.get("options", "")
    )
    linux = re.search(r"vmlinu[xz]-(\S+)", values.get("linux", ""))
    kernel = values.get("version") or (linux[1] if linux else "")
    if not kernel:
        return None
    return BootEntry(
        values.get("title", ""), kernel, parse_cmdline(options), name.removesuffix(".conf")
    )


def _grub(lines: list[str]) -> list[BootEntry]:
    entries: list[BootEntry] = []
    title = ident = ""
    for line in lines:
        if menu := _MENU.match(line):
            title = menu[1] or menu[2] or ""
            found = _ID.search(menu[3])
            ident = found[1] if found else title
        elif linux := _LINUX.match(line):
            entries.append(BootEntry(title, linux[2], parse_cmdline(linux[3]), ident))
    return entries


def default_entry(menu: BootMenu, default_kernel: str = "") -> BootEntry | None:
    """The entry that an unattended boot takes; None where the menu does not tell.

    :param default_kernel: path printed by ``grubby --default-kernel``, "" without grubby.
    """
    usable = [entry for entry in menu.entries if not entry.recovery]
    if default_kernel:
        release = default_kernel.strip().rpartition("vmlinuz-")[2]
        return next((entry for entry in usable if entry.kernel == release), None)
    if menu.default and not menu.default.isdigit():
        named = menu.default.rpartition(">")[2]
        hit = next((e for e in menu.entries if named in {e.id, e.title}), None)
        if hit:
            return hit
    index = int(menu.default) if menu.default.isdigit() else 0
    return (
        usable[index]
        if index == 0 and usable
        else (menu.entries[index] if index < len(menu.entries) else None)
    )
