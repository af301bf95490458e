"""From a bare driver install to proven GPUDirect RDMA."""

__version__ = "0.1.0"
DEFAULT_PROFILE = "auto"
