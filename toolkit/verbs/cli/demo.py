"""The verb for the simulated nodes themselves."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from toolkit.cli.options import Option, Said
from toolkit.cli.verb import verb
from toolkit.demo.fleet import reset
from toolkit.demo.nodes import catalogue
from toolkit.errors import ExitCode, UsageError
from toolkit.interrupts import terminable
from toolkit.report.document import dumps
from toolkit.report.listings import demo_document
from toolkit.report.table import columns
from toolkit.verbs.access import demo_folder


@verb(
    (
        Option("reset", False, "make the nodes anew: whatever was healed is ill again"),
        Option(
            "serve", "", "keep them up by real sshd until Ctrl-C; this folder says how to log in"
        ),
        Option("hosts", "", "with --serve: these nodes in place of demo"),
        Option("json", False, "one JSON document on standard output (docs/demo.schema.json)"),
    )
)
def demo(said: Said) -> ExitCode:
    """The simulated nodes: which there are, where they lie, and how to make them ill again.

    With --serve they stay up, each behind a real sshd on loopback, until Ctrl-C or SIGTERM, which
    end it with 0. The folder then has hosts.ini (an Ansible inventory, written last), ssh_config,
    known_hosts, client_key and ClusterShell's groups.conf. In the end all that is taken away.

    Examples:
      invoke demo
      invoke demo --reset
      invoke demo --serve fleet --hosts demo-all
      invoke doctor --hosts demo-all
    """
    if said.text("serve"):
        return _serve(said)
    if said.text("hosts"):
        raise UsageError("--hosts goes with --serve", hint="doctor --hosts demo looks at nodes")
    if said.flag("reset"):
        said.not_dry("demo --reset", "which nodes it would make anew: demo")
        reset(demo_folder())
    if said.flag("json"):
        told = demo_document(catalogue(), str(demo_folder()), reset=said.flag("reset"))
        sys.stdout.write(dumps(told))
    elif said.flag("reset"):
        print("as they were at first")
    else:
        rows = [
            (name, why, "demo" if in_demo else "demo-all only")
            for name, why, in_demo in catalogue()
        ]
        print("\n".join(columns(rows)))
        print(f"\nthey lie in {demo_folder()}; --hosts demo[001-200] makes larger fleets")
    return ExitCode.OK


def _serve(said: Said) -> ExitCode:
    if said.flag("reset") or said.flag("json"):
        raise UsageError("--serve goes with --hosts alone", hint="--reset and --json: without it")
    said.not_dry("demo --serve", "which nodes there are: demo")
    from toolkit.demo.serve import served, sftp_server  # noqa: PLC0415 only they pay for it

    folder = Path(said.text("serve"))
    with terminable(), served(said.text("hosts") or "demo", folder) as ports:
        try:
            print("\n".join(columns([(name, f"127.0.0.1:{at}") for name, at in ports.items()])))
            if not sftp_server():
                print("\nno sftp: this machine has no sftp-server; ssh and Ansible do without")
            print(f"\nup until Ctrl-C: ansible -i {folder}/hosts.ini demo -m raw -a lsmod")
            sys.stdout.flush()
            while True:
                time.sleep(60)
        except KeyboardInterrupt:
            return ExitCode.OK
