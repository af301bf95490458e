"""Packages that an upgrade needs: their names, what the node's repositories have, their install."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.modules.fixes import image_package, of_another_distribution
from toolkit.errors import NoEvidence, Unparsable, Unsupported, read_or
from toolkit.evidence import Evidence, State
from toolkit.facts.distros import Family, driver_modules, family_of, reads_drop_ins
from toolkit.facts.gpu.driver import Flavor
from toolkit.facts.node.node import Node
from toolkit.facts.versions import Version
from toolkit.plan.artefact import Trigger
from toolkit.plan.artefacts_boot import HELD, given_up, held_for
from toolkit.plan.change import Act, Action, Blocked, Change, Command, When
from toolkit.plan.decide_boot import FORGET, untried_yet
from toolkit.plan.plan import Plan
from toolkit.plan.templates import render_text
from toolkit.plan.trial import ASK, entry_of, must_be_able, trial_of
from toolkit.upgrade import Upgrade
from toolkit.want import Want

PACKAGES = "packages"  # the frame of what repositories have: toolkit/node/scripts/offered.sh
_ZYPPER_HAS_NONE = 104  # zypper(8): ZYPPER_EXIT_INF_CAP_NOT_FOUND
_ONLY_OPEN = (620,)  # NVIDIA driver installation guide 620: Proprietary Kernel Modules Removed


class NeededPackage(Struct, frozen=True):
    """One package that the node lacks, and where it would come from."""

    name: str  # as the package manager is asked for it
    begins: tuple[str, ...]  # how its version begins, the best first; () for any
    repository: str  # where it is to be had, in words


def flavour_after(node: Node, upgrade: Upgrade) -> Flavor | None:
    """Of the driver after it."""
    if upgrade.driver and Version(upgrade.driver).at_least(*_ONLY_OPEN):
        return Flavor.OPEN
    return node.driver.flavor if node.driver is not None else None


def modules_package(node: Node, upgrade: Upgrade) -> str:
    """The package that would bring the driver; "" where it is compiled."""
    if node.driver is None or read_or(lambda: node.driver_dkms, ""):
        return ""
    version = upgrade.driver or str(node.driver.version)
    return driver_modules(version, driver_file(node), upgrade.kernel or node.kernel)


def driver_file(node: Node) -> str:
    file = read_or(lambda: node.driver_file, None)
    return file.filename if file else ""


def lacks_kernel(node: Node, upgrade: Upgrade) -> bool:
    known = read_or(lambda: {each.release for each in node.kernels if each.image}, set())
    return bool(upgrade.kernel) and upgrade.kernel not in known


def needed(node: Node, upgrade: Upgrade) -> Iterator[NeededPackage]:
    """What has to be installed, as far as packages are called by a rule.

    Sources: NVIDIA driver installation guide (nvidia-open, cuda-drivers); debian/control and the
    spec of mlnx-ofa_kernel, whose package is named for the DKMS package.
    """
    if lacks_kernel(node, upgrade):
        for name in image_package(node, upgrade.kernel).split(" and "):
            yield NeededPackage(name, (), f"{node.distro.id}'s own repository of updates")
    if upgrade.kernel or upgrade.driver:
        if modules := modules_package(node, upgrade):
            where = f"{node.distro.id}'s or NVIDIA's repository, beside that kernel"
            if not _has_modules(node, upgrade):
                yield NeededPackage(modules, (), where)
        elif upgrade.driver and not _has_driver(node, upgrade.driver):
            name = "nvidia-open" if flavour_after(node, upgrade) is Flavor.OPEN else "cuda-drivers"
            begins = (f"{upgrade.driver}-", f"{upgrade.driver}.")
            where = f"NVIDIA's CUDA repository for {node.distro.id} {node.distro.version}"
            yield NeededPackage(name, begins, where)
    dkms = read_or(lambda: node.ofed_dkms, "")
    if upgrade.ofed and dkms and not _has_ofed(node, upgrade.ofed):
        month, _, build = upgrade.ofed.partition("-")
        whole = [f"{month}{sign}OFED.{month}.{build}." for sign in ".-"]  # deb and rpm
        if build == "1.0.0":  # a month alone was named
            whole += [f"{month}{sign}OFED.{month}." for sign in ".-"]
        where = f"NVIDIA's DOCA repository of {month} for {node.distro.id} {node.distro.version}"
        yield NeededPackage(f"{dkms}-dkms", tuple(whole), f"{where}; user space: doca-ofed")


def _has_driver(node: Node, version: str) -> bool:
    """On disk, by whatever package, or known to DKMS."""
    known = read_or(lambda: node.dkms, ())
    return _is_on_disk(node, version) or any(_is(each.version, version) for each in known)


def _is(release: object, version: str) -> bool:
    """A release has more numbers than the name of it."""
    return f"{release}.".startswith(f"{version}.")


def _is_on_disk(node: Node, version: str) -> bool:
    file = read_or(lambda: node.driver_file, None)
    return file is not None and _is(file.version, version)


def _is_to_be_loaded(node: Node, version: str) -> bool:
    """That driver is built for the kernel that runs, and another is loaded."""
    loaded = node.driver is not None and _is(node.driver.version, version)
    return _is_on_disk(node, version) and not loaded


def _has_modules(node: Node, upgrade: Upgrade) -> bool:
    """The driver's modules of that kernel are there; of one that does not run in any version."""
    release = upgrade.kernel or node.kernel
    kernels = read_or(lambda: node.kernels, ())
    there = any(each.release == release and each.has("nvidia") for each in kernels)
    other = node.kernel != release or not upgrade.driver
    return there and (other or _has_driver(node, upgrade.driver))


def _has_ofed(node: Node, version: str) -> bool:
    told = read_or(lambda: str(node.ofed.version or ""), "")
    return told == version or (version.endswith("-1.0.0") and told.startswith(version[:6]))


def packages_asked(evidence: Evidence, upgrade: Upgrade) -> tuple[str, ...]:
    """The names of packages that the node's repositories would have to have."""
    return tuple(each.name for each in needed(Node(evidence), upgrade) if " " not in each.name)


def not_offered(evidence: Evidence, upgrade: Upgrade) -> Iterator[str]:
    """Of the packages that the node was asked about those that it cannot get."""
    frame = evidence.frames.get(PACKAGES)
    if frame is None or frame.state is State.ABSENT:
        return
    if frame.state is not State.OK and frame.exit != _ZYPPER_HAS_NONE:
        yield f"whether packages are to be had was not told: {frame.source}: {frame.state}"
        return
    known = {each.name: each for each in needed(Node(evidence), upgrade)}
    for name in re.findall("^asked (.+)$", frame.text, re.MULTILINE):
        each = known.get(name, NeededPackage(name, (), ""))
        if not _pinned(evidence, each):
            of = f" in version {upgrade.driver or upgrade.ofed}" if each.begins else ""
            where = f"; it comes from {each.repository}" if each.repository else ""
            yield f"{name}{of}: none of its repositories has it, by their last update there{where}"


def _pinned(evidence: Evidence, package: NeededPackage) -> str:
    """Name and version, as ``install`` of installs.sh takes them; "" where none is offered.

    A name with the version in it, as dnf takes it, is answered by the bare name, and without
    an architecture.
    """
    frame = evidence.frames.get(PACKAGES)
    lines = [each.split() for each in (frame.text.split("\n") if frame else ()) if " " in each]
    had = [each for each in lines if len(each) == 2 and each[0] != "asked"]  # newest first
    for begin in package.begins or ("",):
        for name, version in had:
            whole = f"{name}-{version}"
            if name == package.name and version.rpartition(":")[2].startswith(begin):
                return f"{name}={version}"
            if not package.begins and f"{package.name}.".startswith(f"{whole}."):
                return f"{name}={version}"
    return ""


def installing(
    evidence: Evidence, upgrade: Upgrade, *, allowed: bool
) -> tuple[tuple[Act, ...], tuple[Blocked, ...]]:
    """The one act that installs what is needed, and nothing without all of it.

    :param allowed: the site's profile lets packages be installed.
    """
    node = Node(evidence)
    if upgrade.kernel and (other := of_another_distribution(node, upgrade.kernel)):
        return (), (Blocked(_ID, other, hint="name a kernel of each distribution by itself"),)
    packages = tuple(needed(node, upgrade))
    if not packages:
        return (), ()
    pins = {each.name: _pinned(evidence, each) for each in packages}
    asked = PACKAGES in evidence.frames
    why = "no repository of the node has" if asked else "the node's repositories were not asked for"
    lacking = tuple(
        Blocked(_ID, f"{why} {each.name}", f"it comes from {each.repository}")
        for each in packages
        if not pins[each.name]
    )
    if lacking:
        return (), lacking
    named = " ".join(pins.values())
    if not allowed:
        why = f"not installed: {named}"
        return (), (Blocked(_ID, why, "[packages] install = true in the site's file lets us"),)
    act = Act(
        Trigger.INSTALL_PACKAGES, ("install", *pins.values()), undo=((When.FIRST, ("uninstall",)),)
    )
    return (act,), ()


_ID = "packages"


def upgraded(plan: Plan, evidence: Evidence, want: Want, *, untried: bool = False) -> Plan:
    """The plan with the upgrade that is asked for: packages alone first, for all else follows.

    What the node then needs is planned from what it says then. A kernel that is installed is
    booted once, and is the default where no check is worse for it. A driver is loaded by a boot.

    :param untried: it becomes the default as soon as it is installed.
    """
    node, upgrade = Node(evidence), want.upgrade
    acts, blocked = installing(evidence, upgrade, allowed=want.packages)
    changes: tuple[Change, ...] = ()
    try:
        if acts and lacks_kernel(node, upgrade) and not untried:
            changes, acts = _holding(node, family_of(node.distro), upgrade.kernel, acts)
        if acts:
            triggers = tuple(sorted({act.trigger for act in acts}))
            return Plan(changes, triggers, acts=acts, family=plan.family)
        if not blocked and upgrade.kernel:
            plan = _booting(plan, node, upgrade.kernel, untried=untried)
        here = not blocked and upgrade.kernel in {"", node.kernel}
        if here and upgrade.driver and _is_to_be_loaded(node, upgrade.driver):
            plan = replace(plan, triggers=tuple(sorted({*plan.triggers, Trigger.REBOOT})))
    except (NoEvidence, Unparsable, Unsupported) as why:
        blocked = (Blocked(_ID, str(why), why.own_hint),)
    return replace(plan, blocked=(*plan.blocked, *blocked))


def _holding(
    node: Node, family: Family, kernel: str, acts: tuple[Act, ...]
) -> tuple[tuple[Change, ...], tuple[Act, ...]]:
    """The install, with what leaves the default as it is: the next power cycle boots no other.

    :raises Unsupported: an entry cannot be booted once here, or the default cannot be held.
    :raises NoEvidence: where the node does not tell of its boot.
    """
    must_be_able(node)
    stays = node.default_kernel
    if family.grubby:
        held = f"--stays={_image(stays)}"
        return (), tuple(replace(a, command=("install", held, *a.command[1:])) for a in acts)
    entry = entry_of(node, stays)
    above, inside, _ = entry.place.partition(">")
    menu = next((each.id for each in node.boot_menu.lines if inside and each.place == above), "")
    hint = f"{ASK} leaves it to the package, whose kernel is the default from the start"
    why = f"the default of the boot cannot be held at {stays} here until {kernel} was tried"
    # A name without the release in it is the newest kernel's.
    if not reads_drop_ins(family) or stays not in entry.id:
        raise Unsupported(why, hint=hint)
    values = {"kernel": kernel, "menu": menu, "entry": entry.id}
    try:
        text = render_text("boot/kernel.cfg.j2", values)
    except Unparsable as odd:
        raise Unsupported(
            f"{why}: its menu entry has the odd name {'>'.join(filter(None, (menu, entry.id)))!r}",
            hint=f"name it by letters, digits and ._+~:=,@/- alone; {hint}",
        ) from odd
    title = f"leave {stays} the default until {kernel} has booted well"
    change = Change(
        *("boot.kernel", title, HELD, Action.PLACE, text, 0o644),
        *(node.placed.get(HELD), None, (), (f"{kernel} is tried by one boot",)),
    )
    [act] = acts
    return (change,), (replace(act, undo=(*act.undo, (When.AFTER, family.bootloader))),)


def _image(kernel: str) -> str:
    return f"/boot/vmlinuz-{kernel}"


def _default(kernel: str, undo: tuple[tuple[When, Command], ...] = ()) -> Act:
    command = ("grubby", "--set-default", _image(kernel))
    return Act(Trigger.UPDATE_BOOTLOADER, command, undo=undo)


def _booting(plan: Plan, node: Node, kernel: str, *, untried: bool) -> Plan:
    """The plan with what brings the node to a kernel that is installed.

    :raises Unsupported: it was tried and given up, or cannot be tried.
    :raises NoEvidence: where the node does not tell of its boot.
    """
    family, default = family_of(node.distro), node.default_kernel
    if node.kernel == kernel != default and (reason := given_up(node)):
        raise Unsupported(reason, hint=f"reboot it, and it has its old kernel; {FORGET}")
    if (node.kernel == kernel or untried) and kernel != default and family.grubby:
        back = _default(default)
        keep = _default(kernel, ((When.AFTER, back.command),))
        triggers = tuple(sorted({*plan.triggers, Trigger.UPDATE_BOOTLOADER}))
        return replace(plan, triggers=triggers, acts=(*plan.acts, keep))
    said, goes = held_for(node), any(each.path == HELD for each in plan.changes)
    by_hand = f"make {kernel} the default of the boot by hand"
    if node.kernel == kernel != default and not goes:
        raise Unsupported(
            f"{kernel} runs, and the next boot starts {default}",
            hint=f"{HELD} has it so; without --only and --skip it goes, once it has served"
            if said
            else f"{by_hand}, or boot {default}",
        )
    if node.kernel == kernel or (plan.trial is not None and kernel != default):
        return plan  # what held the old one goes by its artefact; one thing is tried at a time
    if default == kernel:
        return replace(plan, triggers=tuple(sorted({*plan.triggers, Trigger.REBOOT})))
    if not (family.grubby or said.get("kernel") == kernel):
        raise Unsupported(
            f"{kernel} is installed, and the next boot starts another kernel",
            hint=f"{HELD} has it so until {said['kernel']} was tried: try that, or roll back"
            if said
            else f"{by_hand}, and reboot the drained node",
        )
    rest = tuple(each for each in plan.triggers if each is not Trigger.REBOOT)
    if rest or plan.files:
        return replace(plan, triggers=rest)  # first, for it may be what that kernel needs
    trial = untried_yet(trial_of(node, family, (), (), kernel), node)
    return replace(plan, triggers=(Trigger.REBOOT,), trial=trial)
