"""A changed command line is tried by one boot, before it becomes the default.

The loader is given one more entry, and told to boot it once: whatever happens, the reset
after that boots the old entry. Only what was seen to work is then written for good.
"""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import NoEvidence, Unparsable, Unsupported
from toolkit.facts.boot.next_boot import DRACUT, MARK, RESET, BootEntry, default_entry
from toolkit.facts.distros import Family
from toolkit.facts.node.node import Node
from toolkit.plan.acts import forgotten
from toolkit.plan.artefact import Trigger
from toolkit.plan.artefacts_boot import ENTRY, ENTRY_FILE, GENERATOR
from toolkit.plan.boot_arguments import bare, quoted
from toolkit.plan.change import Act, Action, Change, When
from toolkit.plan.templates import render_text

ASK = "--boot-without-trial"
_WRITABLE = frozenset({"ext2", "xfs", "fat"})  # as grub-probe names them; ext2 is ext4 too
_READABLE = 48  # characters of one word
_OWN_FIELDS = frozenset({"title", "version", "options", "id", "sort-key"})


class Trial(Struct, frozen=True):
    """One command line to be tried, as the loader is told of it."""

    id: str  # stands for kernel and command line: the same line has the same id
    words: tuple[str, ...]  # what the default entry will gain; without quotes
    gone: tuple[str, ...]  # what it will lose
    before: tuple[str, ...]  # the default entry's words, as they must stay
    file: Change  # the entry, as a file of ours
    acts: tuple[Act, ...]  # tell the loader of it
    last: bool = False  # it was tried before, and could not be read
    kernel: str = ""  # its release, where that is what is tried

    @property
    def told(self) -> str:
        """What is tried, for a reader: lists of devices may be long."""
        if self.kernel:
            return f"kernel {self.kernel}"
        return ", ".join((*map(_short, self.words), *(f"no {_short(w)}" for w in self.gone)))

    @property
    def old(self) -> str:
        """What it stands against, and what the node has again without it."""
        return "the old kernel" if self.kernel else "the old command line"

    @property
    def mark(self) -> str:
        """The word by which a boot is known to be this trial."""
        return f"{MARK}={self.id}"


def _short(word: str) -> str:
    return word if len(word) <= _READABLE else f"{word[: _READABLE - 3]}..."


class CommandLines(Struct, frozen=True):
    """The command lines of one node; () for those that it does not tell."""

    running: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()  # of the default entry
    once: tuple[str, ...] = ()  # of the entry that is booted next, and then no more

    @property
    def trial(self) -> str:
        """The id of the trial that this boot is, so that the next has another line; "" for none."""
        marks = (word for word in self.running if word.startswith(f"{MARK}="))
        return next(marks, "").partition("=")[2]


def lines_of(node: Node) -> CommandLines:
    """Words of the kernel, as they are and as they will be; without the loader's BOOT_IMAGE."""
    running: tuple[str, ...] = ()
    try:
        running = tuple(w for w in node.cmdline.words if not w.startswith("BOOT_IMAGE="))
        menu = node.boot_menu
        usual = default_entry(menu, node.grubby_default, usual=True)
        once = default_entry(menu) if menu.once else None
    except (NoEvidence, Unparsable):
        return CommandLines(running)
    words = [tuple(map(bare, each.cmdline.words)) if each else () for each in (usual, once)]
    return CommandLines(running, words[0], words[1])


def trial_of(
    node: Node, family: Family, words: tuple[str, ...], gone: tuple[str, ...], kernel: str = ""
) -> Trial:
    """How the loader of this node is told to boot such a command line once.

    :param words: what the default entry is to gain, without quotes; ``gone``: to lose.
    :param kernel: one of another release, with its own command line.
    :raises Unsupported: this loader cannot boot an entry once and forget it.
    :raises NoEvidence: where the node does not tell.
    """
    must_be_able(node)
    default = default_entry(node.boot_menu, node.grubby_default, usual=True)
    if default is None or default.unresolved:
        raise NoEvidence("boot configuration: its default entry was not found")
    before = tuple(map(bare, default.cmdline.words))
    entry = entry_of(node, kernel) if kernel else default
    line = "\n".join((entry.kernel, *before, "", *words, "", *gone))
    name = sha256(line.encode()).hexdigest()[:12]
    # What brings a node that hangs on a trial back by itself, where nothing else does.
    value = entry.cmdline["panic"]
    resets = value.lstrip("-").isdigit() and int(value) != 0
    safety = (*(() if resets else (RESET,)), *(DRACUT if family.grubby else ()))
    add = (*words, *safety, f"{MARK}={name}")
    if family.grubby:
        file = _bls(entry, name, add, gone)
        acts: tuple[Act, ...] = (_once(family),)
    else:
        file = _generator(family.menus[0], entry, name, add, gone)
        acts = (_derive(family, name), _once(family))
    old = node.placed.get(file.path)
    return Trial(name, words, gone, before, replace(file, old=old), acts, kernel=kernel)


def entry_of(node: Node, kernel: str) -> BootEntry:
    """The entry of a kernel; of two the later, whose name others' kernels do not take.

    Those with the default's command line go first: another system may have that kernel, too, and
    entries by hand are for what is not usual.

    :raises NoEvidence: there is none, or it was not read in full.
    """
    usual = default_entry(node.boot_menu, node.grubby_default, usual=True)
    found = [e for e in node.boot_entries if e.kernel == kernel and not e.recovery]
    found = [e for e in found if usual and e.cmdline == usual.cmdline] or found
    if not found or found[-1].unresolved:
        raise NoEvidence(f"boot configuration: no entry of {kernel} was found")
    return found[-1]


def must_be_able(node: Node) -> None:
    """Raise unless GRUB boots an entry once here, and can forget it without our help.

    :raises Unsupported: this loader cannot, or would wait at its menu.
    """
    _must_not_wait(node)
    menu, variables = node.boot_menu, node.grub_variables
    if not menu.heeds_once:
        raise _cannot("its grub.cfg does not ask for next_entry")
    if menu.once and menu.default == ENTRY:
        raise Unsupported(
            "an earlier run left a trial in the boot menu",
            hint="what this plan does takes it away; then run again",
        )
    if menu.once:
        raise Unsupported(
            f"a boot of {menu.default!r} is asked for already",
            hint="reboot the node first, or: grub-editenv - unset next_entry",
        )
    layers, kind = node.grub_disk
    if layers:
        raise _cannot(f"GRUB cannot write to {layers}, where its environment lies")
    if kind not in _WRITABLE:
        raise _cannot(f"GRUB cannot write to {kind}, where its environment lies")
    if "boot_counter" in variables:
        raise _cannot("boot_counter is set: something else counts boots here (greenboot)")
    if any(entry.fields for entry in menu.entries):
        named = {entry.id for entry in menu.entries}
        if menu.usual not in named:
            # An entry more would shift a number, or become the first: then every boot is a trial.
            raise _cannot(f"its default is {menu.usual!r}, which is the id of no entry")


def _cannot(why: str) -> Unsupported:
    return Unsupported(
        f"the loader cannot boot once here: {why}",
        hint=f"{ASK} writes the default itself; what does not boot then needs a console",
    )


def _must_not_wait(node: Node) -> None:
    """:raises Unsupported: a boot stops at the menu until somebody at the console chooses."""
    menu = node.boot_menu
    if menu.waits_after_failure and node.grub_variables.get("recordfail") == "1":
        why, line = "its environment has recordfail=1", "GRUB_RECORDFAIL_TIMEOUT=30"
    elif menu.waits:
        why, line = "its timeout is -1", "GRUB_TIMEOUT=5"
    else:
        return
    raise Unsupported(
        f"GRUB would wait at its menu for ever, until somebody at the console chooses: {why}",
        hint=f"{line} in /etc/default/grub, then update-grub (grub2-mkconfig), and run again",
    )


def _change(path: str, text: str, mode: int) -> Change:
    return Change("boot.trial", "boot it once, and look", path, Action.PLACE, text, mode)


def _generator(
    menu: str, entry: BootEntry, name: str, add: tuple[str, ...], gone: tuple[str, ...]
) -> Change:
    """A program that copies the default entry.

    :raises Unsupported: where its name cannot stand between quotes of a shell, as others' do.
    """
    if "'" in entry.id or not entry.id.isprintable():
        raise _cannot(f"its default entry has the odd name {entry.id!r}")
    values = {
        "id": name,
        "menu": menu,
        "entry": entry.id,
        "add": " ".join(map(quoted, add)),
        "drop": " ".join(map(quoted, gone)),
    }
    return _change(GENERATOR, render_text("boot/trial.sh.j2", values), 0o755)


def _bls(entry: BootEntry, name: str, add: tuple[str, ...], gone: tuple[str, ...]) -> Change:
    """The default entry's file, with all variables of its options already in place.

    :raises Unsupported: where it names no initramfs; then it was not read in full.
    """
    if "initrd" not in dict(entry.fields):
        raise _cannot(f"the entry {entry.id} names no initramfs")
    words = [word for word in entry.cmdline.words if bare(word) not in gone]
    lines = [
        "# Placed by gdr-toolkit for one trial of a command line, and taken away after it.",
        f"title gdr-toolkit: trial {name}",
        f"version {entry.kernel}",
        *(f"{key} {value}" for key, value in entry.fields if key not in _OWN_FIELDS),
        f"options {' '.join((*words, *map(quoted, add)))}",
    ]
    return _change(ENTRY_FILE, "".join(f"{line}\n" for line in lines), 0o644)


def _derive(family: Family, name: str) -> Act:
    """The family's own command makes the menu anew; it must name the trial then."""
    return Act(
        Trigger.UPDATE_BOOTLOADER,
        family.bootloader,
        family.menus,
        ((When.KEPT, family.bootloader),),
        temps=tuple(f"{file}.new" for file in family.menus),
        names=(*((file, f"{MARK}={name}") for file in family.menus),),
    )


def _once(family: Family) -> Act:
    """GRUB clears next_entry before it boots what it names."""
    forget = forgotten(family)
    command = (forget[0], "-", "set", f"next_entry={ENTRY}")
    return Act(Trigger.UPDATE_BOOTLOADER, command, undo=((When.AFTER, forget),))
