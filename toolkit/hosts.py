"""A host: a name we can reach. The node behind it is what evidence tells of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Host:
    """Where to knock. Empty fields are left to ~/.ssh/config and the client's defaults."""

    name: str  # as the operator wrote it; reports and evidence files use it
    address: str = ""  # "" means the name
    user: str = ""
    port: int = 0  # 0 means the configured one, else 22
    jump: str = ""  # "user@host:port" to go through
    bmc: str = ""  # address of the management controller
    groups: tuple[str, ...] = ()
    key_file: str = ""  # identity file
    options: tuple[tuple[str, str], ...] = ()  # further ssh_config keywords for this host alone
