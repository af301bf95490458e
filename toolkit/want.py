"""What nodes should be, read from a profile and the site's own file."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit import DEFAULT_PROFILE as DEFAULT_PROFILE  # noqa: PLC0414 # for who loads a profile
from toolkit.compat.bios import read_wanted_bios
from toolkit.compat.reader import Compat, shipped
from toolkit.errors import UsageError
from toolkit.expect import Expect, read_expect
from toolkit.untrusted import read_file, read_toml
from toolkit.upgrade import Upgrade, read_packages

PROFILES = Path(__file__).parent / "profiles"


class PeerPath(StrEnum):
    """How the HCA gets at GPU memory."""

    PEERMEM = "peermem"
    DMABUF = "dmabuf"


class Role(StrEnum):
    """The right ACS and ATS values are opposite on some of these."""

    BARE_METAL = "bare-metal"
    VM_HOST = "vm-host"
    VM = "vm"


class Iommu(StrEnum):
    PASSTHROUGH = "passthrough"  # identity domains, or no IOMMU at all
    ANY = "any"  # leave it alone


class Modules(StrEnum):
    """Where kernel modules of ours come from."""

    DKMS = "dkms"  # compiled on each node
    BUILT = "built"  # compiled once by ``build``, and delivered


MIG = ("any", "on", "off")
OFED = ("any", "inbox", "mlnx-ofed", "doca-ofed")
COMPANIONS = ("nvidia-fs", "gdrdrv")  # modules that may be delivered beside nvidia-peermem
CONSUMERS = ("nccl", "ucx", "nvshmem")  # libraries whose version may be named


class Waiver(Struct, frozen=True):
    """A failure that the site has decided to live with, for a while."""

    check: str
    reason: str
    until: date  # the last day on which it counts
    hosts: str = ""  # node set of those that it is for; "" for all


class Group(Struct, frozen=True):
    """A table of [[group]]: hosts of which something of their own holds."""

    hosts: str  # node set: "@gb200", "gpu[001-128]"
    named: str  # its profile, as the file calls it; "" for none
    profile: tuple[tuple[str, Any], ...] = ()  # what its profile says, as fields of Want
    expect: Expect = field(default_factory=Expect)
    waivers: tuple[Waiver, ...] = ()


class SigningPaths(Struct, frozen=True):
    """The site's key for modules, where it lies on the nodes: absolute paths."""

    key: str
    certificate: str  # DER


class RolloutLimits(Struct, frozen=True):
    """The table [rollout]: what holds for all who change nodes, whatever each is told."""

    max_unavailable: int | None = None  # nodes; None for any number


class Bundles(Struct, frozen=True):
    """The table [bundles]: what holds for every bundle that is made here."""

    sign_key: str = ""  # file of the SSH key that signs them; "" for unsigned


class Selection(Struct, frozen=True):
    """Which checks are judged in one run, by their ids: --only and --skip. All, without either."""

    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.only or self.skip)

    def has(self, check: str) -> bool:
        return (not self.only or check in self.only) and check not in self.skip


class Want(Struct, frozen=True):
    """The wished-for state of a node."""

    # None: the path that the node takes; no profile insists on one unless it names it. Code
    # that judges sees it only where that is not known: see checks/taken.py.
    path: PeerPath | None = PeerPath.PEERMEM
    role: Role | None = None  # None: as the node itself says
    ofed: str = "any"  # one of OFED
    iommu: Iommu = Iommu.PASSTHROUGH
    driver_min: str = ""  # lowest NVIDIA driver version that will do; "" for any
    waivers: tuple[Waiver, ...] = ()
    consumers: tuple[tuple[str, str], ...] = ()  # ("nccl", "2.27"): what jobs bring along
    modules: Modules = Modules.DKMS
    companions: tuple[str, ...] = ()  # of COMPANIONS: delivered too, where modules are built
    bios: tuple[tuple[str, str], ...] = ()  # ("smt", "off"): settings that the site wants its way
    nic: tuple[tuple[str, int], ...] = ()  # ("LINK_TYPE", 2): firmware of HCAs, the site's way
    signing: SigningPaths | None = None  # None: whatever key DKMS has made for itself
    passport: bool = False  # a node without a passport fails; said by options alone
    passport_key: str = ""  # file of keys: one of them must have signed it; "" for unsigned
    keep_runs: int = 5  # so many of a node's newest runs keep all that they replaced
    rollout: RolloutLimits = RolloutLimits()
    bundles: Bundles = Bundles()
    mig: str = "any"  # one of MIG: what the GPUs are meant to be
    expect: Expect = field(default_factory=Expect)  # what is to be there
    group: tuple[Group, ...] = ()  # as the file has them; toolkit/groups.py resolves their hosts
    packages: bool = False  # [packages] install: those of an upgrade may be installed
    upgrade: Upgrade = field(default_factory=Upgrade)  # said by options alone
    checks: Selection = Selection()  # which count; said by options alone
    taken: bool = False  # the path is the one that the node takes, and no profile's
    compat: Compat = field(default_factory=shipped)
    own: tuple[Any, ...] = ()  # checks of the site; Any: these are above

    @classmethod
    def load(cls, profile: str, *, site: Path | None = None) -> Want:
        """Read a profile by name (toolkit/profiles) or file, then the site's file over it.

        :raises UsageError: for an unknown profile, key or value, naming file and key.
        """
        want = _apply(cls(path=None), _profile_file(profile))
        return _apply(want, site) if site else want

    def of(self, host: str) -> Want:  # noqa: ARG002 all hosts are to be the same
        """What the host of this name should be: this; see toolkit/groups.py for more than one."""
        return self


def profiles() -> list[str]:
    """The names of the profiles that come with the toolkit."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def _profile_file(profile: str, beside: Path = Path()) -> Path:
    shipped = PROFILES / f"{profile}.toml"
    if profile in profiles():
        return shipped
    for own in (beside / profile, beside / "profiles" / f"{profile}.toml"):
        if own.is_file():
            return own
    hint = f"name one of {', '.join(profiles())}, or a TOML file"
    raise UsageError(f"no profile {profile!r}", hint=hint)


def _apply(want: Want, file: Path) -> Want:
    table = _table(file)
    try:
        _read_expected(table, file, {"expect", "group"})
        if "compat" in table:
            want = replace(want, compat=want.compat.overlaid(table.pop("compat")))
        if "group" in table:
            want = replace(want, group=_groups(table, file))
        return replace(want, **{k: _value(k, v) for k, v in table.items() if k != "group"})
    except ValueError as why:
        hint = f"mend that key in {file}; what each takes: docs/guide.md, the site's file"
        raise UsageError(f"{file}: {why}", hint=hint) from why


def _table(file: Path) -> dict[str, Any]:
    """What the file says. ``Any``: TOML values have no common type.

    :raises UsageError: it cannot be read, or has a key that is not known.
    """
    try:
        table = read_toml(read_file(file))
    except (OSError, ValueError) as why:
        hint = "TOML, as in the examples of docs/guide.md, the site's file"
        raise UsageError(f"{file}: cannot be read: {why}", hint=hint) from why
    known = {*Want.__struct_fields__} - _SAID
    for key in table:
        if key not in known:
            raise UsageError(f"{file}: unknown key {key!r}", hint=f"keys: {sorted(known)}")
    return table


def _groups(table: dict[str, Any], file: Path) -> tuple[Group, ...]:
    """The tables of [[group]].

    A group's profile stands in place of --profile, so that the file's own keys stand over it; but
    for its path, which is what a group has a profile for.

    :raises ValueError: one is of another shape.
    :raises UsageError: its profile cannot be read.
    """
    found = table["group"]
    if not isinstance(found, list):
        raise ValueError("group must be tables: [[group]]")
    groups = []
    for number, row in enumerate(found, start=1):
        if not isinstance(row, dict) or not {"hosts"} < set(row) <= _GROUP_KEYS:
            keys = ", ".join(sorted(_GROUP_KEYS - {"hosts"}))
            raise ValueError(f"group {number} must have hosts, one or more of {keys}, no more")
        if not isinstance(row["hosts"], str) or not row["hosts"].strip():
            raise ValueError(f'group {number}: hosts must be a node set such as "gpu[001-128]"')
        try:
            _read_expected(row, file, {"expect"})
            given = {key: _value(key, row[key]) for key in ("expect", "waivers") if key in row}
        except ValueError as why:
            raise ValueError(f"group {number}: {why}") from why
        profile = _of_profile(number, row["profile"], table, file) if "profile" in row else ()
        groups.append(Group(row["hosts"], row.get("profile", ""), profile, **given))
    return tuple(groups)


def _read_expected(table: dict[str, Any], file: Path, may: set[str]) -> None:
    """Put what another file expects in place of its name: expect = "FILE", beside this one.

    :raises ValueError: it has more than it may.
    :raises UsageError: it cannot be read.
    """
    if isinstance(name := table.get("expect"), str):
        own = _table(file.parent / name)
        if any(not isinstance(each.get("group", []), list) for each in (own, table)):
            raise ValueError("group must be tables: [[group]]")
        if odd := sorted(own.keys() - may):
            raise ValueError(f"expect {name!r} may have {' and '.join(sorted(may))}, not {odd[0]}")
        groups = {"group": [*own["group"], *table.get("group", ())]} if "group" in own else {}
        table |= {"expect": own.get("expect", {}), **groups}


def _of_profile(
    number: int, profile: object, table: dict[str, Any], file: Path
) -> tuple[tuple[str, Any], ...]:
    """What a group's profile says that the site's file does not: and its path in any case."""
    if not isinstance(profile, str):
        raise ValueError(f"group {number}: profile must be a string, not {profile!r}")
    own = _table(_profile_file(profile, file.parent))
    told = {key: value for key, value in own.items() if key == "path" or key not in table}
    if odd := sorted({"group", "compat", "keep_runs", "rollout", "bundles"} & own.keys()):
        raise ValueError(f"group {number}: profile {profile!r} may not have {', '.join(odd)}")
    return tuple((key, _value(key, value)) for key, value in told.items())


def _value(key: str, value: Any) -> Any:
    """One TOML value as the field's own type. ``Any``: TOML values have no common type.

    :raises ValueError: where it is not of that type, or not one of the known values.
    """
    if key == "waivers":
        if not isinstance(value, list):
            raise ValueError("waivers must be tables: [[waivers]]")
        return tuple(_waiver(number, row) for number, row in enumerate(value, start=1))
    if key in _SHAPED:
        return _SHAPED[key](value)
    if key == "companions":
        if not isinstance(value, list) or not set(map(str, value)) <= set(COMPANIONS):
            raise ValueError(f"companions must be a list of {', '.join(COMPANIONS)}")
        return tuple(str(each) for each in dict.fromkeys(value))
    if key == "nic":
        from toolkit.compat.nic import read_wanted  # noqa: PLC0415 only who says so pays for it

        return read_wanted(value)
    if key == "consumers":
        if not isinstance(value, dict):
            raise ValueError('consumers must be a table: consumers = { nccl = "2.27" }')
        return tuple(consumer(name, version) for name, version in sorted(value.items()))
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a string, not {value!r}")
    return _word(key, value)


def _word(key: str, value: str) -> PeerPath | Role | Iommu | Modules | str | None:
    """One string as the field's own type.

    :raises ValueError: where it is not one of the known values.
    """
    match key:
        case "path":
            return None if value == "auto" else PeerPath(value)
        case "role":
            return None if value == "auto" else Role(value)
        case "iommu":
            return Iommu(value)
        case "modules":
            return Modules(value)
        case "ofed" if value not in OFED:
            raise ValueError(f"ofed {value!r} is not one of {', '.join(OFED)}")
        case "mig" if value not in MIG:
            raise ValueError(f"mig {value!r} is not one of {', '.join(MIG)}")
        case "driver_min" if not re.fullmatch(r"(\d+(\.\d+)*)?", value):
            raise ValueError(f"driver_min {value!r} is no version such as 570.86.15")
    return value


def consumer(name: str, version: object) -> tuple[str, str]:
    """A library with its version, as jobs bring it.

    :raises ValueError: for a library that we know no rules of, or what is no version.
    """
    if name not in CONSUMERS:
        raise ValueError(f"consumer {name!r} is not one of {', '.join(CONSUMERS)}")
    if not isinstance(version, str) or not re.fullmatch(r"\d+(\.\d+){1,3}", version):
        raise ValueError(f"version of {name}: {version!r} is none such as 2.27 or 2.27.3")
    if name == "nccl" and not version.startswith("2."):  # 22.7 is 2.27 with a slip
        raise ValueError(f"version of {name}: {version!r} is none: they are 2.4 to 2.30 and on")
    return name, version


def _signing(value: Any) -> SigningPaths:
    """The table [signing]: key and certificate, as paths that a shell reads as they are."""
    keys = {*SigningPaths.__struct_fields__}
    if not isinstance(value, dict) or set(value) != keys:
        raise ValueError(f"signing must have {', '.join(sorted(keys))} and nothing else")
    for name, path in value.items():
        if not isinstance(path, str) or not re.fullmatch(r"(/[\w.@+-]+)+", path, re.ASCII):
            raise ValueError(f"signing: {name} {path!r} is no plain absolute path")
    return SigningPaths(value["key"], value["certificate"])


def _bundles(value: Any) -> Bundles:
    """The table [bundles]: the key as a path that is the same wherever the verb is called."""
    key = value.get("sign_key") if isinstance(value, dict) and set(value) == {"sign_key"} else None
    if not isinstance(key, str) or not key.startswith(("/", "~/")):
        raise ValueError('bundles must have sign_key = "/PATH" or "~/PATH", and nothing else')
    return Bundles(key)


def _runs(value: Any) -> int:
    """How many runs keep all that they replaced."""
    if type(value) is not int or value < 1:  # a boolean is an integer too
        raise ValueError(f"keep_runs must be a number of at least 1, not {value!r}")
    return value


def _limits(value: Any) -> RolloutLimits:
    """The table [rollout]: max_unavailable as a number, or as a share of ``nodes``."""
    if not isinstance(value, dict) or not {"max_unavailable"} <= set(value) <= _LIMIT_KEYS:
        raise ValueError("rollout must have max_unavailable, and may have nodes")
    most, nodes = value["max_unavailable"], value.get("nodes")
    if type(most) is int and most > 0 and nodes is None:
        return RolloutLimits(most)
    share = re.fullmatch(r"([1-9][0-9]?|100)%", most) if isinstance(most, str) else None
    if share is None:
        raise ValueError(f'rollout: max_unavailable must be 8 or "10%", not {most!r}')
    if type(nodes) is not int or nodes < 1:
        raise ValueError(
            f"rollout: max_unavailable {most!r} needs nodes = 128, the size of the fleet"
        )
    return RolloutLimits(max(1, nodes * int(share[1]) // 100))


_GROUP_KEYS = {"hosts", "profile", "expect", "waivers"}
_LIMIT_KEYS = {"max_unavailable", "nodes"}
_SAID = {"passport", "passport_key", "checks", "taken", "own", "upgrade"}  # by options; of one node
_SHAPED: dict[str, Callable[[Any], Any]] = {
    "signing": _signing,
    "bundles": _bundles,
    "keep_runs": _runs,
    "packages": read_packages,
    "rollout": _limits,
    "expect": read_expect,
    "bios": read_wanted_bios,
}


def _waiver(number: int, row: Any) -> Waiver:
    """One table of [[waivers]]: check, reason and the last day, and for whom if not for all."""
    keys = {*Waiver.__struct_fields__} - {"hosts"}
    if not isinstance(row, dict) or not keys <= set(row) <= keys | {"hosts"}:
        raise ValueError(f"waiver {number} must have {', '.join(sorted(keys))}, and may have hosts")
    if type(row["until"]) is not date:  # a datetime is a date too, and cannot be compared to one
        raise ValueError(f"waiver {number}: until must be a date such as 2027-01-31, unquoted")
    if not isinstance(row["check"], str) or not isinstance(row["reason"], str):
        raise ValueError(f"waiver {number}: check and reason must be strings")
    hosts = row.get("hosts", "")
    if not isinstance(hosts, str) or ("hosts" in row and not hosts.strip()):
        raise ValueError(f'waiver {number}: hosts must be a node set such as "gpu[001-128]"')
    return Waiver(row["check"], row["reason"], row["until"], hosts)
