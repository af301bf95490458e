"""The options that verbs share, each said once: name, default, help, short flag."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from invoke.context import Context
from invoke.tasks import Task
from msgspec import Struct, field
from msgspec.structs import replace

from toolkit import DEFAULT_PROFILE
from toolkit.errors import ExitCode, UsageError
from toolkit.redfish import LIMIT_S


class Option(Struct, frozen=True):
    """One command-line option; its type is that of its default."""

    name: str  # with underscores; a trailing one keeps clear of Python's keywords
    default: str | int | bool
    help: str
    short: str = ""
    positional: bool = False  # then it has no default
    many: bool = False  # text that may be said again: its values are joined by commas
    anew: bool = False  # provision --resume takes it in place of what was said at first
    file: bool = False  # names a file that a report goes to: opened before any node is asked
    bare: str = ""  # how help calls words that are no options: they are its values, by _APART
    was: str = ""  # its name until the version before: who types that is told this one


HOSTS = (
    Option(
        "hosts",
        "",
        "node set: gpu[001-128], @group, user@host:port, demo (see docs/guide.md, Hosts)",
    ),
    Option("exclude", "", "leave these out", "x"),
    Option("limit", "", "keep only these", "l"),
    Option("inventory", "", "Ansible inventory, whose groups are @group; or an ssh_config", "i"),
    Option("hosts_file", "", "file with one host or node set a line"),
    Option("via", "", "slurm: hosts are its nodes, @gpu its partitions, features (docs/slurm.md)"),
    Option("yes", False, "do not ask; also allows more than 500 hosts", "y", anew=True),
)
REACH = (
    Option("user", "", "log in as", "u"),
    Option("key", "", "identity file"),
    Option("ssh_config", "", "this file in place of ~/.ssh/config"),
    Option(
        "transport",
        "paramiko",
        "paramiko, openssh (Kerberos, odd configurations), local, or srun with --via slurm",
    ),
    Option("become", True, "be root by sudo where not logged in as root"),
    Option("ask_pass", False, "ask for the login password", "k", anew=True),
    Option("ask_become_pass", False, "ask for sudo's password", "K", anew=True),
    Option("pass_fd", -1, "read the login password from this file descriptor", anew=True),
    Option("become_pass_fd", -1, "read sudo's password from this file descriptor", anew=True),
    Option("fanout", 64, "hosts at once", "f", anew=True),
    Option("max_fail", "", "begin no further host after so many failures: 3, or 25%", anew=True),
    Option("quiet", False, "no progress", "q", anew=True),
)
READS = (  # of verbs that send the probe, and no other script
    Option("wrapper", False, "be root by gdr-node alone (docs/least-privilege.md)"),
)
REGISTER = (
    Option(
        "register",
        False,
        "try which HCA takes the memory of which GPU: 2 MiB each, no byte moves (docs/register.md)",
    ),
    Option("libibverbs", "", "with --register: by this libibverbs in place of the node's own"),
)
INSIDE = (
    Option(
        "inside",
        "",
        "look into what runs the job, too: docker:NAME, podman:, kubectl:NS/POD, enroot:, slurm:, "
        "chroot:DIR, image:FILE (docs/inside.md)",
    ),
)
WANT = (
    Option(
        "profile",
        DEFAULT_PROFILE,
        "wanted state: a name from toolkit/profiles or a TOML file",
        "p",
    ),
    Option("site", "", "the site's own TOML file over the profile, or its folder (docs/site.md)"),
)
CHECKS = (
    Option("only", "", "judge these checks alone: CHECK,... or topics such as rdma", many=True),
    Option("skip", "", "leave these checks out, named likewise", many=True),
)
OUTPUT = (
    Option(
        "json", False, "one JSON document on standard output (docs/report.schema.json)", anew=True
    ),
    # Each a format of verdicts, which toolkit/report/NAME.py writes.
    Option("junit", "", "write JUnit XML to this file as well", anew=True, file=True),
    Option(
        "sarif",
        "",
        "write SARIF 2.1.0, as code scanning reads it, to this file as well",
        anew=True,
        file=True,
    ),
    Option(
        "ctrf", "", "write a CTRF test report (JSON) to this file as well", anew=True, file=True
    ),
    Option("verbose", False, "passes, n/a and all details too", "v", anew=True),
)
BMC_USER, BMC_PASSWORD = "GDR_BMC_USER", "GDR_BMC_PASSWORD"
BMC = (
    Option("bmc_user", "", f"read BMCs over Redfish, as this user (or {BMC_USER}); docs/bios.md"),
    Option("bmc_map", "", "file: host or set, its BMC, maybe sha256:FINGERPRINT, a line"),
    Option("bmc_pass_fd", -1, f"their password from this file descriptor (or {BMC_PASSWORD})"),
    Option("bmc_password_file", "", "their password from this file, of mode 600"),
    Option("bmc_ca", "", "file of CA certificates that BMCs are signed by"),
    Option("bmc_pin", "", "SHA-256 of a BMC's certificate; may be said again", many=True),
    Option("bmc_insecure", False, "any certificate will do; the report says so"),
    Option(
        "bmc_timeout",
        int(LIMIT_S),
        "seconds for all that a BMC is asked at one time",
        was="bmc_limit",
    ),
)
TEXTFILE = Option(
    "textfile", "", "write this *.prom for node_exporter's textfile collector as well", file=True
)
SAVED = (
    Option(
        "from_",
        "",
        "judge what was saved: *.evidence, an incident, what other tools printed "
        "(KIND=FILE,... or a file), or a folder of these",
    ),
)

FILES = (replace(SAVED[0], bare="FILE..."),)  # the same, of a verb whose bare words are files

RUN = (Option("run", "", "a run's id, as runs lists it", positional=True),)

JOB = (
    Option("nccl_log", "", "NCCL_DEBUG=INFO log of a job on these nodes: what it says, decoded"),
)

FORECAST = (
    Option("kernel", "", "what would be lost if this kernel release booted; changes nothing"),
    Option("next_boot", False, "the same for the kernel that each node boots next"),
)


PASSPORT = (
    Option("passport", False, "the image's passport must be there, and the node must match it"),
    Option(
        "passport_key",
        "",
        "and be signed by a key of this file: allowed signers, SSH public keys, or minisign's",
    ),
)

CONSUMERS = (
    Option("nccl_version", "", "NCCL that jobs bring along, such as 2.27: the path it would take"),
    Option("ucx_version", "", "the same for UCX"),
)


TAKEN: dict[str, tuple[Option, ...]] = {}  # the options of each verb that was made, by its name


class VerbTask(Task[Any]):
    """A task whose options come from a table and may have a short flag."""

    options: tuple[Option, ...] = ()

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """Invoke's own hook for one argument; here it learns the short flag and its help.

        Any: Invoke's own signature.
        """
        opts: dict[str, Any] = super().arg_opts(name, default, taken_names)
        for each in self.options:
            if each.name == name:
                opts["names"] += [each.short] if each.short else []
                opts["help"] = each.help  # Invoke takes it out of the task, for one parser alone
        return opts


def made(
    run: Callable[..., None], name: str, text: str | None, options: tuple[Option, ...]
) -> VerbTask:
    """The task of a verb.

    :param name: of the verb's function; an underscore at its end is no part of the verb's name.
    :param text: its help.
    """
    run.__name__, run.__doc__ = name, text
    run.__signature__ = signature(options)  # type: ignore[attr-defined] # what Invoke inspects
    task = VerbTask(
        run,
        name=name.rstrip("_"),
        positional=[option.name for option in options if option.positional],
        iterable=[option.name for option in options if option.many],
        auto_shortflags=False,
    )
    task.options = TAKEN[task.name] = options
    return task


def signature(options: tuple[Option, ...]) -> inspect.Signature:
    """What Invoke is to see: a context, and one keyword for each option."""
    context = inspect.Parameter("c", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)
    keywords = [
        inspect.Parameter(
            each.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=_default(each)
        )
        for each in options
    ]
    return inspect.Signature([context, *keywords])


class Unsaid(str):
    """The default of an option of text: "" that is told from one that the operator gave.

    Invoke copies its defaults, and makes values of the default's type: only identity tells.
    """

    __slots__ = ()

    def __deepcopy__(self, _: object) -> Unsaid:
        return self


_UNSAID = Unsaid()


def joined(value: str | int | bool | list[str] | None) -> str | int | bool:
    """One value for an option that may be said again."""
    if isinstance(value, list):
        return ",".join(value) if value else _UNSAID
    return _UNSAID if value is None else value


_APART = "\0"  # between values that came as bare words: no argument of a process has it


def parted(value: str) -> list[str]:
    """The values of an option that takes bare words."""
    return value.split(_APART) if value else []


def unbared(words: Sequence[str], taken: Mapping[str, Sequence[Option]]) -> list[str]:
    """The command line with bare words made the option that takes them, for Invoke has no such.

    :param words: verbs with their options; a word that names a verb begins that verb.
    :param taken: options by the name of the verb.
    """
    parts: list[list[str]] = [[]]
    value = False  # whether the word before this one wants it as its value
    for word in words:
        options = taken.get(parts[-1][0], ()) if parts[-1] else ()
        if not value and word in taken:
            parts.append([word])
            continue
        parts[-1].append(word)
        value = not value and word in set(_valued(options))
    return [word for part in parts for word in _with_files(part, taken)]


def _with_files(part: list[str], taken: Mapping[str, Sequence[Option]]) -> list[str]:
    options = taken.get(part[0], ()) if part else ()
    bare = next((f"--{o.name.strip('_').replace('_', '-')}" for o in options if o.bare), "")
    if not bare:
        return part
    kept, files, before = part[:1], list[str](), ""
    for word in part[1:]:
        if before == bare or (not before and (word == "-" or not word.startswith("-"))):
            files.append(word)
        elif not before and word.startswith(f"{bare}="):
            files.append(word.partition("=")[2])
        elif word != bare or before:
            kept.append(word)
        before = "" if before or word not in set(_valued(options)) else word
    if before == bare:
        kept.append(bare)  # without a value: Invoke says so
    return [*kept, f"{bare}={_APART.join(files)}"] if files else kept


def _valued(options: Sequence[Option]) -> Iterator[str]:
    """How the options are typed that take the next word as their value."""
    for each in options:
        if not isinstance(each.default, bool):
            name = each.name.strip("_")
            yield from (f"--{name}", f"--{name.replace('_', '-')}")
            yield from (f"-{each.short}",) if each.short else ()


def refuse_empty(values: Mapping[str, object]) -> None:
    """No option may be given as "": mostly that is a variable of a script that is not set.

    :raises UsageError: --limit "" would mean all hosts, --kernel "" no forecast at all.
    """
    for name, value in values.items():
        if value == "" and value is not _UNSAID:
            option = name.rstrip("_").replace("_", "-")
            raise UsageError(f"--{option} is empty", hint="leave it out, or give it a value")


def refuse_saved_hosts(values: Mapping[str, object]) -> None:
    """What was saved has its own hosts: those that were named beside it would not be asked.

    :raises UsageError: some were.
    """
    if not values.get("from_"):
        return
    for name in ("hosts", "hosts_file", "exclude", "limit"):
        if values.get(name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} and --from do not go together: no host is asked",
                hint=f"say one of them; all that --from has is judged, so leave {option} out",
            )


def _default(option: Option) -> object:
    """Numbers go through Invoke as text: its own conversion ends in a traceback."""
    if option.positional:
        return inspect.Parameter.empty
    if option.many:
        return None  # of which Invoke makes a list
    if isinstance(option.default, bool):
        return option.default
    return _UNSAID if option.default == "" else str(option.default)


class Said(Struct, frozen=True):
    """What the operator said: a value for each option of the verb."""

    values: dict[str, str | int | bool]
    dry: bool = False  # invoke --dry
    # How each host ended, by the verb's own word, for the last line.
    ended: list[tuple[str, ExitCode]] = field(default_factory=list)
    # The sick among them: whom to drain.
    sick: set[str] = field(default_factory=set)
    # Those of which nothing that fails is mended by a plan.
    beyond: set[str] = field(default_factory=set)
    # Those that are no node but a text, which no plan changes.
    texts: set[str] = field(default_factory=set)
    # Where a run was taken up: what holds of it, in place of the few words that were typed.
    taken_up: dict[str, str | int | bool] = field(default_factory=dict)

    # What is to be left behind by no run, however it ends.
    at_end: ExitStack = field(default_factory=ExitStack)

    @property
    def looks(self) -> bool:
        """Whether nothing is to be changed: --check, or invoke's own --dry."""
        return self.dry or self.flag("check")

    def not_dry(self, what: str, hint: str) -> None:
        """For what cannot be shown without being done.

        :raises UsageError: with --dry.
        """
        if self.dry:
            raise UsageError(f"--dry: {what} has no dry run, and nothing was done", hint=hint)

    def text(self, name: str) -> str:
        return str(self.values.get(name, ""))

    def flag(self, name: str) -> bool:
        return bool(self.values.get(name, False))

    def number(self, name: str, default: int = 0) -> int:
        """A whole number.

        :raises UsageError: where something else was said.
        """
        value = str(self.values.get(name, default))
        try:
            return int(value)
        except ValueError:
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option} {value!r} is not a whole number", hint="say digits alone"
            ) from None
