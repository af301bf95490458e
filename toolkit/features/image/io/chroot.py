"""An image as a transport: scripts look into its tree, which is no machine that runs.

See chroot.sh for what a script finds there.
"""

from __future__ import annotations

import shlex

from toolkit.errors import TransportError, UsageError
from toolkit.node.scripts import FOLDER
from toolkit.ssh.local import LocalTransport
from toolkit.ssh.transport import Result, Sink, Transport, quiet

_END = "GDR_IMAGE"
_NO_IMAGE = 66  # EX_NOINPUT: chroot.sh found no whole root there
_CANNOT = (69, 77)  # EX_UNAVAILABLE, EX_NOPERM
_KERNELS = """
for each in /lib/modules/*/; do
    [ -e "$each/kernel" ] || [ -e "$each/modules.dep" ] || [ -e "$each/build" ] || continue
    each=${each%/}
    printf '%s\\n' "${each##*/}"
done
"""


class ChrootTransport:
    """Runs scripts that read the tree below ``root``. See ``Transport`` for what it promises.

    :param kernel: the release for which the image is read: the script finds GDR_ROOT, GDR_BIN
        and GDR_KERNEL set, for the probe.
    :param ground: where ``root`` is to be found; this machine unless given.
    """

    def __init__(
        self, name: str, root: str, kernel: str = "-", *, ground: Transport | None = None
    ) -> None:
        self._name = name
        self._root = root
        self._kernel = kernel
        self._ground = ground or LocalTransport(name)

    @property
    def name(self) -> str:
        return self._name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        """As Transport's.

        :raises UsageError: there is no whole root at that place.
        """
        words = " ".join(shlex.quote(each) for each in (self._root, self._kernel))
        inner = f"{_part('chroot_reader.sh')}\nimage_commands\n{script}"
        call = f"enter_image {words} <<'{_END}'\n{inner}\n{_END}\n"
        whole = f"#!/bin/sh\n{_part('chroot.sh')}\n{call}"
        result = self._ground.run(whole, limit_s=limit_s, sink=sink)
        said = result.stderr.strip().rpartition("\n")[2]
        if result.exit == _NO_IMAGE:
            raise UsageError(said, hint="--root names the folder that has bin, etc and lib in it")
        if result.exit in _CANNOT:
            raise TransportError(f"{self._name}: {said}", hint="run it as root, or allow sudo")
        return result

    def kernels(self) -> tuple[str, ...]:
        """Releases that the image has modules or headers for, in no order that counts.

        :raises UsageError: there is no whole root at that place.
        """
        return tuple(self.run(_KERNELS, limit_s=60).stdout.split())

    def close(self) -> None:
        self._ground.close()


def _part(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")
