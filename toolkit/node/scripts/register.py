"""Which HCA takes the memory of which GPU: asked of verbs and CUDA, and no byte is moved.

Runs on the node, by any Python from 3.6 on with ctypes and nothing else; never imported here.
Prints one fact a line, and "end" once all was asked:

    libibverbs FILE | - WHY          which library answers; likewise libcuda
    memlock BYTES | unlimited        of this very process
    hca NAME public|kernel ERRNO     a registration of no dma-buf at all, by both ways to ask
    refused NAME|ADDRESS WHY         that it could not be asked
    gpu ADDRESS ok                   all of it was asked
    gpu ADDRESS skipped WHY          left alone, for a job may have it
    gpu ADDRESS failed WAY CALL ERROR      CUDA gave no memory, or no dma-buf of it
    pair ADDRESS NAME WAY ok|ERRNO   one registration of 2 MiB, taken back at once
    lost NAME|ADDRESS timeout|signal:N|ended STEP

A library may hang or crash where hardware is ill: each HCA and each GPU is asked by a process of
its own, with a deadline. A GPU that a job has for itself, or with little free memory, is left
alone. Sources: NVIDIA/nccl src/transport/net_ib/gdr.cc; linux-rdma/rdma-core libibverbs/verbs.c,
cmd_mr.c, providers/mlx5/mlx5dv.h; CUDA Driver API, cuMemGetHandleForAddressRange.
"""

import ctypes
import os
import resource
import select
import signal
import struct
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # on the node that part stands before this one, in one text
    from collections.abc import Callable

    from toolkit.node.scripts.register_verbs import (
        ACCESS,
        ANY,
        INT,
        SIZE,
        SIZE_T,
        U64,
        Refused,
        Verbs,
        ask_hca,
        file_of,
        load,
        say,
    )

CONTEXT = 1 << 30  # a context of CUDA alone takes up to 0.6 GB of a large GPU
HCA_S, GPU_S, PAIR_S = 5.0, 15.0, 1.0
EXCLUSIVE = {1: "exclusive", 2: "prohibited", 3: "exclusive process"}
ATTRIBUTE_COMPUTE_MODE = 20
DMA_BUF_FD = 1  # CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
BY_PCIE = 1  # CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE


class Cuda:
    """libcuda; a call that fails raises Refused with CUDA's own word for it."""

    def __init__(self) -> None:
        self.lib = load("libcuda.so.1")
        self("cuInit", 0)

    def __call__(self, call: str, *words: object) -> None:
        function = getattr(self.lib, call, None)
        if function is None:
            raise Refused(f"{call} absent")
        said = function(*words)
        if said != 0:
            word = ctypes.c_char_p()
            self.lib.cuGetErrorName(said, ctypes.byref(word))
            raise Refused(f"{call} {(word.value or str(said).encode()).decode()}")

    def number(self, call: str, *words: object) -> int:
        value = INT(0)
        self(call, ctypes.byref(value), *words)
        return value.value

    def addresses(self) -> "list[str]":
        """PCI addresses by CUDA's order, as sysfs writes them."""
        found = []
        for at in range(self.number("cuDeviceGetCount")):
            device = self.number("cuDeviceGet", at)
            text = ctypes.create_string_buffer(64)
            self("cuDeviceGetPCIBusId", text, 64, device)
            domain, _, rest = text.value.decode().lower().partition(":")
            found.append(f"{int(domain, 16):04x}:{rest}")
        return found

    def allocated(self) -> int:
        address = U64(0)
        self("cuMemAlloc_v2", ctypes.byref(address), SIZE_T(SIZE))
        return address.value

    def mapped(self, device: int) -> int:
        """Memory by cuMemCreate, which NCCL takes for its buffers."""
        # CUmemAllocationProp: pinned, as a file descriptor, on a device, no win32 handle, not
        # compressed, able for RDMA. CUmemAccessDesc: on a device, to read and write.
        wanted = struct.pack("=iiiiQBBHI", 1, 1, 1, device, 0, 0, 1, 0, 0)
        access = struct.pack("=iii", 1, device, 3)
        grain, handle, address = SIZE_T(0), U64(0), U64(0)
        self("cuMemGetAllocationGranularity", ctypes.byref(grain), wanted, 0)
        size = SIZE_T(-(-SIZE // grain.value) * grain.value)
        self("cuMemCreate", ctypes.byref(handle), size, wanted, U64(0))
        self("cuMemAddressReserve", ctypes.byref(address), size, SIZE_T(0), U64(0), U64(0))
        self("cuMemMap", address, size, SIZE_T(0), handle, U64(0))
        self("cuMemSetAccess", address, size, access, SIZE_T(1))
        return address.value

    def exported(self, address: int, flags: int) -> int:
        fd = INT(-1)
        call = "cuMemGetHandleForAddressRange"
        self(call, ctypes.byref(fd), U64(address), SIZE_T(SIZE), DMA_BUF_FD, U64(flags))
        return fd.value


def free_memory(address: str) -> "int | None":
    """Bytes; None where this kind of GPU has no memory of its own to tell of.

    :raises Refused: nobody can tell, so that a context might take a job's last memory.
    """
    try:
        lib = load("libnvidia-ml.so.1")
        device, memory = ANY(), (ctypes.c_ulonglong * 3)()
        said = lib.nvmlInit_v2()
        said = said or lib.nvmlDeviceGetHandleByPciBusId_v2(address.encode(), ctypes.byref(device))
        said = said or lib.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
    except (OSError, AttributeError) as why:
        raise Refused(str(why)) from why
    if said == 3:  # NVML_ERROR_NOT_SUPPORTED
        return None
    if said != 0:
        raise Refused(f"NVML error {said}")
    return memory[1]


def busy(cuda: Cuda, address: str, device: int) -> str:
    """Why a GPU is left alone; "" where nothing speaks against it."""
    mode = cuda.number("cuDeviceGetAttribute", ATTRIBUTE_COMPUTE_MODE, device)
    if mode in EXCLUSIVE:
        return f"compute mode {EXCLUSIVE[mode]}"
    try:
        free = free_memory(address)
    except Refused as why:
        return f"its free memory is not told: {why}"
    if free is not None and free < CONTEXT:
        return f"{free // 1000000} MB of its memory are free"
    return ""


def ask_gpu(library: str, address: str, names: "list[str]") -> None:
    """Every registration of one GPU's memory; no other GPU is visible to CUDA here."""
    cuda = Cuda()
    device = cuda.number("cuDeviceGet", 0)
    why = busy(cuda, address, device)
    if why:
        say("gpu", address, "skipped", why)
        return
    context = ANY()
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    buffers = bought(cuda, address, device)
    exports = exported(cuda, address, buffers)
    verbs = Verbs(library)
    for name in names:
        try:
            ask_pair(verbs, address, name, buffers, exports)
        except Refused as why:
            say("pair", address, name, "open", str(why).split()[-1])
    say("gpu", address, "ok")


def bought(cuda: Cuda, address: str, device: int) -> "dict[str, int]":
    """Memory of the GPU by either call, as far as CUDA gives any."""
    buffers = {}
    for way, make in (("dmabuf", cuda.allocated), ("dmabuf-vmm", lambda: cuda.mapped(device))):
        try:
            buffers[way] = make()
        except Refused as why:
            say("gpu", address, "failed", way, why)
    return buffers


def exported(cuda: Cuda, address: str, buffers: "dict[str, int]") -> "dict[str, int]":
    """File descriptors of dma-bufs, by way."""
    exports = {}
    for way, flags in (("dmabuf", 0), ("dmabuf-vmm", 0), ("dmabuf-pcie", BY_PCIE)):
        buffer = buffers.get("dmabuf" if flags else way)
        try:
            if buffer is not None:
                exports[way] = cuda.exported(buffer, flags)
        except Refused as why:
            say("gpu", address, "failed", way, why)
    return exports


def ask_pair(
    verbs: Verbs, address: str, name: str, buffers: "dict[str, int]", exports: "dict[str, int]"
) -> None:
    opened, pd = verbs.open(name)
    for way, fd in exports.items():
        say("step", way, name)
        say("pair", address, name, way, verbs.by_provider(pd, fd, SIZE, ACCESS))
    if "dmabuf" in exports:
        direct = verbs.by_data_direct(opened, pd, exports["dmabuf"])
        if direct:
            say("pair", address, name, "data-direct", direct)
    if "dmabuf" in buffers:
        say("step", "peermem", name)
        say("pair", address, name, "peermem", verbs.by_address(pd, buffers["dmabuf"]))


# --- one process for each ------------------------------------------------------------


def apart(limit_s: float, ask: "Callable[..., None]", *words: object) -> "tuple[list[str], str]":
    """What ``ask`` said in a process of its own, and why it did not end; "" where it did."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(theirs, 1)
        os.close(ours)
        try:
            ask(*words)
            say("done")
        except Exception as why:  # whatever a library of another age lacks
            say("refused", why)
        finally:
            os._exit(0)  # no library's own farewell
    os.close(theirs)
    text, due = b"", time.monotonic() + limit_s
    while time.monotonic() < due:
        if not select.select([ours], [], [], max(0.0, due - time.monotonic()))[0]:
            break
        some = os.read(ours, 65536)
        if not some:
            break
        text += some
    os.close(ours)
    said = text.decode("utf-8", "replace").split("\n")[:-1]
    return said, "" if "done" in said[-1:] else ended(child, said)


def ended(child: int, said: "list[str]") -> str:
    """How a process went that did not say that it was done."""
    if said and said[-1].startswith("refused "):
        os.waitpid(child, 0)
        return said[-1]
    for _ in range(20):  # it may be on its way out
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            return f"signal:{os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended"
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return "timeout"  # not waited for: one that is stuck in the kernel never goes


def told(of: str, answer: "tuple[list[str], str]") -> "list[str]":
    """Say on what a process said; what became of it where it did not end."""
    said, why = answer
    step = ""
    for line in said:
        kind, _, rest = line.partition(" ")
        if kind in ("hca", "pair", "gpu"):
            say(line)
        step = rest if kind == "step" else step
    if why.startswith("refused "):
        say("refused", of, why[8:])
    elif why:
        say("lost", of, why, step)
    return said


def list_hcas(library: str) -> None:
    verbs = Verbs(library)
    say("library", file_of(library))
    for name in verbs.devices():
        say("name", name)


def list_gpus() -> None:
    cuda = Cuda()
    say("library", file_of("libcuda.so.1"))
    for address in cuda.addresses():
        say("name", address)


def listed(kind: str, answer: "tuple[list[str], str]") -> "list[str]":
    said, why = answer
    library = [line[8:] for line in said if line.startswith("library ")]
    if library:
        say(kind, library[0])
    if why:
        say(kind, "-", why[8:] if why.startswith("refused ") else why)
    return [line[5:] for line in said if line.startswith("name ")]


def ask_one_gpu(index: int, library: str, address: str, names: "list[str]") -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = str(index)
    ask_gpu(library, address, names)


def main(words: "list[str]") -> None:
    library = words[0] if words and words[0] else "libibverbs.so.1"
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    say("memlock", "unlimited" if soft == resource.RLIM_INFINITY else soft)
    names = listed("libibverbs", apart(HCA_S, list_hcas, library))
    for name in names:
        told(name, apart(HCA_S, ask_hca, library, name))
    addresses = listed("libcuda", apart(GPU_S, list_gpus))
    for index, address in enumerate(addresses):
        limit_s = GPU_S + PAIR_S * len(names)
        told(address, apart(limit_s, ask_one_gpu, index, library, address, names))
    say("end")


main(sys.argv[1:])
