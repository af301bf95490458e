"""A spec file for rpmbuild: it only packs, nothing is compiled, stripped or signed by it.

Sources: rpm's manual, Spec file format and Dependency generators; rpm-version(7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.features.builds.plan.packages import COMMON, Contents, Making, PackedFile

ARCHES = {"x86_64": "x86_64", "aarch64": "aarch64", "ppc64le": "ppc64le"}
SCRIPTS = ("pre", "post", "postun")

# Nothing of what distributions add behind %install: stripping would take the signatures away,
# and the generated dependencies on single symbols would be those of one distribution alone.
HEAD = """\
%global __os_install_post %{nil}
%global __spec_install_post %{?__debug_package:%{nil}} %{__arch_install_post}
%global debug_package %{nil}
%global _build_id_links none
%global __strip /bin/true
%global _binary_payload w9.gzdio
%global _source_payload w9.gzdio
"""


def name(kernel: str) -> str:
    return f"gdr-modules-{re.sub(r'[^A-Za-z0-9._+-]', '-', kernel)}"


def release(held: Contents, making: Making) -> str:
    return f"{making.revision}.g{held.digest}"


def version(held: Contents, making: Making) -> str:
    return f"{held.upstream}-{release(held, making)}"


def arch(machine: str) -> str:
    """What rpm calls a machine.

    :raises UsageError: for one that it has no word for here.
    """
    if machine not in ARCHES:
        raise UsageError(
            f"no architecture of rpm is known for {machine!r}",
            hint="packages are made for x86_64 and aarch64",
        )
    return ARCHES[machine]


def spec(
    held: Contents, making: Making, files: Sequence[PackedFile], scripts: Mapping[str, str]
) -> str:
    """The spec of the package of one kernel.

    :param files: what it places, from the folder that rpmbuild knows as ``_sourcedir``.
    :param scripts: by name: "pre", "post", "postun"; plain POSIX sh.
    """
    licences = sorted({_words(each.licence) or "unknown" for each in held.modules})
    tags = [
        ("Name", name(held.kernel)),
        ("Version", held.upstream),
        ("Release", release(held, making)),
        ("Summary", f"Kernel modules of GPUDirect RDMA for Linux {held.kernel}"),
        ("License", " and ".join(licences)),
        ("Packager", making.maintainer),
        ("ExclusiveArch", arch(held.arch)),
        ("AutoReqProv", "no"),
        # Of its exact release: no kernel that is merely alike (weak-modules) will do. One with
        # two hyphens, as SUSE's have, is no version to rpm: there %pre alone looks.
        ("Requires", f"kernel-uname-r = {held.kernel}" if held.kernel.count("-") == 1 else ""),
        ("Requires", COMMON if held.loads_peermem else ""),
        ("Requires(post)", "/usr/sbin/depmod"),
        ("Requires(postun)", "/usr/sbin/depmod"),
    ]
    about = ["Built by gdr-toolkit, and judged by it before they were packed:"]
    about += [f"  {each.stem} {_words(each.image.info.get('version', ''))}".rstrip()
              for each in held.modules]  # fmt: skip
    if held.proprietary:
        about += ["", "Under NVIDIA's own licence: not to be redistributed."]
    head = _Head(tuple(tags), tuple(about), f"modules of {held.kernel}")
    return HEAD + _body(head, files, scripts, making)


def common_spec(own: str, making: Making, files: Sequence[PackedFile]) -> str:
    """The spec of the package that is bound to no kernel.

    :param own: version and release, parted by a hyphen.
    """
    number, _, rest = own.partition("-")
    tags = [
        ("Name", COMMON),
        ("Version", number),
        ("Release", rest.replace("+", ".")),
        ("Summary", "When the kernel modules of GPUDirect RDMA are loaded"),
        ("License", "Apache-2.0"),
        ("Packager", making.maintainer),
        ("BuildArch", "noarch"),
        ("AutoReqProv", "no"),
    ]
    about = ["Loads nvidia-peermem at boot, after the RDMA core and the NVIDIA driver."]
    head = _Head(tuple(tags), tuple(about), "load at boot, and in which order")
    return HEAD + _body(head, files, {}, making)


class _Head(Struct, frozen=True):
    """What stands above the files."""

    tags: tuple[tuple[str, str], ...]  # one may stand there twice
    about: tuple[str, ...]
    what: str  # for the changelog


def _body(
    head: _Head, files: Sequence[PackedFile], scripts: Mapping[str, str], making: Making
) -> str:
    named = dict(head.tags)
    own = f"{named['Version']}-{named['Release']}"
    sections = [
        "\n".join(f"{key}: {value}" for key, value in head.tags if value),
        "%description\n" + "\n".join(head.about),
        "%install\n" + "\n".join(_install(each) for each in files),
        *(f"%{key} -p /bin/sh\n{_script(text)}" for key, text in scripts.items()),
        "%files\n%defattr(-,root,root,0755)\n" + "\n".join(_listed(files)),
        f"%changelog\n* {making.rpm_date} {making.maintainer} - {own}\n"
        f"- Made by gdr-toolkit: {head.what}.",
    ]
    return "\n\n".join(sections) + "\n"


def _install(each: PackedFile) -> str:
    source, target = f"%{{_sourcedir}}/{each.path}", f"%{{buildroot}}/{each.path}"
    return f'install -D -m {each.mode:04o} "{source}" "{target}"'


def _listed(files: Sequence[PackedFile]) -> list[str]:
    """With the folders that no kernel brings, so that they go when they are empty."""
    own = {each.path.rpartition("/")[0] for each in files if "/gdr-toolkit/" in each.path}
    own |= {folder.rpartition("/")[0] for folder in own}  # updates: of a kernel too, may be
    return [*(f"%dir /{folder}" for folder in sorted(own)), *(f"/{each.path}" for each in files)]


def _script(text: str) -> str:
    """Shell as a scriptlet: rpm knows macros there, and brings the first line itself."""
    body = text.split("\n", 1)[1] if text.startswith("#!") else text
    return body.replace("%", "%%").rstrip("\n")


def _words(text: str) -> str:
    """A value of modinfo as it may stand in a tag."""
    return re.sub(r"[^A-Za-z0-9 ./()+-]", "?", text)[:120].strip()
