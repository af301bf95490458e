"""One BMC, over Redfish: read as evidence, and told what to change. See redfish_reader."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import BmcCertificate, BmcError, BmcLogin, BmcRefused, BmcSilent, UsageError
from toolkit.redfish.reader import Reader
from toolkit.redfish.resource import (
    Json,
    NoBios,
    Resource,
    link,
    optional,
    rows_of,
    table_of,
    text_of,
)
from toolkit.untrusted import read_json

Raw = str | int | bool  # an attribute's value, as the BMC writes it

_OF_ETAGS = frozenset({412, 428})
_RESET = "#ComputerSystem.Reset"


class JobState(StrEnum):
    """How far the BMC is with what it took on."""

    NONE = "none"  # it took it on without a job: what is pending is applied at the next start
    WAITING = "waiting"  # for the next start
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # in part or as a whole
    GONE = "gone"  # the BMC does not know the job any more: look at the active values


# Redfish's task states and Dell's job states, in lower case; with any other word a job runs.
_STATES = {
    JobState.WAITING: "new pending scheduled starting readyforexecution downloaded waiting",
    JobState.DONE: "completed",
    JobState.FAILED: "exception killed cancelled interrupted failed completedwitherrors suspended "
    "rebootfailed",
}
_BY_WORD = {word: state for state, words in _STATES.items() for word in words.split()}


class Answer(Struct, frozen=True):
    """A BMC took a change on; nothing of it is in effect before the machine starts again."""

    status: int  # of HTTP: 200, 202 or 204
    job: str = ""  # path of what it does about it; "" for none
    apply_time: str = ""  # what it was told, "" where it offers no choice
    message: str = ""  # its own words, if any


class Job(Struct, frozen=True):
    """One look at what a BMC does about a change."""

    state: JobState
    text: str = ""  # its own words
    percent: int = -1  # -1 where it does not tell


class Bmc(Reader):
    """A BMC while we are logged in."""

    def change(self, attributes: Mapping[str, Raw], apply_time: str = "") -> Answer:
        """Ask for other settings from the next start on: one request with all of them.

        With the ETag where one is offered. Where the BMC says that it is out of date, or that
        one is needed, it is read again and the request sent once more; never otherwise.

        :param attributes: values by the names of attributes, as the BMC writes both.
        :param apply_time: "OnReset" and the like; left out where the BMC does not offer it.
        :raises BmcRefused: in its own words; nothing was taken on.
        :raises BmcSilent: whether it was taken on is not known; what is pending tells.
        :raises BmcError: it cannot be reached, or has no place for changes.
        """
        self.http.begin()
        found = self.found()
        if found.pending is None:
            raise NoBios(
                f"{self.name}: offers no place for changes of BIOS settings",
                hint="change them in the machine's own setup",
            )
        body: dict[str, object] = {"Attributes": dict(attributes)}
        told = apply_time if apply_time in apply_times(found.bios.body, found.pending.body) else ""
        if told:
            body["@Redfish.SettingsApplyTime"] = {"ApplyTime": told}
        pending = self.get(found.pending.path)
        try:
            return self._patched(pending, body, told)
        except BmcRefused as why:
            if why.status not in _OF_ETAGS:
                raise
        return self._patched(self._otherwise(pending), body, told)

    def _otherwise(self, before: Resource) -> Resource:
        """The same, read again; an ETag that stayed and was refused is tried in its strong form."""
        now = self.get(before.path)
        if now.etag == before.etag:
            return Resource(now.path, now.text, now.body, now.etag.removeprefix("W/"))
        return now

    def _patched(self, pending: Resource, body: Json, told: str) -> Answer:
        headers = {"If-Match": pending.etag} if pending.etag else {}
        try:
            with self.plainly(f"PATCH {pending.path}"):
                answer = self.inside.wire.patch(pending.path, data=body, headers=headers)
        except (BmcRefused, BmcCertificate, BmcLogin):
            raise
        except BmcError as why:
            raise BmcSilent(
                f"{why}, amid a change: whether it was taken on is not known",
                hint="look at what is pending before it is asked for again: bios --hosts ...",
            ) from why
        place = link({"job": answer.headers.get("Location", "")}, "job")
        return Answer(answer.status_code, place, told, _message(answer.content))

    def job(self, answer: Answer) -> Job:
        """Look once at what the BMC does about a change.

        :raises BmcError: it cannot be read; while a machine starts, many cannot.
        """
        if not answer.job:
            return Job(JobState.NONE)
        self.http.begin()
        found = optional(self.get, answer.job)
        if found is None:
            return Job(JobState.GONE)
        # Tasks of Dell's firmware wrap the job, whose word goes first.
        word = text_of(found.body, "JobState") or text_of(found.body, "TaskState")
        state = _BY_WORD.get(word.replace(" ", "").lower(), JobState.RUNNING)
        percent = found.body.get("PercentComplete")
        return Job(
            state,
            text_of(found.body, "Message") or _first_message(found.body) or word,
            percent if isinstance(percent, int) and not isinstance(percent, bool) else -1,
        )

    def power(self) -> str:
        """ "On", "Off", "PoweringOn", "PoweringOff"; "" where the BMC does not tell.

        :raises BmcError: it cannot be read.
        """
        self.http.begin()
        return text_of(self.get(self.found().system.path).body, "PowerState")

    def resets(self) -> tuple[str, ...]:
        """The kinds of reset that the BMC offers; () where it does not tell.

        :raises BmcError: it cannot be read.
        """
        self.http.begin()
        action = _action(self.found().system.body)
        listed = action.get("ResetType@Redfish.AllowableValues")
        if not isinstance(listed, list):
            info = optional(self.get, link(action, "@Redfish.ActionInfo"))
            listed = _allowed(info.body) if info else []
        return tuple(each for each in listed if isinstance(each, str))

    def reset(self, kind: str) -> None:
        """Reset the machine; the BMC says no more than that it will.

        :param kind: one of ``resets()``: "GracefulRestart", "ForceRestart", "On" and the like.
        :raises UsageError: the BMC does not offer it; nothing was done.
        :raises BmcSilent: whether the machine is reset is not known.
        :raises BmcError: it is refused, or cannot be asked.
        """
        offered = self.resets()
        target = link({"to": _action(self.found().system.body).get("target")}, "to")
        if not target or (offered and kind not in offered):
            raise UsageError(
                f"{self.name}: offers no reset {kind!r}",
                hint=f"it offers: {', '.join(offered) or 'none'}",
            )
        try:
            # Without If-Match: some firmware refuses an action that has one.
            with self.plainly(f"POST {target}"):
                self.inside.wire.post(target, data={"ResetType": kind})
        except (BmcRefused, BmcCertificate, BmcLogin):
            raise
        except BmcError as why:
            raise BmcSilent(
                f"{why}, amid a reset: whether the machine starts again is not known",
                hint="look at its power state and its boot id before it is reset again",
            ) from why


def apply_times(*bodies: Json) -> tuple[str, ...]:
    """When changes can be applied, as the resources of the settings offer it."""
    found = [
        each
        for body in bodies
        for name in ("@Redfish.Settings", "@Redfish.SettingsApplyTime")
        for key in ("SupportedApplyTimes", "ApplyTime@Redfish.AllowableValues")
        for each in rows_of(table_of(body, name), key)
        if isinstance(each, str)
    ]
    return tuple(dict.fromkeys(found))


def _action(system: Json) -> Json:
    return table_of(table_of(system, "Actions"), _RESET)


def _allowed(info: Json) -> list[object]:
    for each in rows_of(info, "Parameters"):
        if isinstance(each, Mapping) and each.get("Name") == "ResetType":
            return rows_of(each, "AllowableValues")
    return []


def _first_message(body: Json) -> str:
    first = next(iter(rows_of(body, "Messages")), None)
    return text_of(first, "Message") if isinstance(first, Mapping) else ""


def _message(content: bytes) -> str:
    """What it says beside its status; it was taken on all the same where that is no JSON."""
    try:
        said = read_json(content)
    except ValueError:
        return ""
    return text_of(said, "Message") if isinstance(said, dict) else ""
