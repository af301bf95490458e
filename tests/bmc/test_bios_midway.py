"""What happens between the plan that was agreed to and the end of a machine's start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bmc.conftest import Simulate
from tests.bmc.faults import Kind
from tests.bmc.rules import entries
from tests.bmc.simulator import Simulator
from tests.bmc.site import QUICK, NodeOf, Site, with_
from toolkit.errors import BmcLogin, ExitCode, Outcome, StaleError, TransportError
from toolkit.features.bios.plan_reading import BiosOutcome, BiosReading
from toolkit.features.bios.run import BiosRun, roll_out_bios
from toolkit.features.bios.run_look import BmcLine, look_all
from toolkit.features.bios.run_reset import Consent, Reset, ResetWatch
from toolkit.hosts.host import Host
from toolkit.rollout.hooks import Hooks
from toolkit.rollout.journal import About
from toolkit.rollout.plan.batches import Phase, terms_of
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.verbs.rollout import Agreed

DELL = "sr-iov=on"


class Agreeing:
    """A run of one host, stopped between its plan and its turn."""

    def __init__(self, site: Site, said: str, consent: Consent = QUICK) -> None:
        self._run = BiosRun(site.fleet, site.reach, site.asking(said), consent, site.folder())
        asking, folder = self._run.asking, self._run.folder
        self.looked: list[Outcome[BiosReading]] = look_all(site.fleet, site.reach, asking, folder)

    def goes_on(self, hooks: Hooks | None = None) -> Outcome[BiosOutcome]:
        terms = terms_of([each.host for each in self.looked], at_once=4)
        about = About("bios", "op@adm", "2026-11-22T12:00:00+00:00")
        agreed = Agreed(terms, about, hooks=hooks or Hooks())
        (outcome,) = roll_out_bios(self._run, self.looked, agreed).outcomes.values()
        return outcome


class Lost(NodeOf):
    """A node that does not answer any more once its machine has started again."""

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        if self.bmc.machine.boots:
            raise TransportError(f"{self.name}: does not answer")
        return NodeOf.run(self, script, limit_s=limit_s, sink=sink)


def test_a_node_that_does_not_come_back_is_no_success_and_is_not_given_back(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    site = Site(tmp_path, [bmc])
    site.nodes["gpu1"] = Lost("gpu1", bmc)
    run = Agreeing(site, DELL, with_(QUICK, boot_s=3))
    outcome = run.goes_on(Hooks(undrain=f"touch {tmp_path}/given-back"))
    assert isinstance(outcome.error, TransportError)
    assert "has not answered by SSH" in str(outcome.error)
    assert "bios --undo" in outcome.error.hint
    assert not (tmp_path / "given-back").exists()
    assert site.events()[-1].phase == "failed"


def close(bmc: Simulator, attribute: str) -> None:
    """From now on the registry says that it is read-only."""
    entries(bmc.persona.tree[bmc.persona.registry])[attribute]["ReadOnly"] = True


def test_nothing_is_sent_where_a_part_cannot_be_had_any_more(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    run = Agreeing(Site(tmp_path, [bmc]), "sr-iov=on,raw:SubNumaCluster=2-Way")
    assert len(run.looked[0].get().plan.edits) == 2
    close(bmc, "SubNumaCluster")
    outcome = run.goes_on()
    assert isinstance(outcome.error, StaleError)
    assert "SubNumaCluster is read-only" in str(outcome.error)
    assert not bmc.log.of("PATCH")


class Rotated(NodeOf):
    """While its machine starts, the BMC forgets its sessions and has another password."""

    changed = False

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        if self.bmc.machine.boots and not self.changed:
            self.changed = True
            self.bmc.fails(Kind.STATUS, "POST", "/Sessions", code=401, times=99)
            self.bmc.expire()
        return NodeOf.run(self, script, limit_s=limit_s, sink=sink)


def test_a_password_that_is_refused_while_a_machine_starts_is_not_tried_again(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell", post_s=600)
    site = Site(tmp_path, [bmc])
    site.nodes["gpu1"] = Rotated("gpu1", bmc)
    outcome = Agreeing(site, DELL, with_(QUICK, boot_s=60)).goes_on()
    assert isinstance(outcome.error, BmcLogin)
    logins = [each for each in bmc.log.of("POST") if each.path.endswith("/Sessions")]
    # A look, the turn; then the session that had ended, and the one that was begun anew.
    assert len(logins) == 4


def test_a_reset_that_is_not_answered_is_watched_and_not_sent_again(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    run = Agreeing(Site(tmp_path, [bmc]), DELL)
    bmc.fails(Kind.DROP_AFTER, "POST", "Reset")
    outcome = run.goes_on()
    assert outcome.get().exit_code is ExitCode.OK
    assert bmc.machine.boots == 1


def test_where_no_node_answers_the_boot_that_is_ended_has_no_name(
    simulate: Simulate, tmp_path: Path
) -> None:
    """The journal is told of it before it ends, and whoever resumes goes by that."""
    ended: list[str] = []
    site = Site(tmp_path, [simulate("dell")])
    with BmcLine(Host("gpu1"), site.reach) as line:
        Reset("gpu1", line, with_(QUICK, over_jobs=True), None, print, ended.append).begin()
    assert ended == [""]


@pytest.mark.parametrize(("boot_id", "over"), [("boot-0", False), ("", True)])
def test_what_is_pending_no_longer_does_not_end_a_start_that_a_node_can_tell_of(
    boot_id: str, over: bool, simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell")
    site = Site(tmp_path, [bmc])
    (looked,) = site.look(DELL)
    due = {each.name: each for each in looked.get().plan.edits}
    with BmcLine(Host("gpu1"), site.reach) as line:
        reset = Reset("gpu1", line, QUICK, Lost("gpu1", bmc), print, print)
        reset.boot_id = boot_id
        now = with_(QUICK, settle_s=0)
        watch = ResetWatch("gpu1", line, reset, now, due, looked.get, None, print)
        watch.over()
        assert watch.over() is over


def test_what_the_profile_could_not_have_is_in_the_journal(
    simulate: Simulate, tmp_path: Path
) -> None:
    bmc = simulate("dell", live_registry=True)
    bmc.machine.active |= {"SysProfile": "PerfPerWattOptimizedDapc", "PcieAspmL1": "Enabled"}
    site = Site(tmp_path, [bmc])
    assert Agreeing(site, "profile,sr-iov=on").goes_on().get().exit_code is ExitCode.FAILED
    assert bmc.machine.active["SriovGlobalEnable"] == "Enabled"
    assert "PcieAspmL1 is read-only while" in site.events()[-1].detail


def test_what_the_plan_showed_as_not_to_be_had_does_not_fail_the_canary(
    simulate: Simulate, tmp_path: Path
) -> None:
    site = Site(tmp_path, [simulate("dell"), simulate("dell")])
    rolled = site.apply(f"{DELL},acs=off", serial="1,1")  # of which a Dell's BIOS does not tell
    for name, bmc in site.bmcs.items():
        assert rolled.outcomes[name].get().exit_code is ExitCode.UNKNOWN
        assert (bmc.machine.active["SriovGlobalEnable"], bmc.machine.boots) == ("Enabled", 1)
    assert [each.phase for each in site.events() if each.host == "gpu1"][-1] == Phase.DONE
