"""The last line of a run that does not end with 0: what is so, on how many nodes, what shows it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from msgspec.structs import replace

from toolkit.cli.options import (
    BMC,
    BMC_USER,
    CHECKS,
    CONSUMERS,
    JOB,
    PASSPORT,
    TAKEN,
    Option,
    Said,
    parted,
)
from toolkit.errors import WORST_FIRST, ExitCode, UsageError, worst
from toolkit.hosts.host import fold, select
from toolkit.package_data import called_within, program
from toolkit.plural import counted

_SO = {
    ExitCode.FAILED: "something fails",
    ExitCode.UNKNOWN: "something is unknown",
    ExitCode.UNREACHABLE: "there is no way in",
    ExitCode.STOPPED: "a change stopped",
    ExitCode.UNSUPPORTED: "no rule is known",
    ExitCode.PENDING: "changes are pending",
    ExitCode.USAGE: "the request makes no sense",
    ExitCode.BUG: "there is a bug of ours",
    ExitCode.INTERRUPTED: "interrupted",
}
_READS_ALONE = (
    *("doctor", "report", "plan", "drift", "verify", "compare", "topology", "capture"),
    *("predict", "expect", "rehearse", "why"),
)
_SO_OF = {
    ("drift", ExitCode.FAILED): "something has drifted",
    ("compare", ExitCode.FAILED): "nodes are unlike one another",
    ("expect", ExitCode.FAILED): "nodes differ from their kind",
    # The run ended before their turn.
    **{(verb, ExitCode.STOPPED): "nothing was read" for verb in _READS_ALONE},
}
_ASKS_AGAIN = ("doctor", "asks again")
# What shows it, by the worst code; of verbs that judge or change nodes by checks.
_SHOWN = {
    ExitCode.FAILED: ("doctor", "shows what"),
    ExitCode.UNKNOWN: ("doctor", "shows what"),
    ExitCode.UNREACHABLE: _ASKS_AGAIN,
    ExitCode.STOPPED: ("history", "shows where"),
    ExitCode.UNSUPPORTED: ("doctor", "shows why"),
    ExitCode.PENDING: ("plan --diff", "shows them"),
    ExitCode.INTERRUPTED: ("history", "shows how far it came"),
}
_BY_CHECKS = frozenset(
    {"doctor", "report", "plan", "bundle", "playbook", "provision"}
    | {"drift", "verify", "rollback", "undo", "reload"}
)
# Of what these could not read the verdicts tell as well.
_LOOKS = frozenset({"compare", "topology", "predict", "rehearse", "expect", "capture", "iommu"})
_READERS = {"doctor", "report", "plan", "bundle", "playbook", "drift", "verify", *_LOOKS}
_ABOUT_THE_WAY = (ExitCode.UNREACHABLE, ExitCode.INTERRUPTED)
# Where it is another one: a verb does not send to itself.
_ELSE = {
    # Of these none keeps a journal of what it did.
    **{(reader, ExitCode.INTERRUPTED): _ASKS_AGAIN for reader in _READERS},
    **{(reader, ExitCode.STOPPED): _ASKS_AGAIN for reader in _READS_ALONE},
    ("doctor", ExitCode.FAILED): ("plan", "shows what would mend it"),
    ("doctor", ExitCode.UNKNOWN): ("doctor --verbose", "shows all of it"),
    ("drift", ExitCode.FAILED): ("drift --verbose", "shows what to do about it"),
    ("provision", ExitCode.PENDING): ("drift", "shows what is not yet in effect"),
    ("undo", ExitCode.PENDING): ("drift", "shows what is not yet in effect"),
    ("rollback", ExitCode.PENDING): ("drift", "shows what is not yet in effect"),
}
_WAY = (
    *("inventory", "via", "user", "key", "ssh_config", "transport", "become", "wrapper"),
    *("ask_pass", "ask_become_pass", "profile", "site"),
    *("cache", "sign_key", "sign_cert", "ask_sign_pin"),
)
# A secret that came by a descriptor is asked for: nobody has that descriptor any more.
_ASKED = {
    "pass_fd": "ask_pass",
    "become_pass_fd": "ask_become_pass",
    "sign_pin_fd": "ask_sign_pin",
}
# What a verdict rests on: a verb that does not take it would come to another verdict.
_GROUNDS = (*BMC, *CHECKS, *CONSUMERS, *JOB, *PASSPORT)
_LONG = 200  # characters; a list of hosts that is longer is said as the operator said it


def ending(verb: str, code: ExitCode, said: Said) -> str:
    """The line; it counts nodes where the verb has told how each of them ended."""
    said = replace(said, values=said.taken_up or said.values)
    ended = [(host, each) for host, each in said.ended if host]
    codes = {each for _, each in said.ended} | {code}
    whole = len({host for host, _ in ended})
    facts = []
    for each in WORST_FIRST:
        hosts = {host for host, its in ended if its is each}
        if each in codes - {ExitCode.OK}:
            kind = "text" if said.texts and said.texts >= {host for host, _ in ended} else "node"
            share = f"{len(hosts)} of {counted(whole, kind)}" if whole > 1 else fold(hosts)
            so = _SO_OF.get((verb, each), _SO[each])
            sick = _sick(hosts, said, whole) if each is ExitCode.FAILED else ""
            facts.append(so + f" on {share}" * bool(hosts) + sick)
    worst_off = {host for host, its in ended if its is code}
    mendable = worst_off - said.texts - said.beyond
    shown = "" if worst_off and not mendable else _command(verb, code, said, fold(mendable))
    if worst_off and worst_off <= said.texts and verb == "doctor":
        # Of a text nothing is planned; doctor has told what it shows, and all of it if asked.
        shown = "" if said.flag("verbose") else _command("doctor", ExitCode.UNKNOWN, said, "")
    return f"exit {int(code)}: {', '.join(facts)}; {shown or 'see above'}"


def _sick(hosts: set[str], said: Said, whole: int) -> str:
    """Whom to drain: nothing that a plan could change mends failing hardware."""
    count = len(hosts & said.sick)
    of_them = "" if whole == 1 else f"{count} of them "
    return f" ({of_them}sick: drain {'it' if count == 1 else 'them'})" if count else ""


def _command(verb: str, code: ExitCode, said: Said, hosts: str) -> str:
    """The command and what it shows; "" where none shows more than this run has."""
    within = called_within(verb)
    if verb == "provision" and said.looks:
        verb = "plan"
    # Of a kernel to come no other verb tells, and a name that hides a node leads to none.
    alone = said.flag("next_boot") or said.text("kernel") or said.flag("scrub")
    looks = verb in _LOOKS and code in _ABOUT_THE_WAY
    known = verb in _BY_CHECKS or looks or (verb, code) in _ELSE
    if code not in _SHOWN or not known or alone:
        return ""
    words, shows = _ELSE.get((verb, code), _SHOWN[code])
    if said.sick and words == "plan":
        shows = "shows what would mend the rest"
    if (verb, code) == ("plan", ExitCode.PENDING) and said.flag("diff"):
        words, shows = "provision", "makes them"
    takes = {each.name: each for each in TAKEN[words.split()[0]]}
    whom, how = _whom(said, hosts, takes), _how(said, takes)
    if whom is None or how is None or not whom + how:
        return ""
    return " ".join(["invoke" if within else program(), within + words, *whom, *how, shows])


def _whom(said: Said, hosts: str, takes: Mapping[str, Option]) -> list[str] | None:
    """The options that name these nodes; None where the verb has none that do."""
    if said.text("from_"):
        return _which(said.text("from_"), takes.get("from_"))
    if not any(said.text(each) for each in ("hosts", "hosts_file", "inventory")):
        return None  # nobody was asked
    short = 0 < len(hosts) < _LONG
    if "inventory" not in takes:  # history knows names alone
        named = hosts if short else said.text("hosts")
        return [f"--hosts {shlex.quote(named)}"] if _plain(named) else None
    if short and not said.text("hosts_file"):
        return [_word(takes["hosts"], Said({"hosts": hosts}))]
    told = said.values | ({"limit": hosts, "exclude": ""} if short else {})
    names = ("hosts", "hosts_file", "exclude", "limit")
    return [word for name in names if (word := _word(takes[name], Said(told)))]


def _which(saved: str, option: Option | None) -> list[str] | None:
    """What was saved, as the verb takes it; what came by standard input is gone."""
    files = parted(saved)
    if option is None or "-" in files or (len(files) > 1 and not option.bare):
        return None
    words = [shlex.quote(each) for each in files]
    return words if len(files) > 1 else [f"--from {words[0]}"]


def _plain(hosts: str) -> bool:
    try:
        return bool(select(hosts))
    except UsageError:
        return False


def _how(said: Said, takes: Mapping[str, Option]) -> list[str] | None:
    """The way in, and what was judged by; None where the verb would judge otherwise."""
    grounds = [each for each in _GROUNDS if _word(each, said)]
    names = {each.name for each in grounds}
    if "bmc_user" in said.values and os.environ.get(BMC_USER):
        names.add("bmc_user")
    if names - takes.keys() or "bmc_pass_fd" in names:
        return None
    asked = {ask: True for fd, ask in _ASKED.items() if said.text(fd) not in {"", "-1"}}
    told = Said(said.values | asked)
    way = [takes[name] for name in _WAY if name in takes]
    return [word for each in (*way, *grounds) if (word := _word(each, told))]


def _word(option: Option, said: Said) -> str:
    """The option as it was said; "" where it was not."""
    value = said.values.get(option.name, option.default)
    if str(value) == str(option.default):
        return ""
    name = option.name.strip("_").replace("_", "-")
    if isinstance(option.default, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {shlex.quote(str(value))}"


def record(said: Said, ended: list[tuple[str, ExitCode]]) -> ExitCode:
    """Keep how each host ended for the last line; a host may stand there more than once.

    :param said: what holds of the run: of one that is taken up, more than was typed.
    :param ended: host and code; "" for what is no host's, such as Ctrl-C.
    :returns: the worst of the codes.
    """
    said.ended[:] = ended
    said.taken_up.clear()
    said.taken_up.update(said.values)
    return worst([code for _, code in ended])
