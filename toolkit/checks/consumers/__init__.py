"""Checks on consumers: NCCL, UCX, MPI, containers, and the path that they take."""
