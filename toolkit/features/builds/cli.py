"""The verb that builds kernel modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.built.io.store import Store, default_folder
from toolkit.built.plan.model import Part
from toolkit.cli.options import HOSTS, REACH, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, ToolkitError, UsageError, worst
from toolkit.features.builds.cli_packages import (
    AHEAD,
    PACK,
    foretell,
    looks_ahead,
    pack_built,
    packages_of,
    refuse_mixed,
    tell_packages,
)
from toolkit.features.builds.plan.outcome import BuildRun, Need
from toolkit.features.builds.run.build import plan_builds
from toolkit.features.builds.run.packages import MadePackage
from toolkit.features.builds.run.places import open_place
from toolkit.features.builds.run.preflight import with_headers
from toolkit.features.builds.run.run import (
    BuildOptions,
    NodeNeeds,
    build_in,
    graphs_for,
    needs_of,
    shared,
)
from toolkit.features.builds.show import (
    build_document,
    build_report,
    cached_document,
    listing,
    pruned,
)
from toolkit.report.document import dumps
from toolkit.report.progress import listener
from toolkit.verbs.access import Access
from toolkit.verbs.cli.session import Session, access
from toolkit.verbs.cli.signing import SIGN, signing_of
from toolkit.verbs.connect import open_fleet

WHAT = (
    Option("kernel", "", "kernel release; again, or several with commas", many=True),
    Option("driver", "", "version of the NVIDIA driver; the only one there, or the newest"),
    Option("ofed", "", "version of OFED, or inbox for none; likewise"),
    Option("part", "", "only these and what they rest on: ofed,driver,peermem,nvidia-fs,gdrdrv"),
    Option("flags", "", "add this to the make lines: NAME=value, apart by blanks"),
)
WHERE = (
    Option("on", "", "build on this host; on this machine unless given"),
    Option("root", "", "build in this tree, by chroot: it needs DKMS, a compiler and headers"),
    Option(
        "executor",
        "",
        "local, or dask://HOST:PORT (encrypted: tls://), workers with the same ground",
    ),
    Option("jobs", 0, "builds at once; as many as there are processors unless given", "j"),
    Option("timeout", 3600, "seconds after which a build is given up", was="limit_s"),
)
CACHE = (
    Option("cache", "", "folder of results; ~/.cache/gdr-toolkit/builds unless given"),
    Option("plan", False, "only tell what would be built, and why; exit 7 where something would"),
    Option("force", False, "build what is in the cache, too"),
    Option("cached", False, "list what the cache has, and nothing else"),
    Option("prune", "", "remove from the cache what was not used for so many days, nothing else"),
)
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*")
_FLAG = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=\S*")
TOLD = (
    Option(
        "json",
        False,
        "one JSON document on standard output (docs/build.schema.json; of --check and --try: "
        "docs/preflight.schema.json; of --cached and --prune: docs/build-cached.schema.json)",
    ),
    Option("verbose", False, "files with their hashes, and what the gate accepted, too", "v"),
)


@verb(WHAT, HOSTS, REACH, WHERE, AHEAD, CACHE, PACK, SIGN, TOLD)
def build(said: Said) -> ExitCode:
    """Build kernel modules by DKMS, aside, for kernels that need not run; keep them in a cache.

    Nothing is installed. A module that would not load is refused: see docs/builds.md. With
    --hosts, what those nodes need is built once for all that need the same.

    Exits 0 when all is there, 2 when a build fails or is refused, 4 when the place is out of
    reach, 6 when something cannot be built there, 7 with --plan when something would be built.
    With --check or --try: 0 when it will compile, 2 when it will not, 3 when that is not known.

    Examples:
      invoke build --plan
      invoke build --kernel 6.1.0-49-amd64 --kernel 6.12.43-amd64
      invoke build --part peermem --driver 535.261.03 --root /srv/bookworm
      invoke build --hosts gpu[001-128] --on builder
      invoke build --executor dask://scheduler:8786
      invoke build --cached
      invoke build --kernel 6.1.0-49-amd64 --package deb --out /srv/packages
      invoke build --headers linux-headers-6.12.43-amd64.deb --check
      invoke build --part peermem --sources kmod-nvidia-open-dkms-580.105.08-1.el9.x86_64.rpm
    """
    session = Session.begin("build", said)
    store = Store(Path(said.text("cache")) if said.text("cache") else default_folder())
    for name in ("prune", "package"):
        if said.text(name):
            said.not_dry(f"build --{name}", "what there is: build --cached")
    if said.flag("cached") or said.text("prune"):
        return _cache(session, store)
    return _carry_out(session, store)


def _carry_out(session: Session, store: Store) -> ExitCode:
    said = session.said
    refuse_mixed(session)
    options, parts, flags = _options(session), _parts(said), _flags(said)
    signing = signing_of(session)
    ways = access(said)  # once: it asks for passwords
    asked = _request(session, ways)
    with (
        open_place(
            ways, on=said.text("on"), root=said.text("root"), executor=said.text("executor")
        ) as bare,
        with_headers(
            bare, packages_of(session, "headers"), packages_of(session, "sources")
        ) as laid,
    ):
        place, needs = laid.place, laid.needs(asked.needs)
        surveyed = graphs_for(place, needs, parts, flags)
        if looks_ahead(session):
            return foretell(session, laid, surveyed, options.limit_s, asked.unread)
        if said.flag("plan") or said.dry:
            run = plan_builds(surveyed.works, store, force=said.flag("force"))
        else:
            run = build_in(place, surveyed, store, session.folder, options)
    try:
        packages = pack_built(session, run, surveyed.ground, signing)
    except ToolkitError as why:
        # What was built is there all the same.
        _finish(session, run, asked, store, stopped=why.exit_code)
        raise
    return _finish(session, run, asked, store, packages)


def _cache(session: Session, store: Store) -> ExitCode:
    prunes = bool(session.said.text("prune"))
    days = session.said.number("prune") if prunes else 0
    if days < 0:
        raise UsageError(
            f"--prune {days}: 0 days, for all of it, or more",
            hint="--prune 30 keeps what was used within 30 days",
        )
    rows = store.prune(days) if prunes else store.rows()
    session.say(pruned(rows) if prunes else listing(rows, session.now.timestamp()))
    if session.said.flag("json"):
        told = cached_document(rows, str(store.folder), session.now, removed=prunes)
        sys.stdout.write(dumps(told))
    return ExitCode.OK


class BuildRequest(Struct, frozen=True):
    """What is to be built, and the nodes that could not be asked."""

    needs: tuple[Need, ...]
    unread: tuple[Outcome[NodeNeeds], ...] = ()


def _request(session: Session, ways: Access) -> BuildRequest:
    said = session.said
    kernels = _kernels(said)
    driver, ofed = said.text("driver"), said.text("ofed")
    # Beside --on, an inventory alone says where that host is.
    named = ("hosts", "hosts_file") if said.text("on") else ("hosts", "hosts_file", "inventory")
    if not any(said.text(each) for each in named):
        return BuildRequest((Need(kernels, driver, ofed),))
    with open_fleet(ways) as fleet:
        insist = bool(ofed or said.text("part"))
        outcomes = needs_of(fleet, session.folder, kernels, insist=insist)
    for outcome in outcomes:
        if outcome.value and outcome.value.remark:
            session.remark(f"note: {outcome.value.remark}")
    needs = shared(each.value for each in outcomes if each.value)
    needs = tuple(
        replace(
            each,
            driver=driver or each.driver,
            ofed=ofed or each.ofed,
            exports=each.exports if driver in {"", each.driver} else (),
        )
        for each in needs
    )
    return BuildRequest(needs, tuple(each for each in outcomes if each.error))


def _kernels(said: Said) -> tuple[str, ...]:
    """By their releases, each once; none for all that are there."""
    words = dict.fromkeys(each.strip() for each in said.text("kernel").split(","))
    kernels = tuple(each for each in words if each)
    if said.text("kernel") and not kernels:
        raise UsageError(
            f"--kernel {said.text('kernel')!r} names no kernel",
            hint="say --kernel RELEASE, as uname -r prints it",
        )
    for each in kernels:
        if not _RELEASE.fullmatch(each):  # "6.1.0-49-amd64/" would be a folder, and no release
            raise UsageError(
                f"--kernel {each!r} is no kernel release", hint="such as uname -r tells one"
            )
    return kernels


def _parts(said: Said) -> tuple[Part, ...]:
    names = [each.strip() for each in said.text("part").split(",") if each.strip()]
    for name in names:
        if name not in set(Part):
            raise UsageError(f"no part {name!r}", hint=f"parts: {', '.join(Part)}")
    return tuple(Part(name) for name in names)


def _flags(said: Said) -> str:
    """Words for MAKEFLAGS, where make would take any other for options of its own."""
    for word in said.text("flags").split():
        if not _FLAG.fullmatch(word):
            raise UsageError(f"--flags {word!r} is not NAME=value", hint="such as: --flags V=1")
    return said.text("flags")


def _options(session: Session) -> BuildOptions:
    said = session.said
    limit = said.number("timeout", 3600)
    if limit < 1:
        raise UsageError(
            f"--timeout {limit}: at least one second", hint="leave it out for the usual limit"
        )
    jobs = said.number("jobs")
    if jobs < 0:
        raise UsageError(
            f"--jobs {jobs}: at least 1 build at a time", hint="leave it out for one a processor"
        )
    listens = listener(sys.stderr, quiet=said.flag("quiet"))
    return BuildOptions(jobs, float(limit), listens, session.remark, force=said.flag("force"))


def _finish(
    session: Session,
    run: BuildRun,
    asked: BuildRequest,
    store: Store,
    packages: Sequence[MadePackage] = (),
    *,
    stopped: ExitCode | None = None,
) -> ExitCode:
    said = session.said
    lost = [each.error.exit_code for each in asked.unread if each.error]
    code = stopped or worst([run.exit_code, *lost])
    session.say(build_report(run, session.paint, verbose=said.flag("verbose"), unread=asked.unread))
    told = build_document(
        run,
        code,
        session.now,
        cache=str(store.folder),
        unread=asked.unread,
        packages=[(str(each.path), each.notes) for each in packages],
    )
    tell_packages(session, packages)
    session.folder.keep("build.json", dumps(told))
    if said.flag("json"):
        sys.stdout.write(dumps(told))
    session.kept()
    return code
