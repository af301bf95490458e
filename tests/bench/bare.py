"""The bare loop that doctor is measured against: our transport, the probe, and no judging."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolkit.hosts.host import Host
from toolkit.hosts.inventory import read_inventory
from toolkit.node.collect import probe_script
from toolkit.ssh.paramiko import SshTransport
from toolkit.ssh.ssh_config import SshConfig


def main() -> None:
    inventory, config = read_inventory(Path(sys.argv[1])), SshConfig.load(Path(sys.argv[2]))
    script = probe_script()

    def read(host: Host) -> int:
        transport = SshTransport(host, config=config)
        try:
            return len(transport.run(script).stdout)
        finally:
            transport.close()

    with ThreadPoolExecutor(64) as pool:
        sizes = list(pool.map(read, inventory.hosts.values()))
    assert min(sizes) > 1000, "a node answered next to nothing"


if __name__ == "__main__":
    main()
