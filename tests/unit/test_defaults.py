"""What nobody gave is nothing: defaults are empty, zero, False or None, but for those below."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import toolkit

ROOT = Path(toolkit.__file__).parents[1]
READS = (
    "toolkit/*.py",
    "toolkit/built/io/*.py",
    "toolkit/compat/*.py",
    "toolkit/demo/*.py",
    "toolkit/features/ansible/io.py",
    "toolkit/features/builds/io/*.py",
    "toolkit/features/enrol/io.py",
    "toolkit/features/exercise/io.py",
    "toolkit/features/image/boot/*.py",
    "toolkit/features/image/io/*.py",
    "toolkit/features/image/run_passport.py",
    "toolkit/features/iommu_groups/io.py",
    "toolkit/features/kubernetes/io.py",
    "toolkit/features/reload/io.py",
    "toolkit/features/slurm/io.py",
    "toolkit/hosts/*.py",
    "toolkit/node/*.py",
    "toolkit/redfish/access.py",
    "toolkit/redfish/client.py",
    "toolkit/redfish/resource.py",
    "toolkit/redfish/http.py",
    "toolkit/redfish/reader.py",
    "toolkit/redfish/registry.py",
    "toolkit/redfish/session.py",
    "toolkit/redfish/session_registry.py",
    "toolkit/redfish/tls.py",
    "toolkit/redfish/trust.py",
    "toolkit/rollout/budget_store.py",
    "toolkit/rollout/chain.py",
    "toolkit/rollout/claims.py",
    "toolkit/rollout/hooks.py",
    "toolkit/rollout/journal.py",
    "toolkit/ssh/*.py",
    "toolkit/verbs/archives.py",
)
PLAIN = (str, bool, int, float)
# A default that says something is a decision: whoever makes one, or another, writes it here.
DECIDED = """
evidence.Evidence.frames is made
groups.SiteWants._known is made
safe_file.open_beside(mode) = 438
safe_file.open_beside(errors) = 'replace'
safe_file.write_file(mode) = 438
safe_file.write_file(errors) = 'replace'
tar_member.Unpacked.read(size) = -1
want.Group.expect is made
want.Want.ofed = 'any'
want.Want.keep_runs = 5
want.Want.mig = 'any'
want.Want.expect is made
want.Want.compat is made
built.io.store.Store.look(again) = True
compat.gpus.MachineType.rdma = True
compat.rows.Distances.ampere_reads = True
demo.machine.Machine.pairs = 8
demo.machine.Machine.gpus = True
demo.machine.Machine.nvswitches = 4
demo.machine.Machine.vendor = 'Supermicro'
demo.machine.Machine.product = 'SYS-821GE-TNHR'
demo.nodes.Recipe.machine is made
demo.nodes.Recipe.autoload = True
demo.nodes.Recipe.hooks = True
demo.nodes.Recipe.memlock = True
demo.nodes.Recipe.user = 'root'
demo.pci.Function.mrrs = 4096
demo.server.Server.stop(grace_s) = 5.0
demo.server.ServedNode.connections is made
demo.server.ServedNode.commands is made
demo.tree.NodeTree.files is made
demo.tree.NodeTree.links is made
demo.tree.NodeTree.folders is made
demo.tree.NodeTree.programs is made
features.ansible.io.Manners.become = True
features.builds.io.executors.Processes.shutdown(wait) = True
features.builds.io.executors.Processes._give_back(usable) = True
features.builds.io.headers._piped(stdin) = -3
features.builds.io.sandbox.SandboxFile.mode = 420
features.image.boot.qemu.accelerator(limit_s) = 5.0
features.image.boot.qemu.QemuMachine.accelerator = 'tcg'
features.image.boot.qemu.QemuMachine.memory_mb = 2048
features.image.boot.qemu.QemuMachine.cpus = 2
features.image.io.chroot.ChrootTransport.__init__(kernel) = '-'
features.image.io.chroot.ChrootTransport.run(limit_s) = 120
features.image.io.inside.write_inside(mode) = 420
features.image.io.media.Staged.run(limit_s) = 120
features.image.io.media.Staged.write(mode) = 420
features.image.io.namespace.ImageGround.run(limit_s) = 120
features.image.io.tree._Step.attributes is made
features.image.run_passport.read_parts(limit_s) = 300
features.image.run_passport.place(limit_s) = 60
features.iommu_groups.io.change_script(wait_s) = 60
features.iommu_groups.io.change(limit_s) = 1800
features.kubernetes.io.Kubectl.answer(limit_s) = 120
features.kubernetes.io.Kubectl.program = 'kubectl'
features.kubernetes.io.KubeCluster.poll_s = 5.0
features.kubernetes.io.KubeCluster.silence_s = 300.0
features.reload.io.script(wait_s) = 60
features.reload.io.carry_out(limit_s) = 1800
hosts.ansible.Group.hosts is made
hosts.ansible.Group.children is made
hosts.ansible.Group.values is made
hosts.host.Machines.running is made
hosts.host.Machines.others is made
hosts.host.Inventory.hosts is made
hosts.host.Inventory.groups is made
node.collect.collect(limit_s) = 90
node.collect.ask(call) = 'holding'
node.deliver.apply(limit_s) = 3600
node.deliver.rollback(run) = 'last'
node.deliver.rollback(wait_s) = 60
node.deliver.rollback(limit_s) = 3600
node.deliver.restart(wait_s) = 60
node.deliver.restart(by_itself) = True
node.deliver.restart_script(by_itself) = True
node.reboot.reboot(wait_s) = 60
node.reboot.reboot(limit_s) = 900
node.text_signature.sign(purpose) = 'gdr-toolkit-passport'
redfish.access.BmcAccess.trust is made
redfish.access.BmcAccess.places is made
redfish.access.BmcAccess.limit_s = 120.0
redfish.client.Job.percent = -1
redfish.http.BmcLimits.connect_s = 10
redfish.http.BmcLimits.answer_s = 30
redfish.http.BmcLimits.total_s = 120
rollout.budget_store.Row.count = 1
rollout.hooks.Hooks.limit_s = 600.0
ssh.become.Become.wanted = True
ssh.credentials.read_secret(option) = 'pass-fd'
ssh.limits.Hearing.__init__(room) = 4194304
ssh.local.LocalTransport.__init__(name) = 'localhost'
ssh.local.LocalTransport.__init__(become) = True
ssh.local.LocalTransport.run(limit_s) = 120
ssh.openssh.OpensshTransport.__init__(become) = True
ssh.openssh.OpensshTransport.run(limit_s) = 120
ssh.paramiko.SshTransport.__init__(become) = True
ssh.paramiko.SshTransport.run(limit_s) = 120
ssh.pool.run_all(fanout) = 64
ssh.ssh_config_file.HostConfig.values is made
ssh.transport.Transport.run(limit_s) = 120
ssh.transport_errors.Door.port = 22
ssh.transport_errors.Door.known_hosts = '~/.ssh/known_hosts'
verbs.archives.UnpackRoom.files = 10000
"""


def modules() -> Iterator[ModuleType]:
    for place in READS:
        for file in sorted(ROOT.glob(place)):
            if file.stem != "__main__":
                name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                yield importlib.import_module(name.removesuffix(".__init__"))


def functions(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, each in vars(module).items():
        if getattr(each, "__module__", "") != module.__name__:
            continue
        if inspect.isfunction(each):
            yield name, each
        elif inspect.isclass(each) and not issubclass(each, Enum):
            own = {"__init__"} if dataclasses.is_dataclass(each) else set()
            for inner, found in vars(each).items():
                plain = getattr(found, "__func__", found)
                if inspect.isfunction(plain) and inner not in own:
                    yield f"{name}.{inner}", plain


def defaults() -> Iterator[str]:
    """Each default that says something, as a line."""
    for module in modules():
        where = module.__name__.removeprefix("toolkit.")
        for name, each in functions(module):
            for parameter in inspect.signature(each).parameters.values():  # type: ignore[arg-type]  # it is one
                yield from _told(f"{where}.{name}({parameter.name})", parameter.default)
        for name, each in vars(module).items():
            if not inspect.isclass(each) or not dataclasses.is_dataclass(each):
                continue
            own = (
                vars(each).get("__annotations__", {}) if each.__module__ == module.__name__ else {}
            )
            for field in dataclasses.fields(each):
                if field.name in own:
                    yield from _told(f"{where}.{name}.{field.name}", field.default)
                    if field.default_factory is not dataclasses.MISSING:
                        yield f"{where}.{name}.{field.name} is made"


def _told(where: str, default: object) -> Iterator[str]:
    if isinstance(default, PLAIN) and not isinstance(default, Enum) and default:
        yield f"{where} = {default!r}"


def test_what_nobody_gave_is_nothing_but_for_these() -> None:
    assert list(defaults()) == DECIDED.strip().split("\n")
