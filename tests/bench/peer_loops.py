"""The same probe by loops over other libraries; run by the Python of tests/bench/peers.lock.

PYTHON tests/bench/peer_loops.py asyncssh|fabric INVENTORY SSH_CONFIG PROBE
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Any: neither library is in the environment that checks types.


def main() -> None:
    library, inventory, config, probe = sys.argv[1:]
    hosts = [line.split()[0] for line in Path(inventory).read_text().splitlines()]
    read = {"asyncssh": by_asyncssh, "fabric": by_fabric}[library]
    assert min(read(hosts, config, Path(probe))) > 1000, "a node answered next to nothing"


def by_asyncssh(hosts: list[str], config: str, probe: Path) -> list[int]:
    import asyncssh  # type: ignore[import-not-found] # noqa: PLC0415 of the other environment

    script = probe.read_text()

    async def read(host: str) -> int:
        async with asyncssh.connect(host, config=[config]) as connection:
            done = await connection.run("sh -s", input=script, errors="surrogateescape")
            return len(done.stdout)

    async def every() -> list[int]:
        return await asyncio.gather(*map(read, hosts))

    return asyncio.run(every())


def by_fabric(hosts: list[str], config: str, probe: Path) -> list[int]:
    from fabric import Config, Connection  # type: ignore[import-not-found] # noqa: PLC0415 likewise

    settings = Config(runtime_ssh_path=config)
    # Each takes a copy of the settings, which are half there while another thread copies them.
    connections = [Connection(host, config=settings) for host in hosts]

    def read(connection: Any) -> int:
        host = connection.original_host  # `host` is the address, which all of them share
        with connection:
            # What a program reads is handed over letter by letter: a file is Fabric's own way.
            connection.put(str(probe), f"/tmp/{host}.probe")
            done: Any = connection.run(
                f"sh /tmp/{host}.probe; rm /tmp/{host}.probe", hide=True, in_stream=False
            )
            return len(done.stdout)

    with ThreadPoolExecutor(64) as pool:
        return list(pool.map(read, connections))


if __name__ == "__main__":
    main()
