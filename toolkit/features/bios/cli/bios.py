"""The verb that reads BIOSes over Redfish, plans what to change, and changes it on consent."""

from __future__ import annotations

from toolkit.cli.options import BMC, HOSTS, REACH, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode
from toolkit.verbs.cli.rollout import ROLLOUT

BIOS = (
    Option("set", "", "SETTING=VALUE,..., raw:ATTRIBUTE=VALUE, profile: plan that", many=True),
    Option("undo", "", "plan to take back what this run of bios changed; runs lists them"),
    Option("apply", False, "send what was planned; it takes effect at the machine's next start"),
    Option("reboot", False, "with --apply: reset machines, and see what is in force then"),
    Option("over_jobs", False, "reset also where a job is at work, or nobody can tell"),
    Option("force_reset", False, "reset hard where a graceful reset is not offered or heeded"),
    Option(
        "boot_timeout", 1200, "seconds from a reset until all must be in force", was="boot_limit"
    ),
    Option("role", "", "bare-metal, vm-host or vm; else the site's file or the node says"),
    Option("verbose", False, "settings of which nothing is wanted, and all that follows", "v"),
    Option("json", False, "one JSON document on standard output (docs/bios.schema.json)"),
)
_ROLL = tuple(each for each in ROLLOUT if each.name != "resume")


@verb(HOSTS, REACH, WANT, BMC, BIOS, _ROLL)
def bios(said: Said) -> ExitCode:
    """Settings of a BIOS that decide on peer-to-peer traffic: current, pending, wanted.

    Reads BMCs over Redfish and changes nothing; --set plans a change, and only --apply sends it.
    No machine is reset without --reboot, none under a job. See docs/bios.md.

    Exits 0 when all is as wanted, 2 when a setting differs or cannot be changed, 3 when the BIOS
    does not tell, 4 when a BMC is out of reach, 7 when a change is planned or waits for a reset.

    Examples:
      invoke bios --hosts gpu[001-128] --bmc-map bmcs --bmc-user op --bmc-password-file pw
      invoke bios --hosts gpu007 --set acs=off,aspm=off
      invoke bios --hosts gpu[001-128] --set profile --apply --reboot --serial 1,10%
      invoke bios --undo 2026-11-22T22-00-00-bios --apply --reboot
    """
    from toolkit.features.bios.cli.run import run_bios  # noqa: PLC0415 only who asks a BMC pays for Redfish

    return run_bios(said)
