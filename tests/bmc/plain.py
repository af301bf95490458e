"""A client of few words, by requests alone: what the simulator's own tests ask with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

from tests.bmc.simulator import Simulator

SESSIONS = "/redfish/v1/SessionService/Sessions"
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Plain:
    """Requests to one BMC, with a session's token where one was opened."""

    bmc: Simulator
    session: requests.Session

    def ask(
        self, method: str, path: str, body: Any = None, wait_s: float = PATIENCE_S, **headers: str
    ) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.request(
            method,
            self.bmc.url + path,
            json=body,
            headers=named,
            timeout=wait_s,
            allow_redirects=False,
        )

    def get(self, path: str) -> Any:
        """The resource; what is no answer of 200 is an error of the test."""
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def patch(self, attributes: Any, when: str = "", **headers: str) -> requests.Response:
        """Change the pending resource."""
        body = {"Attributes": attributes}
        if when:
            body["@Redfish.SettingsApplyTime"] = {"ApplyTime": when}
        return self.ask("PATCH", self.bmc.persona.waiting, body, PATIENCE_S, **headers)

    def etag(self) -> str:
        """The pending resource's."""
        return str(self.get(self.bmc.persona.waiting)["@odata.etag"])

    def reset(self, kind: str) -> int:
        action = self.bmc.persona.tree[self.bmc.persona.system]["Actions"]["#ComputerSystem.Reset"]
        return self.ask("POST", action["target"], {"ResetType": kind}).status_code

    def login(self, password: str = "") -> requests.Response:
        said = {"UserName": self.bmc.user, "Password": password or self.bmc.password}
        return self.ask("POST", SESSIONS, said)


@contextmanager
def plain(bmc: Simulator, *, login: bool = True) -> Iterator[Plain]:
    """A client of ``bmc``; with a session of its own that is closed at the end."""
    with requests.Session() as session:
        session.verify = str(bmc.ca)
        session.trust_env = False
        client = Plain(bmc, session)
        if not login:
            yield client
            return
        entered = client.login()
        assert entered.status_code == 201
        session.headers["X-Auth-Token"] = entered.headers["X-Auth-Token"]
        yield client
        client.ask("DELETE", entered.headers["Location"])


def said(answer: requests.Response) -> list[str]:
    """The messages of an error, each its id's last word."""
    info = answer.json()["error"]["@Message.ExtendedInfo"]
    return [each["MessageId"].rpartition(".")[2] for each in info]
