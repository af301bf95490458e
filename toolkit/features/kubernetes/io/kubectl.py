"""kubectl as a process: whatever way of logging in to a cluster the operator has, it knows."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from toolkit.errors import TransportError, UsageError
from toolkit.ssh.local import answer


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One cluster, by its kubeconfig, and a context of it."""

    kubeconfig: str
    program: str = "kubectl"
    context: str = ""  # "" for the current one

    def where(self) -> str:
        """Which cluster that is, in the words of the kubeconfig; nobody is asked for it."""
        return self.context or self.answer("config", "current-context").strip()

    def answer(self, *words: str, stdin: str = "", limit_s: float = 120) -> str:
        """What one command prints.

        :raises UsageError: there is no kubectl here.
        :raises TransportError: it refused or did not end in time; its own last words are told.
        """
        which = [f"--kubeconfig={self.kubeconfig}"]
        which += [f"--context={self.context}"] if self.context else []
        argv = (self.program, *which, f"--request-timeout={limit_s:g}s")
        try:
            done = answer(
                (*argv, *words), stdin.encode("utf-8", "surrogateescape"), limit_s=limit_s + 10
            )
        except FileNotFoundError as why:
            raise UsageError(
                f"{self.program} is not here", hint="install it, or leave --kubeconfig out"
            ) from why
        except OSError as why:
            raise UsageError(
                f"{self.program} cannot be run: {why.strerror}",
                hint="is kubectl installed here, and in PATH?",
            ) from why
        except subprocess.TimeoutExpired as why:
            raise TransportError(
                f"kubectl {words[0]}: no answer within {limit_s:g} s",
                hint="is the API server in reach? kubectl version",
            ) from why
        if done.returncode:
            reason = _reason(_text(done.stderr)) or f"status {done.returncode}"
            raise TransportError(
                f"kubectl {' '.join(words[:2])}: {reason[:300]}",
                hint=f"try it by hand: {' '.join((self.program, *which, *words[:2]))}",
            )
        return _text(done.stdout)


def _text(said: bytes) -> str:
    """Word for word: a carriage return within evidence ends no line."""
    return said.decode("utf-8", "surrogateescape")


def _reason(stderr: str) -> str:
    """The line that says what went wrong; below it kubectl may give advice, or list nodes.

    Where it tried again and again, why that was in vain stands above it.
    """
    lines = [line.strip() for line in stderr.split("\n") if line.strip()]
    told = [line for line in lines if line.lower().startswith("error")]
    vain = [line.partition("(will retry")[2] for line in told if "(will retry" in line]
    last = (told or lines or [""])[-1]
    why = vain[-1].partition("): ")[2] if vain else ""
    return f"{last}; {why}" if why and why not in last else last
