"""The verb that writes what Ansible needs to do the work."""

from __future__ import annotations

from pathlib import Path

from toolkit.cli.options import HOSTS, REACH, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Unwritten, UsageError, worst
from toolkit.features.ansible.run import Written, write_playbook
from toolkit.hosts.host import fold
from toolkit.plural import counted
from toolkit.report.text import errors
from toolkit.verbs.cli.plan import DELIVERED, bundled, shelf_of, tell_blocked, told_of
from toolkit.verbs.cli.session import Session, fleet
from toolkit.verbs.plan import plan_all


@verb(
    HOSTS,
    REACH,
    WANT,
    (
        Option("out", "ansible", "folder to write; a fresh one"),
        Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
    ),
    DELIVERED,
)
def playbook(said: Said) -> ExitCode:
    """Write bundles, an inventory and our plays into one folder, for ansible-playbook.

    It plans as bundle does. The folder runs on a controller without the toolkit, on nodes without
    Python; see docs/ansible.md.

    Examples:
      invoke playbook --hosts gpu[001-128] --out site
      ansible-playbook -i site/inventory.yml site/playbooks/provision.yml --check --diff
    """
    said.not_dry("playbook", "what its bundles would change: plan --diff")
    session = Session.begin("playbook", said)
    out = Path(said.text("out"))
    wants, shelf = session.wants(), shelf_of(session)
    if out.exists():
        raise UsageError(f"{out}: is there already", hint="name a fresh folder with --out")
    with fleet(said) as opened:
        if opened.demo:
            raise UsageError(
                "demo nodes are served only while a verb of ours runs, so Ansible finds nobody",
                hint="read what would be sent: bundle --hosts demo",
            )
        outcomes = plan_all(opened, wants, session.today, session.folder, shelf, untried=True)
        profile, site = said.text("profile"), said.text("site")
        places: dict[str, str] = {}
        lost = ExitCode.OK
        if any(each.value for each in outcomes):
            try:
                written = write_playbook(opened, outcomes, out, profile=profile, site=site)
                places = {host: str(folder) for host, folder in written.places}
                _tell(session, written)
            except Unwritten as why:
                lost = session.unwritten(why)
    tell_blocked(session, outcomes)
    for line in errors(((each.host, each.error) for each in outcomes), session.paint):
        session.say(line)
    code = worst([session.ended(outcomes, bundled), lost])
    return session.finish(told_of(outcomes, places), code)


def _tell(session: Session, written: Written) -> None:
    for hosts, one, more, what in (
        (written.bundles, "has", "have", "something to do"),
        (written.owing, "owes", "owe", "only a reboot: provision --reboot, or by hand"),
        (written.idle, "has", "have", "nothing to do"),
    ):
        if hosts:
            session.say(f"{counted(len(hosts), 'node', one, more)} {what}: {fold(hosts)}")
    folder = written.folder
    session.say(f"\nansible-playbook -i {folder}/inventory.yml {folder}/playbooks/provision.yml")
