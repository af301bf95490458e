"""Does DKMS stand ready, and is what it should have built there, whole and its own?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.kernel.build_failures import cause_of, completed, explain, telling
from toolkit.checks.kernel.builds import NOTHING_BUILT
from toolkit.checks.rdma.makers import has_connectx
from toolkit.compat.reader import Compat
from toolkit.errors import NoEvidence
from toolkit.facts.modules.dkms import BuildLog, DkmsBuild, DkmsState
from toolkit.facts.node.node import Node
from toolkit.facts.node.stack import OFED_DKMS
from toolkit.want import PeerPath, Want

# What belongs to GPUDirect RDMA among the modules that DKMS may know.
OF_CONNECTX = ("iser", "isert", "srp", "mlnx-", *OFED_DKMS)
OURS = ("nvidia", "gdrdrv", "knem", "xpmem", *OF_CONNECTX)
UNIT = "/usr/lib/systemd/system/dkms.service"
BEFORE = ("nvidia-340", "nvidia-peer-memory")  # no part of today's stack


@check(
    "dkms.present",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="dkms changelog, 3.1.4 and 3.2.0; mlnx-ofa_kernel.spec",
    fix="install DKMS 3.2 or newer (RHEL family: from EPEL)",
)
def present(node: Node, want: Want) -> Finding:
    """DKMS is there, is new enough for what it is to build, and builds for new kernels.

    Hooks of the kernel's packages call it, and in the RHEL family a unit at boot too.
    OFED's RPM packages need 3.2. Before 3.1.4 ``dkms build`` ignores BUILD_DEPENDS, and
    before 3.2 nothing is built again when what it was built against changes.
    """
    sources = [each.name for each in node.dkms_packages]
    if not node.has_dkms:
        if not sources:
            return not_applicable(NOTHING_BUILT)
        return failed(
            f"no dkms, but sources for it: {', '.join(sorted(set(sources)))}",
            expected="dkms, to build them for each kernel",
        )
    if not node.dkms:
        return not_applicable(NOTHING_BUILT)
    return _uncalled(node) or _by_version(node)


def _uncalled(node: Node) -> Finding | None:
    if node.autoinstall_off:
        return failed(
            "/etc/dkms/no-autoinstall is there",
            expected="modules built when a kernel is installed",
            hint="rm /etc/dkms/no-autoinstall",
        )
    callers = node.dkms_callers
    if callers is None or set(callers) - {UNIT}:
        return None
    return failed(
        "nothing calls it for a new kernel: no hook of kernel packages, no unit at boot",
        expected="a hook, or dkms.service enabled",
        hint="systemctl enable dkms, or install the package of DKMS again for its hook",
    )


def _by_version(node: Node) -> Finding:
    version = node.dkms_version
    modules = {each.module for each in node.dkms}
    if "mlnx-ofa_kernel" in modules and not version.at_least(3, 2):
        return failed(f"{version}, with mlnx-ofa_kernel", expected="3.2 or newer")
    notes = []
    callers = node.dkms_callers or ()
    if UNIT in callers and not any(".wants/" in each for each in callers):
        notes.append("dkms.service is not enabled: what fails with a kernel's package stays so")
    if not version.at_least(3, 1, 4):
        notes.append("dkms build ignores BUILD_DEPENDS before 3.1.4: build OFED first")
    if not version.at_least(3, 2):
        notes.append("nothing is built again after an OFED update before 3.2: do it by hand")
    return passed(str(version), details=tuple(notes))


@check(
    "dkms.state",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="dkms, show_status; dkms(8), STATUS",
    fix="dkms install MODULE/VERSION -k KERNEL",
)
def state(node: Node, want: Want) -> Finding:
    """What DKMS builds for GPUDirect is installed for the running kernel and the next.

    "built" is not in /lib/modules, "broken" has lost its source, and a module may be
    missing for one kernel alone. Differences between built and installed are no failure:
    signing and compressing make them too.
    """
    builds = _builds(node)
    if not builds:
        return not_applicable("DKMS builds nothing of GPUDirect here")
    whole = node.given_kernel
    if whole and any(node.hides("dkms-status", each.module) for each in builds):
        raise NoEvidence("dkms-status: matching lines alone: what the others say is not known")
    kernels = [node.kernel] if whole else sorted({each.kernel for each in node.dkms if each.kernel})
    ill = _ill_for(node, builds, kernels)
    if whole and node.probed and not ill and (following := node.default_kernel) != node.kernel:
        kernels.append(following)
        ill = _ill_for(node, builds, [following])
    if ill:
        return failed(
            "; ".join(ill),
            expected=f"installed for {', '.join(kernels)}",
            hint=_install(builds, kernels, ill),
        )
    notes = [f"{_name(each)}, {each.kernel}: {each.remark}" for each in builds if each.remark]
    modules = ", ".join(dict.fromkeys(each.module for each in builds))
    return passed(f"{modules}: installed for {', '.join(kernels)}", details=tuple(notes))


def _builds(node: Node) -> list[DkmsBuild]:
    builds = [
        each
        for each in node.dkms
        if each.module.startswith(OURS) and not each.module.startswith(BEFORE)
    ]
    if not has_connectx(node.fresh()):  # OFED drives no other maker's HCAs
        builds = [each for each in builds if not each.module.startswith(OF_CONNECTX)]
    return builds


def _name(each: DkmsBuild) -> str:
    return f"{each.module}/{each.version}"


def _ill_for(node: Node, builds: list[DkmsBuild], kernels: list[str]) -> list[str]:
    """All that is wrong for these kernels; what is left of others harms nobody."""
    ill = [f"{_name(each)}: broken" for each in builds if each.state is DkmsState.BROKEN]
    here = [each for each in builds if each.kernel in kernels]
    ill += [
        f"{_name(each)}, {each.kernel}: {each.remark}"
        for each in here
        if "missing" in each.remark.lower()
    ]
    seen: dict[tuple[str, str], str] = {}
    for each in here:
        if each.state is DkmsState.INSTALLED:
            other = seen.setdefault((each.module, each.kernel), each.version)
            if other != each.version:
                ill.append(f"{each.module}, {each.kernel}: {other} and {each.version} installed")
    whole = [each for each in builds if each.state is not DkmsState.BROKEN]
    return ill + [line for kernel in kernels for line in _lacking(node, whole, kernel)]


def _lacking(node: Node, builds: list[DkmsBuild], kernel: str) -> list[str]:
    lines = []
    for module in _missing(node, builds, kernel):
        rows = [each for each in builds if each.module == module]
        here = [each for each in rows if each.kernel == kernel]
        had = here[0].state if here else ("added" if not rows[0].kernel else "not built")
        lines.append(f"{module}, {kernel}: {had}")
    return lines


def _missing(node: Node, builds: list[DkmsBuild], kernel: str) -> list[str]:
    found = []
    for module in dict.fromkeys(each.module for each in builds):
        here = [each for each in builds if each.module == module and each.kernel == kernel]
        if any(each.usable for each in here) or (not here and _prebuilt(node, module, kernel)):
            continue
        found.append(module)
    return found


def unbuilt(node: Node, kernel: str) -> frozenset[str]:
    """DKMS packages of which ``dkms.state`` says that they are not installed for a kernel.

    It speaks of the kernel of the next boot only where the running one lacks nothing.
    """
    builds = [each for each in _builds(node) if each.state is not DkmsState.BROKEN]
    if kernel != node.kernel and _ill_for(node, _builds(node), [node.kernel]):
        return frozenset()
    return frozenset(_missing(node, builds, kernel))


def _prebuilt(node: Node, module: str, kernel: str) -> bool:
    """Whether that kernel has the driver or OFED from a package of ready-made modules."""
    if not node.given_kernel or not module.startswith(("nvidia", *OFED_DKMS)):
        return False
    if not node.probed:  # of its other packages nothing is known; what is loaded came from one
        return node.lsmod is not None and module.partition("-")[0] in node.lsmod
    found = next((each for each in node.kernels if each.release == kernel), None)
    if found is None:
        return False
    if module in {"nvidia", "nvidia-open"} or module.startswith("nvidia-current"):
        return found.has("nvidia")
    core = (path for path in found.modules if "/ib_core.ko" in path and "/kernel/" not in path)
    return module.startswith(OFED_DKMS) and next(core, "") != ""


def _install(builds: list[DkmsBuild], kernels: list[str], ill: list[str]) -> str:
    module, _, rest = ill[0].partition(", ")
    kernel = rest.partition(":")[0]
    version = next((each.version for each in reversed(builds) if each.module == module), "")
    if kernel in kernels and version:
        return f"dkms install {module}/{version} -k {kernel}"
    if "/" in module and kernel in kernels:  # its files are gone from DKMS's own folder
        again = f"{module} -k {kernel}"
        see = f"./invokew build --on NODE --kernel {kernel}"
        return (
            f"see that it builds ({see}), then dkms build {again} && dkms install --force {again}"
        )
    broken = module.partition(":")[0]
    return (
        f"restore /usr/src/{broken.replace('/', '-')}; or, to give it up for every kernel, "
        f"dkms remove {broken} --all"
    )


@check(
    "dkms.owner_conflict",
    impact=Impact.FRAGILE,
    on_disk=True,
    paths=frozenset({PeerPath.PEERMEM}),
    source="dkms, install: original modules; CUDA installation guide, precompiled and DKMS",
    fix="keep one: remove the other package. dkms remove MODULE/VERSION --all takes all its "
    "modules from every kernel, and may be the whole driver",
)
def owner_conflict(node: Node, want: Want) -> Finding:
    """One package alone owns nvidia-peermem.

    Of two DKMS packages that build it the last installed wins, whichever fits. Prebuilt
    modules beside a DKMS build are not supported from branch 570 on.
    """
    registered = {each.module for each in node.dkms}
    owners = sorted(
        {
            each.name
            for each in node.dkms_packages
            if each.name in registered
            and any(name.startswith("nvidia") and name.endswith("peermem") for name in each.builds)
        }
    )
    if len(owners) > 1:
        return failed(
            f"{' and '.join(owners)} both build nvidia-peermem",
            expected="one DKMS package that builds it",
            hint="remove the package that brings nvidia-peermem alone; of the driver's, dkms "
            "remove takes the whole driver from every kernel",
        )
    files = [each.filename for each in node.peermem_files if "/weak-updates/" not in each.filename]
    if len(files) > 1 and owners:
        return failed(
            f"{len(files)} files for {node.kernel}, and {owners[0]} builds one of them",
            expected="one nvidia-peermem for the kernel",
            details=tuple(files),
        )
    if not owners:
        return not_applicable("no DKMS package builds nvidia-peermem")
    return passed(owners[0])


@check(
    "dkms.last_failure",
    impact=Impact.FRAGILE,
    on_disk=True,
    source="NVIDIA/open-gpu-kernel-modules conftest.sh; dkms, exit codes; scripts/mod/modpost.c",
    fix="mend what /var/lib/dkms/MODULE/VERSION/build/make.log says, then dkms autoinstall",
)
def last_failure(node: Node, want: Want) -> Finding:
    """No build failed for the running kernel or the next.

    DKMS keeps the build folder after a failure only. Where the module is installed for
    that kernel all the same, the log is an old one.
    """
    if node.make_log is not None:
        # A log by itself: it failed, or says that it did not.
        done, matched = completed(node.make_log.lines), cause_of(node.make_log.lines, want.compat)
        # That modules are not signed is said of good builds too.
        if telling(node.make_log.lines) or (matched is not None and not (done and matched[0].last)):
            return _failure(node.make_log, want.compat)
        if done:
            return passed("the build completed")
        return unknown("the log says neither that the build failed nor that it completed")
    logs = node.build_failures
    if not logs:
        return (
            passed("no failed build left its log") if node.dkms else not_applicable(NOTHING_BUILT)
        )
    installed = {(each.module, each.kernel) for each in node.dkms if each.usable}
    open_ = [each for each in logs if (each.module, each.kernel) not in installed]
    matter = [each for each in open_ if each.kernel in {"", node.kernel}]
    if not matter and open_:
        matter = [each for each in open_ if each.kernel == node.default_kernel]
    if not matter:
        old = tuple(f"{each.module}/{each.version}: {each.kernel}" for each in logs)
        return passed("the logs of failed builds are old ones", details=old)
    worst = matter[0]
    more = tuple(_line(each) for each in matter[1:])
    return _failure(worst, want.compat, more)


def _failure(log: BuildLog, compat: Compat, more: tuple[str, ...] = ()) -> Finding:
    why = explain(log.lines, kernel=log.kernel, compat=compat)
    if why.excluded and not more:
        return not_applicable(f"{_line(log)}: {why.cause}")
    return failed(
        f"{_line(log)}: {why.found}",
        expected="a build that succeeds",
        hint=why.action,
        details=((why.line,) if why.cause else ()) + more,
    )


def _line(log: BuildLog) -> str:
    what = f"{log.module}/{log.version}" if log.module else "a build"
    return f"{what} for {log.kernel}" if log.kernel else what
