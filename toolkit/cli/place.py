"""gdr.toml, in the folder where one stands or above it: which folder or file is the site's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.safe_file import others_may_write
from toolkit.untrusted import read_file, read_toml

_AS = 'a path beside it, as in: site = "."'


def site_of(file: Path) -> str:
    """The site that it names: a path.

    One that another user has put there is passed over, and standard error says so.

    :raises UsageError: it is ours and others may write it, or what it says cannot be used.
    """
    try:
        if why := others_may_write(file):
            if file.stat().st_uid not in {0, os.geteuid()}:
                print(f"note: {file} is passed over: it is another user's", file=sys.stderr)
                return ""
            hint = "what it names is run with your rights: chmod go-w"
            raise UsageError(f"{file} is not read: {why}", hint=hint)
        table = read_toml(read_file(file))
    except (OSError, ValueError) as trouble:
        raise UsageError(f"{file}: cannot be read: {trouble}", hint=_AS) from trouble
    named = table.get("site", "")
    if table.keys() - {"site"} or not isinstance(named, str) or not named:
        raise UsageError(f"{file}: it has one key, which is site", hint=_AS)
    site = file.parent / named
    if not site.exists():
        raise UsageError(f"{file}: there is no file or folder {site}", hint=_AS)
    return str(site)
