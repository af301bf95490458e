"""What cannot be read is refused with its line and the line's number, whatever the source."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.boot.acs_boot import parse_acs_units
from toolkit.facts.boot.cmdline import parse_grub_default
from toolkit.facts.boot.kernel import parse_config, parse_headers, parse_initramfs
from toolkit.facts.boot.next_boot import BootMenu, parse_boot_entries, parse_trials
from toolkit.facts.distros import Distro, driver_modules, driver_source, family_of, parse_os_release
from toolkit.facts.firmware.bios_setting import stem
from toolkit.facts.firmware.cpu_setup import count_nodes
from toolkit.facts.firmware.redfish_json import raw, whole
from toolkit.facts.firmware.redfish_values import Meaning, Wish, meaning_of
from toolkit.facts.firmware.secureboot import parse_key_files, parse_keys, parse_said_signers
from toolkit.facts.gpu.driver import (
    parse_api_mismatch,
    parse_driver,
    parse_gpu_rows,
    parse_params,
)
from toolkit.facts.gpu.smi_health import unreadable
from toolkit.facts.gpu.smi_query import parse_smi_csv
from toolkit.facts.gpu.topo_matrix import parse_matrix
from toolkit.facts.kube import KubeGpus, Pod, parse_kube_node, parse_offered
from toolkit.facts.lines import blocks, named_lines
from toolkit.facts.modules.build_env import parse_tools
from toolkit.facts.modules.dkms import parse_dkms_status
from toolkit.facts.modules.elf import SparseFile
from toolkit.facts.modules.kernel_modules import (
    parse_kallsyms,
    parse_modinfo,
    parse_modprobe_config,
    parse_modules,
)
from toolkit.facts.modules.kernel_modules import parse_symvers as parse_exporters
from toolkit.facts.modules.module_file import (
    parse_build_id,
    parse_exports,
    parse_module_deps,
    parse_symbol_versions,
)
from toolkit.facts.modules.ofed import parse_ofed_folders, parse_unit
from toolkit.facts.modules.placed_files import parse_hooks, parse_left, parse_placed
from toolkit.facts.modules.refusals import parse_not_inserted
from toolkit.facts.modules.symvers import parse_symvers
from toolkit.facts.nccl.consumers import Setting, parse_libraries, parse_verbs
from toolkit.facts.nccl.containers import (
    parse_cuda,
    parse_drivers,
    parse_leader,
    parse_named,
    parse_opened,
    parse_shm,
)
from toolkit.facts.pci.acs import acs_argument, mistakes_arguments
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.pci.functions import parse_pci
from toolkit.facts.pci.iommu_groups import parse_groups
from toolkit.facts.pci.kernel_log import large, parse_aer
from toolkit.facts.pci.lspci_tree import parse_lspci_tree
from toolkit.facts.pci.windows import FOUR_GIB, Window, parse_iomem
from toolkit.facts.rdma.firmware_tools import PcieLink
from toolkit.facts.rdma.hca_health import moved, parse_hca_counters
from toolkit.facts.rdma.registration import DmabufAnswer, cause, parse_registration
from toolkit.facts.rdma.roce import parse_ecn, parse_pkeys
from toolkit.facts.services import parse_services
from toolkit.facts.slurm import parse_jobs, parse_nodes, parse_nodesets

Read = Callable[[str], object]
HASH = "a" * 64
GROUP = "5 identity yes 0000:19:00.0 020700 15b3 mlx5_core 0\n"


def _blocks(text: str) -> object:
    return list(blocks(text, "blocks"))


def _meaning(word: str) -> Meaning:
    return meaning_of(word).meaning


def _family(id_: str) -> str:
    return family_of(Distro(id_, "", (), "")).name


def _given_up(ended: str) -> bool:
    text = f"a.service\n   Loaded: loaded (/x)\n   Active: activating ({ended}) since x\n"
    return parse_services(text)["a"].failed


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


def _bls(*lines: str) -> BootMenu:
    return parse_boot_entries("".join(f"a.conf:{line}\n" for line in lines), "")


def _menu(*lines: str) -> BootMenu:
    return parse_boot_entries("".join(f"grub/grub.cfg:{line}\n" for line in lines), "")


def _node(lists: str) -> str:
    return f"Name: n\nRoles: x\n{lists}System Info:\n"


FAILED = '  if [ "${recordfail}" = 1 ]'
OS = " ID=Ubuntu\nID_LIKE=Debian\n NAME=x\n"
GPU_8 = "Capacity:\n  nvidia.com/gpu: 8\nAllocatable:\n  nvidia.com/gpu: 8\n"
RDMA_8 = "Capacity:\n  rdma/hca: 8\nAllocatable:\n  rdma/hca: 8\n"
NOTE = bytes.fromhex("040000000400000003000000474e5500deadbeef")
LIMIT = "Max locked memory "
MOUNT = "tmpfs /dev/shm tmpfs rw,size=64k\n"
SMALL, LARGE = 2 << 20, 1 << 26
# What is claimed of a reader, what it makes of a text, and what that must be.
CLAIMS: list[tuple[str, Callable[[], object], object]] = [
    # The next boot: an unattended node must not be left at a menu.
    ("timeout-without-end", lambda: _menu("set timeout=-1").waits, True),
    ("timeout-of-zero-is-none", lambda: _menu("set timeout=0").waits, False),
    ("the-longest-of-timeouts", lambda: _menu("set timeout=-1", "set timeout=5").waits, False),
    ("after-failure-alone", lambda: _menu(FAILED, "set timeout=-1", "set timeout=5").waits, False),
    ("after-failure", lambda: _menu(FAILED, "set timeout=-1").waits_after_failure, True),
    ("after-failure-zero", lambda: _menu(FAILED, "set timeout=0").waits_after_failure, False),
    ("after-failure-the-longest", lambda: _menu(
        FAILED, "set timeout=-1", FAILED, "set timeout=9").waits_after_failure, False),
    ("kernel-by-its-file", lambda: _bls("linux /vmlinuz-6.12.0").entries[0].kernel, "6.12.0"),
    ("a-key-without-a-value", lambda: _bls("version 6", "options", "").entries[0].fields,
     (("version", "6"),)),
    ("the-first-kernel-of-an-entry", lambda: [e.kernel for e in _menu(
        "menuentry 'a' {", " linux /vmlinuz-1", " linux /vmlinuz-2").entries], ["1"]),
    ("grub-default-indented", lambda: parse_grub_default("  GRUB_CMDLINE_LINUX=iommu=pt ").words,
     ("iommu=pt",)),
    ("newer-no-module", lambda: parse_initramfs("newer /lib/modules/6.8/x\n").newer, frozenset()),
    ("paths-from-the-root", lambda: parse_initramfs("./usr/lib/modules/6.8/a/b.ko\n").modules,
     {"b": "a/b"}),
    # Distributions.
    *((f"{each}-is-{family}", partial(_family, each), family) for ids, family in (
        ("rhel fedora centos rocky almalinux ol amzn", "rhel"),
        ("suse sles sled opensuse opensuse-leap opensuse-tumbleweed", "suse"),
    ) for each in ids.split()),
    ("ids-in-small-letters", lambda: parse_os_release(OS).id, "ubuntu"),
    ("families-in-small-letters", lambda: parse_os_release(OS).like, ("debian",)),
    ("keys-behind-blanks", lambda: parse_os_release(OS).pretty, "x"),
    ("no-family-no-package", lambda: driver_source(
        Distro("x", "", (), ""), "570.1", "/lib/modules/6/updates/nvidia.ko", "x86_64")[:10],
     "sh NVIDIA-"),
    ("no-package-of-modules", lambda: driver_modules("570.1", "/lib/modules/6/extra/x.ko", "6"),
     ""),
    # Kubernetes.
    ("a-gpu-that-is-gone", lambda: KubeGpus("n", 7, 7, 8).gone[:6], "7 GPUs"),
    ("all-gpus-are-there", lambda: KubeGpus("n", 8, 8, 8).gone, ""),
    ("no-gpu-is-offered-at-all", lambda: KubeGpus("n", 0, 0, 8).gone, ""),
    ("gpus-are-no-rdma", lambda: parse_offered(_node(GPU_8.replace("gpu:", "gpu.nic:"))), ()),
    ("rdma-of-a-node", lambda: len(parse_offered(_node(RDMA_8))), 1),
    ("pods-that-are-done", lambda: [Pod("a", 0, 1, each, 0, "1h", "n").well
                                    for each in ("Completed", "Succeeded", "Failed", "Running")],
     [True, True, False, False]),
    ("a-pod-without-a-node", lambda: Pod("a", 1, 1, "Running", 0, "1h", "<none>").words[:3], "a: "),
    # Slurm.
    ("states-in-capitals", lambda: parse_nodes("NodeName=a State=idle+drain\n")[0].states,
     frozenset({"IDLE", "DRAIN"})),
    ("a-set-without-a-name", lambda: parse_nodesets("NodeSet= Nodes=a\n"), {}),
    ("a-word-without-a-value", lambda: parse_nodesets("NodeSet=s Nodes=a Feature\n"),
     {"s": ("a", "")}),
    # Services.
    ("why-it-did-not-start", lambda: parse_services("Job for a.service failed.\n")["a"].result,
     "its start failed"),
    *((f"started-again-after-{word}", partial(_given_up, word), True) for word in (
        "resources", "protocol", "timeout", "exit-code", "signal", "core-dump", "watchdog",
        "start-limit-hit", "oom-kill", "exec-condition", "auto-restart", "auto-restart-queued")),
    ("starts-for-the-first-time", lambda: _given_up("start-pre"), False),
    # Firmware.
    ("a-suffix-is-no-name", lambda: stem("_0041"), "_0041"),
    ("a-name-of-one-letter", lambda: stem("A_0041"), "A"),
    ("a-number-with-a-point", lambda: raw(1.5), 1.5),
    ("no-number", lambda: raw(float("inf")), "inf"),
    ("a-list-as-text", lambda: raw([1]), "[1]"),
    ("a-switch-is-no-number", lambda: whole(True), None),
    ("a-long-word-may-mean-on", lambda: meaning_of(f"on{' ' * 198}").meaning, Meaning.ON),
    ("a-longer-one-is-not-looked-at", lambda: meaning_of(f"on{' ' * 199}").meaning, Meaning.OTHER),
    *((f"{word}-means-{meaning}", partial(_meaning, word), meaning) for words, meaning in (
        ("enabled enable yes on true forceenabled forceenable Force_Enabled", Meaning.ON),
        ("disabled disable no off false forcedisabled forcedisable", Meaning.OFF),
        ("auto automatic perportctrl", Meaning.AUTO),
    ) for word in words.split()),
    ("a-wish-is-said", lambda: [str(Wish(Meaning.ON)), str(Wish(Meaning.NUMBER, 4))], ["on", "4"]),
    ("signers-with-blanks", lambda: parse_said_signers("  nvidia.ko:  NVIDIA Corp.  # he\n"),
     {"nvidia": "NVIDIA Corp."}),
    # What nvidia-smi says in place of a value.
    ("neither-a-count-nor-a-word", lambda: [name for name, _ in unreadable((
        ("a", "ERR!"), ("b", "GPU is lost"), ("c", "[Unknown]"), ("d", "0"), ("e", "No")))],
     ["a", "b", "c"]),
    ("a-mismatch-before-a-load", lambda: parse_api_mismatch([
        "NVRM: API mismatch: the client has the version 570.1, but", "NVRM: this kernel module has"
        " the version 570.2", "NVRM: loading NVIDIA UNIX"]), ""),
    # Modules.
    ("a-build-id", lambda: parse_build_id("x", NOTE), "deadbeef"),
    ("no-note", lambda: parse_build_id("x", b""), ""),
    ("the-tail-behind-a-hole", lambda: SparseFile(b"abcdef", ((0, 2), (4, 6))).tail, b"ef"),
    ("the-longest-of-two-tails", lambda: SparseFile(b"abcdef", ((4, 6), (3, 6))).tail, b"def"),
    ("no-tail-was-sent", lambda: SparseFile(b"abcdef", ((0, 2),)).tail, b""),
    ("a-module-that-cannot-go", lambda: [e.refs for e in parse_modules(
        "a 1 - - Live 0x0\nb 1 2 [permanent], Live 0x0\nc 1 2 - Live 0x0\n")], [-1, -1, 2]),
    ("an-id-of-no-module", lambda: parse_modinfo("@a\nfilename: /a.ko\n@build-ids\nb:\n")["a"].name,
     "a"),
    ("a-short-row-exports-nothing", lambda: parse_exporters(
        "@/x\n0x1\tib_register_peer_memory_client\tib_core\n"), {"/x": ""}),
    ("links-to-folders-beside", lambda: parse_ofed_folders(
        "/usr/src/ofa_kernel/default -> ./../b//c/\n", {}, leftover=False).links,
     {"/usr/src/ofa_kernel/default": "/usr/src/b/c"}),
    ("what-went-in-later", lambda: [e.module for e in parse_not_inserted([
        "modprobe: ERROR: could not insert 'a': Invalid argument",
        "  modprobe: ERROR: could not insert 'b': Invalid argument ", "Inserted module 'a'"])],
     ["b"]),
    ("a-refusal-as-it-was-told", lambda: parse_not_inserted([
        "  insmod: can't insert 'b.ko': invalid module format "])[0].line,
     "insmod: can't insert 'b.ko': invalid module format"),
    # Jobs and containers.
    ("hexadecimal-in-capitals", lambda: Setting("N", "0X1F", "f").number, 31),
    ("a-library-without-its-version", lambda: [e.path for e in parse_libraries(
        "/l/libnccl.so\n/l/libnccl.so.2\n")], ["/l/libnccl.so"]),
    ("the-size-of-dev-shm", lambda: parse_shm(f"x /tmp tmpfs rw\nshort\n{MOUNT}"), 1 << 16),
    ("dev-shm-of-another-kind", lambda: parse_shm("x /dev/shm overlay rw,size=64k\n"), None),
    ("dev-shm-cut-off", lambda: parse_shm("x /dev/shm tmpfs\n"), None),
    ("no-limit-of-memory", lambda: parse_leader(f"{LIMIT}unlimited\n").memlock, -1),
    ("drivers-by-their-file", lambda: parse_drivers("a:driver mlx5\nb:\n"), frozenset({"mlx5"})),
    ("libraries-of-compatibility", lambda: parse_cuda("/usr/compat/libcuda.so.1\n"), ()),
    # PCI.
    ("a-dead-link", lambda: [_width(w) for w in ("16", "63", "255", "x")], [16, 0, 0, 0]),
    ("above-4-gib", lambda: [Window("", at, at).high for at in (FOUR_GIB - 1, FOUR_GIB)],
     [False, True]),
    ("memory-and-registers", lambda: [large(f"[mem size 0x{size:x}]") for size in (
        LARGE - 1, LARGE)] + [large("NVRM: no size"), large("none")], [False, True, True, False]),
    ("mended-in-point-releases", lambda: [str(acs_argument(r)) for r in (
        "6.12.22", "6.12.23", "6.12", "6.15")], ["None", "config_acs", "None", "config_acs"]),
    ("mistaken-beyond-doubt", lambda: [mistakes_arguments(r) for r in (
        "6.12.22", "6.12.23", "6.12.22-1.el10", "6.12")], [True, False, False, False]),
    ("a-service-pack-of-suse", lambda: [str(acs_argument(r)) for r in (
        "6.4.0-150000.1-default", "6.4.0-149999.1-default")], ["None", "disable_acs_redir"]),
    # RDMA.
    ("a-narrower-link", lambda: [PcieLink(*each).slower for each in (
        (32, 16, 32, 16), (16, 16, 32, 16), (32, 8, 32, 16))], [False, True, True]),
    ("a-small-limit", lambda: [cause("peermem", "ENOMEM", each)[:15] for each in (
        None, SMALL - 1, SMALL)], ["ENOMEM: the HCA", "ENOMEM: memlock", "ENOMEM: the HCA"]),
    ("no-limit-of-dma-buf", lambda: cause("dmabuf", "ENOMEM", 1)[:16], "ENOMEM: the NVID"),
    ("libraries-without-the-call", lambda: [DmabufAnswer(*each).why_not[:10] for each in (
        ("absent", "absent"), ("ENOSYS", "EBADF"), ("ENOSYS", "ENOSYS"), ("ENOSYS", "x"))],
     ["libibverbs", "the kernel", "the kernel", "ibv_reg_dm"]),
    ("a-call-that-is-not-there", lambda: [DmabufAnswer(each, "").able for each in (
        "EBADF", "absent", "EOPNOTSUPP", "EPROTONOSUPPORT", "ENOSYS", "ENOTTY", "ENOTSUP", "EIO")],
     [True, *[False] * 6, None]),
    ("counters-that-ran-over", lambda: [each.sent for each in moved(
        {(d, 1): {"port_xmit_data": 2} for d in "abc"},
        {("a", 1): {"port_xmit_data": 2}, ("b", 1): {"port_xmit_data": 1}, ("d", 1): {}})],
     [0, None]),
    ("a-counter-of-one-look", lambda: moved({("a", 1): {"port_xmit_data": 2}},
                                            {("a", 1): {}})[0].sent, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "value"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS]
)
def test_what_a_reader_makes_of_it(read: Callable[[], object], value: object) -> None:
    assert read() == value


def _width(word: str) -> int:
    found = f"a/class:0x1\na/vendor:0x1\na/device:0x1\na/current_link_width:{word}\n"
    return parse_pci(found, "", "", "").functions["a"].now.width


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("half-of-the-gpus", lambda: parse_kube_node(_node(GPU_8[:-20])), "GPUs of n"),
    ("a-note-of-another", lambda: parse_build_id("x", NOTE.replace(b"GNU", b"BSD")), "build id"),
    ("a-note-of-another-kind", lambda: parse_build_id("x", NOTE[:8] + b"\1" + NOTE[9:]), "id of x"),
    ("a-note-that-is-cut", lambda: parse_build_id("x", NOTE[:-1]), NOTE[:-1].hex()),
    ("a-limit-of-words", lambda: parse_leader(f"{LIMIT}much\n"), "limits"),
    ("a-node-of-no-path", lambda: parse_opened("uverbs0 ok\n"), "uverbs0"),
    ("a-node-without-an-answer", lambda: parse_opened("/dev/infiniband/uverbs0 \n"), "uverbs0"),
    ("a-file-without-an-answer", lambda: parse_named("NCCL_X /x maybe\n"), "maybe"),
    ("a-p-key-of-words", lambda: parse_pkeys("a/ports/1/pkeys/0:0xfff\n"), "0xfff"),
    ("a-counter-of-no-port", lambda: parse_hca_counters("a/ports/1/x:1\n"), "a/ports/1/x"),
    ("a-counter-elsewhere", lambda: parse_hca_counters("a/rails/1/counters/x:1\n"), "rails"),
    ("no-kind-of-registration", lambda: parse_registration("odd 1\n"), "odd"),
    ("a-job-without-a-number", lambda: parse_jobs("x|alice|RUNNING|1:00||x\n"), "alice"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "shown"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_refused_is_shown(read: Callable[[], object], shown: str) -> None:
    with pytest.raises(Unparsable, match=re.escape(shown)):
        read()
