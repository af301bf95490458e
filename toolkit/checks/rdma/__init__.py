"""Checks on RDMA: HCAs, ports, RoCE."""
