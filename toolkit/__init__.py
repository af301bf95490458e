"""From a bare driver install to proven GPUDirect RDMA."""

__version__ = "0.2.0"
DEFAULT_PROFILE = "auto"
