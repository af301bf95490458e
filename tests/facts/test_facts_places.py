"""What cannot be read is refused with its line and the line's number, whatever the source."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.boot.acs_boot import parse_acs_units
from toolkit.facts.boot.kernel import parse_config, parse_headers
from toolkit.facts.boot.next_boot import parse_trials
from toolkit.facts.distros import parse_os_release
from toolkit.facts.firmware.cpu_setup import count_nodes
from toolkit.facts.firmware.secureboot import parse_key_files, parse_keys
from toolkit.facts.gpu.driver import parse_driver, parse_gpu_rows, parse_params
from toolkit.facts.gpu.smi_query import parse_smi_csv
from toolkit.facts.gpu.topo_matrix import parse_matrix
from toolkit.facts.lines import blocks, named_lines
from toolkit.facts.modules.build_env import parse_tools
from toolkit.facts.modules.dkms import parse_dkms_status
from toolkit.facts.modules.elf import SparseFile
from toolkit.facts.modules.kernel_modules import (
    parse_kallsyms,
    parse_modprobe_config,
    parse_modules,
)
from toolkit.facts.modules.module_file import (
    parse_exports,
    parse_module_deps,
    parse_symbol_versions,
)
from toolkit.facts.modules.ofed import parse_unit
from toolkit.facts.modules.placed_files import parse_hooks, parse_left, parse_placed
from toolkit.facts.modules.symvers import parse_symvers
from toolkit.facts.nccl.consumers import parse_libraries, parse_verbs
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.pci.iommu_groups import parse_groups
from toolkit.facts.pci.kernel_log import parse_aer
from toolkit.facts.pci.lspci_tree import parse_lspci_tree
from toolkit.facts.pci.windows import parse_iomem
from toolkit.facts.rdma.hca_health import parse_hca_counters
from toolkit.facts.rdma.roce import parse_ecn
from toolkit.facts.slurm import parse_jobs, parse_nodes

Read = Callable[[str], object]
HASH = "a" * 64
GROUP = "5 identity yes 0000:19:00.0 020700 15b3 mlx5_core 0\n"


def _blocks(text: str) -> object:
    return list(blocks(text, "blocks"))


def _named(text: str) -> object:
    return list(named_lines(text, "named"))


def _bytes(text: str) -> object:
    return ConfigSpace.parse("0000:18:00.0", text.split("\n")[:-1])


def _sparse(text: str) -> object:
    return SparseFile.parse("nvidia.ko", text.split("\n")[:-1])


def _symvers(text: str) -> object:
    return parse_symvers("Module.symvers", text)


def _deps(text: str) -> object:
    return parse_module_deps(text, "6.8.0")


def _refusal(read: Read, text: str) -> str:
    try:
        read(text)
    except Unparsable as why:
        return str(why)
    return ""


MATRIX = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-7\n"
# Reader, what is well read, the line that is not, its number within its block or the text.
ROWS: list[tuple[Read, str, str, int]] = [
    (parse_acs_units, "acs.service enabled /sbin/acs\n", "acs.service masked /sbin/acs", 2),
    (parse_aer, "uptime:5\nfunctions:2\n", "uptime of 5", 3),
    (parse_tools, "gcc\ng++\n", "two words", 3),
    (_bytes, "0000000 de 10 30 23 00 00 00 00 00 00 00 00 00 00 00 00\n", "0000040 zz", 2),
    (_bytes, "0000000 de 10 30 23 00 00 00 00 00 00 00 00 00 00 00 00\n", "0000040 00 00", 2),
    (parse_libraries, "/usr/lib/libnccl.so.2\n", "/usr/lib/libc.so.6", 2),
    (parse_verbs, "/usr/lib/libibverbs.so.1 yes\n", "/usr/lib/libibverbs.so.1 maybe", 2),
    (parse_os_release, "ID=debian\n\n# words\n", "no assignment", 4),
    (parse_os_release, "ID=debian\n", 'NAME="open', 2),
    (parse_dkms_status, "nvidia/535.261.03, 6.1.0, x86_64: installed\n", "nvidia is there", 2),
    (parse_groups, GROUP, "5 identity yes", 2),
    (parse_groups, GROUP, "6 odd yes - - - - 0", 2),
    (_sparse, "size 64\n", "0000000 zz", 2),
    (_sparse, "", "size 0", 1),
    (parse_driver, "", "NVRM: nothing", 1),
    (parse_params, "A: 1\n\n", "no colon", 3),
    (parse_gpu_rows, "\n", "No devices were found", 2),
    (parse_hca_counters, "a/ports/1/counters/port_rcv_data:1\n", "a/ports/x/counters/y:1", 2),
    (parse_config, "CONFIG_PCI=y\n\n# CONFIG_X is not set\n", "CONFIG", 4),
    (parse_headers, "include present\n", "scripts there", 2),
    (_named, "a:1\n", "nothing", 2),
    (_blocks, "", "before any heading", 1),
    (parse_trials, "", "0a1b2c", 1),
    (parse_lspci_tree, "-[0000:00]-+-00.0  Host bridge [0600]: Intel [8086:0001]\n", "    odd", 2),
    (parse_exports, "@/lib/x.ko\n0x1\tsym\n", "0xzz\tsym", 2),
    (parse_symbol_versions, "@/x/Module.symvers\n0x1\ta\tb\tEXPORT_SYMBOL\n", "0x1\ta", 2),
    (_deps, "kernel/a.ko: kernel/b.ko\n", "kernel/a.ko", 2),
    (parse_modules, "nvidia 1 0 - Live 0x0\n", "nvidia big 0 - Live 0x0", 2),
    (parse_modprobe_config, "options nvidia a=1\n", "include x", 2),
    (parse_kallsyms, "0 t a [b]\n", "0 t", 2),
    (count_nodes, "", "0-1,x", 1),
    (parse_unit, "ActiveState=active\n", "no equals", 2),
    (parse_placed, f"{HASH} 644 0 0 /etc/x\n", f"{HASH} 9 0 0 /etc/x", 2),
    (parse_left, f"{HASH} /etc/x\n", HASH, 2),
    (parse_hooks, "runs /etc/x\n", "walks /etc/x", 2),
    (parse_ecn, "ens1np0/ecn/roce_np/enable/3:1\n\n", "ens1np0/ecn/roce_xp/enable/3:1", 2),
    (parse_key_files, "600 0 /var/lib/dkms/mok.key\n", "rw 0 /var/lib/dkms/mok.key", 2),
    (parse_keys, "@%:.machine\n", "no key", 1),
    (parse_nodes, "NodeName=a State=IDLE\n", "NodeName=b", 2),
    (parse_jobs, "7|alice|RUNNING|1:00||x\n\n", "slurm_load_jobs error", 3),
    (parse_smi_csv, "name, pci.bus_id\nH100, 00000000:18:00.0\n", "H100", 3),
    (_symvers, "0x1\ta\tb\tEXPORT_SYMBOL\n\n", "0x1\ta\tb", 3),
    (parse_matrix, f"\n{MATRIX}", "GPU0\t X \tPIX\t0-7", 4),
    (parse_matrix, MATRIX, "GPU1\t X \tODD\t0-7", 3),
    (parse_matrix, "\n", "\tGPU0\tNIC0", 2),
    (parse_iomem, "20000000000-21fffffffff : PCI Bus 0000:16\n", "odd", 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "before", "line", "number"),
    ROWS,
    ids=[f"{row[0].__name__.strip('_')}-{row[2][:20]}" for row in ROWS],
)
def test_a_line_that_cannot_be_read_is_shown_with_its_number(
    read: Read, before: str, line: str, number: int
) -> None:
    if before.startswith("@") or number > 1:
        # It may lack something else, which no line is blamed for.
        assert "cannot read line" not in _refusal(read, before)
    with pytest.raises(Unparsable) as refused:
        read(f"{before}{line}\n")
    assert f"cannot read line {number}: {line!r}" in str(refused.value)


def test_a_long_line_is_shown_by_its_beginning() -> None:
    assert str(Unparsable("x", "a" * 121)) == f"x: cannot read: {'a' * 120!r}"
