"""libibverbs by ctypes, on the node: the first part of register.py, which see.

Sources: linux-rdma/rdma-core libibverbs/verbs.c, cmd_mr.c, providers/mlx5/mlx5dv.h.
"""

import ctypes
import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 2 << 20
ACCESS = 7  # local write, remote write, remote read: what NCCL asks for
OF_NO_FILE = -1
OWN_WORDS = {95: "EOPNOTSUPP", 524: "ENOTSUPP"}  # of two names the usual; one that only Linux has
DATA_DIRECT = 1  # MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT
ANY, U64, SIZE_T, INT = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int


class Refused(Exception):
    """A call that came to nothing: its name, and why."""


def say(*words: object) -> None:
    line = " ".join(map(str, words)).replace("\n", " ")
    os.write(1, (line + "\n").encode("utf-8", "replace"))


def named(number: int) -> str:
    number = abs(number)
    if number in OWN_WORDS:
        return OWN_WORDS[number]
    return errno.errorcode.get(number, f"E{number}")


def load(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(name, use_errno=True)


def file_of(name: str) -> str:
    """The file that was loaded under this name, from the process's own maps."""
    base = name.rpartition("/")[2].split(".so")[0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").split(" ", 5)[-1].strip()
            if path.rpartition("/")[2].startswith(base + ".so"):
                return path
    return name


class Verbs:
    """libibverbs, with the types of what is called."""

    def __init__(self, name: str) -> None:
        self.lib = lib = load(name)
        lib.ibv_get_device_list.restype = ctypes.POINTER(ANY)
        lib.ibv_get_device_list.argtypes = [ctypes.POINTER(INT)]
        lib.ibv_get_device_name.restype = ctypes.c_char_p
        lib.ibv_get_device_name.argtypes = [ANY]
        for call in (lib.ibv_open_device, lib.ibv_alloc_pd, lib.ibv_reg_mr):
            call.restype = ANY
        lib.ibv_open_device.argtypes = lib.ibv_alloc_pd.argtypes = [ANY]
        lib.ibv_reg_mr.argtypes = [ANY, ANY, SIZE_T, INT]
        lib.ibv_dereg_mr.argtypes = [ANY]

    def devices(self) -> "dict[str, int]":
        count = INT(0)
        ctypes.set_errno(0)
        listed = self.lib.ibv_get_device_list(ctypes.byref(count))
        if not listed:
            raise Refused(f"ibv_get_device_list {named(ctypes.get_errno())}")
        every = [listed[at] for at in range(count.value)]
        return {self.lib.ibv_get_device_name(each).decode(): each for each in every}

    def open(self, name: str) -> "tuple[int, int]":
        """The context and a protection domain of an HCA."""
        device = self.devices().get(name)
        if device is None:
            raise Refused("it is gone")
        context = self._made("ibv_open_device", device)
        return context, self._made("ibv_alloc_pd", context)

    def _made(self, call: str, *words: object) -> int:
        ctypes.set_errno(0)
        made = getattr(self.lib, call)(*words)
        if not made:
            raise Refused(f"{call} {named(ctypes.get_errno())}")
        return int(made)

    def by_provider(self, pd: int, fd: int, size: int, access: int) -> str:
        """ "ok", or the errno, of ibv_reg_dmabuf_mr: as libraries call it."""
        call = getattr(self.lib, "ibv_reg_dmabuf_mr", None)
        if call is None:
            return "absent"
        call.restype, call.argtypes = ANY, [ANY, U64, SIZE_T, U64, INT, INT]
        return self._registered(lambda: call(pd, 0, size, 0, fd, access))

    def by_kernel(self, pd: int) -> str:
        """The same past the provider: what the kernel says of it.

        Newer libraries take one more word, which is a null pointer here; older ones ignore it.
        """
        call = getattr(self.lib, "ibv_cmd_reg_dmabuf_mr", None)
        if call is None:
            return "absent"
        call.restype, call.argtypes = INT, [ANY, U64, SIZE_T, U64, INT, INT, ANY, ANY]
        room = ctypes.create_string_buffer(1024)  # a struct verbs_mr
        ctypes.set_errno(0)
        said = call(pd, 0, 0, 0, OF_NO_FILE, 0, ctypes.cast(room, ANY), None)
        return named(said if said > 0 else ctypes.get_errno()) if said else "ok"

    def by_address(self, pd: int, address: int) -> str:
        return self._registered(lambda: self.lib.ibv_reg_mr(pd, address, SIZE, ACCESS))

    def by_data_direct(self, context: int, pd: int, fd: int) -> str:
        """ "" for an HCA without that second way through PCIe."""
        try:
            lib = load("libmlx5.so.1")
            has, call = lib.mlx5dv_get_data_direct_sysfs_path, lib.mlx5dv_reg_dmabuf_mr
        except (OSError, AttributeError):
            return ""
        has.argtypes = [ANY, ctypes.c_char_p, SIZE_T]
        if has(context, ctypes.create_string_buffer(4096), 4096) != 0:
            return ""
        call.restype, call.argtypes = ANY, [ANY, U64, SIZE_T, U64, INT, INT, INT]
        return self._registered(lambda: call(pd, 0, SIZE, 0, fd, ACCESS, DATA_DIRECT))

    def _registered(self, call: "Callable[[], int]") -> str:
        ctypes.set_errno(0)
        region = call()
        if not region:
            return named(ctypes.get_errno())
        said = self.lib.ibv_dereg_mr(region)
        return "ok" if said == 0 else "dereg:" + named(said)


def ask_hca(library: str, name: str) -> None:
    verbs = Verbs(library)
    _, pd = verbs.open(name)
    say("hca", name, "public", verbs.by_provider(pd, OF_NO_FILE, 0, 0))
    say("hca", name, "kernel", verbs.by_kernel(pd))
