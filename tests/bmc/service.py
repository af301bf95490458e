"""A Redfish service over one machine: what each request is answered by."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.bmc import changing, view
from tests.bmc.asked import Asked, Reply
from tests.bmc.machine import Machine
from tests.bmc.persona import Manners, Persona
from tests.bmc.rules import Refusal, Resource
from tests.bmc.sessions import Sessions

SESSIONS = "/redfish/v1/SessionService"
_OF_SESSIONS = {"SessionService", "Links"}
_OPEN = frozenset({"/redfish", "/redfish/v1"})  # to anybody, as DSP0266 demands


class Service:
    """Answers one BMC's requests, one at a time."""

    def __init__(self, persona: Persona, manners: Manners) -> None:
        self.persona = persona
        self.manners = manners
        self.machine = Machine(persona, manners)
        self.sessions = Sessions(manners)
        self.lock = threading.RLock()
        held = persona.tree.pop(SESSIONS, {})
        if manners.session_service:
            persona.tree[SESSIONS] = view.session_service(held, manners.session_timeout_s)
        else:
            root = persona.tree["/redfish/v1"]
            persona.tree["/redfish/v1"] = {key: root[key] for key in root.keys() - _OF_SESSIONS}

    @property
    def away(self) -> bool:
        """Whether nobody answers: the machine boots, and takes the BMC with it."""
        return self.manners.vanishes and self.machine.posting

    def answer(self, asked: Asked) -> Reply:
        with self.lock:
            self.machine.settle()
            path = self.persona.find(asked.path)
            login = asked.method == "POST" and path.startswith(f"{SESSIONS}/Sessions")
            if login and self.manners.session_service:
                return self._login(asked)
            if path not in _OPEN and not self._entered(asked):
                return error(401, Refusal("NoValidSession", "There is no valid session.", ""))
            return self._methods().get(asked.method, self._refused)(asked, path)

    def _methods(self) -> dict[str, Callable[[Asked, str], Reply]]:
        return {
            "GET": self._get,
            "HEAD": self._get,
            "PATCH": lambda asked, path: changing.patch(self, asked, path),
            "POST": lambda asked, path: changing.act(self, asked, path),
            "DELETE": self._delete,
        }

    def _entered(self, asked: Asked) -> bool:
        if token := asked.headers.get("x-auth-token"):
            return self.sessions.knows(token)
        return self.sessions.basic(asked.headers.get("authorization", ""))

    def _login(self, asked: Asked) -> Reply:
        said = asked.body if isinstance(asked.body, dict) else {}
        if not self.sessions.right(said.get("UserName"), said.get("Password")):
            text = "The attempt to establish a session was denied: wrong user or password."
            return error(401, Refusal("ResourceAtUriUnauthorized", text, ""))
        session = self.sessions.begin()
        if session is None:
            text = "The session establishment failed: too many sessions are open."
            return error(503, Refusal("SessionLimitExceeded", text, ""))
        body = view.session(session.number)
        head = {"X-Auth-Token": session.token, "Location": body["@odata.id"]}
        return Reply(201, body, head)

    def _get(self, asked: Asked, path: str) -> Reply:
        found = view.resource(self, path)
        if found is None:
            return missing(path)
        etag = view.etag(found)
        show = etag and self.manners.etag_header
        return Reply(200, found, {"ETag": etag} if show else {})

    def _delete(self, asked: Asked, path: str) -> Reply:
        head, _, last = path.rpartition("/")
        if head == f"{SESSIONS}/Sessions":
            return Reply(204) if self.sessions.end(last) else missing(path)
        job = self.machine.jobs.get(last)
        if job is None or not self.manners.jobs or head != self.manners.jobs:
            return missing(path)
        if job.open:
            self.machine.pending.clear()
        del self.machine.jobs[last]
        return Reply(200, success())

    def _refused(self, asked: Asked, path: str) -> Reply:
        return error(405, Refusal("OperationNotAllowed", f"{asked.method} is not allowed.", ""))


def error(status: int, *refusals: Refusal) -> Reply:
    """An error as Redfish words it: each thing that is wrong in ExtendedInfo."""
    about = [view.message(each) for each in refusals]
    first = "See ExtendedInfo for more information."
    body: Resource = {"code": "Base.1.8.GeneralError", "message": first}
    return Reply(status, {"error": body | {"@Message.ExtendedInfo": about}})


def success(kind: str = "Base.1.8.Success") -> Resource:
    told = {"MessageId": kind, "Message": "The request completed successfully.", "Severity": "OK"}
    return {"@Message.ExtendedInfo": [told | {"MessageArgs": []}]}


def missing(path: str) -> Reply:
    return error(404, Refusal("ResourceMissingAtURI", f"The resource at {path} was not found.", ""))
