"""From what the operator said to what flows take, and from what they return to the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.cli.options import OUTPUT, TAKEN, Said
from toolkit.cli.outcome_line import record
from toolkit.errors import ExitCode, Outcome, Unwritten, UsageError
from toolkit.groups import SiteWants, for_all, resolved
from toolkit.hosts.host import Inventory
from toolkit.package_data import program
from toolkit.progress import Progress, Silent
from toolkit.report.table import Painter, wants_colour
from toolkit.rollout.runs import RunFolder, evidence_name
from toolkit.safe_file import Beside, open_beside, try_folder
from toolkit.ssh.credentials import Credentials, read_secret
from toolkit.ssh.limits import ROOM_S
from toolkit.verbs.access import (
    Access,
    Fleet,
    demo_folder,
    inventory_in,
    names_demo,
    state_dir,
    wanted,
)
from toolkit.verbs.textfile import open_report
from toolkit.want import CONSUMERS, Want, consumer

if TYPE_CHECKING:  # nodes are asked while what judges and reports them is imported
    from toolkit.node.collect import Register
    from toolkit.node.inside import Inside
    from toolkit.report.document import Json, Told

T = TypeVar("T")


class Session(Struct, frozen=True):
    """One verb's run: what was said, the paint, the folder, the day."""

    verb: str
    said: Said
    now: datetime
    folder: RunFolder
    paint: Painter
    files: dict[str, Beside] = field(default_factory=dict)  # open, by option

    @classmethod
    def begin(cls, verb: str, said: Said) -> Session:
        """:raises UsageError: a report that was asked for could not be written at the end."""
        files: dict[str, Beside] = {}
        for name in (e.name for e in TAKEN.get(verb, ()) if e.file and said.text(e.name)):
            files[name] = open_report(name, said.text(name))
            said.at_end.callback(files[name].drop)  # gone at the end if nothing came
        if "out" not in files:
            _try_out(said)
        now = datetime.now(UTC)
        where = str(demo_folder()) if _on_demo(said) else ""
        folder = RunFolder(state_dir() / "runs", verb, now, where)
        return cls(verb, said, now, folder, Painter(wants_colour(sys.stdout)), files)

    @property
    def today(self) -> date:
        return self.now.astimezone().date()

    def want(self) -> Want:
        """The wanted state of all hosts, apart from what groups of them have of their own.

        :raises UsageError: unreadable, or waiving a check that does not exist.
        """
        return for_all(self._loaded())

    def wants(self) -> SiteWants:
        """The wanted state of each host.

        :raises UsageError: likewise, and for groups of hosts that are not known.
        """
        return resolved(self._loaded(), self._inventory, self.said.text("site"))

    def _loaded(self) -> Want:
        want = wanted(self.said.text("profile"), self.said.text("site"))
        waivers = (*want.waivers, *(one for each in want.group for one in each.waivers))
        only, skip = self.said.text("only"), self.said.text("skip")
        if waivers or only or skip:
            from toolkit.checks.all import named  # noqa: PLC0415 who names no check waits for none
            from toolkit.checks.selection import selection  # noqa: PLC0415 likewise

            for waiver in waivers:
                named(waiver.check, want.own)
            want = replace(want, checks=selection(only, skip, want.own))
        return self._with_passport(self._with_consumers(want))

    def _inventory(self) -> Inventory:
        """Where the hosts of groups are looked up: as --hosts is."""
        own = inventory_in(self.said.text("inventory"))
        if not self.said.text("via"):
            return own
        from toolkit.features.slurm.run.nodes import inventory_of, open_site  # noqa: PLC0415 only they pay for it

        return inventory_of(open_site(Silent()), own)

    def _with_consumers(self, want: Want) -> Want:
        """The libraries whose versions were said stand in place of the site's."""
        told = dict(want.consumers)
        for name in CONSUMERS:
            if version := self.said.text(f"{name}_version"):
                try:
                    told[name] = consumer(name, version)[1]
                except ValueError as why:
                    hint = f"a version is digits and dots: --{name}-version 2.27"
                    raise UsageError(f"--{name}-version: {why}", hint=hint) from why
        return replace(want, consumers=tuple(sorted(told.items())))

    def _with_passport(self, want: Want) -> Want:
        """What was demanded of passports; a key demands one, and is looked at before any node."""
        if key := self.said.text("passport_key"):
            from toolkit.verbs.passport import known_key  # noqa: PLC0415 only they pay for it

            known_key(Path(key))
        return replace(want, passport=bool(key) or self.said.flag("passport"), passport_key=key)

    def say(self, text: str) -> None:
        """A result, on standard output; nothing where a JSON document is to come."""
        if not self.said.flag("json"):
            # Undecodable bytes of a node reach us as surrogates, which no terminal takes.
            print(text.encode("utf-8", "replace").decode("utf-8"))

    def remark(self, text: str) -> None:
        """Something about the run itself, on standard error."""
        if not self.said.flag("quiet"):
            print(text, file=sys.stderr)

    def ended(
        self, outcomes: Iterable[Outcome[T]], code: Callable[[Outcome[T]], ExitCode]
    ) -> ExitCode:
        """The worst of the codes of all outcomes, which the last line will tell of."""
        return record(self.said, [(each.host, code(each)) for each in outcomes])

    def tell(
        self,
        outcomes: Sequence[Outcome[Told]],
        code: ExitCode,
        more: Mapping[str, Json] | None = None,
    ) -> ExitCode:
        """Print the document if one is wanted; for verbs whose results are files elsewhere."""
        if self.said.flag("json"):
            sys.stdout.writelines(self._parts(outcomes, code, more))
        return code

    def finish(
        self,
        outcomes: Sequence[Outcome[Told]],
        code: ExitCode,
        more: Mapping[str, Json] | None = None,
    ) -> ExitCode:
        """Print the document if one is wanted, keep it, write the others, name the folder."""
        keeping = self.folder.kept("report.json", self._parts(outcomes, code, more))
        try:
            for part in keeping:
                if self.said.flag("json"):
                    sys.stdout.write(part)
        finally:
            for _ in keeping:  # the record is whole, whoever has stopped reading
                pass
        self.reports(outcomes, code)
        self.kept()
        return code

    def _parts(
        self, outcomes: Sequence[Outcome[Told]], code: ExitCode, more: Mapping[str, Json] | None
    ) -> Iterator[str]:
        from toolkit.report.document import checks_told, document_parts  # noqa: PLC0415 see above

        profile, only, skip = map(self.said.text, ("profile", "only", "skip"))
        own = wanted(profile, self.said.text("site")).own if only or skip else ()
        more = {**checks_told(only, skip, own), **(more or {})}
        return document_parts(self.verb, profile, outcomes, code, self.now, more=more)

    def reports(self, told: Sequence[Outcome[Told]], code: ExitCode) -> None:
        """The same verdicts for other machines, each where a file was named for it.

        Over what was written earlier in this run.
        """
        from toolkit.report.document import ReportRun  # noqa: PLC0415 see above

        outcomes = [Outcome(e.host, e.value.judged if e.value else None, e.error) for e in told]
        kept = "" if self.said.text("from_") else str(self.folder.path.absolute())
        for option in OUTPUT:
            if option.file and self.said.text(option.name):
                run = ReportRun(self.verb, self.now, datetime.now(UTC), code, kept, self._evidence)
                writer = import_module(f"toolkit.report.{option.name}")
                self.deliver(option.name, writer.text(outcomes, run))

    def deliver(self, option: str, text: str) -> int:
        """Write a report that was asked for; what cannot be written costs it, and not the code.

        :returns: its size in bytes; 0 where it was not written.
        """
        path = Path(self.said.text(option))
        sys.stdout.flush()  # which may be the file
        try:
            # One that was written earlier in this run is replaced.
            with self.files.pop(option, None) or open_beside(path) as file:
                file.write(text)
            return file.size
        except OSError as why:
            told = f"note: --{option} {path} was not written: {why.strerror or why}"
            print(told, file=sys.stderr)
            return 0

    def unwritten(self, why: Unwritten) -> ExitCode:
        """Tell what --out has not got; what came of the nodes is told all the same.

        :returns: for the worst of the run: a verb whose files are missing has not done its work.
        """
        print(f"note: --out was not written: {why}", file=sys.stderr)
        return why.exit_code

    def cases(self, xml: str) -> None:
        """The suite's own JUnit XML, where a file was named for it, else into the run's folder."""
        if xml and self.said.text("junit"):
            self.deliver("junit", xml)
        elif xml:
            self.folder.keep("verify.xml", xml)

    def _evidence(self, host: str) -> str:
        """The file of the run's folder that the last verdicts on a host rest on."""
        names = (evidence_name(host, "after"), evidence_name(host))
        return next((n for n in names if (self.folder.path / n).exists()), names[-1])

    def healed(self, hosts: Iterable[str]) -> None:
        """Say of demo nodes on which nothing is to be done that an earlier run has seen to it."""
        if not _on_demo(self.said):
            return
        from toolkit.demo.fleet import put_right  # noqa: PLC0415 only they pay for it

        if put_right(demo_folder(), hosts):
            again = f"{program()} demo --reset"
            self.remark(f"the demo nodes were put right by an earlier run; begin anew: {again}")

    def kept(self) -> None:
        """Name the folder of the run, as the last of all."""
        if self.folder.trouble:
            self.remark(f"note: nothing was kept of this run: {self.folder.trouble}")
        else:
            self.remark(f"kept in {self.folder.path}")


def _on_demo(said: Said) -> bool:
    """Whether the fleet that ``access`` opens is of simulated nodes, whose runs may go with them.

    :raises UsageError: of others, too.
    """
    listed = said.text("inventory") or said.text("hosts_file")
    return not said.text("from_") and names_demo(said.text("hosts"), listed, said.text("via"))


def access(said: Said) -> Access:
    """Everything about reaching nodes; passwords are asked for here."""
    from toolkit.cli.bmc import bmc_access  # noqa: PLC0415 only who asks nodes pays for it

    return Access(
        hosts=said.text("hosts"),
        exclude=said.text("exclude"),
        limit=said.text("limit"),
        inventory=said.text("inventory"),
        hosts_file=said.text("hosts_file"),
        user=said.text("user"),
        key=said.text("key"),
        ssh_config=said.text("ssh_config"),
        transport=said.text("transport") or "paramiko",
        become=said.flag("become"),
        wrapped=said.flag("wrapper"),
        credentials=Credentials(
            secret(said, "ask_pass", "pass_fd", "login password: "),
            secret(said, "ask_become_pass", "become_pass_fd", "sudo password: "),
        ),
        fanout=said.number("fanout", 64),
        max_fail=said.text("max_fail"),
        yes=said.flag("yes"),
        progress=_progress(said),
        bmc=bmc_access(said),
        via=said.text("via"),
        jobs_s=float(said.number("job_timeout", int(ROOM_S))),
        register=_register(said),
        inside=_inside(said),
    )


def _progress(said: Said) -> Progress:
    if said.flag("quiet"):
        return Silent()
    from toolkit.report.progress import listener  # noqa: PLC0415 only who asks nodes pays for it

    return listener(sys.stderr)


def _register(said: Said) -> Register | None:
    """:raises UsageError: where the probe may not be more than it is, or nothing is tried."""
    library = said.text("libibverbs")
    if library and not said.flag("register"):
        raise UsageError("--libibverbs is for a registration", hint="say --register, too")
    if not said.flag("register"):
        return None
    from toolkit.node.collect import Register  # noqa: PLC0415 only they pay for it

    return Register(library)


def _inside(said: Said) -> Inside | None:
    """:raises UsageError: of no known form; or an account that may only have the node read."""
    where = said.text("inside")
    if not where:
        return None
    if said.flag("wrapper"):
        raise UsageError(
            "--inside needs more than gdr-node may do", hint="leave --wrapper out, or look by hand"
        )
    if said.flag("register") and where.startswith("image:"):
        raise UsageError(
            "--register runs a program, and of image: nothing is run",
            hint="name a container that runs: --inside docker:NAME, or leave --register out",
        )
    from toolkit.verbs.inside import opened_inside  # noqa: PLC0415 only they pay for it

    return opened_inside(where)


def refuse_inside(said: Said, why: str, hint: str = "leave it out") -> None:
    """:raises UsageError: --inside was said where nothing can be looked into."""
    if said.text("inside"):
        raise UsageError(f"--inside: {why}", hint=hint)


def secret(said: Said, ask: str, descriptor: str, prompt: str) -> str | None:
    """What comes by the descriptor that one option names, or is asked for by the other; or None.

    :raises UsageError: there is none to be had.
    """
    if said.number(descriptor, -1) != -1:
        return read_secret(said.number(descriptor))
    option = descriptor.replace("_", "-")
    return read_secret(prompt, option=option) if said.flag(ask) else None


@contextmanager
def fleet(said: Said, *, serve: bool = True) -> Iterator[Fleet]:
    """The fleet that was named, open for the length of the block; of demo nodes see open_fleet."""
    from toolkit.verbs.connect import open_fleet  # noqa: PLC0415 only they pay for it

    with open_fleet(access(said), serve=serve) as opened:
        yield opened


def consent(
    question: str, said: Said, *, look: str = "--check", what: str = "change the nodes"
) -> None:
    """Ask before nodes are changed, unless ``--yes`` was said.

    :param look: what to say instead to see what would be done.
    :param what: what else is meant by it.

    :raises UsageError: refused, or nobody there to ask.
    """
    if said.flag("yes"):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"nobody to ask whether to {what}", hint=f"say so with --yes, or look: {look}"
        )
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("not confirmed; nothing was changed", hint="answer y, or say --yes")


def _try_out(said: Said) -> None:
    """:raises UsageError: --out takes no files, as far as can be known before any node is asked."""
    out = Path(said.text("out"))
    if not said.text("out"):
        return
    try:
        # That of an image is a file, in a folder which has to be there.
        try_folder(out.parent if said.text("tar") else out)
    except OSError as why:
        raise UsageError(
            f"--out {out}: {why.strerror}", hint="name a place that can be written: --out PLACE"
        ) from why
