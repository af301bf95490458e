"""What lives, laid over a persona's tree: power, pending values, ETags, sessions, jobs."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING

from tests.bmc.machine import Job, JobState
from tests.bmc.persona import Etag, Pending
from tests.bmc.rules import Refusal, Resource, entries, locked

if TYPE_CHECKING:
    from tests.bmc.service import Service

SESSIONS = "/redfish/v1/SessionService"
TASKS = "/redfish/v1/TaskService/Tasks"
_TASK = {
    JobState.SCHEDULED: "Pending",
    JobState.RUNNING: "Running",
    JobState.COMPLETED: "Completed",
    JobState.FAILED: "Exception",
    JobState.COMPLETED_WITH_ERRORS: "Completed",
}


def resource(it: Service, path: str) -> Resource | None:
    """The resource at a path of the tree as it is now; None where there is none."""
    if path.startswith(SESSIONS + "/") and it.manners.session_service:
        return _session_at(it, path)
    if it.manners.jobs and (found := _job_at(it, path)):
        return found
    if path not in it.persona.tree:
        return None
    made = copy.copy(it.persona.tree[path])
    if path == it.persona.system:
        _live_system(it, made)
    elif path == it.persona.bios:
        _live_bios(it, made)
    elif path == it.persona.waiting:
        _live_pending(it, made)
    elif path == it.persona.registry:
        made = _live_registry(it, made)
    elif "Lockdown.1.SystemLockdown" in made.get("Attributes", {}):
        state = "Enabled" if it.manners.lockdown else "Disabled"
        made["Attributes"] = made["Attributes"] | {"Lockdown.1.SystemLockdown": state}
    made.pop("@odata.etag", None)
    if it.manners.etag is not Etag.NONE:
        whole = json.dumps(made, sort_keys=True).encode()
        made["@odata.etag"] = f'W/"{hashlib.sha256(whole).hexdigest()[:16].upper()}"'
    return made


def etag(found: Resource) -> str:
    return str(found.get("@odata.etag", ""))


def _live_system(it: Service, made: Resource) -> None:
    made["PowerState"] = it.machine.power
    if it.manners.progress or "BootProgress" in made:
        state = "OSRunning" if it.machine.power == "On" else "None"
        busy = "SystemHardwareInitializationComplete"
        made["BootProgress"] = {"LastState": busy if it.machine.posting else state}


def _live_bios(it: Service, made: Resource) -> None:
    made["Attributes"] = dict(it.machine.active)
    if it.manners.outcome and it.machine.boots:
        told = [message(each) for each in it.machine.last] or [{"MessageId": "Base.1.0.Success"}]
        settings = made["@Redfish.Settings"]
        made["@Redfish.Settings"] = settings | {"Messages": told, "Time": "2026-01-01T00:00:00Z"}


def _live_pending(it: Service, made: Resource) -> None:
    made.pop("Attributes", None)
    waiting = dict(it.machine.pending)
    match it.manners.pending:
        case Pending.FULL:
            made["Attributes"] = it.machine.active | waiting
        case Pending.CHANGES:
            made["Attributes"] = waiting
        case Pending.BARE if waiting:
            made["Attributes"] = waiting


def _live_registry(it: Service, made: Resource) -> Resource:
    if not it.manners.live_registry and not it.manners.lockdown:
        return made
    made = copy.deepcopy(made)
    shut = locked(made, it.machine.active)
    for name, entry in entries(made).items():
        entry["ReadOnly"] = it.manners.lockdown or name in shut
    return made


def message(refusal: Refusal) -> Resource:
    """One message as ExtendedInfo has it."""
    about = [f"#/Attributes/{refusal.about}"] if refusal.about else []
    known = {"MessageId": refusal.message_id, "Message": refusal.text, "Severity": "Warning"}
    if "." not in refusal.message_id:
        known["MessageId"] = f"Base.1.8.{refusal.message_id}"
    return known | {"MessageArgs": [refusal.about], "RelatedProperties": about, "Resolution": ""}


def session_service(held: Resource, timeout_s: float) -> Resource:
    head = {"@odata.id": SESSIONS, "@odata.type": "#SessionService.v1_1_8.SessionService"}
    body = {"Id": "SessionService", "Name": "Session Service", "ServiceEnabled": True}
    place = {"Sessions": {"@odata.id": f"{SESSIONS}/Sessions"}, "SessionTimeout": int(timeout_s)}
    return head | body | held | place


def session(number: str) -> Resource:
    head = {"@odata.id": f"{SESSIONS}/Sessions/{number}", "@odata.type": "#Session.v1_3_0.Session"}
    return head | {"Id": number, "Name": "Session"}


def _session_at(it: Service, path: str) -> Resource | None:
    numbers = [each.number for each in it.sessions.open.values()]
    if path == f"{SESSIONS}/Sessions":
        links = [{"@odata.id": f"{path}/{each}"} for each in numbers]
        kind = {"@odata.type": "#SessionCollection.SessionCollection", "Name": "Sessions"}
        return {"@odata.id": path} | kind | {"Members": links, "Members@odata.count": len(links)}
    last = path.rpartition("/")[2]
    return session(last) if last in numbers else None


def _job_at(it: Service, path: str) -> Resource | None:
    """Dell's jobs, and the same as tasks."""
    head, _, last = path.rpartition("/")
    if path in {it.manners.jobs, TASKS}:
        links = [{"@odata.id": f"{path}/{each}"} for each in it.machine.jobs]
        kind = {"@odata.type": "#JobCollection.JobCollection", "Name": "Jobs"}
        return {"@odata.id": path} | kind | {"Members": links, "Members@odata.count": len(links)}
    if head not in {it.manners.jobs, TASKS} or last not in it.machine.jobs:
        return None
    job = it.machine.jobs[last]
    return {"@odata.id": path} | (_task(job) if head == TASKS else _job(job))


def _job(job: Job) -> Resource:
    done = 0 if job.open else 100
    head = {"@odata.type": "#DellJob.v1_2_0.DellJob", "Id": job.number, "JobState": str(job.state)}
    head |= {"JobType": "BIOSConfiguration", "Name": "Configure: BIOS.Setup.1-1"}
    text = f"Job {job.state.lower()}."
    return head | {"PercentComplete": done, "Message": text, "MessageId": "PR19"}


def _task(job: Job) -> Resource:
    good = job.state not in {JobState.FAILED, JobState.COMPLETED_WITH_ERRORS}
    head = {"@odata.type": "#Task.v1_5_1.Task", "Id": job.number, "TaskState": _TASK[job.state]}
    head |= {"Name": "Configure: BIOS.Setup.1-1", "TaskStatus": "OK" if good else "Critical"}
    return head | {"PercentComplete": 0 if job.open else 100, "Messages": []}
