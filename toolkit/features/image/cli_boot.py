"""--boot: an image is started once, judged by the suite, and left as it was."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from toolkit.cli.options import Option, Said
from toolkit.errors import ApplyError, ExitCode, Outcome, ToolkitError
from toolkit.features.image.run_boot import Booted, BootProof, boot, refuse_early, unchanged
from toolkit.plural import counted
from toolkit.report.progress import listener
from toolkit.verbs.cli.session import Session

BOOT = (
    Option("boot", False, "start the result once in QEMU and run the suite; it stays as it is"),
    Option(
        "boot_timeout",
        0,
        "seconds until its sshd must answer; 0: 240, 960 where emulated",
        was="boot_limit",
    ),
    Option("boot_memory", 2048, "MB of memory for that boot"),
)


def boot_image(session: Session, image: Path) -> ExitCode:
    """Boot ``image``, run the suite in it, and say that it is as it was.

    :param image: a disk, a tar, or the folder of a root.
    :returns: as verify does.
    :raises UsageError: QEMU or room is missing, or there is nothing to boot.
    :raises TransportError: it did not come up; with the end of its console.
    :raises ApplyError: its bytes are no longer the same.
    """
    said = session.said
    progress = listener(sys.stderr, quiet=said.flag("quiet"))
    limit_s, memory_mb = _numbers(said)
    proofs: list[BootProof] = []
    try:
        with (
            unchanged(image, progress) as proofs,
            boot(image, limit_s=limit_s, memory_mb=memory_mb, progress=progress) as booted,
        ):
            for line in told(booted):
                session.say(line)
            return _suite(session, booted)
    except ToolkitError as why:
        # Until now the file has what was judged before the boot, and all of that may have passed.
        session.reports([Outcome("image", None, why)], why.exit_code)
        raise
    finally:
        for proof in proofs:  # also of a boot that did not come up
            session.say(proven(image, proof))


def early(said: Said) -> None:
    """Before anything is done to an image that is to be booted then.

    :raises UsageError: no boot could come of it.
    """
    refuse_early(*_numbers(said))


def _numbers(said: Said) -> tuple[float, int]:
    return float(said.number("boot_timeout")), said.number("boot_memory", 2048)


def _suite(session: Session, booted: Booted) -> ExitCode:
    # Here, because pytest takes a quarter of a second that no other verb needs.
    from toolkit.suites.run import run_suite  # noqa: PLC0415 see above

    sys.stdout.flush()
    with _patience(booted.accelerator.factor), contextlib.ExitStack() as stack:
        if session.said.flag("json"):  # then standard output is the document's alone
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        ran = run_suite(
            booted.access,
            session.want(),
            verbose=session.said.flag("verbose"),
        )
        session.cases(ran.junit)
        return ran.code


@contextlib.contextmanager
def _patience(factor: float) -> Iterator[None]:
    """The limits of what is read are those of hardware; see node/collect.py."""
    before = os.environ.get("GDR_PATIENCE")
    os.environ["GDR_PATIENCE"] = str(max(factor, float(before or 1)))
    try:
        yield
    finally:
        del os.environ["GDR_PATIENCE"]
        if before is not None:
            os.environ["GDR_PATIENCE"] = before


def told(booted: Booted) -> list[str]:
    """What came up, and how; what could not be proven by it."""
    state = f", systemd says {booted.state}" * bool(booted.state)
    lines = [f"booted by {booted.accelerator.told} in {booted.seconds:.0f} s{state}"]
    if booted.waiting:
        units = ", ".join(booted.waiting)
        lines.append(f"it has not come to rest, and is judged as it is; still to come: {units}")
    if booted.failed:
        units = counted(len(booted.failed), "unit")
        lines.append(f"{units} failed: {', '.join(booted.failed)}")
    if booted.direct:
        lines.append("a root has no boot loader: its kernel was started by QEMU, from a copy")
    lines.append("no GPU and no HCA is there: what needs one is n/a, and proven by no boot here")
    return lines


def proven(image: Path, proof: BootProof) -> str:
    """That the image is as it was.

    :raises ApplyError: it is not.
    """
    if proof.unchanged:
        return f"unchanged by its boot: {image} sha256 {proof.before}"
    raise ApplyError(
        f"{image}: changed while it was booted: sha256 {proof.before}, now {proof.after}",
        hint="no boot of ours writes to it: who else has it open? (fuser, lsof)",
    )
