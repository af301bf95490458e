"""``python -m toolkit.demo serve STATE NODE...``: the server, as a process of its own.

Prints "NODE PORT" for each node and then an empty line, and serves until its standard
input ends: with "quit" commands still running are ended at once, else after a while.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from pathlib import Path

if __name__ == "__main__":
    # A third of our start, for words of ssh_config files, of which a server reads none.
    sys.modules["invoke"] = None  # type: ignore[assignment] # as Python has one not to be had

import paramiko

from toolkit.demo.create import owes_a_boot
from toolkit.demo.fleet import client_key_file
from toolkit.demo.server import Server, boot


def main(arguments: list[str]) -> int:
    """Serve; returns when standard input has ended."""
    if len(arguments) < 3 or arguments[0] != "serve":
        sys.stderr.write("usage: python -m toolkit.demo serve STATE NODE...\n")
        return 64
    # What Paramiko has to say of clients that vanish is nothing to an operator.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    state, names = Path(arguments[1]), arguments[2:]
    key = paramiko.Ed25519Key.from_private_key_file(str(client_key_file(state)))
    power = state / f"power.{uuid.uuid4().hex}"
    places = [state / "nodes" / name for name in names]
    for place in filter(owes_a_boot, places):
        boot(place)
    server = Server(places, key, power)
    serving = threading.Thread(target=server.serve)
    serving.start()
    print("".join(f"{name} {port}\n" for name, port in server.ports.items()), flush=True)
    said = sys.stdin.read()  # until whoever started us closes it, or is gone
    if "quit" in said:
        server.stop(grace_s=0)
    else:
        server.stop()
    serving.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
