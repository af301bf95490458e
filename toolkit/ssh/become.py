"""How a script becomes root: the remote command, what goes before it on stdin, the marks.

Every script is fed to ``sh -s`` within braces, which a shell reads to their end before it
runs the first command: a script that was cut on its way runs nothing. Without them a cut in
the name of a function runs the command of that name: "apt" of "apt() {". The remote command
is two words in single quotes without a quote, "!", or newline in them, which sh, csh and
fish read alike:

    sh -c 'OUTER' 'INNER'      OUTER finds the way to root, INNER ("$0") reads the script

Two marks on stderr make the end certain: ``gdr-begin`` when the script's own shell
starts, ``gdr-end STATUS`` when it has ended. What precedes the first is noise of the
login or of sudo; a missing second means that the connection was lost.

A password is the first line on stdin and ``gdr-script`` the second. sudo may or may not
have eaten the first: INNER skips to the second, so it never reaches the script's shell.
It is tried once before, with nothing behind it, or sudo would ask again and take the
script's first lines for further passwords.
"""

from __future__ import annotations

import re
from collections import deque

from msgspec import Struct

from toolkit.errors import BecomeError
from toolkit.ssh.limits import GATHERED

BEGIN = "gdr-begin\n"
_FENCE = "gdr-script"
_END = re.compile(r"\ngdr-end (\d+)\n")

_INNER = 'printf "gdr-begin\\n" >&2; exec sh -s'
_SKIP = (
    f'while IFS= read -r line; do if [ "$line" = {_FENCE} ]; then break; fi; done; line=; {_INNER}'
)
# Who is woken for so many bytes at a time is woken at the end, too.
_PAD = " " * GATHERED
_DONE = f'printf "%{GATHERED}s\\ngdr-end %s\\n" "" "$?" >&2'
_MISSING = "command -v sudo >/dev/null 2>&1 || { echo gdr-no-sudo >&2; exit 1; }"
_ROOT = 'if [ "$(id -u)" = 0 ]; then sh -c "$0"'
_SUDO = 'LC_ALL=C sudo -n sh -c "$0"'
# Its rule in sudoers needs no password; it gives the first mark itself, and runs no other script.
_WRAPPED = "LC_ALL=C sudo -n /usr/lib/gdr-toolkit/gdr-node probe"
_ASKED = (
    "if LC_ALL=C sudo -n true 2>/dev/null; then " + _SUDO + "; else IFS= read -r word; "
    'printf "%s\\n" "$word" | LC_ALL=C sudo -S -p "" -v || exit 1; '
    '{ printf "%s\\n" "$word"; word=; exec cat; } | LC_ALL=C sudo -S -p "" sh -c "$0"; fi'
)


class Become(Struct, frozen=True):
    """Whether and how to be root. The password does not show in a repr."""

    wanted: bool = True  # False: run as the login user (--no-become)
    password: str | None = None  # sudo's, where it asks for one
    wrapped: bool = False  # by gdr-node, for an account that may only have the node read

    def __repr__(self) -> str:
        return f"Become(wanted={self.wanted}, password={'***' if self.password else None})"

    @property
    def command(self) -> str:
        """What the login shell is told to run."""
        if not self.wanted:
            return f"sh -c 'sh -c \"$0\"; {_DONE}' '{_INNER}'"
        way, inner = (_SUDO, _INNER) if self.password is None else (_ASKED, _SKIP)
        if self.wrapped:
            way, inner = _WRAPPED, _INNER
        return f"sh -c '{_ROOT}; else {_MISSING}; {way}; fi; {_DONE}' '{inner}'"

    def feed(self, script: str) -> bytes:
        """What goes to its stdin.

        :param script: of one command at least; what gdr-node takes is the very probe.
        """
        if self.wrapped:
            return script.encode("utf-8", "surrogateescape")
        asked = self.wanted and self.password is not None
        ahead = f"{self.password}\n{_FENCE}\n" if asked else ""
        return (ahead + f"{{\n{script}\n}}\n").encode("utf-8", "surrogateescape")


class StderrParts(Struct, frozen=True):
    """What stderr tells, once the marks are taken out."""

    begun: bool  # the script's own shell was started
    status: int | None  # its exit status; None when the end was not seen
    noise: str  # said before it began: login scripts, sudo
    stderr: str  # the script's own


def read_marks(stderr: str) -> StderrParts:
    """Split ``stderr`` at the marks: the first ``gdr-begin``, the last ``gdr-end``."""
    noise, mark, own = stderr.partition(BEGIN)
    ends = deque(_END.finditer(own if mark else noise), maxlen=1)  # a node may say many
    if not ends:
        return StderrParts(bool(mark), None, noise, own)
    last = ends[0]
    if not mark:
        said = noise[: last.start()].removesuffix(_PAD)
        return StderrParts(False, int(last[1]), said, "")
    said = own[: last.start()].removesuffix(_PAD) + own[last.end() :]
    return StderrParts(True, int(last[1]), noise, said)


# What sudo says in the C locale (sudo 1.8 to 1.9, plugins/sudoers), and what to do about it.
_REASONS = (
    ("gdr-no-sudo", "there is no sudo on the node", "log in as root: --hosts root@{host}"),
    (
        "incorrect password attempt",
        "sudo does not take the password",
        "try it by hand: ssh -t {host} sudo -v",
    ),
    (
        "a password is required",
        "sudo wants a password",
        "add --ask-become-pass, or allow NOPASSWD on the node",
    ),
    (
        "is not in the sudoers file",
        "the user is not in the sudoers file",
        "log in as somebody who may, or add the user on the node: visudo",
    ),
    (
        "may not run sudo",
        "the user may not run sudo",
        "log in as somebody who may, or add the user on the node: visudo",
    ),
    (
        "is not allowed to execute",
        "the user may run some commands with sudo, but not sh",
        "the node scripts need: (root) NOPASSWD: /bin/sh, or ALL",
    ),
    (
        "must have a tty",
        "sudo wants a terminal",
        "remove requiretty for this user on the node: visudo",
    ),
    (
        "no new privileges",
        "sudo is forbidden to gain rights in this session",
        "the login runs with no_new_privs: look at its service or container",
    ),
)


def refusal(host: str, told: StderrParts) -> BecomeError | None:
    """Why the script never began, where it is sudo's doing; else None."""
    if told.begun:
        return None
    for sign, reason, hint in _REASONS:
        if sign in told.noise:
            return BecomeError(f"{host}: {reason}", hint=hint.format(host=host))
    own = [line for line in told.noise.split("\n") if line.startswith("gdr-node: ")]
    if own:
        hint = "to read, install this version's probe; else go without --wrapper"
        return BecomeError(f"{host}: {own[-1][:200]}", hint=f"{hint}: docs/least-privilege.md")
    said = [line for line in told.noise.split("\n") if line.startswith("sudo: ")]
    if said:
        hint = f"try it by hand: ssh -t {host} sudo -v"
        return BecomeError(f"{host}: not root: {said[-1][:200]}", hint=hint)
    return None
