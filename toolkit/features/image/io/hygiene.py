"""What the work on an image must not leave in it: nothing of the builder, no scratch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from toolkit.features.image.io.index import Index, Kind, differences, look
from toolkit.features.image.io.inside import link_inside, read_inside, remove_inside, write_inside

# As it was before, whatever a script made of it: what tells one machine from all others, or
# belongs to the network of whoever builds.
AS_BEFORE = (
    *("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostname", "/etc/hosts"),
    *("/etc/resolv.conf", "/etc/mtab", "/etc/adjtime", "/etc/hostid"),
    "/etc/iscsi/initiatorname.iscsi",
    *("/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret", "/var/lib/random-seed"),
    *("/etc/ssh/ssh_host_*", "/usr/sbin/policy-rc.d", "/root/.bash_history"),
    # DKMS makes a key for signing at the first build: one for each image would be one for a fleet.
    *("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.*"),
)
# Gone, where it was not there before.
_SCRATCH = (
    "/var/lib/dkms/*/*/build",
    "/var/lib/dkms/*/*/*/*/log",
    # Of the builds that were made here; what was done stands in the journal.
    *("/var/lib/gdr-toolkit/rebuild/*.log", "/var/lib/gdr-toolkit/runs/*/log"),
)
POLICY = "/usr/sbin/policy-rc.d"  # by which Debian's packages ask whether they may start services
_POLICY = b"""#!/bin/sh
# Lies here while the image is worked on: no service is started in it.
exit 101
"""

Kept = Mapping[str, bytes]  # content of files that are put back, by path


def keep(root: Path, before: Index) -> Kept:
    """The content of what must stay as it is.

    :raises OSError: it cannot be read.
    """
    paths = (path for path, entry in before.items() if entry.kind is Kind.FILE)
    return {path: read_inside(root, path) for path in paths if _one_of(path, AS_BEFORE)}


def forbid_services(root: Path, before: Index) -> None:
    """Until ``clean``, no package of the image starts a service in it.

    :raises OSError: the image cannot be written.
    """
    if "/var/lib/dpkg" in before:
        write_inside(root, POLICY, _POLICY, 0o755)


def clean(root: Path, before: Index, kept: Kept, known: Index) -> Index:
    """Put back and take away; what the tree holds now.

    :param known: a look at it that may be old.
    :raises OSError: the image cannot be written.
    """
    after = look(root, known)
    for path in sorted(after.keys() - before.keys()):
        if _one_of(path, _SCRATCH):
            remove_inside(root, path)
    for each in differences(before, after):
        if _one_of(each.path, AS_BEFORE):
            _put_back(root, each.path, before, kept)
    return look(root, after)


def _put_back(root: Path, path: str, before: Index, kept: Kept) -> None:
    old = before.get(path)
    if old is None or old.kind not in {Kind.FILE, Kind.LINK}:
        remove_inside(root, path)
    elif old.kind is Kind.LINK:
        with suppress(IsADirectoryError):
            link_inside(root, path, old.what)
    else:
        write_inside(root, path, kept[path], old.mode, owner=old.owner)


def _one_of(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, each) and path.count("/") == each.count("/") for each in patterns)
