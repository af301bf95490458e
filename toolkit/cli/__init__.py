"""The verbs as Invoke tasks, and as the command ``gdr`` for those who installed with pip."""

from __future__ import annotations

from toolkit.cli import start  # before the others, which take a second

# isort: split
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches

from invoke.config import Config
from invoke.exceptions import Exit, ParseError
from invoke.parser import Parser
from invoke.parser.context import ParserContext
from invoke.program import Program

from toolkit import __version__
from toolkit.cli.options import TAKEN, VerbTask, unbared
from toolkit.cli.streams import patient_streams
from toolkit.cli.table import verbs
from toolkit.errors import ExitCode
from toolkit.package_data import commit, program

__all__ = ("Gdr", "Settings", "main", "namespace", "verbs")

namespace = verbs()
_NEAR = 0.65  # of get_close_matches: format is not meant by from


class Settings(Config):
    """Invoke's settings, without the user's where HOME may not be entered."""

    def load_user(self, merge: bool = True) -> None:
        with suppress(OSError):
            super().load_user(merge)


class Gdr(Program):
    """Invoke's program, except that a mistyped command line ends with our exit code."""

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:  # noqa: A002 # Invoke's
        """Its help and lists, too, are nothing that a reader could end."""
        try:
            with patient_streams():
                super().run(argv, exit)
        finally:
            # Of a Ctrl-C amid exec() of a text, by which dataclasses are made, Python keeps a note,
            # and under -m ends by that signal, whatever we said. The next text takes it away.
            exec("")  # noqa: S102 see above

    def print_version(self) -> None:
        """With the commit, which alone tells two checkouts apart."""
        if self.name != "gdr":  # Invoke, as which a checkout calls it
            super().print_version()
        own = f" (commit {made_of})" if (made_of := commit()) else ""
        print(f"gdr-toolkit {__version__}{own}")

    def parse_core(self, argv: list[str] | None) -> None:
        try:
            super().parse_core(argv)
        except ParseError as why:
            raise _ended(why, sys.argv if argv is None else argv) from why

    def print_task_help(self, name: str) -> None:
        """As Invoke's, with the command that was called: what is shown can be typed."""
        context, own = self.parser.contexts[name], program()
        named = "".join(f" {each.name.upper()}" for each in context.positional_args)
        taken = TAKEN.get(name.rpartition(".")[2], ())
        named += "".join(f" [{each.bare}]" for each in taken if each.bare)
        text = inspect.getdoc(self.collection[name]) or ""
        told = re.sub(r"(^ *|[|:] )invoke ", rf"\1{own} ", text, flags=re.MULTILINE)
        told = re.sub(r"^(?=.)", "  ", told, flags=re.MULTILINE)
        print(f"Usage: {own} {name}{named} [OPTIONS]\n\n{told}\n\nOptions:")
        self.print_columns(context.help_tuples())

    def parse_tasks(self) -> None:
        names = self.collection.task_names
        taken = {name: TAKEN.get(name.rpartition(".")[2], ()) for name in names}
        self.core.unparsed[:] = unbared(self.core.unparsed, taken)
        try:
            super().parse_tasks()
        except ParseError as why:
            raise _ended(why, self.argv, [*names]) from why

    def parse_cleanup(self) -> None:
        try:
            super().parse_cleanup()
        except ParseError as why:  # of --help and a name
            raise _ended(why, self.argv, [*self.collection.task_names]) from why

    def _make_parser(self) -> Parser:
        """Of the verbs that the line may name: Invoke copies all options of each that it knows.

        A shell's completion, too, asks of the options of a verb that stands there in full.
        """
        line, tasks = " ".join(self.argv), self.collection.task_names
        contexts = [
            ParserContext(name, aliases, self.collection[name].get_arguments())
            for name, aliases in tasks.items()
            if any(word in line for word in (name, *aliases))
        ]
        return Parser(contexts, self.initial_context)


def answer(running: Program) -> None:
    """Have Invoke's own program end a mistyped line of our verbs as we do; others' it ends itself.

    And others' tasks have Python's own way back before they run, as our verbs do.

    It is asked while it reads the tasks, and has not read its line.
    """

    def answered(theirs: Callable[[], None]) -> Callable[[], None]:
        def parse() -> None:
            try:
                theirs()
            except ParseError as why:
                tasks = running.collection
                named = [why.context.name] if why.context and why.context.name else tasks.task_names
                if not all(isinstance(tasks[each], VerbTask) for each in named):
                    raise
                raise _ended(why, sys.argv, [*tasks.task_names]) from why

        return parse

    def execute(theirs: Callable[[], None] = running.execute) -> None:
        tasks, named = running.collection, [each.name or "" for each in running.tasks]
        if not named or not all(isinstance(tasks[each], VerbTask) for each in named):
            start.over()  # else Ctrl-C would end them amid all, and no garbage be freed
        theirs()

    running.execute = execute  # type: ignore[method-assign] # of this one
    running.parse_tasks = answered(running.parse_tasks)  # type: ignore[method-assign] # of this one
    running.parse_cleanup = answered(running.parse_cleanup)  # type: ignore[method-assign] # too


def _ended(why: ParseError, argv: Sequence[str], verbs: Sequence[str] = ()) -> Exit:
    """With our exit code, for a line that Invoke cannot read."""
    verb = (why.context.name if why.context else None) or ""
    said, hint = _mistyped(str(why), verb, verbs)
    hint = _renamed(argv) or hint
    if {"image", "--diff"} <= set(argv):  # there it shows what a plan would change
        hint = f"two images side by side: {program()} image.diff A B"
    return Exit(f"error: {said}\n next: {hint}", code=int(ExitCode.USAGE))


def _mistyped(why: str, verb: str, verbs: Sequence[str]) -> tuple[str, str]:
    """What is wrong with the line, and the word that was meant, where one is near."""
    unknown = re.fullmatch(r"No idea what '(.+)' is!", why)
    more = f"{program()} --help {verb}" if verb else f"{program()} --list"
    if unknown is None:
        bare = re.match(r"Flag <Argument: ([\w-]+).*> needed value", why)
        return (f"--{bare[1].replace('_', '-')} needs a value" if bare else why), more
    word = unknown[1]
    if verb and word.startswith("-"):
        said = f"{verb} has no option {word}"
        taken = TAKEN.get(verb.rpartition(".")[2], ())
        known = {each.name.strip("_").replace("_", "-"): "--" for each in taken}
    else:
        said = f"{word} is no {'option' if word.startswith('-') else 'verb'}"
        more = f"{program()} --list"
        known = dict.fromkeys(verbs, "") | {"help": "--", "version": "--"}
    # By the names alone: what all begin with would make any short one near.
    near = get_close_matches(word.strip("-").partition("=")[0], known, 1, _NEAR)
    return said, f"did you mean {known[near[0]]}{near[0]}? {more}" if near else more


def _renamed(argv: Sequence[str]) -> str:
    """Of an option that has another name since the last version: that; "" without one."""
    verb = next((name for word in argv[1:] if (name := word.rpartition(".")[2]) in TAKEN), "")
    typed = {word.partition("=")[0] for word in argv}
    for each in TAKEN.get(verb, ()):
        if each.was and f"--{each.was.replace('_', '-')}" in typed:
            return f"its name is --{each.name.replace('_', '-')} now"
    return ""


def main() -> None:
    """The console script ``gdr``."""
    Gdr(name="gdr", binary="gdr", namespace=namespace, config_class=Settings).run()
