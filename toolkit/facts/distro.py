"""Which distribution, from os-release.

Source: os-release(5): shell-compatible assignments; quotes optional, comments allowed.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from toolkit.errors import Unparsable


@dataclass(frozen=True, slots=True)
class Distro:
    id: str  # "ubuntu", "rhel", "rocky", "amzn"
    version: str  # "22.04", "9.4"; "" on rolling releases
    like: tuple[str, ...]  # ("debian",): the families it says it belongs to, nearest first
    pretty: str  # "Ubuntu 22.04.4 LTS"
    ostree: bool = False  # RHCOS, Fedora CoreOS, Silverblue: they tell the version of their tree


def parse_os_release(text: str) -> Distro:
    """Read /etc/os-release.

    :raises Unparsable: at a line that is no assignment, or where ID is missing.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, raw = line.partition("=")
        if not equals or not key.strip().isidentifier():
            raise Unparsable("os-release", line, number)
        try:
            values[key.strip()] = " ".join(shlex.split(raw))
        except ValueError as why:
            raise Unparsable("os-release", line, number) from why
    if "ID" not in values:
        raise Unparsable("os-release", "no ID")
    return Distro(
        id=values["ID"].lower(),
        version=values.get("VERSION_ID", ""),
        like=tuple(values.get("ID_LIKE", "").lower().split()),
        pretty=values.get("PRETTY_NAME", values.get("NAME", values["ID"])),
        ostree="OSTREE_VERSION" in values,
    )
