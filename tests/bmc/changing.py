"""Requests that change something: values that are to wait, resets, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bmc import service, view
from tests.bmc.asked import Asked, Reply
from tests.bmc.persona import Etag
from tests.bmc.rules import Refusal

if TYPE_CHECKING:
    from tests.bmc.service import Service

_APPLY = "@Redfish.SettingsApplyTime"
_COMMITTED = Refusal(
    "IDRAC.2.8.SYS011",
    "Pending configuration values are already committed, unable to perform another set operation.",
    "",
)


def patch(it: Service, asked: Asked, path: str) -> Reply:
    """Take values for the next boot, all of them or none."""
    if path not in it.persona.tree:
        return service.missing(path)
    if path != it.persona.waiting:
        text = f"PATCH is not allowed on {path}."
        return service.error(405, Refusal("OperationNotAllowed", text, ""))
    return _condition(it, asked, path) or _store(it, asked)


def _store(it: Service, asked: Asked) -> Reply:
    body = asked.body if isinstance(asked.body, dict) else {}
    wanted = body.get("Attributes")
    if not isinstance(wanted, dict) or not wanted:
        return service.error(400, Refusal("PropertyMissing", "Attributes is missing.", ""))
    if it.manners.lockdown:
        text = "Unable to change the configuration: the system is in lockdown mode."
        return service.error(403, Refusal("IDRAC.2.8.SYS518L", text, ""))
    if it.machine.scheduled:
        return service.error(400, _COMMITTED)
    refused = it.machine.wrong(wanted) + _apply_time(it, body)
    if refused:
        return service.error(400, *refused)
    return _take(it, wanted, job=_APPLY in body)


def _take(it: Service, wanted: dict[str, object], *, job: bool) -> Reply:
    waited = bool(it.machine.pending)
    it.machine.store(wanted)
    if it.manners.jobs and job and not (waited and it.manners.quiet_when_pending):
        number = it.machine.schedule().number
        return Reply(202, service.success(), {"Location": f"{view.TASKS}/{number}"})
    if it.manners.accepts == 204:
        return Reply(204)
    kind = "iLO.2.14.SystemResetRequired" if it.manners.outcome else "Base.1.8.Success"
    return Reply(it.manners.accepts, service.success(kind))


def _condition(it: Service, asked: Asked, path: str) -> Reply | None:
    """What If-Match, or its absence, has to say."""
    said = asked.headers.get("if-match")
    if it.manners.etag is Etag.NONE:
        return None
    if said is None:
        number = {Etag.REQUIRED_428: 428, Etag.REQUIRED_412: 412}.get(it.manners.etag)
        text = "A required header, If-Match, is missing."
        missing = Refusal("Ami.1.0.PreconditionHeaderMissing", text, "")
        return service.error(number, missing) if number else None
    here = view.etag(view.resource(it, path) or {})
    if said in {"*", here} or said == here.removeprefix("W/"):
        return None
    text = "The ETag supplied did not match the ETag of the resource."
    return service.error(412, Refusal("PreconditionFailed", text, ""))


def _apply_time(it: Service, body: dict[str, object]) -> tuple[Refusal, ...]:
    said = body.get(_APPLY)
    if said is None:
        return ()
    if not it.manners.apply_times:
        return (Refusal("PropertyUnknown", f"The property {_APPLY} is not known.", _APPLY),)
    when = said.get("ApplyTime") if isinstance(said, dict) else None
    if when in it.manners.apply_times:
        return ()
    text = f"The value {when} for the property ApplyTime is not in the list of acceptable values."
    return (Refusal("PropertyValueNotInList", text, "ApplyTime"),)


def act(it: Service, asked: Asked, path: str) -> Reply:
    """Actions, and a job asked for by itself."""
    if "if-match" in asked.headers and not it.manners.action_if_match:
        text = "If-Match is not supported here."
        return service.error(412, Refusal("PreconditionFailed", text, ""))
    body = asked.body if isinstance(asked.body, dict) else {}
    if path == it.persona.find(_target(it)):
        return _reset(it, body.get("ResetType"))
    if path == f"{it.persona.waiting}/Actions/Oem/DellManager.ClearPending" and it.manners.jobs:
        it.machine.forget()
        return Reply(200, service.success())
    if it.manners.jobs and path == it.manners.jobs:
        return _job(it, body.get("TargetSettingsURI"))
    return service.missing(path)


def _target(it: Service) -> str:
    actions = it.persona.tree[it.persona.system]["Actions"]
    return str(actions["#ComputerSystem.Reset"]["target"])


def _reset(it: Service, kind: object) -> Reply:
    if kind not in it.manners.resets:
        text = f"The value {kind} for the parameter ResetType is not in the list of values."
        return service.error(400, Refusal("ActionParameterNotSupported", text, ""))
    if not it.machine.reset(str(kind)):
        text = f"The machine is {it.machine.power.lower()}; {kind} is not possible."
        return service.error(409, Refusal("ResourceInUse", text, ""))
    return Reply(204)


def _job(it: Service, target: object) -> Reply:
    if target != it.persona.waiting or not it.machine.pending:
        text = "No pending data present to create a configuration job."
        return service.error(400, Refusal("IDRAC.2.8.RAC056", text, ""))
    if it.machine.scheduled:
        return service.error(400, _COMMITTED)
    job = it.machine.schedule()
    return Reply(200, service.success(), {"Location": f"{it.manners.jobs}/{job.number}"})
