"""The verb that takes modules out of nodes and puts them back."""

from __future__ import annotations

from dataclasses import replace

from toolkit.cli.options import HOSTS, REACH, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, UsageError
from toolkit.features.reload.plan import Reloading, ReloadResult, read_over, read_what
from toolkit.features.reload.run import ReloadRequest, look, reload_nodes, seen, to_do
from toolkit.features.reload.show import reload_lines
from toolkit.plural import counted
from toolkit.report.document import Told
from toolkit.rollout.run import Rolled
from toolkit.ssh.pool import broken_off
from toolkit.verbs.cli.rollout import COUNTED, counting, ended, tell_halt
from toolkit.verbs.cli.session import Session, consent, fleet

RELOAD = (
    Option("what", "peermem", "peermem, rdma, driver, or names of modules: a,b"),
    Option("check", False, "change nothing; exit 7 where something would be reloaded"),
    Option("over", "", "go over one thing that depends, by its name: ssh:eth0", many=True),
    Option("reboot", False, "reboot nodes where a reload is refused, unless jobs run there"),
    Option("verbose", False, "every process and step", "v"),
    Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
)


@verb(HOSTS, REACH, RELOAD, COUNTED)
def reload(said: Said) -> ExitCode:
    """Take kernel modules out and put them back, where nobody depends on them.

    Refuses where our SSH session, the default route, a mount, a disk of a server or a process
    depends on them, and names it. What is named with --over may go all the same; no process is
    ended and no module is forced. See docs/reload.md.

    Exits 0 when all is loaded as it is on disk, 5 where a node refused or a step failed, 3 where
    it cannot be told what depends.

    Examples:
      invoke reload --hosts gpu[001-128] --check
      invoke reload --hosts gpu007 --what rdma
      invoke reload --hosts gpu007 --over job:dcgmi
      invoke reload --hosts gpu[001-128] --what driver --reboot --yes
    """
    session = Session.begin("reload", said)
    asked = _request(said)
    with fleet(said) as opened:
        looked = look(opened, asked)
        if said.flag("check") or said.dry or broken_off(looked):
            rolled = Rolled({each.host: seen(each) for each in looked})
        else:
            todo = [each.value.reloading for each in looked if each.value]
            _consent(todo, said, demo=opened.demo)
            meant = replace(opened, hosts=to_do(opened, looked))
            rolled = reload_nodes(opened, looked, asked, counting(session, meant))
    outcomes = list(rolled.outcomes.values())
    session.say(
        "\n".join(reload_lines(outcomes, session.paint, verbose=said.flag("verbose"))).rstrip()
    )
    told = [each.map(_told) for each in outcomes]
    tell_halt(rolled)
    return session.finish(told, ended(session, rolled))


def _request(said: Said) -> ReloadRequest:
    over = read_over(said.text("over"))
    if any(word.startswith("ssh:") for word in over) and not said.flag("reboot"):
        raise UsageError(
            "--over ssh: takes the way to the node away, and needs --reboot beside it",
            hint="where the address does not come back within a minute, the node reboots",
        )
    return ReloadRequest(read_what(said.text("what")), over, said.flag("reboot"))


def _consent(todo: list[Reloading], said: Said, *, demo: bool) -> None:
    reloads = sum(each.result is ReloadResult.READY for each in todo)
    reboots = sum(each.result is ReloadResult.WOULD_REBOOT for each in todo)
    if demo or not reloads + reboots:
        return
    parts = [f"reload modules on {counted(reloads, 'node')}"] if reloads else []
    parts += [f"reboot {counted(reboots, 'node')}"] if reboots else []
    consent(f"{', and '.join(parts)}?", said)


def _told(done: Reloading) -> Told:
    return Told(reloading=done, steps=done.steps, rebooted=done.result is ReloadResult.REBOOTED)
