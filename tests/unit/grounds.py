"""Surveys of grounds, composed: what survey.sh prints, in its own shapes."""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.evidence import Evidence
from toolkit.facts.modules.build_env import Ground, parse_ground

KERNEL, OTHER = "6.1.0-56-amd64", "6.12.117+deb12-amd64"
DRIVER, OFED = "535.261.03", "24.10"
CRCS = ("0xf6d59ac1", "0xbde5c050")  # of the two symbols of the interface
TOOLS = (
    "dkms make gcc g++ cc ld bash patch modprobe modinfo depmod strip gzip xz zstd base64"
    " sha256sum unshare mount flock perl openssl"
)
_CONFIG = (
    'CONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"',
    "CONFIG_PREEMPT_BUILD=y",
    "# CONFIG_PREEMPT_RT is not set",
    "CONFIG_SMP=y",
    "CONFIG_MODULE_UNLOAD=y",
    "CONFIG_MODVERSIONS=y",
)


def sha(word: str) -> str:
    return sha256(word.encode()).hexdigest()


class Package(Struct, frozen=True):
    """A DKMS package below /usr/src."""

    name: str
    version: str
    builds: tuple[str, ...]
    depends: tuple[str, ...] = ()
    content: str = ""  # its hash is made of it
    licence: str = ""  # of a driver's main module
    peermem: str = ""  # licence of the nvidia-peermem in it

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"


NVIDIA = Package(
    "nvidia-current-open",
    DRIVER,
    ("nvidia", "nvidia-modeset", "nvidia-peermem"),
    licence="Dual MIT/GPL",
    peermem="Dual BSD/GPL",
)
MLNX = Package("mlnx-ofed-kernel", OFED, ("ib_core", "ib_uverbs"))
NVIDIA_FS = Package("nvidia-fs", "2.13", ("nvidia-fs",))
GDRDRV = Package("gdrdrv", "2.4.4", ("gdrdrv",))


class Survey(Struct, frozen=True):
    """What is to be surveyed; ``ground`` reads it."""

    kernels: tuple[str, ...] = (KERNEL,)
    packages: tuple[Package, ...] = (MLNX, NVIDIA)
    headers: str = "headers"  # their hash is made of it
    missing: tuple[str, ...] = ()  # parts of the headers
    config: tuple[str, ...] = _CONFIG
    named: str = "gcc-12"
    compiler: str = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
    tools: str = TOOLS
    dkms: str = "dkms-3.0.10"
    arch: str = "x86_64"
    inbox: bool = False  # the kernel exports the interface
    folders: tuple[str, ...] = ()  # below /usr/src/ofa_kernel, each with a Module.symvers
    empty: tuple[str, ...] = ()  # folders there without one
    links: tuple[str, ...] = ()  # "LINK -> TARGET" there
    crcs: tuple[str, str] = CRCS
    leftover: bool = False
    driver: str = ""  # version that is installed for every kernel
    driver_crc: str = "0x9bfc92ad"
    peermem: str | None = None  # what the installed nvidia-peermem depends on
    drivers: tuple[tuple[str, str], ...] = ()  # further files of it: below /lib/modules, version
    ofed: tuple[str, str] | None = None  # symbol versions of the ib_uverbs that is installed
    ofed_at: str = "updates/dkms"  # its folder
    status: tuple[str, ...] = ()  # lines as of dkms status
    room_kb: int = 50_000_000
    drop: tuple[str, ...] = field(default=())  # frames that are absent

    @property
    def ground(self) -> Ground:
        return parse_ground(self.evidence, tree=True)

    @property
    def here(self) -> Ground:
        """The same, as a machine and not as a tree."""
        return replace(self.ground, tree=False)

    @property
    def evidence(self) -> Evidence:
        return Evidence.parse(self.text)

    @property
    def text(self) -> str:
        frames = self._frames()
        lines = ["= begin ok gdr-toolkit/1"]
        for key, body in frames.items():
            state = "absent" if key in self.drop else "ok"
            lines.append(f"= {key} {state} somewhere")
            lines += [f"|{line}" for line in body if state == "ok"]
        return "\n".join([*lines, f"= end ok {len(frames)}", ""])

    def _frames(self) -> dict[str, list[str]]:
        return {
            "arch": [self.arch],
            "os-release": ["ID=debian", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"'],
            "ground-tools": self.tools.split(),
            "dkms-version": [self.dkms],
            "kernels": [line for each in self.kernels for line in self._kernel(each)],
            "releases": list(self.kernels),
            "kernel-configs": [
                line for each in self.kernels for line in (f"@{each}", *self.config)
            ],
            "symvers": self._symvers(),
            "sources": [
                *(f"/usr/src/ofa_kernel/{each}" for each in (*self.folders, *self.empty)),
                *(f"/usr/src/ofa_kernel/{each}" for each in self.links),
            ],
            "dkms-confs": [line for each in self.packages for line in _conf(each)],
            "trees": [f"{sha(each.folder + each.content)} {each.folder}" for each in self.packages],
            "licences": [line for each in self.packages for line in _licences(each)],
            "dkms-tree": ["/var/lib/dkms/mlnx-ofed-kernel"] * self.leftover,
            "dkms-status": list(self.status),
            "exports": [line for each in self.kernels for line in self._exports(each)],
            "installed": [line for each in self.kernels for line in self._installed(each)],
            "room": [
                "Filesystem 1024-blocks Used Available Capacity Mounted on",
                f"/dev/sda1 99999999 1 {self.room_kb} 1% /",
            ],
        }

    def _kernel(self, release: str) -> list[str]:
        return [
            f"@{release}",
            *(f"missing {part}" for part in self.missing),
            f"headers {sha(self.headers + release)}",
            f"named {self.named}",
            f"compiler {self.compiler}",
        ]

    def _symvers(self) -> list[str]:
        lines = []
        for release in self.kernels:
            lines += [f"@/lib/modules/{release}/build/Module.symvers"]
            lines += ["0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t"]
            lines += self._interface("drivers/infiniband/core/ib_core") if self.inbox else []
        for folder in self.folders:
            lines += [f"@/usr/src/ofa_kernel/{folder}/Module.symvers"]
            lines += self._interface("drivers/infiniband/core/ib_uverbs")
        return lines

    def _interface(self, module: str) -> list[str]:
        return [f"{row}\t{module}\tEXPORT_SYMBOL\t" for row in _peers(self.crcs)]

    def _exports(self, release: str) -> list[str]:
        lines = []
        if self.ofed:
            lines += [f"@/lib/modules/{release}/{self.ofed_at}/ib_uverbs.ko", *_peers(self.ofed)]
        rows = [f"{self.driver_crc}\tnvidia_p2p_get_pages", "0xe40fcf46\tnvidia_p2p_put_pages"]
        for path in self._drivers(release):
            lines += [f"@{path}", *rows, "layout 0x9060323f"]
        return lines

    def _drivers(self, release: str) -> dict[str, str]:
        """Files of the driver and their versions."""
        further = {f"/lib/modules/{release}/{path}": version for path, version in self.drivers}
        return further | ({_file(release): self.driver} if self.driver else {})

    def _installed(self, release: str) -> list[str]:
        lines = []
        for path, version in self._drivers(release).items():
            lines += [
                f"filename:       {path}",
                f"version:        {version}",
                "license:        Dual MIT/GPL",
                f"vermagic:       {release} SMP preempt mod_unload modversions ",
            ]
        if self.peermem is not None:
            path = f"/lib/modules/{release}/updates/dkms/nvidia-current-open-peermem.ko"
            lines += [f"filename:       {path}", f"depends:        {self.peermem}"]
        return lines


def _peers(crcs: tuple[str, str]) -> list[str]:
    names = ("ib_register_peer_memory_client", "ib_unregister_peer_memory_client")
    return [f"{crc}\t{name}" for crc, name in zip(crcs, names, strict=True)]


def _file(release: str) -> str:
    return f"/lib/modules/{release}/updates/dkms/nvidia-current-open.ko"


def _conf(package: Package) -> list[str]:
    if not package.builds:
        return [f'{package.folder}/Kbuild:ccflags-y += -DNV_VERSION_STRING=\\"{package.version}\\"']
    head = f"{package.folder}/dkms.conf:"
    return [
        f'{head}PACKAGE_NAME="{package.name}"',
        f'{head}PACKAGE_VERSION="{package.version}"',
        *(f'{head}BUILT_MODULE_NAME[{n}]="{name}"' for n, name in enumerate(package.builds)),
        *(f'{head}BUILD_DEPENDS[{n}]="{name}"' for n, name in enumerate(package.depends)),
    ]


def _licences(package: Package) -> list[str]:
    lines = []
    if package.licence:
        lines += [f'{package.folder}/nvidia/nv-frontend.c:MODULE_LICENSE("{package.licence}");']
    if package.peermem:
        path = f"{package.folder}/nvidia-peermem/nvidia-peermem.c"
        lines += [f'{path}:MODULE_LICENSE("{package.peermem}");']
    return lines
