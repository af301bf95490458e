"""Built modules become packages: the texts from the templates, the bytes by the distros' tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from toolkit import __version__
from toolkit.built.plan.model import Built
from toolkit.errors import UsageError
from toolkit.features.builds.io import package_tools
from toolkit.features.builds.plan import deb, rpm
from toolkit.features.builds.plan.packages import (
    COMMON,
    EPOCH,
    Contents,
    Format,
    Making,
    PackedFile,
    contents,
    notes,
    payload,
    rivals,
)
from toolkit.plan.templates import render_text

# What says when modules are loaded; the same files that provision places below /etc, where
# a file of the same name takes the place of these.
_LOADING = {
    "usr/lib/modprobe.d/gdr-toolkit.conf": "modprobe/peermem.conf.j2",
    "usr/lib/modules-load.d/gdr-toolkit.conf": "modules-load/peermem.conf.j2",
}


class MadePackage(Struct, frozen=True):
    """One package that was made."""

    path: Path
    notes: tuple[str, ...] = ()  # what must be known before it is handed on


def parse_format(word: str) -> Format:
    """What --package asks for.

    :raises UsageError: for a format that we do not make.
    """
    try:
        return Format(word)
    except ValueError as why:
        raise UsageError(
            f"no package format {word!r}", hint=f"formats: {', '.join(Format)}"
        ) from why


def parse_making(*, revision: str = "", maintainer: str = "") -> Making:
    """What the operator decides about packages, with SOURCE_DATE_EPOCH where it is set.

    :raises UsageError: for what no package can have.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    for what, word in (("--revision", revision), ("SOURCE_DATE_EPOCH", given)):
        if word and not (word.isascii() and word.isdigit()):
            raise UsageError(f"{what} is a whole number, not {word!r}", hint="say digits alone")
    plain = Making(int(revision or 1), epoch=int(given or EPOCH))
    return Making(plain.revision, maintainer, plain.epoch) if maintainer else plain


def make_packages(
    builts: Iterable[Built], form: Format, out: Path, making: Making
) -> tuple[MadePackage, ...]:
    """Packages of all these builds, for each kernel one, and one that is bound to no kernel.

    :raises UsageError: where something cannot go into a package; nothing is made then.
    :raises PackingError: where a tool refuses.
    """

    def kernel(built: Built) -> tuple[str, str]:
        return built.inputs.kernel, built.inputs.arch

    by_kernel = groupby(sorted(builts, key=kernel), key=kernel)
    held = [contents(list(group)) for _kernel, group in by_kernel]
    if not held:
        raise UsageError("there are no modules to make a package of", hint="build them first")
    make = {Format.DEB: _debs, Format.RPM: _rpms, Format.TAR: _tars}[form]
    return tuple(make(held, out, making))


def _debs(held: Sequence[Contents], out: Path, making: Making) -> list[MadePackage]:
    made = []
    for each in held:
        package, version = deb.name(each.kernel), deb.version(each, making)
        scripts = _scripts(each, package, {name: f"deb-{name}" for name in deb.SCRIPTS})
        files = deb.tree(each, making, payload(each), scripts)
        target = out / f"{package}_{version}_{deb.arch(each.arch)}.deb"
        made.append(MadePackage(package_tools.pack_deb(files, target, making.epoch), notes(each)))
    if any(each.loads_peermem for each in held):
        version = _common_version(making)
        files = deb.common_tree(version, making, _loading())
        target = out / f"{COMMON}_{version}_all.deb"
        made.append(MadePackage(package_tools.pack_deb(files, target, making.epoch)))
    return made


def _rpms(held: Sequence[Contents], out: Path, making: Making) -> list[MadePackage]:
    made = []
    for each in held:
        scripts = _scripts(each, rpm.name(each.kernel), {n: f"rpm-{n}" for n in rpm.SCRIPTS})
        files, machine = payload(each), rpm.arch(each.arch)
        text = rpm.spec(each, making, files, scripts)
        paths = package_tools.pack_rpm(text, files, out, making.epoch, machine)
        made += [MadePackage(path, notes(each)) for path in paths]
    if any(each.loads_peermem for each in held):
        files = _loading()
        text = rpm.common_spec(_common_version(making), making, files)
        paths = package_tools.pack_rpm(text, files, out, making.epoch, "noarch")
        made += [MadePackage(path) for path in paths]
    return made


def _tars(held: Sequence[Contents], out: Path, making: Making) -> list[MadePackage]:
    made = []
    for each in held:
        title = f"kernel modules {deb.version(each, making)} for Linux {each.kernel}"
        scripts = _scripts(each, title, {n: f"tar-{n}" for n in package_tools.TAR_SCRIPTS})
        files = (*payload(each), *(_loading() if each.loads_peermem else ()))
        data = package_tools.tar_bytes(each, making, files, scripts)
        target = out / f"{package_tools.tar_name(each, making)}.tar.gz"
        made.append(MadePackage(package_tools.write(data, target), notes(each)))
    return made


def _scripts(held: Contents, title: str, names: Mapping[str, str]) -> dict[str, str]:
    values = {
        "package": title,
        "title": title,
        "kernel": held.kernel,
        "arch": held.arch,
        "names": " ".join(rivals(held)),
        "modules": " ".join(each.name for each in held.modules),
        "needs": " ".join(held.needs),
        "early": "yes" if held.carried_early else "",
    }
    return {key: render_text(f"package/{name}.j2", values) for key, name in names.items()}


def _loading() -> tuple[PackedFile, ...]:
    return tuple(
        PackedFile(path, render_text(template, {}).encode()) for path, template in _LOADING.items()
    )


def _common_version(making: Making) -> str:
    digest = sha256(b"".join(each.data for each in _loading())).hexdigest()[:12]
    return f"{__version__}-{making.revision}+g{digest}"
