"""Between the graph of builds and the scripts that carry them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from toolkit import package_data
from toolkit.built.plan.gate import GateGround, SymbolProvider, built_providers, vermagic_flags
from toolkit.built.plan.model import PEERMEM, Built, Part
from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.facts.modules.build_env import Ground, parse_ground
from toolkit.facts.modules.symvers import Export, parse_symvers
from toolkit.features.builds.io import sandbox
from toolkit.features.builds.io.sandbox import SCRATCH, Job, Laid, Order
from toolkit.features.builds.plan.graph import Graph, Step
from toolkit.features.builds.plan.linked import P2P, given_exports
from toolkit.node.scripts import FOLDER
from toolkit.plan.templates import render_text
from toolkit.ssh.transport import Transport

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
    step: Step,
    graph: Graph,
    built: Mapping[str, Built],
    *,
    root: str,
    log: str,
    limit_s: float,
    jobs: int = 0,
    layer: str = "",
) -> Job:
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
    return Job(step.inputs.title, root, script, limit_s + _GRACE_S, log)


def make_order(
    step: Step, graph: Graph, built: Mapping[str, Built], *, limit_s: float, jobs: int = 0
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
        files = (*files, Laid(symvers[-1], text), *_neighbour(above, text))
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


def _package(version: str) -> Iterator[Laid]:
    """Our own DKMS package; what it rests on is laid beside it, so it depends on no other."""
    values = {"driver": version, "version": version, "driver_dkms": "", "ofed_dkms": ""}
    for name, template, mode in _OURS:
        path = f"/usr/src/{PEERMEM}-{version}/{name}"
        yield Laid(path, render_text(template, values).encode(), mode)


def _exported(above: Step, built: Mapping[str, Built]) -> bytes:
    if above.given:
        return above.exports.encode()
    file = built[above.inputs.digest].file(SYMVERS)
    return file.data if file else b""


def _neighbour(above: Step, text: bytes) -> tuple[Laid, ...]:
    """Where DKMS would have kept it, and before-build.sh looks for it."""
    inputs = above.inputs
    tree = f"{SCRATCH}/dkms/{inputs.package}/{inputs.version}"
    return (Laid(f"{tree}/{inputs.kernel}/{inputs.arch}/module/{SYMVERS}", text),)


def gate_ground(
    ground: Ground,
    step: Step,
    graph: Graph,
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
            rows = given_exports(ground, kernel, above.inputs.part)
            providers += _given(ground, above, rows)
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


def _given(ground: Ground, above: Step, rows: Mapping[str, Export]) -> Iterator[SymbolProvider]:
    kernel = ground.kernel(above.inputs.kernel)
    found = kernel.provider(P2P) if kernel and above.inputs.part is Part.DRIVER else None
    for module in dict.fromkeys(each.module for each in rows.values()):
        exports = {name: each for name, each in rows.items() if each.module == module}
        version, licence = (found.version, found.licence) if found else ("", "")
        yield SymbolProvider(module, exports, licence, version)
