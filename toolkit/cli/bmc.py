"""What was said of BMCs; imported where a fleet is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.options import BMC, BMC_PASSWORD, BMC_USER, Said
from toolkit.errors import UsageError
from toolkit.redfish import LIMIT_S
from toolkit.ssh.credentials import read_secret, read_secret_file

if TYPE_CHECKING:
    from toolkit.redfish.access import BmcAccess


def bmc_access(said: Said) -> BmcAccess | None:
    """What was said of BMCs; None where none shall be asked.

    :raises UsageError: it makes no sense, or a password is missing.
    """
    user = said.text("bmc_user") or os.environ.get(BMC_USER, "")
    if not user:
        _refuse_without_user(said)
        return None
    from toolkit.redfish import access  # noqa: PLC0415 only they pay for it

    trust = access.BmcTrust(
        pins=tuple(access.read_pin(each) for each in said.text("bmc_pin").split(",") if each),
        insecure=said.flag("bmc_insecure"),
        ca=access.check_ca(said.text("bmc_ca")) if said.text("bmc_ca") else "",
    )
    if trust.insecure and (trust.pins or trust.ca):
        raise UsageError(
            "--bmc-insecure beside what BMCs are known by", hint="say one of them, not both"
        )
    limit = said.number("bmc_timeout", int(LIMIT_S))
    if limit < 1:
        raise UsageError(
            f"--bmc-timeout {limit}: at least 1 second", hint="leave it out for the usual limit"
        )
    places = access.read_map(Path(said.text("bmc_map"))) if said.text("bmc_map") else {}
    return access.BmcAccess(access.Login(user, _password(said)), trust, places, limit)


def _refuse_without_user(said: Said) -> None:
    """Who says how to reach BMCs means to read them.

    :raises UsageError: something was said, and nobody to log in as.
    """
    told = [each.name for each in BMC if each.name not in {"bmc_timeout", "bmc_pass_fd"}]
    told = [name for name in told if said.values.get(name)]
    if said.number("bmc_pass_fd", -1) != -1:
        told.append("bmc_pass_fd")
    if told:
        option = told[0].replace("_", "-")
        raise UsageError(
            f"--{option} without a user of the BMCs", hint=f"--bmc-user, or {BMC_USER}"
        )


def _password(said: Said) -> str:
    """From where it was said to lie: never from the command line, which everybody sees."""
    descriptor, file = said.number("bmc_pass_fd", -1), said.text("bmc_password_file")
    # Taken out: children of ours have no use for it.
    environment = os.environ.pop(BMC_PASSWORD, "")
    if descriptor != -1 and file:
        raise UsageError("--bmc-pass-fd and --bmc-password-file", hint="say one of them")
    if descriptor != -1:
        return read_secret(descriptor)
    if file:
        return read_secret_file(Path(file))
    if environment:
        return environment
    raise UsageError(
        "no password for the BMCs",
        hint=f"--bmc-password-file FILE, --bmc-pass-fd 3 3<FILE, or {BMC_PASSWORD}",
    )
