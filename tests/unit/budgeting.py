"""A run that takes part in the budget, as one of another controller would."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.rollout.budget import Budget
from toolkit.rollout.claims import claim
from toolkit.rollout.journal import About, Event, Journal, stamp
from toolkit.rollout.plan.budget import Answer
from toolkit.safe_file import FileLock as Lock


class Run:
    """A run of this process, as one of another would be: claimed, with a journal."""

    def __init__(self, runs: Path, name: str, limit: int | None, **more: Mapping[str, str]) -> None:
        self.lock: Lock = claim(runs, name, "op@here", [f"{name}:22"], alone=True)
        self.journal = Journal.create(runs / name, About("provision", "op@here", stamp()))
        self.budget = Budget.open(runs, name, limit, reported=lambda: more.get("reported", {}))

    def ask(self, *hosts: str) -> Answer:
        answer = self.budget.ask(hosts)
        self.journal.add(*(Event(host, "begun") for host in answer.granted))
        return answer

    def acts(self, host: str, *phases: str) -> None:
        self.journal.add(*(Event(host, phase) for phase in phases))

    def ended(self, host: str, *, well: bool, answered: bool = True, harm: str = "") -> None:
        self.acts(host, "done" if well else "failed")
        events = self.journal.of(host)
        self.budget.ended(host, events, well=well, answered=answered, harm=harm)

    def close(self) -> None:
        self.budget.close()
        self.journal.close()
        self.lock.let_go()

    def dies(self) -> None:
        """What is left is what SIGKILL leaves: the lock is the kernel's again, nothing else."""
        self.budget.book.close()
        self.journal.close()
        self.lock.let_go()
