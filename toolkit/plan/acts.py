"""The commands that carry out triggers on one node, and how each is taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.distros import Family
from toolkit.facts.modules.ofed import OFA
from toolkit.facts.modules.placed_files import REBUILD
from toolkit.facts.node.node import Node
from toolkit.plan.acs import UNIT
from toolkit.plan.artefact import Trigger
from toolkit.plan.artefacts import OWN_PACKAGE
from toolkit.plan.artefacts_modules import kernel_of
from toolkit.plan.boot_arguments import arguments_in, quoted
from toolkit.plan.change import Act, Action, Change, Command, When

# DKMS from 3.1 on moves the kernel's own modules of these names aside when it installs others.
_INBOX = tuple(
    f"/lib/modules/{{kernel}}/kernel/drivers/{each}"
    for each in ("infiniband", "net/ethernet/mellanox", "vdpa/mlx5", "vfio/pci/mlx5", "fwctl")
)
# Where OFED's build registers its headers: it does so no second time while a dead link is there.
_ALTERNATIVES = ("/etc/alternatives", "/var/lib/dpkg/alternatives", "/var/lib/alternatives")
_SCRATCH = "/var/lib/gdr-toolkit/rebuild/scratch.*"  # where our own program builds
Undo = tuple[tuple[str, Command], ...]  # when, as acts.When says it
# pbl edits by sed -i; so does grubby, where it is a script for boot loader entries.
_SED_TEMPS = ("/etc/default/sed??????", "/etc/kernel/sed??????")


def booted(
    asking: list[Change], family: Family, keeps: tuple[str, ...], *, live: bool
) -> Iterator[Act]:
    """What tells the boot loader; a menu that is made anew must name a kernel then.

    :param live: whether it can be asked to make its menu anew; in an image it cannot.
    """
    left = [change for change in asking if change.artefact.startswith("boot.trial")]
    if left:
        yield Act(Trigger.UPDATE_BOOTLOADER, forgotten(family))
    told = [change for change in asking if change not in left]
    words = [quoted(word) for change in told for word in arguments_in(change.text)]
    names = tuple((file, w) for file in family.menus for w in ("vmlinu", *words))
    if family.grubby or (family.pbl and told):
        for change in told:
            yield _told(change, _by_pbl if family.pbl else _by_grubby, keeps, names)
    elif not live:
        yield from _menus(told, family, keeps, names)
    else:
        # grub-mkconfig writes beside the menu first.
        again, temps = family.bootloader, tuple(f"{file}.new" for file in keeps)
        undo = ((When.KEPT, again),)
        yield Act(Trigger.UPDATE_BOOTLOADER, again, keeps, undo, names=names, temps=temps)


def _menus(
    asking: list[Change], family: Family, keeps: tuple[str, ...], names: tuple[tuple[str, str], ...]
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
    editor = "grub2-editenv" if family.grubby or family.pbl else "grub-editenv"
    return (editor, "-", "unset", "next_entry")


def _told(
    change: Change,
    tool: Callable[[Command, Command], Command],
    keeps: tuple[str, ...],
    names: tuple[tuple[str, str], ...],
) -> Act:
    """The tool adds what the new file lists, and takes away what only the old one did."""
    new, old = arguments_in(change.text), arguments_in(change.old_text or "")
    gone = tuple(word for word in old if word not in new)
    new, gone = tuple(map(quoted, new)), tuple(map(quoted, gone))
    return Act(
        Trigger.UPDATE_BOOTLOADER,
        tool(new, gone),
        keeps,
        ((When.KEPT, tool(gone, tuple(word for word in new if word not in old))),),
        names=names,
        temps=(*_SED_TEMPS, *(f"{file}.new" for file, _ in names[:1])),
    )


def _by_pbl(add: Command, remove: Command) -> Command:
    """In the order of its options; the last makes the menu."""
    told = (("--del-option", remove), ("--add-option", add))
    return ("pbl", *(w for option, words in told for each in words for w in (option, each)),
            "--config")  # fmt: skip


def _by_grubby(add: Command, remove: Command) -> Command:
    command: Command = ("grubby", "--update-kernel=ALL")
    if remove:
        command += (f"--remove-args={' '.join(remove)}",)
    if add:
        command += (f"--args={' '.join(add)}",)
    return command


def acts_for(changes: Iterable[Change], node: Node, family: Family) -> tuple[Act, ...]:
    """The commands for all changes, in the order of their triggers, none of them twice."""
    changes = tuple(changes)
    wanted = sorted({trigger for change in changes for trigger in change.triggers})
    found: dict[str, Act] = {}
    for trigger in wanted:
        asking = [change for change in changes if trigger in change.triggers]
        if not _can_rebuild(node, changes):
            asking = [change for change in asking if change.artefact != "dkms.signing"]
        for act in _acts(trigger, asking, node, family):
            found.setdefault(act.call, act)
    return tuple(found.values())


def keeps_of(
    trigger: Trigger, node: Node, family: Family, kernels: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Patterns of the files that a trigger rewrites, beside DKMS's own tree."""
    kernels = kernels or kernels_of(node)
    match trigger:
        case Trigger.BUILD_DKMS:
            return _for_each(kernels, family.modules)
        case Trigger.DEPMOD:
            return _for_each(kernels, ("/lib/modules/{kernel}/modules.*",))
        case Trigger.REBUILD_INITRAMFS:
            return _for_each(kernels, (family.initramfs_file,))
        case Trigger.UPDATE_BOOTLOADER:
            return family.bootloader_files
    return ()


def kernels_of(node: Node) -> tuple[str, ...]:
    """The running kernel, and the one that the next boot takes, where the node tells.

    A kernel without headers is not built for: the running one apart, whose headers are a
    check of their own.
    """
    try:
        default = node.default_kernel
        ready = any(each.release == default and each.headers for each in node.kernels)
    except (NoEvidence, Unparsable):
        return (node.kernel,)
    return (node.kernel, default) if ready and default != node.kernel else (node.kernel,)


def _acts(trigger: Trigger, asking: list[Change], node: Node, family: Family) -> Iterator[Act]:
    # The kernels that the changes are for: each delivered module is for one.
    named = [kernel_of(change.path) for change in asking]
    general = kernels_of(node) if "" in named or not named else ()
    kernels = tuple(dict.fromkeys((*general, *filter(None, named))))
    keeps = keeps_of(trigger, node, family, kernels)
    match trigger:
        case Trigger.BUILD_DKMS:
            for change in asking:
                yield from _dkms(change, node, keeps)
        case Trigger.UPDATE_BOOTLOADER:
            yield from booted(asking, family, keeps, live=node.live)
        case Trigger.RELOAD_MODULES:
            # A word of apply.sh: loads what is not loaded, reloads what is not as on disk.
            for name in dict.fromkeys(each.values.get("loads", OWN_PACKAGE) for each in asking):
                yield Act(trigger, ("reload", name.replace("-", "_"), name))
        case Trigger.DAEMON_RELOAD:
            again: Command = ("systemctl", "daemon-reload")
            yield Act(trigger, again, undo=((When.AFTER, again),))
        case Trigger.START_UNITS:
            command, undo, early = started(asking)
            yield Act(trigger, command, undo=tuple((When(w), c) for w, c in undo), early=early)
        case _:
            yield from _again(trigger, kernels, family, keeps)


def _can_rebuild(node: Node, changes: Sequence[Change]) -> bool:
    comes = any(each.path == REBUILD and each.action is not Action.REMOVE for each in changes)
    return comes or REBUILD in node.placed


def _again(
    trigger: Trigger, kernels: tuple[str, ...], family: Family, keeps: tuple[str, ...]
) -> Iterator[Act]:
    """What derives its result from files: run again, it takes itself back."""
    for number, command in enumerate(_derived(trigger, kernels, family)):
        words: Command = command
        temps: tuple[str, ...] = ()
        if trigger is Trigger.REBUILD_INITRAMFS:
            # A word of apply.sh: looks into what the command made, or gives back the old one.
            image = family.initramfs_file.format(kernel=kernels[number])
            words = ("initramfs", kernels[number], image, *command)
            # update-initramfs, function generate_initramfs and those that back up.
            temps = (f"{image}.new", f"{image}.dpkg-bak")
        yield Act(trigger, words, keeps, ((When.KEPT, command),), temps=temps)


def _derived(trigger: Trigger, kernels: tuple[str, ...], family: Family) -> tuple[Command, ...]:
    """Commands whose result depends on files alone; none for REBOOT, which is not a bundle's."""
    per_kernel: dict[Trigger, Command] = {
        Trigger.DEPMOD: ("depmod", "-a", "{kernel}"),
        Trigger.REBUILD_INITRAMFS: family.initramfs,
    }
    words = per_kernel.get(trigger, ())
    if not words:
        return ()
    return tuple(tuple(word.format(kernel=kernel) for word in words) for kernel in kernels)


def _for_each(kernels: tuple[str, ...], patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.format(kernel=kernel) for kernel in kernels for pattern in patterns)


def _dkms(change: Change, node: Node, keeps: tuple[str, ...]) -> Iterator[Act]:
    if change.artefact == "ofed.links":
        # A rollback takes away those that were not there.
        links = tuple(f"{OFA}/{kernel}" for kernel in change.values["kernels"].split())
        yield Act(Trigger.BUILD_DKMS, ("systemd-tmpfiles", "--create", change.path), links)
    elif change.artefact == "dkms.signing":
        package = node.peermem_dkms
        for kernel in kernels_of(node):
            yield _rebuilt(package, _version(node, package), kernel, keeps)
    elif change.action is Action.REMOVE:
        yield from _unbuilt(change, node, keeps)
    elif change.artefact == "ofed.dkms":
        for kernel in kernels_of(node):
            yield from _ofed(node, change.values["ofed_dkms"], kernel, keeps)
    elif "package" in change.values:
        # The driver's package; DKMS refuses to build it before what it waits for.
        ofed, driver = change.values["ofed_dkms"], change.values["package"]
        for kernel in kernels_of(node):
            yield from _ofed(node, ofed, kernel, keeps)
            yield _rebuilt(driver, _version(node, driver), kernel, keeps)
    else:
        yield from _own_package(change.values["version"], node, keeps)


def _ofed(node: Node, package: str, kernel: str, keeps: tuple[str, ...]) -> Iterator[Act]:
    """OFED, where it is not there for that kernel: so no build of it that works is lost."""
    if not any(
        each.module == package and each.kernel == kernel and each.usable for each in node.dkms
    ):
        yield from built_ofed(package, _version(node, package), kernel, keeps)


def built_ofed(package: str, version: str, kernel: str, keeps: tuple[str, ...]) -> Iterator[Act]:
    """OFED's package, with all else that its build and DKMS rewrite for it."""
    moved = (f"{_tree(package)}/original_module", *_for_each((kernel,), _INBOX))
    headers = (OFA, f"{OFA}-dkms", *(f"{each}/ofa_kernel_headers" for each in _ALTERNATIVES))
    yield from _built(package, version, kernel, (*keeps, *headers, *moved))


def _own_package(version: str, node: Node, keeps: tuple[str, ...]) -> Iterator[Act]:
    known = any(each.module == OWN_PACKAGE and each.version == version for each in node.dkms)
    if not known:
        add = ("dkms", "add", "-m", OWN_PACKAGE, "-v", version)
        gone = ("dkms", "remove", f"{OWN_PACKAGE}/{version}", "--all")
        kept = (*keeps, _tree(OWN_PACKAGE))
        yield Act(Trigger.BUILD_DKMS, add, kept, ((When.FIRST, gone),))
    for kernel in kernels_of(node):
        yield _rebuilt(OWN_PACKAGE, version, kernel, keeps, again=known)


def _rebuilt(
    package: str, version: str, kernel: str, keeps: tuple[str, ...], *, again: bool = True
) -> Act:
    """Built aside, judged, put in place: whatever fails leaves the build that was there.

    ``rebuild`` is the program that the bundle places; it looks by itself what is to be built. A
    rollback takes it away before it could be called, so DKMS itself rebuilds there.

    :param again: a rollback that cannot restore the modules has them built again.
    """
    force = ("-m", package, "-v", version, "-k", kernel, "--force")
    undo = ((When.KEPT, ("dkms", verb, *force)) for verb in ("build", "install"))
    command = ("rebuild", "--kernel", kernel, "--peermem")
    built = _trees(package, version, kernel)
    temps = (_work(package, version), _SCRATCH)
    undone = tuple(undo) if again else ()
    return Act(Trigger.BUILD_DKMS, command, (*keeps, *built), undone, temps=temps)


def _unbuilt(change: Change, node: Node, keeps: tuple[str, ...]) -> Iterator[Act]:
    """A package of ours leaves DKMS before its files go."""
    version = change.path.removeprefix(f"/usr/src/{OWN_PACKAGE}-").partition("/")[0]
    if any(each.module == OWN_PACKAGE and each.version == version for each in node.dkms):
        command = ("dkms", "remove", f"{OWN_PACKAGE}/{version}", "--all")
        yield Act(Trigger.BUILD_DKMS, command, (*keeps, _tree(OWN_PACKAGE)), early=True)


def _built(package: str, version: str, kernel: str, keeps: tuple[str, ...]) -> Iterator[Act]:
    """Built and installed by DKMS in its own tree, where nothing of it is there for the kernel."""
    built = _trees(package, version, kernel)
    for verb in ("build", "install"):
        command: Command = ("dkms", verb, "-m", package, "-v", version, "-k", kernel)
        undo = ((When.KEPT, command),)
        temps = (_work(package, version),)
        yield Act(Trigger.BUILD_DKMS, command, (*keeps, *built), undo, temps=temps)


def _trees(package: str, version: str, kernel: str) -> tuple[str, ...]:
    """What DKMS itself has of one build."""
    return tuple(_tree(package) + each for each in (f"/{version}/{kernel}", "/kernel-*"))


def _work(package: str, version: str) -> str:
    """Where DKMS compiles; it takes it away once that went well."""
    return f"{_tree(package)}/{version}/build"


def _tree(package: str) -> str:
    """Where DKMS keeps what it built, and its own links to that."""
    return f"/var/lib/dkms/{package}"


def _version(node: Node, package: str) -> str:
    """The version that DKMS has of ``package``: of several the driver's own, else the last.

    :raises NoEvidence: where DKMS does not list it.
    """
    versions = [each.version for each in node.dkms if each.module == package]
    if not versions:
        raise NoEvidence(f"dkms status: does not list {package}")
    driver = str(node.driver.version) if node.driver else ""
    return driver if driver in versions else versions[-1]


def started(asking: Sequence[Change]) -> tuple[Command, Undo, bool]:
    """How the unit that sees to ACS is started, or stopped before its files go.

    Its stop gives registers back what it found in them.

    :returns: the command, what takes it back, and whether it comes before files are removed.
    """
    name = UNIT.rpartition("/")[2]
    start, stop = (("systemctl", verb, name) for verb in ("restart", "stop"))
    units = [change for change in asking if change.path == UNIT]
    if any(change.action is Action.REMOVE for change in units):
        return stop, (("after", start),), True
    if all(change.old is not None for change in units):
        return start, (("first", stop), ("after", start)), False
    return start, (("first", stop),), False
