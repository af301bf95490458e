"""The frame of the checks on firmware: what the system shows decides, a BMC explains.

Each of the nineteen settings is a check ``bios.*`` with four answers: right, wrong, not shown
(n/a, with the reason) and not known. What the check itself sees is the running system; where the
node's BMC was read too, ``bios_join`` puts its words beside that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import (
    Check,
    Finding,
    Impact,
    Status,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.firmware.bios_seen import BiosFinding
from toolkit.checks.firmware.bios_wanted import BiosGoal, wanted
from toolkit.checks.role import role
from toolkit.compat.bios import BiosRole
from toolkit.errors import CutOff, NoEvidence, Unparsable
from toolkit.facts.firmware.bios_setting import Exposed
from toolkit.facts.firmware.redfish_bmc import Same, same_machine
from toolkit.facts.firmware.redfish_values import Meaning, Value, meaning_of, squeezed
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

# The system's view of a setting beside the BMC's: the system decides, the BMC explains.
# Where the system does not show a setting, the BMC's word decides, and the finding says whose
# word it is. A BMC that could not be read, or that sits in another machine, decides nothing.
_SWITCHES = frozenset({Meaning.ON, Meaning.OFF})
_NEEDED_BY_SOME = frozenset({BiosRole.RESIZABLE_BAR})  # of GPUs: alone it decides nothing
_SHOWN = 8  # attributes of one setting that a verdict shows: there may be one for each slot


class View(Struct, frozen=True):
    """What the BMC says of one setting."""

    exposed: tuple[Exposed, ...] = ()
    remarks: tuple[str, ...] = ()  # why it says nothing, or what to hold of it
    usable: bool = False  # False: none was asked, or it could not be read, or is another's
    secure: tuple[bool | None, bool | None] = (None, None)  # secure boot: now and next


def joined(setting: BiosRole, seen: BiosFinding, node: Node, want: Want) -> Finding:
    """The verdict on one setting, from both views."""
    wish = _wish(setting, node, want)
    finding = _by_site(setting, seen, want)
    view = _view(setting, node)
    if not _asked(node):
        return finding
    if finding.status is Status.PASS:
        finding = _by_own_word(setting, seen, view, want) or finding
    unshown = finding.status is Status.NA and not seen.moot
    if unshown and view.usable and wish is not None:
        finding = _by_bmc(view, wish, finding.found) or finding
    lines = (*view.remarks, *_lines(view, wish), *_contradictions(seen, view))
    if finding.status is Status.NA and view.usable and not view.exposed and not any(view.secure):
        finding = not_applicable(f"not exposed by this BIOS; {finding.found}")
        return replace(finding, details=lines)
    hint = finding.hint
    if finding.status is Status.FAIL:
        hint = _remedy(setting, view, wish, hint)
    return replace(finding, hint=hint, details=(*finding.details, *lines))


def without_system(
    setting: BiosRole, why: NoEvidence | Unparsable, node: Node, want: Want
) -> Finding:
    """The same where the system's own view was not to be had.

    :raises NoEvidence, Unparsable: what stood in its way, where no BMC tells either.
    """
    wish = _wish(setting, node, want)
    view = _view(setting, node)
    finding = _by_bmc(view, wish, str(why)) if view.usable and wish is not None else None
    if finding is None:
        raise why
    if setting in _NEEDED_BY_SOME and finding.status is Status.FAIL:
        finding = unknown(
            f"{finding.found}; whether a GPU needs it is not told",
            hint="lspci -vvv of that node beside it: data-centre GPUs have a large BAR without",
        )
    return replace(finding, details=(*view.remarks, *_lines(view, wish)))


def _asked(node: Node) -> bool:
    """Whether a BMC was asked, or its settings are given as a text. Its frames come from us: where
    a node's own evidence was cut off and has none, none was asked."""
    try:
        return node.has_bmc or node.has_bios_text
    except CutOff:
        return False


def _view(setting: BiosRole, node: Node) -> View:
    if not _asked(node):
        return View()
    try:
        if node.has_bios_text:
            return View(node.bios_settings[setting], _of_text(node), usable=True)
        address = node.bmc.address
        same, why = same_machine(node.dmi, node.bmc_machine)
        if same is Same.NO:
            return View(remarks=(f"the BMC {address} sits in another machine: {why}; left out",))
        exposed = node.bios_settings[setting]
    except (NoEvidence, Unparsable) as trouble:
        return View(remarks=(f"BMC: {trouble}",))
    remarks = () if same is Same.YES else (f"the BMC {address} may be another machine's: {why}",)
    if setting is BiosRole.SECURE_BOOT:
        return View(exposed, remarks, usable=True, secure=_secure(node))
    if not exposed and (names := node.bios_hidden.get(setting)):
        remarks = (*remarks, f"hidden in this BIOS: {', '.join(names[:_SHOWN])}")
    if setting is BiosRole.MMIO_WINDOW:
        remarks = (*remarks, *_beyond(exposed, node))
    return View(exposed, remarks, usable=True)


def _of_text(node: Node) -> tuple[str, ...]:
    """A text names no machine: beside evidence of a node it may be another's."""
    return (
        ("the BIOS's settings were given as a text, which names no machine",) if node.probed else ()
    )


def _beyond(exposed: tuple[Exposed, ...], node: Node) -> tuple[str, ...]:
    """A base that the processor cannot address: what lies there is lost at the next boot."""
    try:
        bits = node.cpu.address_bits
    except (NoEvidence, Unparsable):
        return ()
    return tuple(
        f"{each.name}: {each.next} lies beyond the processor's {bits} address bits"
        for each in exposed
        if each.part == "base" and bits and (each.next.number or 0) >> bits
    )


def _secure(node: Node) -> tuple[bool | None, bool | None]:
    """The resource of its own, which some BMCs have and others do not."""
    try:
        state = node.bmc_secure_boot
    except (NoEvidence, Unparsable):
        return (None, None)
    return (state.now, state.next)


def _wish(setting: BiosRole, node: Node, want: Want) -> BiosGoal | None:
    return wanted(role(node, want), dict(want.bios)).get(setting)


def _by_site(setting: BiosRole, seen: BiosFinding, want: Want) -> Finding:
    """The site's own wish goes before what is in order otherwise, where it is a switch."""
    word = dict(want.bios).get(setting, "")
    wish = meaning_of(word).meaning
    count = _count(word)
    if seen.number is not None and count is not None and seen.number != count:
        return failed(seen.finding.found, expected=f"{word}: the site's file says so")
    if wish not in _SWITCHES or seen.on is None:
        return seen.finding
    state = "on" if seen.on else "off"
    if (wish is Meaning.ON) is seen.on:
        return passed(f"{state}, as the site wants it", details=(seen.finding.found,))
    return failed(
        f"{state}: {seen.finding.found}",
        expected=f"{wish.value}: the site's file says so",
        details=seen.finding.details,
    )


def _count(word: str) -> int | None:
    """The count that a site asks for: "4", "NPS4"; off is one. None where it asks for none."""
    meant = meaning_of(word)
    if meant.meaning is Meaning.OFF or word.strip() == "1":
        return 1
    return meant.number


def _by_own_word(setting: BiosRole, seen: BiosFinding, view: View, want: Want) -> Finding | None:
    """A site's word of the BIOS's own, which the system cannot show; None where it holds.

    Only what is of one kind is compared: a word for a setting of several parts names none.
    """
    word = dict(want.bios).get(setting, "")
    told = meaning_of(word).meaning in (Meaning.NUMBER, Meaning.OTHER)
    whole = [each for each in view.exposed if not each.part]
    if not word or not told or seen.number is not None or not view.usable:
        return None
    wish = BiosGoal(word, frozenset(), "the site's file says so")
    other = next((each for each in whole if not _as_wished(each.value, wish)), None)
    if other is None:
        return None
    return failed(
        f"{other.value} in the BIOS ({other.name})",
        expected=f"{word}: the site's file says so",
        details=(seen.finding.found,),
    )


def _by_bmc(view: View, wish: BiosGoal, unseen: str) -> Finding | None:
    """The BMC's word, where the system has none; None where it does not tell either."""
    whole = [each for each in view.exposed if not each.part] or list(view.exposed)
    if not whole:
        return None
    other = [each for each in whole if not _as_wished(each.value, wish)]
    bad = [each for each in other if each.value.meaning in _SWITCHES]
    if bad:
        return failed(
            f"{bad[0].value} in the BIOS ({bad[0].name}); the system does not show it: {unseen}",
            expected=f"{wish}: {wish.why}",
        )
    if other:
        return not_applicable(
            f"{other[0].value} in the BIOS ({other[0].name}), and what that makes of it the "
            f"system does not show: {unseen}"
        )
    return passed(f"{whole[0].value} in the BIOS ({whole[0].name}); not shown: {unseen}")


def _as_wished(value: Value, wish: BiosGoal) -> bool:
    """Whether it will do; a site's wish names one word alone, in any spelling of it."""
    if value.meaning in wish.will_do or squeezed(str(value)) == squeezed(wish.word):
        return True
    return value.same(meaning_of(wish.word))


def _lines(view: View, wish: BiosGoal | None) -> tuple[str, ...]:
    """Current, pending and wanted side by side, an attribute a line."""
    asked = f", wanted {wish}" if wish is not None else ""
    lines = []
    for each in view.exposed[:_SHOWN]:
        scope = f" ({each.scope})" if each.scope else ""
        pending = f", pending {each.pending}" if each.pending is not None else ""
        lines.append(f"{each.name}{scope}: current {each.value}{pending}{asked}")
    if len(view.exposed) > _SHOWN:
        lines.append(f"and {len(view.exposed) - _SHOWN} more of the kind")
    now, then = view.secure
    if now is not None or then is not None:
        words = {True: "on", False: "off", None: "not told"}
        lines.append(f"SecureBoot: current {words[now]}, set to {words[then]}{asked}")
    return tuple(lines)


def _contradictions(seen: BiosFinding, view: View) -> tuple[str, ...]:
    if seen.on is None or not seen.firm:
        return ()
    shown = "on" if seen.on else "off"
    told = [
        f"contradiction: the BIOS says {each.value} ({each.name}), the system shows it {shown}"
        for each in view.exposed
        if not each.part and not each.scope and each.value.meaning in _SWITCHES
        if (each.value.meaning is Meaning.ON) is not seen.on
    ]
    now = view.secure[0]
    if now is not None and now is not seen.on:
        theirs = "on" if now else "off"
        told.append(
            f"contradiction: the BMC says secure boot is {theirs}, the system shows it {shown}"
        )
    return tuple(told)


def _remedy(setting: BiosRole, view: View, wish: BiosGoal | None, hint: str) -> str:
    if wish is None or not view.exposed:
        return hint
    coming = [each for each in view.exposed if each.pending is not None]
    if coming and all(_as_wished(each.next, wish) for each in coming):
        return "set already, and in effect after the next boot"
    if setting is BiosRole.SECURE_BOOT:
        return hint
    verb = f"./invokew bios --hosts NODE --set {setting}={wish.word} shows what to change"
    return f"{verb}; {hint}" if hint else verb


Looks = Callable[[Node, Want], BiosFinding]
# A guest's firmware is its hypervisor's, and what it shows is made up.
OWN = frozenset({Role.BARE_METAL, Role.VM_HOST})


def check_id(setting: BiosRole) -> str:
    """ "bios.above_4g" for above-4g."""
    return f"bios.{setting.replace('-', '_')}"


class bios(Struct, frozen=True):  # noqa: N801 - a decorator, used as ``check`` is
    """Turn a look at the running system into the check of one setting."""

    setting: BiosRole
    impact: Impact
    source: str
    fix: str

    def __call__(self, look: Looks) -> Check:
        @wraps(look)
        def judge(node: Node, want: Want) -> Finding:
            try:
                seen = look(node, want)
            except CutOff:
                raise
            except (NoEvidence, Unparsable) as why:
                return without_system(self.setting, why, node, want)
            return joined(self.setting, seen, node, want)

        return check(
            check_id(self.setting), impact=self.impact, roles=OWN, source=self.source, fix=self.fix
        )(judge)
