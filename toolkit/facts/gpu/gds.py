"""GPUDirect Storage: nvidia-fs, cuFile's configuration, and what gdscheck and gdsio say.

Sources: NVIDIA/gds-nvidia-fs src/nvfs-proc.c and nvfs-dma.c; cufile.json; ``gdscheck -p``,
of which three layouts are known: 0.9 ("cuFile CONFIGURATION:"), 1.0 to 1.13 and 1.14
("DRIVER CONFIGURATION:", with the IOMMU's state for each GPU).
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines


class NvidiaFs(Struct, frozen=True):
    """The nvidia-fs module as it runs, and the NVMe parameter that P2PDMA minds."""

    loaded: bool
    version: str = ""  # "2.24.2"; from /proc only "2.24"
    clients: tuple[str, ...] = ()  # storage drivers that it has hooked: "nvme", "lustre"
    nvme_multipath: bool | None = None  # None where nvme_core is not loaded or has no multipath


def parse_gds(text: str) -> NvidiaFs:
    """Read the probe's "sys/module/nvidia_fs/version:2.24.2" lines.

    :raises Unparsable: where a boolean parameter is neither Y nor N.
    """
    values: dict[str, str] = {}
    clients = []
    for path, line in named_lines(text, "nvidia_fs"):
        if path == "proc/driver/nvidia-fs/modules":
            clients.append(line.partition(":")[0])
        else:
            values[path] = line.strip()
    told = values.get("proc/driver/nvidia-fs/version", "").removeprefix("version:").strip()
    multipath = values.get("sys/module/nvme_core/parameters/multipath")
    if multipath not in {None, "Y", "N"}:
        raise Unparsable("nvme_core/parameters/multipath", str(multipath))
    return NvidiaFs(
        values.get("sys/module/nvidia_fs/initstate") == "live",
        values.get("sys/module/nvidia_fs/version") or told,
        tuple(clients),
        None if multipath is None else multipath == "Y",
    )


def parse_cufile(text: str) -> dict[str, bool]:
    """Read the settings of cufile.json that decide the mode, by name.

    The probe sends only their lines. The first file that names a setting counts, for
    /etc/cufile.json comes first. A setting that stands under several storage kinds too is
    true where any of them is.

    :raises Unparsable: at a value that is no boolean.
    """
    found: dict[str, tuple[str, bool]] = {}
    for path, line in named_lines(text, "cufile.json"):
        setting = re.fullmatch(r'\s*"(\w+)"\s*:\s*(true|false)\b.*', line)
        if setting is None:
            raise Unparsable(path, line)
        name, value = setting[1], setting[2] == "true"
        file, before = found.get(name, (path, False))
        if file == path:
            found[name] = (path, before or value)
    return {name: value for name, (_, value) in found.items()}


class GdsCheck(Struct, frozen=True):
    """What ``gdscheck -p`` printed."""

    release: str  # "1.14.0.30"
    nvidia_fs: str  # "2.24"; "" where the module is not loaded
    storage: dict[str, bool] = field(default_factory=dict)  # "NVMe": supported
    gpus: tuple[str, ...] = ()  # one line a GPU, as printed
    iommu: str = ""  # "disabled", "enabled"; "" where it was not printed
    verified: bool | None = None  # the platform; None where gdscheck did not come so far
    trouble: tuple[str, ...] = ()  # lines that say what is not supported
    listed: bool = False  # all kinds of storage: behind them comes user-space RDMA


_SUPPORT = re.compile(r"(--)?(\S.*?)\s*: (Supported|Unsupported)")
_TROUBLE = re.compile(
    r"does not have supported architecture|does not have any supported|cannot be|failed", re.I
)


def parse_gdscheck(text: str) -> GdsCheck:
    """Read ``gdscheck -p`` of any layout.

    "Userspace RDMA : Unsupported" says that cuFile's own RDMA library is not configured; it
    is not the state of PeerDirect.

    :raises Unparsable: where it names neither a release nor a kind of storage.
    """
    lines = [line.strip() for line in text.split("\n")]
    release = _after(lines, r"GDS release version(?: \(beta\))?: *(\S+)")
    storage = {
        found[2]: found[3] == "Supported"
        for line in lines
        if (found := _SUPPORT.fullmatch(line)) and not found[1]
    }
    if not release and not storage:
        raise Unparsable("gdscheck -p", text.strip().split("\n", 1)[0])
    joined = "\n".join(lines)
    verified = None
    if "Platform verification succeeded" in joined:
        verified = True
    elif "Platform verification failed" in joined or "Platform verification error" in joined:
        verified = False
    trouble = tuple(line for line in lines if _TROUBLE.search(line)) if not verified else ()
    return GdsCheck(
        release,
        _after(lines, r"nvidia_fs version: *([\d.]+)"),
        storage,
        tuple(line for line in lines if re.match(r"GPU (index )?\d+ ", line)),
        _after(lines, r"IOMMU: *(\w+)").lower(),
        verified,
        trouble,
        "Userspace RDMA" in storage,
    )


# What cuFile logs (cufile.log): "DD-MM-YYYY hh:mm:ss:ms [pid=N tid=N] ERROR  cufio-fs:199 ...".
_LOGGED = re.compile(
    r"(?:ERROR|NOTICE|WARN)\s+\S+:\d+ (?P<why>nvidia-fs\.ko driver not loaded"
    r"|\w+ Driver not registered with nvidia-fs|cuInit Failed, error \w+|Unsupported block device.*"
    r"|Inc-bar-usage failed: size \d+ remaining bytes \d+|running in compatible mode"
    r"|error creating udev_device for block device .*|error allocating nvfs handle, size: \d+"
    r"|.{0,300}?GDS not supported or disabled by config.*)"
)


def parse_cufile_log(text: str) -> tuple[str, ...]:
    """Why cuFile went through host memory, or failed, each once; the log is of many runs."""
    return tuple(dict.fromkeys(each["why"].strip("! ") for each in _LOGGED.finditer(text)))


def _after(lines: list[str], pattern: str) -> str:
    found = (re.match(pattern, line) for line in lines)
    return next((each[1] for each in found if each), "")


# What gdsio measured: one line a run, by each way of moving data between files and GPUs.
# Source: NVIDIA's GPUDirect Storage Benchmarking and Configuration Guide, gdsio: -x picks the way,
# 0 GPUD, 1 CPUONLY, 2 CPU_GPU, 3 CPU_ASYNC_GPU, 4 CPU_CACHED_GPU, 5 GPUD_ASYNC, 6 GPU_BATCH. The
# line is the same whether cuFile went directly or fell back to host memory (compatibility mode).
SOURCE = "gdsio"
_GIB = (1 << 30) / 1e9
_LINE = re.compile(
    r"IoType:\s*(\w+)\s+XferType:\s*(\w+)\s+Threads:\s*(\d+)\s.*?IOSize:\s*(\S+?)\(?KiB\)?\s*"
    r"Throughput:\s*([\d.]+)\s*GiB/sec",
    re.S,
)


class GdsioRun(Struct, frozen=True):
    """One line."""

    operation: str  # "READ", "WRITE", "RANDREAD"
    way: str  # "GPUD", "CPUONLY", "CPU_GPU"
    threads: int
    size: str  # KiB of one request, as printed
    throughput: float  # GB/s (10^9)

    @property
    def direct(self) -> bool:
        """Whether cuFile was asked to move data between file and GPU itself."""
        return self.way.startswith(("GPUD", "GPU_"))

    @property
    def bounced(self) -> bool:
        """Through host memory to the GPU."""
        return self.way.startswith("CPU_")

    @property
    def load(self) -> tuple[str, int, str]:
        """What has to be the same for two figures to be compared."""
        return (self.operation, self.threads, self.size)


def parse_gdsio(text: str) -> tuple[GdsioRun, ...]:
    """Read every line of figures.

    :raises Unparsable: where there is none.
    """
    found = tuple(
        GdsioRun(operation, way, int(threads), size, float(value) * _GIB)
        for operation, way, threads, size, value in _LINE.findall(text)
    )
    if not found:
        raise Unparsable(SOURCE, text.strip().split("\n", 1)[0])
    return found
