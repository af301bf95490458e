"""Is nvidia-peermem there, real, loaded, bound, and will it be after the next boot?"""

from __future__ import annotations

import re

from toolkit.checks.check import (
    Finding,
    Impact,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.consumers.path import REGISTER
from toolkit.checks.kernel.build_failures import why_not_inserted
from toolkit.checks.modules import obstacles
from toolkit.checks.modules.fixes import reload
from toolkit.checks.modules.loading import NAMES, is_live
from toolkit.checks.rdma.registration import taken
from toolkit.errors import NoEvidence, read_or
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.registration import PEERMEM
from toolkit.want import PeerPath, Want

PEERMEM_ONLY = frozenset({PeerPath.PEERMEM})
_OF_PEERMEM = re.compile("nvidia[_-]peermem")
NOT_LOADED = "nvidia-peermem is not loaded"


@check(
    "peermem.file",
    impact=Impact.BROKEN,
    on_disk=True,
    paths=PEERMEM_ONLY,
    source="modprobe(8), --show-depends; Debian nvidia-kernel-support, modprobe.d",
    fix="build nvidia-peermem for the running kernel: dkms install MODULE/VERSION -k KERNEL",
)
def file(node: Node, want: Want) -> Finding:
    """modprobe finds an nvidia-peermem for the running kernel.

    On Debian's packages modinfo does not find it by name although modprobe does, so it is
    modprobe that is asked.
    """
    chosen, files = node.peermem_chosen, node.peermem_files
    names = tuple(each.filename for each in files)
    if chosen is not None:
        return passed(chosen.filename, details=names if len(names) > 1 else ())
    if files and node.modprobe.blocked("nvidia_peermem"):
        return not_applicable("on disk, and kept from loading; see modules.blacklist")
    if files:
        return failed(
            "on disk, but modprobe does not find it",
            expected="a module that modprobe finds",
            hint=f"depmod -a {node.kernel}",
            details=names,
        )
    others = [each.release for each in node.kernels if each.has("nvidia-peermem")]
    found = f"none for {node.kernel}"
    return failed(
        f"{found}; built for {', '.join(others)}" if others else found,
        expected=f"nvidia-peermem below /lib/modules/{node.kernel}",
    )


@check(
    "peermem.stub",
    impact=Impact.BROKEN,
    on_disk=True,
    paths=PEERMEM_ONLY,
    source="NVIDIA/open-gpu-kernel-modules nvidia-peermem.c, NV_MLNX_IB_PEER_MEM_SYMBOLS_PRESENT",
    fix="rebuild nvidia-peermem now that OFED's Module.symvers is there for the kernel",
)
def stub(node: Node, want: Want) -> Finding:
    """nvidia-peermem on disk is the real module, not the empty one.

    Built where conftest does not see OFED's symbols it compiles well and contains nothing:
    modprobe then says "Invalid argument", and dmesg says nothing at all. Both the imports in
    its symbol table and the dependencies that modpost wrote down are looked at.
    """
    if node.peermem_said == "":
        return failed(
            "a stub: modinfo says that it depends on nothing",
            expected=f"depends on nvidia and on the module that exports {REGISTER}",
        )
    if node.peermem_said and "ib_" in node.peermem_said:
        return passed(f"modinfo says that it depends on {node.peermem_said}")
    if node.peermem_chosen is None:
        return not_applicable("no nvidia-peermem on disk; see peermem.file")
    found = obstacles.stub(node, node.peermem_chosen)
    if found is not None:
        return failed(found.found, expected=found.expected, hint=found.command)
    return passed(f"depends on {', '.join(sorted(node.peermem_chosen.depends))}")


@check(
    "peermem.loaded",
    impact=Impact.BROKEN,
    paths=PEERMEM_ONLY,
    source="/sys/module/nvidia_peermem/initstate",
    fix="modprobe nvidia-peermem",
)
def loaded(node: Node, want: Want) -> Finding:
    """nvidia-peermem is loaded and live.

    A live module proves that its symbols were resolved and its client registered. Its
    user in lsmod is ib_core with older OFED and ib_uverbs since 24.07.
    """
    if not node.knows_state and node.lsmod is not None:
        return _by_lsmod(node, node.lsmod)
    if not node.knows_state and "nvidia_peermem" in node.tagged_modules and is_live(node):
        return passed("its symbols stand in /proc/kallsyms")
    if not node.knows_state and (said := node.peermem_container):
        return _by_container(said)
    if not node.knows_state and (why := why_not_inserted(node, NAMES)):
        return failed(f"{why[0]}: {why[1].cause}", expected="live", hint=why[1].action)
    state = node.module_state.get("nvidia_peermem")
    if state is not None and state.initstate == "live":
        return passed(f"live, version {state.version or 'not told'}")
    return failed(
        NOT_LOADED if state is None else f"in state {state.initstate or 'unknown'}",
        expected="live",
        details=tuple(filter(_OF_PEERMEM.search, read_or(lambda: node.dmesg, ())))[-3:],
    )


def _by_container(said: str) -> Finding:
    """What the GPU Operator's container said last: it waits for OFED's, loads, and stays."""
    told = f"nvidia-peermem-ctr: {said}"
    if said == "successfully loaded":
        return passed(f"{told} it")
    if said != "failed to load":
        return unknown(f"{told}, at its end", hint="kubectl logs it again; lsmod on the node")
    return failed(f"{told} it", expected="successfully loaded", hint="dmesg | grep peermem")


def _by_lsmod(node: Node, listed: dict[str, tuple[str, ...]]) -> Finding:
    """What lsmod says, which somebody may have searched for one name alone."""
    if is_live(node):
        return passed("listed by lsmod")
    if not any(name.startswith("nvidia") for name in listed):
        return unknown("lsmod lists no module of the driver: it may not be whole")
    if node.hides("lsmod", "nvidia_peermem"):
        return unknown("lsmod was searched for another name", hint="give the whole of lsmod")
    return failed(NOT_LOADED, expected="listed by lsmod")


@check(
    "peermem.bound",
    impact=Impact.BROKEN,
    paths=PEERMEM_ONLY,
    source="NVIDIA/open-gpu-kernel-modules nvidia-peermem.Kbuild; /sys/module/*/holders",
    fix="rebuild nvidia-peermem with the symbols of both the driver and OFED; then " + reload(),
)
def bound(node: Node, want: Want) -> Finding:
    """nvidia-peermem holds both the driver and the RDMA core.

    Built with KBUILD_MODPOST_WARN it loads without a recorded dependency, and the driver
    can be pulled from under it.
    """
    users = node.users
    if "nvidia_peermem" not in users:
        return not_applicable(NOT_LOADED)
    held = [name for name, its in users.items() if "nvidia_peermem" in its]
    rdma = [name for name in held if name != "nvidia"]
    if "nvidia" in held and (rdma or node.symbols.get(REGISTER) == ""):  # "": in the kernel
        tried = "; it took the memory of GPUs" if taken(node, PEERMEM) else ""
        return passed(f"holds {', '.join(held)}{tried}")
    some = not node.knows_state and not {"nvidia", "ib_core"} <= users.keys()
    if some or node.filtered("lsmod"):
        return unknown("lsmod has matching lines alone", hint="give the whole of lsmod")
    return failed(
        f"holds {', '.join(held) or 'nothing'}",
        expected="holds nvidia and the module that exports " + REGISTER,
    )


@check(
    "peermem.loaded_vs_disk",
    impact=Impact.FRAGILE,
    paths=PEERMEM_ONLY,
    source="modinfo(8): srcversion, vermagic; /sys/module/nvidia_peermem",
    fix=reload(),
)
def loaded_vs_disk(node: Node, want: Want) -> Finding:
    """What is loaded is what the next load would take, and fits driver and kernel.

    After an update of packages the old build goes on running until the next boot, and what
    has been tested is no longer what will run. Its sources seldom change: the srcversion of two
    releases may be one, so that the version is compared too.
    """
    state = node.module_state.get("nvidia_peermem")
    if state is None:
        return not_applicable(NOT_LOADED)
    chosen = node.peermem_chosen
    if chosen is None:
        return failed("loaded, but no longer on disk", expected="the loaded module on disk")
    told = (
        ("version", state.version, chosen.version),
        ("srcversion", state.srcversion, chosen.srcversion),
        ("build id", state.build_id, chosen.build_id),
    )
    driver = str(node.driver.version) if node.driver else ""
    wrong = [
        f"{word} {loaded} loaded, {on_disk} on disk"
        for word, loaded, on_disk in told[bool(driver) :]  # each is held beside the driver's below
        if loaded and on_disk and loaded != on_disk
    ]
    if driver and state.version and state.version != driver:
        wrong.append(f"version {state.version} loaded, beside driver {driver}")
    if node.driver and chosen.version and chosen.version != str(node.driver.version):
        wrong.append(f"version {chosen.version} on disk, driver {node.driver.version} loaded")
    if (other := obstacles.other_kernel(node, chosen)) is not None:
        wrong.append(other.found)
    if wrong:
        return failed("; ".join(wrong), expected="the same build, loaded and on disk")
    if not any(one and other for _, one, other in told):
        raise NoEvidence(
            "neither version, srcversion nor build id is told of both",
            hint="cat /sys/module/nvidia_peermem/version; modinfo nvidia_peermem",
        )
    return passed(f"version {chosen.version or 'not told'}, the same on disk")


@check(
    "peermem.autoload",
    impact=Impact.FRAGILE,
    paths=PEERMEM_ONLY,
    tense=Tense.AT_BOOT,
    source="modules-load.d(5); CUDA, GPUDirect RDMA guide",
    fix="a file in /etc/modules-load.d that holds the line nvidia-peermem",
)
def autoload(node: Node, want: Want) -> Finding:
    """nvidia-peermem is loaded at boot: NVIDIA's packages do not see to it.

    No device asks for the module, so udev never loads it, and a modprobe by hand lasts until
    the next boot. A softdep behind the driver does as well as a file in modules-load.d.
    """
    for path, names in node.modules_load.items():
        if "nvidia_peermem" in map(module_name, names):
            return passed(path)
    for module, order in node.modprobe.softdeps:
        after = order.partition("post:")[2].replace("-", "_").split()
        if module.startswith("nvidia") and "nvidia_peermem" in after:
            return passed(f"softdep {module} post: nvidia-peermem")
    for module, command in node.modprobe.installs:
        also = module_name(module) in {"nvidia", "nvidia_uvm"}
        if also and re.search(r"modprobe\b[^;&|]*peermem", command):
            return passed(f"install {module} {command}")
    return failed("nothing loads it at boot", expected="nvidia-peermem in a modules-load.d file")


@check(
    "peermem.legacy_conflict",
    impact=Impact.BROKEN,
    on_disk=True,
    paths=PEERMEM_ONLY,
    source="Mellanox/nv_peer_memory README, issues 79, 95 and 113",
    fix="with no job on the node: remove the package nvidia-peer-memory(-dkms), rmmod nv_peer_mem",
)
def legacy_conflict(node: Node, want: Want) -> Finding:
    """The module before nvidia-peermem, nv_peer_mem, is gone.

    Both register a client; the first that claims a page wins. Deprecated since CUDA 11.5.
    """
    loaded, lsmod = "nv_peer_mem is loaded", node.lsmod or {}
    listed = {*lsmod, *node.tagged_modules}
    if not node.knows_state and "nv_peer_mem" in lsmod and "nvidia_peermem" not in listed:
        why = f"{loaded}, and no nvidia-peermem is shown: the older module, which does the same"
        return unknown(why, hint="drivers since R470 bring nvidia-peermem; never load both")
    if not node.knows_state and "nv_peer_mem" in listed:
        return failed(loaded, expected="no trace of nvidia-peer-memory")
    traces = list(node.legacy_files)
    if "nv_peer_mem" in node.module_state:
        traces.insert(0, loaded)
    traces += [
        f"dkms: {each.module}/{each.version}"
        for each in node.dkms
        if each.module in {"nvidia-peer-memory", "nv_peer_mem"}
    ]
    if traces:
        return failed("; ".join(traces), expected="no trace of nvidia-peer-memory")
    return passed("no trace of it")
