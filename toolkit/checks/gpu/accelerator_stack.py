"""GDRCopy, kernel-initiated RDMA, EFA and DCGM: where they are there, do they fit the driver?"""

from __future__ import annotations

import re

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.consumers.path import dmabuf_gpu_gap, driver_gap
from toolkit.checks.kernel.build_failures import why_not_inserted
from toolkit.checks.modules.fixes import registry_dwords, reload
from toolkit.facts.gpu.driver import option_values
from toolkit.facts.gpu.gdrcopy import GdrDrv, Sanity
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import AMAZON
from toolkit.facts.versions import Version
from toolkit.plural import counted
from toolkit.want import Want

EFA = range(0xEFA0, 0xEFB0)  # 0xefa0 is the first generation
NO_GDRCOPY = "GDRCopy's gdrdrv is not installed (from 2.6 on, and with CUDA 13.3, none is needed)"


@check(
    "gdrcopy.driver",
    impact=Impact.SLOW,
    source="NVIDIA/gdrcopy CHANGELOG, src/gdrdrv/gdrdrv.c and Makefile; issues 30, 139, 266",
    fix="/usr/lib/gdr-toolkit/rebuild, which provision places, builds gdrdrv again; then "
    + reload("gdrdrv"),
)
def gdrcopy(node: Node, want: Want) -> Finding:
    """GDRCopy's module is loaded and was built for this driver.

    Small messages go through it: without it UCX and NVSHMEM copy by cudaMemcpy, with ten
    times the latency. It is built for one flavour of the driver; after a change from the
    proprietary to the open one it must be rebuilt. Some driver containers forget to unload
    it and then find the driver in use.
    """
    sanity = node.gdrcopy_sanity
    ill = sanity is not None and bool(sanity.failed or sanity.refused)
    if sanity is not None and (ill or not node.companions_probed):
        return _by_sanity(sanity)
    if not node.companions_probed and (found := _by_kernel(node)):
        return found
    running = node.gdrdrv
    if running.loaded:
        return _running_gdrdrv(node, running)
    file = node.companion_modules.get("gdrdrv")
    builds = [each for each in node.dkms if each.module == "gdrdrv"]
    if file is not None:
        return failed(
            f"gdrdrv {file.version or ''} is on disk and not loaded".replace("  ", " "),
            expected="loaded",
            hint="modprobe gdrdrv",
        )
    if builds:
        # Sources before 2.5.2 do not compile on 6.15.
        old = node.kernel_version.at_least(6, 15) and not all(
            Version(each.version).at_least(2, 5, 2) for each in builds
        )
        return failed(
            f"gdrdrv {builds[0].version} is with DKMS and not built for {node.kernel}",
            expected=f"built for {node.kernel}",
            hint="kernels from 6.15 on need GDRCopy 2.5.2"
            if old
            else f"dkms install gdrdrv/{builds[0].version} -k {node.kernel}",
        )
    return not_applicable(NO_GDRCOPY)


def _by_kernel(node: Node) -> Finding | None:
    if why := why_not_inserted(node, ("gdrdrv",)):
        return failed(f"{why[0]}: {why[1].cause}", expected="loaded", hint=why[1].action)
    call = "nvidia_p2p_get_pages("
    pins = [e for e in node.dmesg if call in e and "failed" in e] if node.has_log else []
    if not pins:
        return None
    return failed(
        f"gdrdrv could not pin GPU memory: {pins[-1][pins[-1].index(call) :]}",
        expected="memory that the driver hands out",
        hint="-22: no such memory, or not whole pages of the GPU. GDRCopy and driver of one age; "
        "memory of cuMemCreate needs gpuDirectRDMACapable",
    )


def _by_sanity(sanity: Sanity) -> Finding:
    if sanity.refused:
        return failed(
            f"gdrcopy_sanity: {sanity.refused}",
            expected="/dev/gdrdrv, which gdrdrv makes once it is loaded",
            hint="lsmod | grep gdrdrv; modprobe gdrdrv; ls -l /dev/gdrdrv",
        )
    if sanity.copied:
        return passed(f"gdrcopy_copybw writes GPU memory at {sanity.copied}")
    of = f": {sanity.passed} of {sanity.total}" if sanity.total else f", cut: {sanity.passed}"
    counted = f"gdrcopy_sanity{of} passed"
    if sanity.failed:
        return failed(
            f"{counted}, {sanity.failed} failed",
            expected="none failed",
            hint="dmesg | grep -E 'gdrdrv|nvidia_p2p': built for another driver, or memory that "
            "cannot be pinned",
        )
    if not sanity.total:
        return unknown(counted, hint="gdrcopy_sanity, whole")
    return passed(f"{counted}{f', {sanity.waived} waived' if sanity.waived else ''}")


def _running_gdrdrv(node: Node, running: GdrDrv) -> Finding:
    if node.driver is None:
        return failed("gdrdrv is loaded without the driver", expected="loaded after nvidia")
    flavor = running.flavor or node.gdrdrv_built_for
    if flavor is not None and flavor is not node.driver.flavor:
        return failed(
            f"built for the {flavor} driver, and the {node.driver.flavor} one is loaded",
            expected=f"built for the {node.driver.flavor} driver",
        )
    if not running.device:
        return failed(
            "no /dev/gdrdrv",
            expected="a device node that users can open",
            hint="mknod -m 666 /dev/gdrdrv c MAJOR 0, MAJOR of gdrdrv in /proc/devices",
        )
    built = f"built for the {flavor} driver" if flavor else "flavour not told: before 2.5"
    return passed(f"{running.version or 'loaded'}, {built}")


OVERRIDE = ("PeerMappingOverride", "1")


@check(
    "ibgda.driver",
    impact=Impact.SLOW,
    source="NVSHMEM installation guide; deepseek-ai/DeepEP issues 36, 55, 163; "
    "openucx/ucx src/uct/ib/mlx5/gdaki",
    fix="NVreg_EnableStreamMemOPs=1, and PeerMappingOverride=1; in the one NVreg_RegistryDwords "
    "string of options nvidia (of two the last wins), in modprobe.d; drain the node, a new "
    "initramfs, a reboot",
)
def ibgda(node: Node, want: Want) -> Finding:
    """Where GPUs are to ring the HCA's doorbell themselves, the driver lets them map it.

    NVSHMEM's IBGDA before 3.4.5, UCX's GDAKI and DeepEP need PeerMappingOverride, or
    cudaHostRegister fails with error 800. The options count once the driver was loaded with
    them, which after an edit takes a new initramfs and a reboot. Asked only where modprobe.d
    sets the option or DeepEP is installed.
    """
    words = " ".join(text for module, text in node.modprobe.options if module == "nvidia")
    configured = _dwords(option_values(words).get("RegistryDwords", ""))
    deepep = [path for path in node.companion_files if path.endswith("/deep_ep")]
    if OVERRIDE not in configured.items() and not deepep:
        return not_applicable("nothing here asks for it: no DeepEP, no PeerMappingOverride")
    live = _dwords(node.driver_params.get("RegistryDwords", ""))
    if OVERRIDE in live.items():
        streams = node.driver_params.get("EnableStreamMemOPs", "not told")
        return passed(f"PeerMappingOverride=1; EnableStreamMemOPs {streams}")
    if OVERRIDE in configured.items():
        return failed(
            "PeerMappingOverride=1 is configured and not in effect",
            expected="in effect",
            hint="rebuild the initramfs, drain the node and reboot: the driver reads its options "
            "when it loads",
        )
    versions = [found for path in node.companion_files if (found := _nvshmem(path))]
    if versions and all(each.at_least(3, 4, 5) for each in versions):
        return passed(f"NVSHMEM {versions[0]} does without, by the CPU's help")
    return failed(
        f"{deepep[0]} is here, and the option is not set",
        expected="PeerMappingOverride=1",
        hint=registry_dwords(node, "=".join(OVERRIDE)),
    )


def _dwords(text: str) -> dict[str, str]:
    """ "A=1;B=0x2;" as the driver takes it."""
    return dict(re.findall(r"(\w+)=(\w+)", text))


def _nvshmem(path: str) -> Version | None:
    found = re.search(r"/libnvshmem_host\.so\.(\d+\.\d+\.\d+)$", path)
    return Version(found[1]) if found else None


@check(
    "efa.peermem",
    impact=Impact.BROKEN,
    source="amzn/amzn-drivers kernel/linux/efa and efa_nv_peermem; rdma-core providers/efa",
    fix="the open NVIDIA driver; then a kernel from 5.16 on, or aws-efa-installer, which brings "
    "efa_nv_peermem: see fi_info -p efa",
)
def efa(node: Node, want: Want) -> Finding:
    """An EFA adapter can get at GPU memory.

    By efa_nv_peermem, or by dma-buf with a kernel from 5.16 on, whose ib_umem_dmabuf_get_pinned
    EFA's driver takes; both with the open NVIDIA driver alone. nvidia-peermem is nothing to it,
    and DOCA-OFED brings an empty module in place of EFA's driver.
    """
    adapters = [
        each for each in node.pci.functions.values() if each.vendor == AMAZON and each.device in EFA
    ]
    if not adapters:
        return not_applicable("no EFA adapter")
    module = node.module_state.get("efa_nv_peermem")
    if module is not None and module.initstate == "live":
        return passed(f"efa_nv_peermem {module.version or 'loaded'}")
    if node.driver is None:
        return not_applicable("no NVIDIA driver is loaded: see nvidia.present")
    generation = min(each.device for each in adapters) - EFA.start + 1
    efa_row = want.compat.provider("efa")
    if gap := dmabuf_gpu_gap(node, want) or driver_gap(node, want, "efa", efa_row):
        return failed(
            f"EFA of generation {generation}, no efa_nv_peermem, and no dma-buf: {gap}",
            expected="the open driver, and efa_nv_peermem loaded or a kernel that pins dma-buf",
        )
    return passed(f"EFA of generation {generation}, by dma-buf")


@check(
    "dcgm.gdr",
    impact=Impact.BROKEN,
    source="NVIDIA/DCGM dcgmi discovery",
    fix="with the node drained: dcgmi diag -r 1; a GPU that fell off the bus needs a reboot",
)
def dcgm(node: Node, want: Want) -> Finding:
    """DCGM sees each GPU that the driver holds: a second opinion on what the bus shows.

    A GPU that fell off the bus after the driver had bound it is still in /sys and answers
    nobody.
    """
    seen = node.dcgm_gpus
    if seen is None:
        return not_applicable("no DCGM host engine runs here")
    held = sum(each.driver == "nvidia" for each in node.pci.gpus)
    if not held:
        return not_applicable("the driver holds no GPU: see nvidia.present")
    if seen < held:
        return failed(
            f"DCGM sees {seen} of the {held} GPUs that the driver holds",
            expected=f"all {held}",
            hint="dmesg | grep -i xid tells why; then, with the node drained, dcgmi diag -r 1",
        )
    return passed(f"{seen} GPUs")


@check(
    "dcgm.diag",
    impact=Impact.SICK,
    source="NVIDIA/DCGM, dcgmi/Diag.cpp",
    fix="drain the node; do what the failed test says; exchange what fails dcgmi diag -r 3 again",
)
def diag(node: Node, want: Want) -> Finding:
    """Each test of a dcgmi diag that was given passes.

    A test that was skipped proves nothing, and the deployment's tests alone say little of hardware:
    the details name what was run.
    """
    tests = node.dcgmi_diag
    if tests is None:
        return not_applicable("no result of DCGM's diagnostics was given")
    bad = [each for each in tests if each.result in {"Fail", "Warn"}]
    if bad:
        return failed(
            f"{', '.join(f'{each.name}: {each.result}' for each in bad)}",
            expected="Pass",
            hint="drain the node; the lines below the test name the GPU",
            details=tuple(f"{each.name}: {' '.join(each.rest)}" for each in bad if each.rest),
        )
    ran = [each.name for each in tests if each.result == "Pass"]
    if not ran:
        return unknown("every test was skipped")
    return passed(f"{len(ran)} of {len(tests)} tests ran and pass", details=(", ".join(ran),))


# Providers of libfabric that carry RDMA of an adapter of its own; the others use sockets or memory.
_RDMA_PROVIDERS = frozenset({"efa", "cxi", "verbs", "psm2", "psm3", "opx"})


@check(
    "libfabric.provider",
    impact=Impact.BROKEN,
    needs_gpu=False,
    source="ofiwg/libfabric util/info.c; fi_provider(7); aws-ofi-nccl README",
    fix="the maker's libfabric and driver: aws-efa-installer, or Slingshot's; its device in the "
    "container",
)
def libfabric(node: Node, want: Want) -> Finding:
    """libfabric finds an adapter that does RDMA, where fi_info was given.

    NCCL's OFI plugin takes it from there. "fi_getinfo: -61" says that nothing fits: no device, no
    driver, or a libfabric without the provider. tcp and shm are always found.
    """
    told = node.fi_info
    if told is None:
        return not_applicable("no fi_info was given")
    found = {each.provider.partition(";")[0] for each in told.entries}
    able = sorted(found & _RDMA_PROVIDERS)
    if not able:
        return failed(
            told.error or f"only {', '.join(sorted(found))}",
            expected="an adapter: efa, cxi or verbs",
            hint="fi_info -l lists the providers that libfabric has; ls /dev/infiniband /dev/cxi*",
        )
    domains = {each.domain for each in told.entries if each.provider.partition(";")[0] in able}
    return passed(f"{', '.join(able)}: {counted(len(domains), 'domain')}")
