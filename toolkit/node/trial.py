"""What a node remembers of command lines that were tried on it.

A line is written before the boot that it tells of, so that a trial whose controller died is
never taken for one that nobody began.
"""

from __future__ import annotations

import shlex

from toolkit.errors import ApplyError
from toolkit.ssh.transport import Transport

_NOTE = """#!/bin/sh
note_trial() { # note_trial ID OUTCOME WHY: its line, and that of no other; none without OUTCOME
    folder=$GDR_ROOT/var/lib/gdr-toolkit
    file=$folder/trials
    umask 022
    mkdir -p "$folder" && {
        [ ! -e "$file" ] || grep -v -e "^$1 " "$file"
        [ -z "$2" ] || printf '%s\\n' "$1 $2 $(date -u +%Y-%m-%dT%H:%M:%SZ)${3:+ $3}"
    } >"$file.new" && { [ -s "$file.new" ] || rm -f "$file"; } &&
        if [ -s "$file.new" ]; then mv -f "$file.new" "$file"; else rm -f "$file.new"; fi &&
        sync && echo noted
}
"""


def note(transport: Transport, trial: str, outcome: str, why: str = "") -> None:
    """Have the node remember how a trial stands.

    :param outcome: a word of ``facts.loader.Outcome``, or "" to forget the trial.
    :raises ApplyError: it cannot be written down.
    :raises TransportError: whether it was cannot be known.
    """
    said = " ".join(why.split())[:300]
    words = shlex.join((trial, outcome, said))
    answer = transport.run(f"{_NOTE}note_trial {words}\n", limit_s=60)
    if answer.exit != 0 or "noted" not in answer.stdout:
        raise ApplyError(
            f"{transport.name}: /var/lib/gdr-toolkit/trials cannot be written: "
            f"{answer.stderr.strip() or answer.exit}",
            hint="a trial that is not written down is not begun; mend the disk",
        )
