"""An image as a transport: scripts run in its tree, which is no machine that runs.

See chroot.sh for what a script finds there.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from toolkit.errors import TransportError, UsageError
from toolkit.reach.local import LocalTransport
from toolkit.reach.transport import Result, Sink, quiet

_HERE = Path(__file__).parent
_END = "GDR_IMAGE"
_NO_IMAGE = 66  # EX_NOINPUT: chroot.sh found no whole root there
_CANNOT = (69, 77)  # EX_UNAVAILABLE, EX_NOPERM
# Named here, for nothing of the builder may decide: a folder counts where depmod or DKMS would.
_KERNELS = """
for each in /lib/modules/*/; do
    [ -e "$each/kernel" ] || [ -e "$each/modules.dep" ] || [ -e "$each/build" ] || continue
    each=${each%/}
    printf '%s\\n' "${each##*/}"
done
"""


class ChrootTransport:
    """Runs scripts in the tree below ``root``. See ``Transport`` for what it promises.

    :param reading: the kernel release for which the image is read; then nothing in it can be
        written, and the script finds GDR_ROOT, GDR_BIN and GDR_KERNEL set for the probe. ""
        where the script is to change the image.
    """

    def __init__(self, name: str, root: str, *, reading: str = "") -> None:
        self._name = name
        self._root = root
        self._reading = reading
        self._local = LocalTransport(name)

    @property
    def name(self) -> str:
        return self._name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        """As Transport's.

        :raises UsageError: there is no whole root at that place.
        """
        return self._run(script, limit_s, sink, self._reading)

    def kernels(self) -> tuple[str, ...]:
        """Releases that the image has modules or headers for, in no order that counts.

        :raises UsageError: there is no whole root at that place.
        """
        said = self._run(_KERNELS, 60, quiet, "-")
        return tuple(said.stdout.split())

    def close(self) -> None:
        self._local.close()

    def _run(self, script: str, limit_s: float, sink: Sink, reading: str) -> Result:
        result = self._local.run(entered(script, self._root, reading), limit_s=limit_s, sink=sink)
        said = result.stderr.strip().rpartition("\n")[2]
        if result.exit == _NO_IMAGE:
            raise UsageError(said, hint="--root names the folder that has bin, etc and lib in it")
        if result.exit in _CANNOT:
            raise TransportError(f"{self._name}: {said}", hint="run it as root, or allow sudo")
        return result


def entered(script: str, root: str, reading: str = "") -> str:
    """The script, as it runs in the image. Cut off at any byte, it runs nothing.

    :param reading: the kernel release for which a reader looks; "" for what changes the image.
    """
    way = ("read", reading) if reading else ("act",)
    words = " ".join(shlex.quote(each) for each in (root, *way))
    inner = f"{_part('chroot_reader.sh')}\nimage_commands\n{script}" if reading else script
    return f"#!/bin/sh\n{_part('chroot.sh')}\nenter_image {words} <<'{_END}'\n{inner}\n{_END}\n"


def _part(name: str) -> str:
    return (_HERE / name).read_text("utf-8")
