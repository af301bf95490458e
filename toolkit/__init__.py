"""From a bare driver install to proven GPUDirect RDMA.

PYTEST_DONT_REWRITE: as gdr_toolkit says.
"""

__version__ = "0.2.0"
DEFAULT_PROFILE = "auto"
