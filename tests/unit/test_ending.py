"""The last line of a run that does not end with 0 says what is so, and what shows it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit
from msgspec.structs import replace

from tests.unit.judged import HEALTHY
from toolkit.cli.options import HOSTS, Option, Said
from toolkit.cli.outcome_line import ending, record
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, NoEvidence, Outcome
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Blocked
from toolkit.plan.plan import Plan
from toolkit.rollout.run import Rolled
from toolkit.verbs.cli.plan import tell_plan
from toolkit.verbs.cli.rollout import ended
from toolkit.verbs.cli.session import Session
from toolkit.verbs.plan import Planned
from toolkit.verbs.rollback import RolledBack

STUCK = Blocked("boot.arguments", "the entry cannot be read", "look at it")
TODO = Plan(triggers=(Trigger.REBOOT,))
GPUS: dict[str, str | int | bool] = {"hosts": "gpu[1-5]"}


@pytest.fixture(autouse=True)
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "said", "ended", "line"),
    [
        pytest.param(
            "provision",
            GPUS | {"check": True, "profile": "auto", "site": "our site.toml"},
            {"gpu1": 7, "gpu2": 0, "gpu3": 7, "gpu4": 3},
            "exit 7: changes are pending on 2 of 4 nodes, something is unknown on 1 of 4 nodes;"
            " ./invokew plan --diff --hosts 'gpu[1,3]' --site 'our site.toml' shows them",
            id="check",
        ),
        pytest.param(
            "plan",
            GPUS | {"diff": True},
            {"gpu1": 7},
            "exit 7: changes are pending on gpu1; ./invokew provision --hosts gpu1 makes them",
            id="plan-with-its-lines",
        ),
        pytest.param(
            "doctor",
            GPUS | {"transport": "openssh"},
            {"gpu1": 2, "gpu2": 4},
            "exit 4: there is no way in on 1 of 2 nodes, something fails on 1 of 2 nodes;"
            " ./invokew doctor --hosts gpu2 --transport openssh asks again",
            id="no-way-in",
        ),
        *(
            pytest.param(
                name,
                GPUS | {"max_fail": "0"},
                {"gpu1": 4, "gpu2": 5, "gpu3": 5},
                "exit 5: nothing was read on 2 of 3 nodes, there is no way in on 1 of 3 nodes;"
                " ./invokew doctor --hosts 'gpu[2-3]' asks again",
                id=f"no-turn-of-{name}",
            )
            for name in (
                *("doctor", "report", "plan", "drift", "verify", "compare", "topology", "capture"),
                *("predict", "expect", "rehearse", "why"),
            )
        ),
        pytest.param(
            "doctor",
            {"hosts_file": "h", "transport": "paramiko"},
            {"gpu1": 2, "gpu2": 0},
            "exit 2: something fails on 1 of 2 nodes;"
            " ./invokew plan --hosts-file h --limit gpu1 shows what would mend it",
            id="from-a-file",
        ),
        pytest.param(
            "verify",
            GPUS,
            {"gpu1": 2},
            "exit 2: something fails on gpu1; ./invokew doctor --hosts gpu1 shows what",
            id="verify",
        ),
        pytest.param(
            "drift",
            {"from_": "my evidence"},
            {"gpu1": 2},
            "exit 2: something has drifted on gpu1;"
            " ./invokew drift --verbose --from 'my evidence' shows what to do about it",
            id="saved",
        ),
        pytest.param(
            "undo",
            {"inventory": "i"},
            {"gpu1": 5, "gpu2": 5},
            "exit 5: a change stopped on 2 of 2 nodes;"
            " ./invokew history --hosts 'gpu[1-2]' shows where",
            id="stopped",
        ),
        pytest.param(
            "provision",
            GPUS,
            {"gpu1": 7},
            "exit 7: changes are pending on gpu1;"
            " ./invokew drift --hosts gpu1 shows what is not yet in effect",
            id="owes-a-reboot",
        ),
        pytest.param("exercise", GPUS, {}, "exit 2: something fails; see above", id="nothing-told"),
        pytest.param(
            "compare", GPUS, {}, "exit 2: nodes are unlike one another; see above", id="unlike"
        ),
        pytest.param(
            "doctor",
            GPUS | {"next_boot": True},
            {"gpu1": 2},
            "exit 2: something fails on gpu1; see above",
            id="of-a-boot-to-come",
        ),
        pytest.param(
            "report",
            GPUS | {"scrub": True},
            {"node1": 2},
            "exit 2: something fails on node1; see above",
            id="of-nodes-whose-names-are-hidden",
        ),
        pytest.param(
            "plan",
            {"from_": "evidence", "diff": True},
            {"gpu1": 7},
            "exit 7: changes are pending on gpu1; see above",
            id="nothing-changes-what-is-saved",
        ),
        pytest.param(
            "doctor",
            {"from_": "evidence", "profile": "dmabuf"},
            {"gpu1": 2},
            "exit 2: something fails on gpu1;"
            " ./invokew plan --from evidence --profile dmabuf shows what would mend it",
            id="saved-and-judged-by-a-profile",
        ),
        pytest.param(
            "doctor",
            {"nccl_log": "job.log"},
            {"job": 3},
            "exit 3: something is unknown on job; see above",
            id="a-log-alone-is-no-node",
        ),
        pytest.param(
            "verify",
            GPUS | {"passport": True, "passport_key": "our keys", "bmc_user": "ops"},
            {"gpu1": 2},
            "exit 2: something fails on gpu1; ./invokew doctor --hosts gpu1"
            " --bmc-user ops --passport --passport-key 'our keys' shows what",
            id="what-it-rests-on-goes-along",
        ),
        pytest.param(
            "verify",
            GPUS | {"bmc_user": "ops", "bmc_pass_fd": "3"},
            {"gpu1": 2},
            "exit 2: something fails on gpu1; see above",
            id="a-password-that-has-gone",
        ),
        *(
            pytest.param(
                "doctor",
                GPUS | {name: value},
                {"gpu1": 2},
                "exit 2: something fails on gpu1; see above",
                id=f"no-plan-has-{name}",
            )
            for name, value in {
                "bmc_map": "bmcs",
                "nccl_log": "job.log",
                "nccl_version": "2.27",
                "ucx_version": "1.17",
                "passport": True,
                "passport_key": "keys",
            }.items()
        ),
        pytest.param(
            "drift",
            GPUS | {"become": False, "ask_pass": True, "become_pass_fd": "3", "cache": "built"},
            {"gpu1": 4},
            "exit 4: there is no way in on gpu1;"
            " ./invokew doctor --hosts gpu1 --no-become --ask-pass --ask-become-pass asks again",
            id="how-one-becomes-root",
        ),
        pytest.param(
            "verify",
            GPUS,
            {"": 130, "gpu1": 0},
            "exit 130: interrupted; ./invokew doctor --hosts 'gpu[1-5]' asks again",
            id="a-suite-keeps-no-journal",
        ),
    ],
)
def test_it_counts_nodes_and_names_the_command(
    name: str, said: dict[str, str | int | bool], ended: dict[str, int], line: str
) -> None:
    told = Said(said)
    code = record(told, [(host, ExitCode(each)) for host, each in ended.items()])
    assert ending(name, code or ExitCode.FAILED, told) == line


@pytest.mark.parametrize(
    ("sick", "beyond", "codes", "line"),
    [
        (
            {"gpu1"},
            {"gpu1"},
            {"gpu1": 2},
            "something fails on gpu1 (sick: drain it); see above",
        ),
        ((), {"gpu1"}, {"gpu1": 2}, "something fails on gpu1; see above"),
        (
            {"gpu1"},
            (),
            {"gpu1": 2, "gpu2": 2},
            "something fails on 2 of 2 nodes (1 of them sick: drain it);"
            " ./invokew plan --hosts 'gpu[1-2]' shows what would mend the rest",
        ),
        (
            {"gpu1", "gpu2"},
            {"gpu1", "gpu2"},
            {"gpu1": 2, "gpu2": 2, "gpu3": 2, "gpu4": 0},
            "something fails on 3 of 4 nodes (2 of them sick: drain them);"
            " ./invokew plan --hosts gpu3 shows what would mend the rest",
        ),
    ],
    ids=["merely-sick", "of-a-container", "sick-and-set-up-wrong", "some-are-merely-sick"],
)
def test_no_plan_is_named_for_what_none_mends(
    sick: Iterable[str], beyond: Iterable[str], codes: dict[str, int], line: str
) -> None:
    told = Said(GPUS, sick=set(sick), beyond=set(beyond))
    code = record(told, [(host, ExitCode(each)) for host, each in codes.items()])
    assert ending("doctor", code, told) == f"exit 2: {line}"


@pytest.mark.parametrize(
    ("values", "texts", "line"),
    [
        (
            {},
            {"gpu1"},
            "something fails on gpu1; ./invokew doctor --verbose --from t shows all of it",
        ),
        ({"verbose": True}, {"gpu1"}, "something fails on gpu1; see above"),
        ({}, set(), "something fails on gpu1; ./invokew plan --from t shows what would mend it"),
    ],
    ids=["a-text", "all-of-a-text", "a-node"],
)
def test_no_plan_is_named_for_a_text(
    values: dict[str, str | int | bool], texts: set[str], line: str
) -> None:
    told = Said({"from_": "t", **values}, texts=texts)
    code = record(told, [("gpu1", ExitCode.FAILED)])
    assert ending("doctor", code, told) == f"exit 2: {line}"


def test_texts_are_counted_as_texts() -> None:
    told = Said({"from_": "t"}, texts={"a", "b"})
    code = record(told, [("a", ExitCode.FAILED), ("b", ExitCode.OK)])
    assert "something fails on 1 of 2 texts; " in ending("doctor", code, told)


def test_so_many_hosts_that_nobody_would_read_them_are_named_as_they_were() -> None:
    told = Said({"hosts": "@all", "inventory": "i"})
    record(told, [(f"n{number}x{number}", ExitCode.FAILED) for number in range(400)])
    line = ending("verify", ExitCode.FAILED, told)
    assert line.endswith("400 of 400 nodes; ./invokew doctor --hosts @all --inventory i shows what")
    line = ending("provision", ExitCode.STOPPED, told)
    assert line.endswith("; see above")  # history knows no groups


def test_who_was_left_out_stays_out_of_what_is_named_next() -> None:
    told = Said(
        {"hosts": "@all", "inventory": "i", "exclude": "n 5", "limit": "@rack1", "diff": True}
    )
    record(told, [(f"n{number}x{number}", ExitCode.PENDING) for number in range(90)])
    assert ending("plan", ExitCode.PENDING, told).endswith(
        "; ./invokew provision --hosts @all --exclude 'n 5' --limit @rack1 --inventory i makes them"
    )


def test_a_run_that_is_taken_up_tells_of_its_own_words() -> None:
    typed = Said({"run": "a-run", "yes": True})
    again = replace(typed, values=typed.values | {"hosts": "@all", "inventory": "i", "user": "ops"})
    record(again, [("gpu1", ExitCode.PENDING)])
    assert ending("undo", ExitCode.PENDING, typed).endswith(
        "; ./invokew drift --hosts gpu1 --inventory i --user ops shows what is not yet in effect"
    )


def test_what_is_pending_goes_before_what_is_blocked_and_both_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = Session.begin("plan", Said({}))
    plans = [TODO, Plan(blocked=(STUCK,)), Plan(triggers=TODO.triggers, blocked=(STUCK,)), Plan()]
    outcomes = [Outcome(f"gpu{at}", Planned(HEALTHY, each)) for at, each in enumerate(plans)]
    assert tell_plan(session, outcomes) is ExitCode.PENDING
    assert "the entry cannot be read" in capsys.readouterr().out
    assert ending("plan", ExitCode.PENDING, session.said).startswith(
        "exit 7: changes are pending on 2 of 4 nodes, something is unknown on 2 of 4 nodes; "
    )
    assert tell_plan(session, outcomes[1:2]) is ExitCode.UNKNOWN
    assert tell_plan(session, outcomes[3:]) is ExitCode.OK


def test_a_run_that_was_cut_short_says_so() -> None:
    session = Session.begin("rollback", Said({}))
    outcomes: dict[str, Outcome[RolledBack]] = {
        "gpu1": Outcome("gpu1", RolledBack(["taken back"], False)),
        "gpu2": Outcome("gpu2", error=NoEvidence("nothing was read")),
    }
    assert ended(session, Rolled(outcomes, interrupted=True)) is ExitCode.INTERRUPTED
    line = ending("rollback", ExitCode.INTERRUPTED, Said(GPUS, ended=session.said.ended))
    assert line == (
        "exit 130: interrupted, something is unknown on 1 of 2 nodes;"
        " ./invokew history --hosts 'gpu[1-5]' shows how far it came"
    )


@pytest.mark.parametrize(("options", "told"), [(HOSTS, True), ((), False)])
def test_every_verb_with_hosts_has_it_as_its_last_line(
    options: tuple[Option, ...], told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(said: Said) -> ExitCode:
        print("a result")
        return ExitCode.FAILED

    with pytest.raises(Exit):
        verb(options)(body)(Context(), **{"hosts": "gpu1"} if told else {})
    seen = capsys.readouterr()
    assert seen.out == "a result\n"
    assert seen.err == "exit 2: something fails; see above\n" * told


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("doctor", 130, "exit 130: interrupted; ./invokew doctor --hosts gpu1 asks again"),
        ("drift", 130, "exit 130: interrupted; ./invokew doctor --hosts gpu1 asks again"),
        ("compare", 130, "exit 130: interrupted; ./invokew doctor --hosts gpu1 asks again"),
        ("topology", 4, "exit 4: there is no way in; ./invokew doctor --hosts gpu1 asks again"),
        ("capture", 4, "exit 4: there is no way in; ./invokew doctor --hosts gpu1 asks again"),
        ("compare", 2, "exit 2: nodes are unlike one another; see above"),
        (
            "rollback",
            130,
            "exit 130: interrupted; ./invokew history --hosts gpu1 shows how far it came",
        ),
        ("enrol", 4, "exit 4: there is no way in; see above"),  # doctor knows no more keys
    ],
)
def test_what_ended_before_any_host_is_told_of_names_who_was_asked(
    name: str, code: int, line: str
) -> None:
    assert ending(name, ExitCode(code), Said({"hosts": "gpu1"})) == line


@pytest.mark.parametrize(("options", "told"), [(HOSTS, True), ((), False)])
def test_ctrl_c_has_a_last_line_too(
    options: tuple[Option, ...], told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(said: Said) -> ExitCode:
        raise KeyboardInterrupt

    with pytest.raises(Exit) as end:
        verb(options)(body)(Context(), **{"hosts": "gpu1"} if told else {})
    assert end.value.code == 130
    seen = capsys.readouterr().err
    assert seen == ("exit 130: interrupted; see above\n" if told else "interrupted\n")
