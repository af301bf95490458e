"""NCCL, UCX and MPI: settings, logs, test results; who uses GPUDirect."""
