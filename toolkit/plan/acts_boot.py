"""The commands that tell the boot loader of changed arguments."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.facts.distros import Family
from toolkit.plan.artefact import Trigger
from toolkit.plan.boot_arguments import arguments_in, quoted
from toolkit.plan.change import Act, Change, Command, When

# grubby, where it is a script for boot loader entries, edits by sed -i.
_GRUBBY_TEMPS = ("/etc/default/sed??????", "/etc/kernel/sed??????")


def booted(
    asking: list[Change], family: Family, keeps: tuple[str, ...], *, live: bool
) -> Iterator[Act]:
    """What tells the boot loader; a menu that is made anew must name a kernel then.

    :param live: whether it can be asked to make its menu anew; in an image it cannot.
    """
    left = [change for change in asking if change.artefact.startswith("boot.trial")]
    if left:
        yield Act(Trigger.UPDATE_BOOTLOADER, forgotten(family))
    if not family.grubby:
        again = family.bootloader
        words = [quoted(word) for change in asking for word in arguments_in(change.text)]
        names = tuple((file, w) for file in family.bootloader_files for w in ("vmlinu", *words))
        if not live:
            yield from _menus([each for each in asking if each not in left], family, keeps, names)
            return
        # grub-mkconfig writes beside the menu first.
        temps, undo = tuple(f"{file}.new" for file in keeps), ((When.KEPT, again),)
        yield Act(Trigger.UPDATE_BOOTLOADER, again, keeps, undo, names=names, temps=temps)
        return
    for change in asking:
        if change not in left:
            yield _grubby(change, keeps)


def _menus(
    asking: list[Change],
    family: Family,
    keeps: tuple[str, ...],
    names: tuple[tuple[str, str], ...],
) -> Iterator[Act]:
    """A word of the engine's own: see menu.sh, which tells why the loader is not asked."""
    for change, file in ((each, file) for each in asking for file in family.bootloader_files):
        new, old = arguments_in(change.text), arguments_in(change.old_text or "")
        gone = tuple(quoted(word) for word in old if word not in new)
        back = tuple(quoted(word) for word in new if word not in old)
        add = tuple(quoted(word) for word in new)
        undo = ("menu", file, *_signed("+", gone), *_signed("-", back))
        yield Act(
            Trigger.UPDATE_BOOTLOADER,
            ("menu", file, *_signed("+", add), *_signed("-", gone)),
            keeps,
            ((When.KEPT, undo),) if gone or back else (),
            names=names,
        )


def _signed(sign: str, words: Command) -> Command:
    return tuple(f"{sign}{word}" for word in words)


def forgotten(family: Family) -> Command:
    """GRUB boots its default, though it was told to boot something else once."""
    return ("grub2-editenv" if family.grubby else "grub-editenv", "-", "unset", "next_entry")


def _grubby(change: Change, keeps: tuple[str, ...]) -> Act:
    """grubby adds what the new file lists, and takes away what only the old one did."""
    new, old = arguments_in(change.text), arguments_in(change.old_text or "")
    gone = tuple(word for word in old if word not in new)
    new, gone = tuple(map(quoted, new)), tuple(map(quoted, gone))
    return Act(
        Trigger.UPDATE_BOOTLOADER,
        _update_kernels(new, gone),
        keeps,
        ((When.KEPT, _update_kernels(gone, tuple(word for word in new if word not in old))),),
        temps=_GRUBBY_TEMPS,
    )


def _update_kernels(add: Command, remove: Command) -> Command:
    command: Command = ("grubby", "--update-kernel=ALL")
    if remove:
        command += (f"--remove-args={' '.join(remove)}",)
    if add:
        command += (f"--args={' '.join(add)}",)
    return command
