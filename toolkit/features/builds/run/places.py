"""Where modules are built: this machine, a tree of it, a host; and the scripts that build there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit import package_data
from toolkit.built.plan.gate import GateGround, SymbolProvider, built_providers, vermagic_flags
from toolkit.built.plan.model import PEERMEM, Built, Part
from toolkit.errors import TransportError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.modules.build_env import Ground, GroundKernel, parse_ground
from toolkit.facts.modules.symvers import Export, parse_symvers
from toolkit.features.builds.io import sandbox
from toolkit.features.builds.io.executors import DASK, LOCAL, THREADS, refuse_unknown
from toolkit.features.builds.io.sandbox import (
    SCRATCH,
    Order,
    SandboxFile,
    SandboxJob,
    run_job,
    written,
)
from toolkit.features.builds.plan.graph import BuildGraph, BuildStep
from toolkit.features.builds.plan.wanted import P2P
from toolkit.hosts.host import Host
from toolkit.node.scripts import FOLDER
from toolkit.plan.templates import render_text
from toolkit.ssh.limits import BULK
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Access
from toolkit.verbs.connect import open_fleet

_OURS = (  # the package that nvidia-peermem is built by, on nodes too
    ("dkms.conf", "dkms/peermem.conf.j2", 0o644),
    ("before-build.sh", "dkms/before-build.sh.j2", 0o755),
    ("after-build.sh", "dkms/after-build.sh.j2", 0o755),
)
_SCRIPTS = ("enter.sh", "frames.sh", "hashes.sh", "build.sh")
_GRACE_S = 60  # for a build to end itself at its limit, before it is cut off
SYMVERS = "Module.symvers"
KERNEL_SYMVERS = "kernel.symvers"  # rows of the kernel's own that the modules import


def survey(ground: str | Transport, kernels: Sequence[str] = (), *, layer: str = "") -> Ground:
    """Read a ground.

    :param ground: a tree of this machine, "" for this machine, or a way to another.
    :param kernels: kernel releases; none for all that have headers.
    :param layer: of this machine: a folder seen above it, with headers that are not installed.
    :raises TransportError: it could not be asked.
    :raises NoEvidence: its answer was cut off.
    """
    if isinstance(ground, str):
        text = sandbox.read_ground(root=ground, kernels=tuple(kernels), layer=layer)
    else:
        text = sandbox.read_ground(ground, kernels=tuple(kernels), layer=layer)
    return parse_ground(Evidence.parse(text), tree=isinstance(ground, str) and bool(ground))


def recipe() -> str:
    """The hash of what of the toolkit takes part in a build: scripts, templates, what lays them."""
    templates = package_data.templates()
    files = [
        *(templates / "dkms" / name for name in sandbox.ASIDE),
        *(templates / template for _, template, _ in _OURS),
        *(FOLDER / name for name in _SCRIPTS),
        Path(sandbox.__file__),
        Path(__file__),
    ]
    total = sha256()
    for path in files:
        total.update(f"{path.name} {sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def make_job(
    step: BuildStep,
    graph: BuildGraph,
    built: Mapping[str, Built],
    *,
    root: str,
    log: str,
    limit_s: float,
    jobs: int = 0,
    layer: str = "",
) -> SandboxJob:
    """The job that builds one step.

    :param built: by digest, what those steps became that it rests on and that are built.
    :param root: the tree to build in; "" for the machine that the job runs on.
    :param log: file that gets each line as it comes.
    :param limit_s: after which it is killed.
    :param jobs: for make; 0: as DKMS thinks fit.
    :param layer: as for ``survey``.
    """
    order = make_order(step, graph, built, limit_s=limit_s, jobs=jobs)
    script = sandbox.build_script(order, root=root, layer=layer)
    return SandboxJob(step.inputs.title, root, script, limit_s + _GRACE_S, log)


def make_order(
    step: BuildStep, graph: BuildGraph, built: Mapping[str, Built], *, limit_s: float, jobs: int = 0
) -> Order:
    """What build.sh is to do for one step."""
    if step.given:
        raise UsageError(
            f"{step.inputs.title} is taken as it is installed: nothing to build",
            hint="leave it out, or name a part that is built",
        )
    inputs, ours = step.inputs, step.inputs.package == PEERMEM
    files = tuple(_package(inputs.version)) if ours else ()
    symvers = []
    for above in graph.upstream(step):
        text = _exported(above, built)
        name = "ofed" if above.inputs.part is Part.OFED else "driver"
        symvers.append(f"{SCRATCH}/{name}.symvers")
        files = (*files, SandboxFile(symvers[-1], text), *_neighbour(above, text))
    return Order(
        kernel=inputs.kernel,
        package=inputs.package,
        version=inputs.version,
        limit_s=int(limit_s),
        jobs=jobs,
        flags=inputs.flags,
        ours=ours,
        hidden=(*((f"{PEERMEM}-{inputs.version}",) if ours else ()), *step.hidden),
        writable=inputs.part is Part.OFED,
        source_folder=step.source,
        source_name=step.source_name,
        source=inputs.source,
        headers=inputs.headers,
        compiler=inputs.compiler,
        left_out=step.left_out,
        symvers=tuple(symvers),
        files=files,
    )


def _package(version: str) -> Iterator[SandboxFile]:
    """Our own DKMS package; what it rests on is laid beside it, so it depends on no other."""
    values = {"driver": version, "version": version, "driver_dkms": "", "ofed_dkms": ""}
    for name, template, mode in _OURS:
        path = f"/usr/src/{PEERMEM}-{version}/{name}"
        yield SandboxFile(path, render_text(template, values).encode(), mode)


def _exported(above: BuildStep, built: Mapping[str, Built]) -> bytes:
    if above.given:
        return above.exports.encode()
    file = built[above.inputs.digest].file(SYMVERS)
    return file.data if file else b""


def _neighbour(above: BuildStep, text: bytes) -> tuple[SandboxFile, ...]:
    """Where DKMS would have kept it, and before-build.sh looks for it."""
    inputs = above.inputs
    tree = f"{SCRATCH}/dkms/{inputs.package}/{inputs.version}"
    return (SandboxFile(f"{tree}/{inputs.kernel}/{inputs.arch}/module/{SYMVERS}", text),)


def gate_ground(
    ground: Ground,
    step: BuildStep,
    graph: BuildGraph,
    others: Mapping[str, Built],
    built: Built | None = None,
) -> GateGround:
    """What the modules of a step are held against.

    :param others: by digest, what those steps became that it rests on and that are built.
    :param built: what is to be judged: it says what the kernel exports of what it imports.
    """
    kernel = ground.kernel(step.inputs.kernel)
    if kernel is None:
        raise ValueError(f"{step.inputs.kernel}: the graph was made of another ground")
    providers: list[SymbolProvider] = []
    for above in graph.upstream(step):
        if above.given:
            providers += _given(kernel, above)
        else:
            providers += built_providers(others[above.inputs.digest])
    file = built.file(KERNEL_SYMVERS) if built else None
    symbols: dict[str, Export] = {}
    if file is not None:
        symbols |= parse_symvers(KERNEL_SYMVERS, file.data.decode("utf-8", "replace"))
    return GateGround(
        kernel.release,
        ground.arch,
        vermagic_flags(kernel.config, ground.arch) if kernel.config else None,
        symbols | dict(kernel.symvers),
        tuple(providers),
    )


def _given(kernel: GroundKernel, above: BuildStep) -> Iterator[SymbolProvider]:
    version, licence = "", ""
    if above.inputs.part is Part.DRIVER:
        found = kernel.provider(P2P)
        version, licence = above.inputs.version, found.licence if found else ""
    rows = parse_symvers(SYMVERS, above.exports)
    for module in dict.fromkeys(each.module for each in rows.values()):
        exports = {name: each for name, each in rows.items() if each.module == module}
        yield SymbolProvider(module, exports, licence, version)


class BuildPlace(Struct, frozen=True):
    """A ground, and the way to build in it."""

    title: str  # "this machine"
    root: str  # a tree of this machine; "" for all of it, or for a host
    executor: str  # for open_executor
    survey: Callable[[Sequence[str]], Ground]
    run_job: Callable[[SandboxJob], str]
    here: bool = True  # on this machine
    layer: str = ""  # a folder seen above it, with headers that are not installed


@contextmanager
def open_place(
    access: Access, *, on: str = "", root: str = "", executor: str = ""
) -> Iterator[BuildPlace]:
    """The place that was named, for the length of the block.

    :param access: how hosts are reached.
    :param on: a host; builds run there, over SSH.
    :param root: a tree of this machine.
    :raises UsageError: both, a tree that is none, or an unknown executor.
    """
    if executor:
        refuse_unknown(executor)
    if on and root:
        raise UsageError("--on and --root name two places", hint="say one of them")
    if executor == THREADS and not on:  # nothing could end what a thread of ours waits for
        raise UsageError(
            "--executor threads is for --on: here Ctrl-C would not end a build",
            hint="leave it out: each build has a process of its own then",
        )
    if root:
        yield _tree(root, executor)
    elif on:
        with _host(access, on, executor) as place:
            yield place
    else:
        yield BuildPlace(
            "this machine", "", executor or LOCAL, lambda names: survey("", names), run_job
        )


def _tree(root: str, executor: str) -> BuildPlace:
    folder = Path(root)
    if not (folder / "lib").is_dir() or not (folder / "usr").is_dir():
        raise UsageError(
            f"--root {root} is no tree of a system: it has no lib and no usr",
            hint="mmdebstrap makes one, or: dnf --installroot",
        )
    if folder.resolve() == Path("/"):  # in a tree OFED may be built, which writes to what it finds
        raise UsageError(
            f"--root {root} is this machine itself", hint="leave it out: builds run here then"
        )
    if os.geteuid() != 0:
        raise UsageError("--root needs root: builds run in it by chroot", hint="run it by sudo")
    path = str(folder.resolve())
    return BuildPlace(path, path, executor or LOCAL, lambda names: survey(path, names), run_job)


@contextmanager
def _host(access: Access, on: str, executor: str) -> Iterator[BuildPlace]:
    if executor.startswith(DASK) or executor == LOCAL:
        raise UsageError(
            f"--on {on} and --executor {executor} do not go together",
            hint="builds on a host run over SSH; leave --executor out",
        )
    builder_alone = replace(access, hosts=on, exclude="", limit="", hosts_file="", room=BULK)
    with open_fleet(builder_alone) as fleet:
        if len(fleet.hosts) != 1:
            raise UsageError(f"--on {on} names {len(fleet.hosts)} hosts", hint="name one")
        builder = _Builder(fleet.hosts[0], fleet.connect)
        try:
            yield BuildPlace(
                on, "", executor or THREADS, builder.survey, builder.run_job, here=False
            )
        finally:
            builder.close()


class _Builder:
    """A host that builds: a connection each for as many builds as run at once."""

    def __init__(self, host: Host, connect: Callable[[Host], Transport]) -> None:
        self._host, self._connect = host, connect
        self._lock = threading.Lock()
        self._open: list[Transport] = []
        self._closed = False

    def survey(self, kernels: Sequence[str]) -> Ground:
        with self._transport() as transport:
            return survey(transport, kernels)

    def run_job(self, job: SandboxJob) -> str:
        with self._transport() as transport, written(job.log) as sink:
            return transport.run(job.script, limit_s=job.limit_s, sink=sink).stdout

    def close(self) -> None:
        """Cut what is under way, after Ctrl-C: a build that cannot print any more ends."""
        with self._lock:
            self._closed = True
            for transport in self._open:
                transport.close()

    @contextmanager
    def _transport(self) -> Iterator[Transport]:
        with self._lock:
            if self._closed:
                raise TransportError(
                    f"{self._host.name}: the run was ended",
                    hint="begin it again; what was built is in the cache",
                )
            transport = self._connect(self._host)
            self._open.append(transport)
        try:
            yield transport
        finally:
            transport.close()
            with self._lock:
                self._open.remove(transport)
