"""Can the libraries on the node take a path that works, and does nothing tell them not to?"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.consumers.chosen import Way, decide, names_its_release, sees_peermem
from toolkit.checks.consumers.chosen_nccl import allowed, may_lack_dmabuf
from toolkit.checks.consumers.path import dmabuf_gap, peermem_gap
from toolkit.checks.pci.pcie import NEAR
from toolkit.compat.reader import Consumer
from toolkit.errors import NotCollected
from toolkit.facts.nccl.consumers import Setting
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import Kind
from toolkit.plural import counted
from toolkit.want import PeerPath, Want

NAMES = {"nccl": "NCCL", "ucx": "UCX", "nvshmem": "NVSHMEM", "nixl": "NIXL"}
_NEWER = {
    "nccl": "NCCL 2.23.4",
    "ucx": "UCX 1.18",
    "nvshmem": "a newer NVSHMEM",
    "nixl": "a newer NIXL",
}


@check(
    "consumer.too_old",
    impact=Impact.BROKEN,
    source="NVIDIA/nccl src/transport/net_ib*; openucx/ucx src/uct/ib/base/ib_md.c; breakage B01",
    fix="NCCL 2.23.4 or newer, UCX 1.18 or newer; or the open driver and dma-buf",
)
def too_old(node: Node, want: Want) -> Finding:
    """The libraries know a path that this node has.

    Each looks for peermem by files of its own. OFED 24.04 took away the one that NCCL before
    2.23 and UCX before 1.18 look for: nvidia-peermem is loaded and works, and they stage
    everything through host memory without a word. Libraries in containers are not seen:
    name their version in the site's file, or with --nccl-version.
    """
    libraries = _libraries(node, want)
    if not libraries:
        return not_applicable(none_here(node, "NCCL, UCX or NVSHMEM"))
    blind, details, open_ = [], [], []
    for name, version, origin in libraries:
        shown = f"{NAMES[name]} {version or '(version not known)'}"
        judged = {_takes(node, want, rules) for rules in _rules(want, name, version)}
        if judged == {"dma-buf"} and may_lack_dmabuf(version, origin):
            judged.add("")
        if judged == {""}:
            blind.append((name, shown))
        elif "" in judged:
            open_.append(f"{shown}: {origin}")
        details.append(f"{shown}: {' or '.join(sorted(judged - {''})) or 'no path'}; {origin}")
    if blind and peermem_gap(node) and dmabuf_gap(node, want):
        return not_applicable("no path is usable for anybody: see path.selected")
    if blind:
        return failed(
            f"{', '.join(dict.fromkeys(shown for _, shown in blind))}: finds neither path here",
            expected="libraries that see nvidia-peermem, or that can take dma-buf where it works",
            hint=f"use {' and '.join(dict.fromkeys(_NEWER[name] for name, _ in blind))} or newer",
            details=tuple(details),
        )
    if open_:
        found = f"it depends on the version or the build of {', '.join(open_)}"
        return unknown(found, hint="--nccl-version")
    return passed(", ".join(dict.fromkeys(each.split(";")[0] for each in details)))


def none_here(node: Node, what: str) -> str:
    """That there is none where the job would look: in its container, if one was looked into."""
    where = f"in {node.inside}" if node.inside else "on the node itself; containers bring theirs"
    return f"no {what} {where}"


def _libraries(node: Node, want: Want) -> list[tuple[str, str, str]]:
    """Those asked for, and those on the node; of the latter only the former's names are left out.

    :raises NoEvidence: where the node's could not be read, unless it was never asked for them
        and others were named.
    """
    asked = dict(want.consumers)
    found = [(name, version, "asked for") for name, version in asked.items()]
    try:
        libraries = [e for e in node.libraries if e.name in NAMES and names_its_release(e)]
        ucx = node.ucx
    except NotCollected:
        if not found:
            raise
        return found
    found += [(e.name, e.version, e.path) for e in libraries if e.name not in asked]
    if ucx is not None and ucx.cuda is not False and "ucx" not in asked:
        found.append(("ucx", ucx.version, "ucx_info"))
    return found


def _rules(want: Want, name: str, version: str) -> Iterator[Consumer]:
    for each in want.compat.consumers:
        if each.name == name and (not version or each.covers(version)):
            yield each


def _takes(node: Node, want: Want, rules: Consumer) -> str:
    """The path that is there and that the library sees; "" for none.

    :raises NoEvidence: where that cannot be told.
    """
    if sees_peermem(node, rules) and not peermem_gap(node):
        return "peermem"
    return "dma-buf" if rules.dmabuf and not dmabuf_gap(node, want) else ""


@check(
    "nccl.env",
    impact=Impact.SLOW,
    source="NVIDIA/nccl src/misc/param.cc, src/graph/paths.cc, src/init.cc",
    fix="take the setting out of the file that is named",
)
def nccl_env(node: Node, want: Want) -> Finding:
    """No setting for everybody turns GPUDirect RDMA off, or forces it over a socket link.

    Read are /etc/nccl.conf, /etc/environment and /etc/profile.d. Such lines are often left
    from debugging. NCCL_IB_HCA has to leave HCAs that are there, with a port that is up, and for
    each GPU the one beside it. What a job or a user sets is not read: the environment of other
    people's processes is theirs.
    """
    settings = node.settings
    wrong = [each for each in settings.values() if each.name.startswith("NCCL_")]
    told = [f"{each.name}={each.value}: {why}; {each.file}" for each in wrong
            if (why := _against(node, each))]  # fmt: skip
    if told:
        return failed(
            "; ".join(told),
            expected="none that keeps NCCL from the path that is there",
            hint=f"take it out of {told[0].rpartition('; ')[2]}",
        )
    seen = tuple(f"{each.name}={each.value}: {each.file}" for each in wrong)
    return passed(f"{len(seen)} set, none of these" if seen else "none is set", details=seen)


_LEVELS = {
    **dict.fromkeys(("LOC", "0"), "GPUDirect RDMA is off"),
    **dict.fromkeys(("SYS", "4", "5"), "forced even between sockets"),
}


def _against(node: Node, setting: Setting) -> str:
    """What a setting does to GPUDirect RDMA; "" for nothing.

    Levels are taken as they are written, networks in any case, and of a word NCCL makes 0
    where it looks for a number.
    """
    value, number = setting.value, setting.number
    zero = bool(value) and number == 0
    if setting.name == "NCCL_DMABUF_ENABLE" and zero and peermem_gap(node):
        return "no dma-buf, and peermem does not work here"
    if setting.name == "NCCL_IB_HCA":
        return _of_hcas(node, setting)
    level = str(min(number, 5)) if value[:1].isdecimal() else value
    return {
        "NCCL_NET_GDR_LEVEL": _LEVELS.get(level, ""),
        "NCCL_NET_GDR_READ": "off for sending" if zero else "",
        "NCCL_IB_DISABLE": "InfiniBand and RoCE are off" if number else "",
        "NCCL_NET": "only TCP is used" if value.lower() == "socket" else "",
    }.get(setting.name, "")


def _of_hcas(node: Node, setting: Setting) -> str:
    """What is wrong with the HCAs that NCCL_IB_HCA leaves; "" for nothing.

    NCCL looks at ports that are ACTIVE alone. A list for the whole cluster may name more than
    a node has. EFA has a plugin of its own, which does not read it.
    """
    devices = {each.name: each for each in node.rdma_hardware if each.kind is not Kind.EFA}
    left = [name for name in devices if allowed(name, setting)]
    if devices and not left:
        return f"it leaves none of the HCAs that are here ({', '.join(devices)}): only TCP is used"
    up = {
        name
        for name in left
        if any(each.up and allowed(name, setting, each.number) for each in devices[name].ports)
    }
    if devices and not up:
        return f"no port that it leaves is up ({', '.join(left)}): only TCP is used"
    beside: dict[str, set[str]] = {}
    for pair in node.tree_pairs if node.knows_pci and devices else ():
        if pair.distance in NEAR and (name := node.hca_names.get(pair.hca.address)):
            beside.setdefault(pair.gpu.address, set()).add(name)
    lacking = [gpu for gpu, names in beside.items() if not names & set(left)]
    count = counted(len(lacking), "GPU", "is left without", "are left without")
    return f"{count} the HCA beside it: {', '.join(lacking)}" if lacking else ""


@check(
    "ucx.paths",
    impact=Impact.SLOW,
    source="openucx/ucx src/uct/ib/base/ib_md.c, src/tools/info",
    fix="take UCX_IB_GPU_DIRECT_RDMA=n and a UCX_TLS without cuda out of the file that is named",
)
def ucx_paths(node: Node, want: Want) -> Finding:
    """UCX is let to take GPU memory to the HCA.

    A UCX without CUDA, as distributions build it, carries no GPU memory and is not judged.
    Whether its version sees this node's peermem is consumer.too_old's to say.
    """
    ucx = node.ucx
    if ucx is None:
        return not_applicable(none_here(node, "ucx_info"))
    shown = f"UCX {ucx.version or '(version not told)'}"
    if ucx.cuda is False:
        return not_applicable(f"{shown} was built without CUDA: it carries no GPU memory")
    try:
        settings = node.settings
    except NotCollected as why:
        return passed(f"{shown}, with CUDA", details=(str(why),))
    off = settings.get("UCX_IB_GPU_DIRECT_RDMA")
    if off is not None and off.value.lower() in {"n", "no", "0"}:
        return _ucx_failed(off, "GPUDirect RDMA is off")
    tls = settings.get("UCX_TLS")
    if tls is not None and not carries_cuda(tls.value):
        return _ucx_failed(tls, "no transport for CUDA memory")
    return passed(f"{shown}, {'with CUDA' if ucx.cuda else 'its build does not tell of CUDA'}")


def _ucx_failed(setting: Setting, why: str) -> Finding:
    return failed(
        f"{setting.name}={setting.value}: {why}; {setting.file}",
        expected="none that keeps UCX from GPU memory",
        hint=f"take it out of {setting.file}",
    )


def carries_cuda(transports: str) -> bool:
    """Whether UCX_TLS leaves the transports of CUDA; "^" lists those that are left out."""
    names = transports.removeprefix("^").split(",")
    listed = any(each.startswith(("cuda", "gpu")) or each == "all" for each in names)
    return listed != transports.startswith("^")


@check(
    "nvshmem.transport",
    impact=Impact.BROKEN,
    source="NVIDIA/nvshmem src/modules/transport",
    fix="take NVSHMEM_IB_DISABLE_DMABUF out of the file that is named, or load nvidia-peermem",
)
def nvshmem_transport(node: Node, want: Want) -> Finding:
    """NVSHMEM's InfiniBand transports find a path.

    It takes dma-buf where the GPU has it, without asking the HCA, else it looks for
    nvidia-peermem, and drops the transport where it finds neither ("neither nv_peer_mem, or
    nvidia_peermem detected").
    """
    own = [each for each in node.libraries if each.name == "nvshmem"]
    version = dict(want.consumers).get("nvshmem") or (own[0].version if own else None)
    if version is None:
        return not_applicable(none_here(node, "NVSHMEM"))
    mine = {name: each for name, each in node.settings.items() if name.startswith("NVSHMEM_")}
    rules = next(_rules(want, "nvshmem", version))
    choice = decide(node, want, rules, mine)
    shown = f"NVSHMEM {version}".strip()
    if choice.way is Way.UNKNOWN:
        return unknown(choice.why)
    if choice.way is not Way.NONE:
        return passed(f"{shown}: {choice.way}")
    if decide(node, want, rules, {}).way is Way.NONE:
        return not_applicable("no path is usable for anybody: see path.selected")
    return failed(f"{shown}: {choice.why}", expected="dma-buf, or nvidia-peermem loaded")


@check(
    "perftest.path",
    impact=Impact.FRAGILE,
    source="linux-rdma/perftest src/perftest_parameters.c, src/cuda_memory.c",
    fix="perftest built with CUDA 11.7 or newer: configure CUDA_H_PATH=.../cuda.h",
)
def perftest_path(node: Node, want: Want) -> Finding:
    """The ib_write_bw of this node can test the wanted path.

    --use_cuda registers by peermem, --use_cuda_dmabuf after it by dma-buf, and it never tries
    the other one: an answer with the wrong option says nothing about the path that jobs take.
    Distributions build it without CUDA; such a one is not judged.
    """
    tool = node.perftest
    if tool is None:
        return not_applicable("no ib_write_bw on the node")
    if tool.cuda is None or tool.dmabuf is None:
        return unknown(f"{tool.path} could not be read")
    if not tool.cuda:
        return not_applicable(f"{tool.path} was built without CUDA: it tests host memory alone")
    either = want.taken and not tool.dmabuf and not peermem_gap(node)
    if want.path is PeerPath.PEERMEM or either:
        return passed(f"{tool.path} --use_cuda")
    if tool.dmabuf:
        return passed(f"{tool.path} --use_cuda=0 --use_cuda_dmabuf")
    return failed(
        f"{tool.path} was built without dma-buf: its --use_cuda tests peermem",
        expected="one that has --use_cuda_dmabuf",
    )


@check(
    "mpi.cuda",
    impact=Impact.SLOW,
    source="Open MPI documentation, CUDA; MVAPICH user guide; NVIDIA HPC-X",
    fix="use HPC-X, or build MPI --with-cuda over a UCX that was built so",
)
def cuda(node: Node, want: Want) -> Finding:
    """The MPI that somebody installed on the node takes GPU memory.

    Which path its traffic takes is UCX's or libfabric's affair. An MPI that came with the
    distribution or with OFED is not judged: it is there to start jobs, and NCCL does not
    mind. Those in environment modules or containers are not seen.
    """
    hpcx = [path for path in node.companion_files if "hpcx" in path]
    mpis = node.mpis
    able = [each for each in mpis if each.cuda]
    if able:
        return passed(
            f"{able[0].name} {able[0].version}", details=tuple(f"HPC-X: {path}" for path in hpcx)
        )
    lacking = [each for each in mpis if not each.of_the_distribution]
    if lacking and not hpcx:
        first = lacking[0]
        where = f" in {first.prefix}" if first.prefix else ""
        return failed(
            f"{first.name} {first.version}{where} was built without CUDA",
            expected="built with CUDA: GPU buffers would be copied through host memory, or crash",
        )
    if hpcx:
        return not_applicable(f"HPC-X in {hpcx[0]}, to be loaded by jobs: not judged here")
    if mpis:
        return not_applicable(f"only the distribution's {mpis[0].name}, built without CUDA")
    return not_applicable("no MPI in the path of commands")
