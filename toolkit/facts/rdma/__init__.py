"""RDMA devices: ports, GIDs, counters, and what their tests print."""
