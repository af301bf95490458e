"""What came of one node that was to take modules out and put them back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import ExitCode
from toolkit.facts.modules.module_users import Holding
from toolkit.features.reload.plan.obstacles import Kind, job_word
from toolkit.features.reload.plan.reload import Reload


class Result(StrEnum):
    """What came of it, in a word."""

    NOTHING = "nothing to reload"
    READY = "would be reloaded"
    WOULD_REBOOT = "would be rebooted"
    REFUSED = "refused"
    RELOADED = "reloaded"
    REBOOTED = "rebooted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Reloading:
    """One node, before or after."""

    result: Result
    reload: Reload
    holding: Holding
    steps: tuple[str, ...] = ()  # "unload nvidia_peermem: done"
    missing: tuple[str, ...] = ()  # modules that should be loaded, and are not

    @property
    def rebooted(self) -> bool:
        return self.result is Result.REBOOTED

    @property
    def exit_code(self) -> ExitCode:
        if self.result is Result.REFUSED:
            told = {each.kind for each in self.reload.obstacles}
            return ExitCode.UNKNOWN if told == {Kind.UNKNOWN} else ExitCode.STOPPED
        return {
            Result.FAILED: ExitCode.STOPPED,
            Result.READY: ExitCode.PENDING,
            Result.WOULD_REBOOT: ExitCode.PENDING,
        }.get(self.result, ExitCode.OK)


def first_result(reload: Reload, holding: Holding, over: frozenset[str], *, reboot: bool) -> Result:
    """What would come of it.

    :param reboot: nodes may be rebooted where a reload is refused; never under a job, though it
        has nothing to do with the modules, unless the operator named it.
    """
    if not reload.unload and not reload.load:
        return Result.NOTHING
    if not reload.obstacles:
        return Result.READY
    jobs = [each for each in holding.users if each.works and job_word(each) not in over]
    return Result.WOULD_REBOOT if reboot and not jobs and not holding.guests else Result.REFUSED
