"""The verb that begins a site's own folder."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from pathlib import Path

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, UsageError
from toolkit.package_data import templates
from toolkit.report.document import Json, dumps
from toolkit.report.table import clean, columns
from toolkit.safe_file import write_file
from toolkit.verbs.site_folder import made_from

SCHEMA = "gdr-toolkit/init/1"
_FILES = {
    "tasks.py": "the verbs as tasks of this folder: invoke --list",
    "hosts.ini": "your nodes, as an Ansible inventory",
    "site.toml": "what holds at your site",
    "gdr.toml": "that this folder is your site's: here and below --site may be left out",
    "ci.sh": "what a nightly job runs",
}


@verb(
    (
        Option("folder", ".", "where they are written; it is made where it is not there"),
        Option(
            "template",
            "",
            "a template of ours, to be changed here: modprobe/peermem.conf.j2 (docs/site.md)",
            many=True,
        ),
        Option("check", False, "write nothing: which would be written; 7 where one would"),
        Option("json", False, "one JSON document on standard output (docs/init.schema.json)"),
    )
)
def init(said: Said) -> ExitCode:
    """Begin a folder of your own: tasks.py, an inventory, the site's file, a script for CI.

    In that folder plain `invoke` has every verb. A file that is there already is left alone.

    Examples:
      invoke init
      invoke init --folder ~/gpu-site
      invoke init --folder ~/gpu-site --template modprobe/peermem.conf.j2
    """
    dry, folder = said.looks, Path(said.text("folder"))
    whole = _files([each for each in said.text("template").split(",") if each])
    try:
        folder = folder.expanduser()
        missing = [name for name in whole if not os.path.lexists(folder / name)]
        if missing and not dry:
            begin(folder, missing)
    except (OSError, RuntimeError) as why:  # the latter for ~ of nobody
        reason = why.strerror if isinstance(why, OSError) else why
        raise UsageError(
            f"{folder}: cannot be written: {reason}", hint="name another one: --folder"
        ) from why
    code = ExitCode.PENDING if missing and dry else ExitCode.OK
    made = "to be written" if dry else "written"
    states = {name: made if name in missing else "left alone" for name in whole}
    if said.flag("json"):
        files: list[Json] = [{"name": name, "state": state} for name, state in states.items()]
        told: dict[str, Json] = {"schema": SCHEMA, "exit_code": int(code), "folder": str(folder)}
        sys.stdout.write(dumps(told | {"files": files}))
    else:
        rows = columns([(name, state, whole[name]) for name, state in states.items()])
        print("\n".join([clean(f"in {folder}:"), *rows]))
    return code


def _files(copied: list[str]) -> dict[str, str]:
    """What each file is for, templates of ours among them.

    :raises UsageError: there is no template of such a name.
    """
    shipped = sorted(str(each.relative_to(templates())) for each in templates().rglob("*.j2"))
    for name in copied:
        if name not in shipped:
            near = get_close_matches(name, shipped, 3, 0.3)
            raise UsageError(f"there is no template {name!r}", hint=f"such as {', '.join(near)}")
    return _FILES | {f"templates/{name}": "goes before ours, once it is changed" for name in copied}


def begin(folder: Path, names: list[str]) -> None:
    """Write these files, and the folder before them.

    :raises OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        ours = name.removeprefix("templates/")
        data = (templates() / ("site" if ours == name else "") / ours).read_bytes()
        if ours != name:
            data = made_from(ours).encode() + data
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, data, 0o777 if name == "ci.sh" else 0o666)
