"""The boot loader, and what it would start next.

Sources: grub.cfg as grub-mkconfig writes it, Boot Loader Specification entries
(/boot/loader/entries/*.conf), ``grubby --default-kernel``, ``grub-editenv list``.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from toolkit.facts.boot.cmdline import Cmdline, parse_cmdline
from toolkit.facts.lines import named_lines, rows

# Which boot loader a node has, and what was tried with it.
# Sources: the firmware variables LoaderInfo and StubInfo (systemd-boot(7), systemd-stub(7)),
# /run/ostree-booted, /proc/mounts; /var/lib/gdr-toolkit/trials, which is ours.
MARK = "gdr_toolkit.trial"  # on the command line of a trial; the kernel knows no such module
RESET = "panic=30"  # with it, where the node has none: a kernel that panics resets the node
DRACUT = ("rd.shell=0", "rd.emergency=reboot")  # so does an initramfs that finds no root


class Loader(StrEnum):
    """What says which command line the next boot has."""

    GRUB = "GRUB"
    SYSTEMD_BOOT = "systemd-boot"
    UKI = "a unified kernel image"  # the command line is part of one signed file
    OSTREE = "ostree"
    TRANSACTIONAL = "transactional-update"  # the root is read-only
    OTHER = "no boot loader that we know"


def parse_loader(text: str) -> Loader:
    """Read the probe's lines; what stands above the loader comes before it."""
    lines = [line.split(" ", 1) for line in text.split("\n") if line]
    told = {words[0]: words[-1] for words in lines}
    if "ostree" in told:
        return Loader.OSTREE
    if "read-only" in told:
        return Loader.TRANSACTIONAL
    if "StubInfo" in told:
        return Loader.UKI
    if told.get("LoaderInfo", "").startswith("systemd-boot"):
        return Loader.SYSTEMD_BOOT
    return Loader.GRUB if "grub" in told else Loader.OTHER


class TrialOutcome(StrEnum):
    """How a trial ended, as far as the node was told."""

    OPEN = "open"  # its boot was asked for, and nobody has said yet what came of it
    GIVEN_UP = "given-up"
    UNREAD = "unread"  # no reading of its boot was whole; it may be tried once more


class Tried(Struct, frozen=True):
    """One line that a trial left on the node."""

    id: str
    outcome: TrialOutcome
    when: str  # "2026-11-22T08:10:00Z"
    why: str  # one sentence; while it is open the boot from which it was asked for


_LINE = re.compile(r"(\w+) (open|given-up|unread) (\S+) ?(.*)")


def parse_trials(text: str) -> dict[str, Tried]:
    """Read "ID OUTCOME TIME WHY" lines, by id.

    :raises Unparsable: at a line that is not of this form.
    """
    return {
        each[1]: Tried(each[1], TrialOutcome(each[2]), each[3], each[4])
        for each in rows(text, _LINE, "trials")
    }


_MENU = re.compile(r"(\s*)(menuentry|submenu)\s+(['\"])(.*?)\3(.*)")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+\S*?vmlinu[xz]-(\S+)\s*(.*)")
_DEFAULT = re.compile(r"\s*set default=\"?([^\"]*)\"?")
_ID = re.compile(r"menuentry_id_option\s+['\"]([^'\"]+)['\"]")
_VARIABLE = re.compile(r"\$(\w+)")
_TIMEOUT = re.compile(r"\s*set timeout=\"?(-?\d+)\"?")
_AFTER_FAILURE = re.compile(r"\s*if \[ \"\$\{recordfail\}\" = 1 \]")
_NEXT = "${next_entry}"


class BootEntry(Struct, frozen=True):
    """One line of the menu; a submenu and a firmware setup boot no kernel of their own."""

    title: str
    kernel: str  # kernel release; "" for what boots none
    cmdline: Cmdline
    id: str = ""  # what saved_entry may name: menu id, title or file stem
    place: str = ""  # "0", "1>2": where it stands, counted as GRUB does
    unresolved: tuple[str, ...] = ()  # variables in its options whose values were not read
    fields: tuple[tuple[str, str], ...] = ()  # of a BLS file: all its lines, in their order

    @property
    def recovery(self) -> bool:
        return "recovery" in self.title.lower() or "rescue" in f"{self.title}{self.id}".lower()


class BootMenu(Struct, frozen=True):
    lines: tuple[BootEntry, ...]  # in menu order, submenus before what they hold
    default: str | None  # "0", "1>2", a title, an id; "" for none set; None where not known
    once: bool = False  # the default is for the next boot alone (grub-reboot)
    usual: str | None = None  # what is the default again after that
    heeds_once: bool = False  # grub.cfg asks for a boot once at all
    waits: bool = False  # for ever, until somebody at the console chooses
    waits_after_failure: bool = False  # so it does where recordfail=1 (Ubuntu)

    @property
    def entries(self) -> tuple[BootEntry, ...]:
        """Those that boot a kernel."""
        return tuple(line for line in self.lines if line.kernel)


def parse_boot_entries(text: str, grub_env: str | None = None) -> BootMenu:
    """Read the probe's extract of boot configurations.

    :param text: "grub/grub.cfg:<line>" and "NAME.conf:<line>" lines.
    :param grub_env: ``grub-editenv list``, whose variables the rest may refer to; None
        where it was not read, so that what refers to it is not known.
    """
    environment = grub_env.split("\n") if grub_env is not None else []
    variables = dict(line.split("=", 1) for line in environment if "=" in line)
    files: dict[str, list[str]] = {}
    for name, line in named_lines(text, "boot entries"):
        files.setdefault(name, []).append(line)
    names = sorted((name for name in files if name.endswith(".conf")), key=_version, reverse=True)
    found = [_bls(name, files[name], variables, known=grub_env is not None) for name in names]
    bls = [replace(entry, place=str(at)) for at, entry in enumerate(e for e in found if e)]
    grub = [line for name, lines in files.items() if name.endswith(".cfg") for line in lines]
    lines = (*bls, *_grub(grub, first=len(bls)))
    # grub-mkconfig writes the site's default first, right after that for next_entry.
    written = next((each for each in _defaults(grub) if each != _NEXT), "")
    saved = "saved_entry" in written or (bls and not written)
    kept = variables.get("saved_entry", "") if grub_env is not None else None
    usual = kept if saved else written
    heeds = _NEXT in _defaults(grub)
    waits, after_failure = _waits(grub)
    menu = BootMenu(lines, usual, False, usual, heeds, waits, after_failure)
    if heeds and variables.get("next_entry"):
        return replace(menu, default=variables["next_entry"], once=True)
    return menu


def _waits(lines: list[str]) -> tuple[bool, bool]:
    """Whether a boot waits at the menu for ever, and whether one after a failed one does."""
    usual: list[int] = []
    after_failure: list[int] = []
    into = usual
    for line in lines:
        if _AFTER_FAILURE.match(line):
            into = after_failure
        elif found := _TIMEOUT.match(line):
            into.append(int(found[1]))
            into = usual  # its "else"
    return bool(usual) and max(usual) < 0, bool(after_failure) and max(after_failure) < 0


def _defaults(lines: list[str]) -> list[str]:
    return [found[1] for line in lines if (found := _DEFAULT.match(line))]


def _version(name: str) -> list[tuple[int, int, str]]:
    """Order file names as blscfg does, by rpmvercmp: numbers are newer than letters."""
    runs = re.findall(r"\d+|[a-zA-Z]+", name.removesuffix(".conf"))
    return [(1, int(run), "") if run.isdigit() else (0, 0, run) for run in runs]


def _bls(
    name: str, lines: list[str], variables: dict[str, str], *, known: bool
) -> BootEntry | None:
    words = (line.split(None, 1) for line in lines)
    fields = tuple((pair[0], pair[1]) for pair in words if len(pair) == 2)
    values = dict(fields)
    options = " ".join(value for name, value in fields if name == "options")
    named = tuple(_VARIABLE.findall(options))
    linux = re.search(r"vmlinu[xz]-(\S+)", values.get("linux", ""))
    kernel = values.get("version") or (linux[1] if linux else "")
    if not kernel:
        return None
    return BootEntry(
        values.get("title", ""),
        kernel,
        parse_cmdline(_VARIABLE.sub(lambda found: variables.get(found[1], ""), options)),
        name.removesuffix(".conf"),
        unresolved=() if known else named,
        fields=fields,
    )


def _grub(lines: list[str], first: int) -> list[BootEntry]:
    """The menu of a grub.cfg; what is indented below a submenu belongs to it.

    :param first: how many entries blscfg puts before these.
    """
    menu: list[BootEntry] = []
    top, inner, submenu = first - 1, -1, ""
    for line in lines:
        if found := _MENU.match(line):
            if found[1] and submenu:
                inner += 1
                place = f"{submenu}>{inner}"
            else:
                top, inner = top + 1, -1
                place = str(top)
                submenu = place if found[2] == "submenu" else ""
            title = found[4]
            ident = _ID.search(found[5])
            menu.append(BootEntry(title, "", Cmdline(()), ident[1] if ident else title, place))
        elif (linux := _LINUX.match(line)) and menu and not menu[-1].kernel:
            menu[-1] = replace(menu[-1], kernel=linux[1], cmdline=parse_cmdline(linux[2]))
    return menu


def default_entry(
    menu: BootMenu, default_kernel: str = "", *, usual: bool = False
) -> BootEntry | None:
    """The entry that an unattended boot takes; None where the menu does not tell.

    :param default_kernel: path printed by ``grubby --default-kernel``, "" without grubby.
    :param usual: the one of the boots after that, where the next is another.
    """
    wanted = menu.usual if usual else menu.default
    if default_kernel and (usual or not menu.once):
        release = default_kernel.strip().rpartition("vmlinuz-")[2]
        usable = (entry for entry in menu.entries if not entry.recovery)
        return next((entry for entry in usable if entry.kernel == release), None)
    if wanted is None:
        return None
    above = ""
    chosen = None
    for name in wanted.split(">"):
        level = [each for each in menu.lines if each.place.rpartition(">")[0] == above]
        if not level:
            return None
        # GRUB falls back to the first line where there is none of this name or number: a
        # title of a submenu's entry, given without the submenu, boots entry 0.
        named = (e for e in level if name and name in {e.id, e.title, e.place.rpartition(">")[2]})
        chosen = next(named, level[0])
        above = chosen.place
    return chosen if chosen is not None and chosen.kernel else None
