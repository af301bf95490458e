"""One folder with all that Ansible needs to bring bundles to nodes, and to prove them.

DIR/inventory.yml           the hosts, and the way to each
DIR/playbooks/              copies of ours
DIR/bundles/HOST/           to read; run.sh is the one file that goes to the node
DIR/scripts/                the probe, what asks whose jobs are at work, and what lets an account
                            that is not root use the one or carry out a signed bundle
DIR/evidence/               empty: what verify.yml reads is kept there
DIR/site.toml, profile.toml what the site wishes, where it has files for that
DIR/site/                   the same of a site that has a folder, with its own checks
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import Outcome, Unwritten, UsageError
from toolkit.facts.modules.module_users import DAEMONS, FIRST_PERSON, WORK
from toolkit.features.ansible.io import Manners, aliases, inventory
from toolkit.hosts.host import Host
from toolkit.node.collect import probe_script
from toolkit.node.collect import script as holding_script
from toolkit.node.deliver import sudoers, wrapper
from toolkit.package_data import playbooks
from toolkit.safe_file import write_file
from toolkit.ssh.ssh_config import SshConfig
from toolkit.verbs.access import Fleet
from toolkit.verbs.plan import Planned, bundle_files
from toolkit.verbs.site_folder import PARTS


class Written(Struct, frozen=True):
    """What was put into the folder."""

    folder: Path
    bundles: tuple[str, ...]  # the hosts that have something to do
    idle: tuple[str, ...]  # those that have nothing
    owing: tuple[str, ...]  # those that owe no more than a reboot
    blocked: tuple[str, ...] = ()  # those of which something could not be told
    places: tuple[tuple[str, Path], ...] = ()  # the folder of each host, bundle or none


def _scripts() -> dict[str, str]:
    """What the playbook runs on nodes, by name."""
    # What tells somebody's job from a daemon, for who reads the answer of jobs.sh.
    rules = {"daemons": sorted(DAEMONS), "work": WORK.pattern, "first_person": FIRST_PERSON}
    return {
        "scripts/probe.sh": probe_script(),
        "scripts/jobs.sh": holding_script("occupied"),
        "scripts/jobs.json": json.dumps(rules, indent=2) + "\n",
        "scripts/gdr-node": wrapper(),
        "scripts/gdr-node.sudoers": sudoers(),
    }


def write_playbook(
    fleet: Fleet, outcomes: Sequence[Outcome[Planned]], out: Path, *, profile: str, site: str
) -> Written:
    """Write the folder, whole or not at all.

    :param profile: a name, or a file, which is copied.
    :param site: the site's own file or folder, which is copied; "" for none.
    :raises UsageError: it is there already.
    :raises Unwritten: it cannot be written.
    """
    if out.exists():
        raise UsageError(f"{out}: is there already", hint="name a fresh folder with --out")
    reached = [each for each in outcomes if each.value is not None]
    names = {each.host for each in reached}
    hosts = [_resolved(fleet, host) for host in fleet.hosts if host.name in names]
    named = aliases((host.name for host in hosts), {g for host in hosts for g in host.groups})
    values = {"gdr_profile": "profile.toml" if Path(profile).is_file() else profile}
    told = _told(out, reached)
    said = fleet.access
    config = str(Path(said.ssh_config).expanduser().absolute()) if said.ssh_config else ""
    manners = Manners(said.become, said.transport == "local", config)
    texts = {"inventory.yml": inventory(hosts, named, manners, values, told.bundles), **_scripts()}
    with _whole_or_not(out) as aside:
        (aside / "evidence").mkdir(mode=0o700)
        _write(aside, {name: text.encode() for name, text in texts.items()})
        for source, name in ((profile, "profile.toml"), (site, "site.toml")):
            if source and Path(source).is_file():
                write_file(aside / name, Path(source).read_bytes())
        _copy_site(site, aside)
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(playbooks(), aside / "playbooks", ignore=ignored)
        for each in reached:
            _write(aside / "bundles" / named[each.host], bundle_files(each.get()))
    places = tuple((each.host, out / "bundles" / named[each.host]) for each in reached)
    return replace(told, places=places)


def _copy_site(site: str, aside: Path) -> None:
    """What a site's folder has of its own; nothing where ``site`` is a file, or none."""
    for part in (each for each in PARTS if site and Path(site, each).exists()):
        copy = shutil.copytree if Path(site, part).is_dir() else shutil.copyfile
        (aside / "site").mkdir(exist_ok=True)
        copy(Path(site, part), aside / "site" / part)


@contextmanager
def _whole_or_not(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` to be filled, which takes that name at the end of the block."""
    aside = out
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        yield aside
        aside.chmod(0o755)
        aside.rename(out)
    except OSError as why:
        raise Unwritten(out, why) from why
    finally:
        if aside != out:
            shutil.rmtree(aside, ignore_errors=True)


def _told(out: Path, reached: Sequence[Outcome[Planned]]) -> Written:
    plans = [(each.host, each.get()) for each in reached]
    owing = tuple(host for host, planned in plans if planned.plan.only_reboot)
    busy = tuple(host for host, planned in plans if planned.bundle is not None)
    blocked = tuple(host for host, planned in plans if planned.plan.blocked)
    idle = tuple(host for host, _ in plans if host not in (*owing, *busy, *blocked))
    return Written(out, busy, idle, owing, blocked)


def _resolved(fleet: Fleet, host: Host) -> Host:
    """With the user that the site's ssh_config makes root: who is root needs no sudo."""
    if fleet.access.transport == "local":
        return host
    file = Path(fleet.access.ssh_config) if fleet.access.ssh_config else None
    user = SshConfig.load(file).target(host).door.user
    key = str(Path(host.key_file).expanduser().absolute()) if host.key_file else ""
    return replace(host, user="root" if user == "root" else host.user, key_file=key)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, content)
