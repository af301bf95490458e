"""What a journal says of a run that broke off: who is done, who has to be looked at first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolkit.rollout.plan.batches import ENDED, NOT_BEGUN, Phase, Standing

_NOT_OUT = frozenset({Phase.UNTAKEN, *ENDED})
_SERVICE = frozenset({Phase.DRAINING, Phase.DRAINED, Phase.UNDRAINING, *_NOT_OUT})
_ACTS = frozenset({Phase.APPLYING, Phase.REBOOTING})


@dataclass(frozen=True, slots=True)
class Step:
    """One phase of one host, as a journal has it."""

    host: str
    phase: Phase
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """One host's steps so far, oldest first."""

    steps: tuple[Step, ...] = ()

    @property
    def last(self) -> Phase:
        """Where it was left; planned, where nothing is known of it."""
        return self.steps[-1].phase if self.steps else Phase.PLANNED

    @property
    def begun(self) -> bool:
        """Its turn had come, and it has not ended well."""
        return self.last not in ENDED | NOT_BEGUN

    @property
    def drained(self) -> bool:
        """It is out of service for certain: nothing was done since that might give it back."""
        return self._service is Phase.DRAINED

    @property
    def maybe_out(self) -> bool:
        """It may be out of service by our doing, and nobody knows that it was given back."""
        return self._service not in _NOT_OUT | {None}

    @property
    def _service(self) -> Phase | None:
        """The latest step that concerns service."""
        found = [step.phase for step in self.steps if step.phase in _SERVICE]
        return found[-1] if found else None

    @property
    def may_be_booting(self) -> bool:
        """A reboot was the last thing that we did to it, and it has not been well since."""
        return self._last_act is not None and self._last_act.phase is Phase.REBOOTING

    def booted(self, boot_id: str) -> bool:
        """Whether the node left the boot that our last act was to end; see flow.witness."""
        last = self._last_act
        if last is None or last.phase is not Phase.REBOOTING:
            return False
        return last.boot_id not in {"", boot_id}

    @property
    def _last_act(self) -> Step | None:
        acts = [step for step in self.steps if step.phase in _ACTS]
        return acts[-1] if acts else None


def pasts(steps: Iterable[Step]) -> dict[str, Past]:
    """The steps by host."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.host, []).append(step)
    return {host: Past(tuple(each)) for host, each in found.items()}


def standing(past: dict[str, Past], lost: Sequence[str] = ()) -> Standing:
    """Where a rollout begins, or goes on.

    What had been begun is unavailable, and has its turn again; what is done is not repeated.

    :param lost: hosts that cannot be reached now.
    """
    done = frozenset(host for host, each in past.items() if each.last is Phase.DONE)
    down = frozenset(host for host, each in past.items() if each.begun)
    return Standing(done=done, down=(down | frozenset(lost)) - done)
