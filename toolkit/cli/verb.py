"""A verb is a task: it reads options, calls one flow, prints and ends.

Here is what all of them share: options from tables, errors as two lines instead of a
traceback, and the exit code as the one thing a script can rely on.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task

from toolkit.cli import start
from toolkit.cli.options import (
    Option,
    Said,
    VerbTask,
    joined,
    made,
    refuse_empty,
    refuse_saved_hosts,
)
from toolkit.cli.outcome_line import ending
from toolkit.cli.streams import patient_streams
from toolkit.errors import ExitCode, ToolkitError
from toolkit.report.table import Painter, error_lines, wants_colour

Body = Callable[[Said], ExitCode]
_HELP = ("--help", "-h")


def verb(*tables: tuple[Option, ...]) -> Callable[[Body], Task[Any]]:
    """Make a task of ``body``; its docstring is the help, its result the exit code.

    Any: what Invoke's tasks return.
    """
    options = tuple(option for table in tables for option in table)

    def wrap(body: Body) -> Task[Any]:
        def run(c: Context, **told: str | int | bool | list[str] | None) -> None:
            values = {name: joined(value) for name, value in told.items()}

            def checked(said: Said) -> ExitCode:
                if any(values[each.name] in _HELP for each in options if each.positional):
                    return help_on(task)
                refuse_empty(values)
                refuse_saved_hosts(values)
                try:
                    if "site" in values and not (values["site"] or values.get("resume")):
                        values["site"] = site_here() or values["site"]
                    code = body(said)
                except KeyboardInterrupt:
                    if "hosts" not in values:
                        raise
                    code = ExitCode.INTERRUPTED
                if code is not ExitCode.OK and (said.ended or "hosts" in values):
                    sys.stdout.flush()  # what was found goes before what it comes to
                    print(ending(task.name, code, said), file=sys.stderr)
                return code

            code = guarded(checked, Said(values, dry=bool(c.config.run.dry)))
            if code is not ExitCode.OK:
                raise Exit(code=int(code))

        task = made(run, body.__name__, body.__doc__, options)
        return cast("Task[Any]", task)

    return wrap


def site_here() -> str:
    """The site that gdr.toml names, here or above; "" without one.

    :raises UsageError: it is there and cannot be used.
    """
    with suppress(FileNotFoundError):  # where the folder is gone that one stands in
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / "gdr.toml").is_file():
                from toolkit.cli.place import site_of  # noqa: PLC0415 only they pay for it

                return site_of(folder / "gdr.toml")
    return ""


def help_on(task: VerbTask) -> ExitCode:
    """Print what --help VERB prints; Invoke takes --help for the name that a verb begins with."""
    typed = (word for word in sys.argv[1:] if word.rpartition(".")[2] == task.name)
    name = next(typed, task.name)  # "runs.show"
    whole = Collection()
    *folders, last = name.split(".")
    inner = whole
    for folder in folders:
        inner.add_collection(found := Collection(folder))
        inner = found
    inner.add_task(task, name=last)
    from toolkit.cli import Gdr  # noqa: PLC0415 which imports this

    own = Path(sys.argv[0]).name
    Gdr(name=own, binary=own, namespace=whole).run([own, "--help", name], exit=False)
    return ExitCode.OK


def guarded(body: Body, said: Said) -> ExitCode:
    """Run ``body``; whatever goes wrong becomes one sentence, a hint and an exit code.

    Not so a reader of ours that goes, or a disk that is full: the verb ends as it would have.
    """
    with patient_streams(), said.at_end:
        try:
            start.over()
            return body(said)
        except ToolkitError as error:
            print(error_lines(error, Painter(wants_colour(sys.stderr))), file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return ExitCode.INTERRUPTED
        except Exception as error:  # the last line of defence: a bug of ours
            print(_bug(error), file=sys.stderr)
            return ExitCode.BUG


def _bug(error: Exception) -> str:
    trace = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="gdr-bug-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(trace)
        where = f"attach {file.name} to a bug report"
    except OSError:
        where = "run it again with room in the temporary folder, for the details"
    return f"error: a bug in the toolkit: {type(error).__name__}: {error}\n next: {where}"
