"""The guests of one worker: one at a time, shared where tests leave them as they were."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from dev.lab.machine import Guest, factor
from dev.lab.making import ready
from dev.lab.qemu import Spec
from tests import invoked


@dataclass(slots=True)
class Guests:
    """Machines for tests; none outlives the worker, however that ends."""

    folder: Path
    boots: int = 0  # so far, reboots left out
    _now: Guest | None = field(default=None, init=False)
    _shared: bool = field(default=False, init=False)

    def shared(self, spec: Spec | None = None) -> Guest:
        """A booted guest that others have used and will use: leave it as it was.

        :raises LabError: it did not boot.
        :raises NotToBeHad: its disk cannot be made here.
        """
        wanted = spec or Spec()
        if self._now is None or not self._shared or self._now.spec != wanted or not self._now.pid:
            self._now = self.fresh(wanted)
            self._shared = True
        return self._now

    def fresh(self, spec: Spec | None = None) -> Guest:
        """A guest of one's own, booted for the first time; the one before it is ended.

        :raises LabError: it did not boot.
        :raises NotToBeHad: its disk cannot be made here.
        """
        self.close()
        self.boots += 1
        name = f"lab{self.boots}"
        guest = Guest(name, self.folder / name, spec or Spec())
        ready(guest)
        self._now, self._shared = guest, False
        guest.start()
        guest.wait()
        return guest

    def close(self) -> None:
        """End what runs."""
        if self._now is not None:
            self._now.remove()
            self._now = None


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of our own command line."""

    status: int  # its exit code: 0 2 3 4 5 6 7 64 70 130
    out: str
    err: str


def gdr(
    guest: Guest, verb: str, *words: str, site: str = "", limit_s: float = 180, check: bool = False
) -> Ran:
    """Run a verb against a guest as an operator would.

    :param site: TOML of the site's own file, for --site.
    :param limit_s: on an idle machine; multiplied by ``factor()``.
    :param check: a status other than 0 is an AssertionError that shows what was said.
    """
    given = ["--hosts", guest.name, "--ssh-config", str(guest.ssh_config)]
    if site:
        path = guest.folder / "site.toml"
        path.write_text(site)
        given += ["--site", str(path)]
    state = guest.folder / "state"
    done = invoked.gdr(
        *(verb, *given, *words),
        state=state,
        timeout_s=limit_s * factor(),
        XDG_CACHE_HOME=str(state / "cache"),
        GDR_PATIENCE=str(factor()),
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    assert not check or ran.status == 0, f"{verb} {words}: {ran.status}\n{ran.out}\n{ran.err}"
    return ran


def verdicts(ran: Ran) -> dict[str, tuple[str, str]]:
    """What a verb said with --json of its one host: status and finding by check."""
    [host] = json.loads(ran.out)["hosts"]
    return {each["check"]: (each["status"], each["found"]) for each in host["verdicts"]}
