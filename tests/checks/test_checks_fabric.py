"""The checks on RDMA devices, what holds them back, and what the machine is."""

from __future__ import annotations

import pytest

from tests.evidence.board import BOARD, GPUS, HCAS
from tests.evidence.build import DOWN, GUEST_CPU, INFINIBAND, UP, hca_lines
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_fabric import SLURMD, daemons, devinfo
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, name
from toolkit.want import Role, Want

PAST_VERBS = BOARD.without(*HCAS[1:])
SLOW = INFINIBAND.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (2X NDR)", 1)
GEN4, GEN5 = ("16.0 GT/s PCIe", 16), ("32.0 GT/s PCIe", 16)
NEW = INFINIBAND.replace("28.43.2026", "28.45.1020", 1)  # of the first, so that order shows
SOFT = "rxe0/node_type:1: CA\nrxe0/ports/1/state:4: ACTIVE\nrxe0/ports/1/phys_state:5: LinkUp\n"
SOFT_RATE = "rxe0/ports/1/rate:2.5 Gb/sec (1X SDR)\nrxe0/ports/1/link_layer:Ethernet\n"
OPA = "hfi1_0/fw_ver:1.27.0\nhfi1_0/hca_type:HFI\nhfi1_0/device:0000:44:00.0\n"
UNPROVIDED = (
    "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': no such file\n"
    "No IB devices found\n"
)
ENFORCING: dict[str, Override] = {"selinux": "1\n", "selinux-denials": ""}
DENIAL = (
    'type=AVC msg=audit(1763700000.123:456): avc:  denied  { access } for pid=1 comm="python3"'
    " scontext=system_u:system_r:container_t:s0 tcontext=system_u:object_r:infiniband_device_t:s0\n"
)


def ethernet(*ports: tuple[str, str]) -> dict[str, Override]:
    return {"infiniband": hca_lines("mlx5_0", HCAS[0], *ports).replace("InfiniBand", "Ethernet")}


def at(rate: str, kind: str = "MT4129", layer: str = "InfiniBand") -> dict[str, Override]:
    """All ports at one rate."""
    text = INFINIBAND.replace("400 Gb/sec (4X NDR)", rate).replace("MT4129", kind)
    return {"infiniband": text.replace("link_layer:InfiniBand", f"link_layer:{layer}")}


def nvlinks(name: str, active: int, *, dead: int = 0) -> dict[str, Override]:
    """What two GPUs of this name tell of their NVLinks."""
    links = [f"\t Link {at}: 25 GB/s\n" for at in range(active)]
    links += [f"\t Link {at}: <inactive>\n" for at in range(active, active + dead)]
    gpus = (f"GPU {at}: NVIDIA {name} (UUID: GPU-{at})\n{''.join(links)}" for at in range(2))
    return {"nvlink-status": "".join(gpus)}


ROWS = [
    Row("soft-roce-alone", "rdma.devices", FAIL, "device of software", {"infiniband": SOFT}),
    Row(
        "soft-roce-where-the-driver-refused",
        "rdma.devices",
        FAIL,
        "no RDMA device for 3 HCAs, only 1 device of software",
        {"infiniband": SOFT},
    ),
    Row(
        "soft-roce-on-the-hcas-own-function",  # as kernels before 6 tell
        "rdma.devices",
        FAIL,
        "no RDMA device for 3 HCAs",
        {"infiniband": f"{SOFT}rxe0/device:{HCAS[0]}\n"},
    ),
    Row("soft-roce-is-no-hca", "rdma.port", FAIL, "but of software", {"infiniband": SOFT}),
    Row("soft-roce-has-no-rate", "rdma.rate", NA, "no port", {"infiniband": SOFT + SOFT_RATE}),
    Row("omni-path-alone", "rdma.devices", FAIL, "device of Omni-Path", {"infiniband": OPA}),
    *(
        Row(
            f"{claim}-alone-on-the-bus",
            each,
            NA,
            f"not judged here: {said}",
            {"infiniband": told},
            PAST_VERBS.but(HCAS[0], ids=ids, klass=klass, driver=driver),
        )
        for claim, said, told, ids, klass, driver in (
            ("omni-path", "Omni-Path", OPA, (0x434E, 1), 0x020800, "hfi1"),
            ("slingshot", "Slingshot", "", (0x17DB, 0x0501), 0x020000, "cxi_ss1"),
        )
        for each in ("rdma.devices", "rdma.port", "path.selected", "pcie.distance")
    ),
    Row(
        "slingshot-beside-a-connectx",
        "rdma.devices",
        FAIL,
        "2 HCAs on the PCI bus",
        {"infiniband": ""},
        BOARD.but(HCAS[0], ids=(0x17DB, 0x0501), klass=0x020000),
    ),
    Row("both", "rdma.devices", FAIL, "Omni-Path and software", {"infiniband": SOFT + OPA}),
    Row("soft-roce-beside", "rdma.devices", PASS, "4", {"infiniband": INFINIBAND + SOFT}),
    Row("no-ibv-devinfo", "rdma.devices", PASS, "3 devices", {"ibv-devinfo": ABSENT}),
    Row(
        "no-provider",
        "rdma.devices",
        FAIL,
        "user space has no provider libmlx5-rdmav34.so",
        {"ibv-devinfo": failed(255, UNPROVIDED)},
    ),
    Row(
        "user-space-finds-none",
        "rdma.devices",
        FAIL,
        "user space finds no RDMA device",
        {"ibv-devinfo": failed(255, "No IB devices found\n")},
    ),
    Row(
        "user-space-misses-one",
        "rdma.devices",
        FAIL,
        "does not see 2 of 3 HCAs",
        {"ibv-devinfo": devinfo(("mlx5_0", "PORT_ACTIVE"))},
    ),
    Row("it-may-not-ask", "rdma.devices", PASS, "3", {"ibv-devinfo": failed(255, "denied\n")}),
    Row("user-space-hangs", "rdma.devices", UNKNOWN, "no answer", {"ibv-devinfo": TIMEOUT}),
    Row("alike", "rdma.rate", PASS, "2 ports at 400 Gb/s"),
    Row("one-slower", "rdma.rate", FAIL, "mlx5_0 port 1: 200 of 400", {"infiniband": SLOW}),
    Row(
        "another-model-may-be-slower",
        "rdma.rate",
        PASS,
        "2 ports at 400, 200 Gb/s",
        {"infiniband": SLOW.replace("MT_0000000838", "MT_0000000224", 1)},
    ),
    Row(
        "a-dead-port-has-no-rate",
        "rdma.rate",
        PASS,
        "1 ports at 400",
        {
            "infiniband": hca_lines("mlx5_0", HCAS[0], UP)
            + hca_lines("mlx5_1", HCAS[1], DOWN).replace(
                "400 Gb/sec (4X NDR)", "40 Gb/sec (4X QDR)"
            )
        },
    ),
    Row(
        "none-is-up",
        "rdma.rate",
        NA,
        "no port that is up",
        {"infiniband": hca_lines("mlx5_0", HCAS[0], DOWN)},
    ),
    Row(
        "in-a-slower-slot",
        "rdma.rate",
        FAIL,
        "400 Gb/s behind PCIe 16 GT/s x16, 252 Gb/s",
        board=BOARD.but(HCAS[0], now=GEN4, best=GEN5),
    ),
    Row(
        "made-so",
        "rdma.rate",
        PASS,
        "2 ports",
        board=BOARD.but(HCAS[0], now=GEN4, best=GEN4),
    ),
    Row(
        "a-guest-sees-no-link",
        "rdma.rate",
        PASS,
        "2 ports",
        board=BOARD.but(HCAS[0], now=("Unknown", 0), best=("Unknown", 0)),
    ),
    Row(
        "one-for-storage-may-be-slower",
        "rdma.rate",
        PASS,
        "2 ports at 400 Gb/s",
        {"infiniband": "200 Gb/sec (2X NDR)".join(INFINIBAND.rsplit("400 Gb/sec (4X NDR)", 2))},
    ),
    Row("all-at-sdr", "rdma.rate", FAIL, "2 ports slower", at("10 Gb/sec (4X SDR)")),
    Row("all-at-ddr", "rdma.rate", FAIL, "2 ports slower", at("20 Gb/sec (4X DDR)")),
    Row("all-at-qdr", "rdma.rate", FAIL, "2 ports slower", at("40 Gb/sec (4X QDR)")),
    Row("hdr-switches", "rdma.rate", PASS, "2 ports at 200 Gb/s", at("200 Gb/sec (4X HDR)")),
    Row("edr-switches", "rdma.rate", PASS, "2 ports at 100 Gb/s", at("100 Gb/sec (4X EDR)")),
    Row(
        "qdr-on-a-card-for-hdr",
        "rdma.rate",
        PASS,
        "2 ports at 40 Gb/s",
        at("40 Gb/sec (4X QDR)", "MT4123"),
    ),
    Row(
        "sdr-on-a-card-for-hdr",
        "rdma.rate",
        FAIL,
        "2 ports slower",
        at("10 Gb/sec (4X SDR)", "MT4123"),
    ),
    Row(
        "a-type-of-no-row",
        "rdma.rate",
        PASS,
        "2 ports at 10 Gb/s",
        at("10 Gb/sec (4X SDR)", "MT4999"),
    ),
    Row(
        "a-virtual-function-at-sdr",
        "rdma.rate",
        FAIL,
        "2 ports slower",
        at("10 Gb/sec (4X SDR)", "MT4126"),
    ),
    Row("none-told", "rdma.rate", UNKNOWN, "mlx5_0 port 1 is up and does not", at("")),
    Row(
        "one-untold",
        "rdma.rate",
        UNKNOWN,
        "does not tell its rate",
        {"infiniband": INFINIBAND.replace("mlx5_1/ports/1/rate:400 Gb/sec (4X NDR)\n", "")},
    ),
    Row(
        "ethernet-of-25",
        "rdma.rate",
        PASS,
        "2 ports at 25 Gb/s",
        at("25 Gb/sec (1X EDR)", layer="Ethernet"),
    ),
    Row(
        "ethernet-of-10",
        "rdma.rate",
        FAIL,
        "2 ports slower",
        at("10 Gb/sec (1X QDR)", layer="Ethernet"),
    ),
    Row(
        "one-at-sdr",
        "rdma.rate",
        FAIL,
        "mlx5_0 port 1: 10 of the 400 Gb/s of ConnectX-7, as from a bad link",
        {"infiniband": INFINIBAND.replace("400 Gb/sec (4X NDR)", "10 Gb/sec (4X SDR)", 1)},
    ),
    Row("not-read", "rdma.rate", UNKNOWN, "permission", {"infiniband": DENIED}),
    Row("alike", "rdma.firmware", PASS, "28.43.2026, on every board"),
    Row("mixed", "rdma.firmware", FAIL, "28.43.2026 and 28.45.1020", {"infiniband": NEW}),
    Row(
        "of-another-board",
        "rdma.firmware",
        PASS,
        "28.43.2026, 28.45.1020, one for each of 2 boards",
        {"infiniband": NEW.replace("MT_0000000838", "MT_0000000224", 1)},
    ),
    Row("software-has-none", "rdma.firmware", NA, "no HCA tells", {"infiniband": SOFT}),
    Row("not-read", "rdma.firmware", UNKNOWN, "permission", {"infiniband": DENIED}),
    Row("slurm", "rdma.memlock_now", PASS, "slurmd: unlimited"),
    Row("no-scheduler", "rdma.memlock_now", NA, "no daemon", {"daemons": ""}),
    Row(
        "started-before-it-was-set",
        "rdma.memlock_now",
        FAIL,
        "slurmd (pid 2201): 8388608 bytes",
        {"daemons": daemons((2201, "slurmd", "8388608"))},
    ),
    Row(
        "its-limits-may-not-be-read",
        "rdma.memlock_now",
        UNKNOWN,
        "limits of slurmd",
        {"daemons": "2201/comm:slurmd\n"},
    ),
    Row(
        "others-are-hidden",
        "rdma.memlock_now",
        UNKNOWN,
        "run as root",
        {"daemons": "", "uid": "1000\n", "limits-now": DENIED},
    ),
    Row(
        "as-a-user-who-sees-them",
        "rdma.memlock_now",
        PASS,
        "slurmd",
        {"daemons": daemons(SLURMD), "uid": "1000\n"},
    ),
    Row("none", "rdma.selinux", NA, "not active"),
    Row("permissive", "rdma.selinux", PASS, "permissive", {"selinux": "0\n"}),
    Row("nothing-denied", "rdma.selinux", PASS, "no denial of RDMA devices in audit", ENFORCING),
    Row(
        "denied",
        "rdma.selinux",
        FAIL,
        "1 denial of RDMA devices in audit.log, the last on 2025-11-21",
        {**ENFORCING, "selinux-denials": DENIAL},
    ),
    Row(
        "without-auditd",
        "rdma.selinux",
        FAIL,
        "1 denial of RDMA devices in the kernel log",
        {**ENFORCING, "selinux-denials": ABSENT, "dmesg": f"[    9.0] {DENIAL}"},
    ),
    Row(
        "a-log-for-root-alone",
        "rdma.selinux",
        UNKNOWN,
        "permission denied",
        {**ENFORCING, "selinux-denials": DENIED},
    ),
    Row("bare-metal", "host.virt", PASS, "bare-metal"),
    Row("a-guest", "host.virt", PASS, "vm, by kvm", {"cpu": GUEST_CPU, "virt": "kvm\n"}),
    Row(
        "an-arm-guest",
        "host.virt",
        PASS,
        "vm, by qemu",
        {"cpu": "processor\t: 0\n", "dmi": "sys_vendor:QEMU\nproduct_name:x\n", "virt": ABSENT},
    ),
    Row(
        "bare-metal-of-a-cloud",
        "host.virt",
        PASS,
        "bare-metal",
        {"cpu": "processor\t: 0\n", "dmi": "sys_vendor:Amazon EC2\nproduct_name:m7g.metal\n"},
    ),
    Row(
        "wanted-otherwise",
        "host.virt",
        FAIL,
        "vm, by kvm",
        {"cpu": GUEST_CPU, "virt": "kvm\n"},
        want=Want(role=Role.BARE_METAL),
    ),
    Row(
        "wanted-host-without-guests",
        "host.virt",
        PASS,
        "no device is given",
        want=Want(role=Role.VM_HOST),
    ),
    Row(
        "wanted-bare-and-gives-a-gpu-away",
        "host.virt",
        FAIL,
        "vm-host, by 2 of 2 GPUs on vfio-pci",
        board=BOARD.but(GPUS[0], driver="vfio-pci").but(GPUS[1], driver="vfio-pci"),
        want=Want(role=Role.BARE_METAL),
    ),
    Row(
        "one-gpu-is-no-other-role",
        "host.virt",
        PASS,
        "bare-metal",
        board=BOARD.but(GPUS[0], driver="vfio-pci"),
    ),
    Row("in-a-container", "host.virt", UNKNOWN, "(docker)", {"virt": "docker\n"}),
    Row(
        "marked-as-one",
        "host.virt",
        UNKNOWN,
        "inside a container",
        {"virt": ABSENT, "container-marks": "/.dockerenv\n"},
    ),
    Row(
        "an-image-that-was-a-container-once",
        "host.virt",
        PASS,
        "bare-metal",
        {"container-marks": "/.dockerenv\n"},
    ),
    Row("not-told", "host.virt", UNKNOWN, "no answer", {"virt": TIMEOUT}),
    Row("not-given", "nvlink.links", NA, "was not given"),
    Row("all-active", "nvlink.links", PASS, "12 active on 2 GPUs", nvlinks("A100-SXM4-40GB", 12)),
    Row("one-dead", "nvlink.links", FAIL, "on 2 GPUs", nvlinks("H100 80GB HBM3", 17, dead=1)),
    Row("a-bridge-less", "nvlink.links", UNKNOWN, "by its board", nvlinks("H100 PCIe", 12, dead=6)),
    Row("cut", "nvlink.links", UNKNOWN, "it may be cut", nvlinks("H200", 17)),
    Row("of-another-form", "nvlink.links", UNKNOWN, "cannot read", {"nvlink-status": "x\n"}),
    Row("partition-of-one", "nvlink.links", NA, "partition", nvlinks("H200", 0, dead=18)),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_fabric(row: Row) -> None:
    holds(row)
