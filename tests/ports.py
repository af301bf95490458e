"""Ports for servers that are told theirs: free, and given to nobody until they listen.

Below those that the kernel gives to whoever connects or binds none in particular; each worker of
a run draws from a range of its own, and no port twice.
"""

from __future__ import annotations

import os
import secrets
import socket

_FIRST, _EACH, _WORKERS = 20000, 3000, 4
_drawn: set[int] = set()


def free_port(address: str = "") -> int:
    """One on which nobody listens.

    :param address: that it is free at; "" for all of IPv4.
    """
    first = _FIRST + _EACH * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _WORKERS)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in secrets.SystemRandom().sample(range(first, first + _EACH), _EACH):
        if port in _drawn:
            continue
        _drawn.add(port)
        try:
            with socket.create_server((address, port), family=family):
                return port
        except OSError:  # somebody's
            continue
    raise AssertionError("no free ports")
