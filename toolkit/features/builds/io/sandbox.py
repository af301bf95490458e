"""Where one build runs: this machine, or a tree on it, each with a view of its own.

See enter.sh for what a build sees there, and build.sh for what it does.
"""

from __future__ import annotations

import shlex
from base64 import encodebytes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO, StringIO

from msgspec import Struct

from toolkit import package_data
from toolkit.errors import BecomeError, FloodError, TransportError, Unsupported
from toolkit.node.scripts import FOLDER
from toolkit.ssh.limits import BULK, Hearing
from toolkit.ssh.local import LocalTransport
from toolkit.ssh.transport import Sink, Transport

_SURVEY_S = 300  # hashing the sources of a driver on a busy disk
ASIDE = ("gate.sh", "aside.sh")  # below templates/dkms: what nodes rebuild with, too
SCRATCH = "/mnt"  # where a build has its scratch folder; see enter.sh


class SandboxFile(Struct, frozen=True):
    """A file that is put into the ground's view before the build."""

    path: str
    data: bytes
    mode: int = 0o644


class Order(Struct, frozen=True):
    """What build.sh is to do. Hashes are as hashes.sh makes them; "" is not compared."""

    kernel: str
    package: str  # DKMS name
    version: str
    limit_s: int
    jobs: int = 0  # for make; 0: as DKMS thinks fit
    flags: str = ""  # NAME=value words for make
    ours: bool = False  # the package is laid, and hides one of the same name
    hidden: tuple[str, ...] = ()  # folders below /usr/src that are not to be seen
    writable: bool = False  # leave the tree writable: OFED's own scripts write to it
    source_folder: str = ""  # below /usr/src, and the DKMS name that it was hashed under
    source_name: str = ""
    source: str = ""
    headers: str = ""
    compiler: str = ""
    left_out: tuple[str, ...] = ()  # modules that are built and not wanted
    symvers: tuple[str, ...] = ()  # paths of what it is linked against, among ``files``
    files: tuple[SandboxFile, ...] = ()


class SandboxJob(Struct, frozen=True):
    """One build, as it is handed to a worker. Plain values: it is pickled."""

    title: str  # "nvidia-peermem/535.261.03 for 6.1.0-56-amd64"
    root: str  # the tree to build in; "" for the machine itself. The script knows it too
    script: str  # for sh -s, as root
    limit_s: float
    log: str  # file that gets each line as it comes; "" for none


def build_script(order: Order, *, root: str = "", layer: str = "") -> str:
    """The script of one build, for this machine or another one.

    :param root: a tree on the machine where it runs; "" for that machine itself.
    :param layer: a folder there that is seen above it: headers that are not installed.
    """
    values = {
        "kernel": order.kernel,
        "package": order.package,
        "version": order.version,
        "limit": str(order.limit_s),
        "jobs": str(order.jobs or ""),
        "flags": order.flags,
        "ours": "1" if order.ours else "",
        "source_folder": order.source_folder,
        "source_name": order.source_name,
        "expected_source": order.source,
        "expected_headers": order.headers,
        "expected_compiler": order.compiler,
        "left_out": " ".join(order.left_out),
        "symvers": " ".join(order.symvers),
    }
    given = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    ours = [(package_data.templates() / "dkms" / name).read_text("utf-8") for name in ASIDE]
    parts = [_part("frames.sh"), _part("hashes.sh"), *ours, _part("build.sh")]
    inner = "\n".join([*parts, given, _lays(order.files)])
    hidden = " ".join((*order.hidden, "ofa_kernel", "ofa_kernel-dkms"))
    return _entered(f"{inner}build\n", root, "open" if order.writable else "build", hidden, layer)


def survey_script(kernels: tuple[str, ...] = (), *, root: str = "", layer: str = "") -> str:
    """The script that reads a ground: a tree, or the machine where it runs."""
    parts = ("frames.sh", "probe_elf.sh", "hashes.sh", "survey.sh")
    words = " ".join(shlex.quote(each) for each in (*kernels, "end"))
    script = "\n".join(_part(each) for each in parts) + f"\nsurvey {words}\n"
    aside = root or layer
    return _entered(script, root, "look", "", layer) if aside else f"#!/bin/sh\n{script}"


def read_ground(
    transport: Transport | None = None,
    *,
    root: str = "",
    kernels: tuple[str, ...] = (),
    layer: str = "",
) -> str:
    """What the survey says of a ground: frames.

    :param transport: none for this machine.
    :raises TransportError: it did not come to its end.
    :raises Unsupported: it could not begin.
    """
    script = survey_script(kernels, root=root, layer=layer)
    try:
        here = LocalTransport(hearing=Hearing("this machine", BULK))
        said = (transport or here).run(script, limit_s=_SURVEY_S)
    except BecomeError as why:
        if transport is not None:
            raise
        hint = "run it by sudo, or allow NOPASSWD: builds on this machine are given no password"
        raise BecomeError(str(why), hint=hint) from why
    if said.exit and not said.stdout:  # not even a frame that says why
        told = said.stderr.strip().rpartition("\n")[2] or f"its shell ended with {said.exit}"
        raise Unsupported(
            f"no survey could be made there: {told}",
            hint="a ground is a whole system: a shell, /var/tmp, DKMS, a compiler, headers",
        )
    return said.stdout


def run_job(job: SandboxJob) -> str:
    """Run one build to its end, on this machine.

    Whatever ends this call, an interruption too, ends the build and all that it started.

    :returns: what it printed; where it was killed, as far as it came.
    :raises TransportError: it could not be begun.
    :raises FloodError: it printed more than any build does.
    """
    with ExitStack() as stack:
        text = StringIO()  # modules come by it: a list of lines would take three times as much
        write = stack.enter_context(written(job.log))

        def keep(line: str) -> None:
            text.write(f"{line}\n")
            write(line)

        try:
            transport = LocalTransport(job.title, hearing=Hearing(job.title, BULK))
            result = transport.run(job.script, limit_s=job.limit_s, sink=keep)
            if not text.tell():  # it never came to its first frame; what the shell says tells why
                for line in result.stderr.splitlines():
                    keep(line)
        except (BecomeError, FloodError):
            raise
        except TransportError as why:
            if not text.tell():
                raise
            write(str(why))
        return text.getvalue()


@contextmanager
def written(log: str) -> Iterator[Sink]:
    """Writes each line to the log at once; a log that cannot be written costs no build.

    :param log: its path; "" for none.
    """
    with ExitStack() as stack:
        # Nothing may lie in a buffer: closing would try, and fail at, a full disk once more.
        stream: FileIO | None = None
        with suppress(OSError):
            stream = stack.enter_context(FileIO(log, "w")) if log else None

        def write(line: str) -> None:
            with suppress(OSError):
                if stream is not None:
                    stream.write(f"{line}\n".encode("utf-8", "surrogateescape"))

        yield write


def _part(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def _lays(files: tuple[SandboxFile, ...]) -> str:
    """A function that lays each file; base64 has no line that could end a here-document."""
    calls = [
        f"lay {shlex.quote(each.path)} {each.mode:o} <<'GDR_FILE' || return\n"
        f"{encodebytes(each.data).decode()}GDR_FILE\n"
        for each in files
    ]
    return "lay_all() {\n:\n" + "".join(calls) + "}\n"


def _entered(script: str, root: str, way: str, hidden: str, layer: str) -> str:
    """The script, as it runs behind enter.sh; a script that was cut calls nothing."""
    words = " ".join(map(shlex.quote, (root.rstrip("/"), way, hidden, layer)))
    return f"#!/bin/sh\n{_part('enter.sh')}\nenter {words} <<'GDR_GROUND'\n{script}GDR_GROUND\n"
