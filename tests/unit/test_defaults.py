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

HOME = Path(toolkit.__file__).parent
PLACES = ("*.py", "demo/*.py", "reach/*.py")
PLAIN = (str, bool, int, float)
# A default that says something is a decision: whoever makes one, or another, writes it here.
DECIDED = """
compat_rows.Distances.ampere_reads = True
evidence.Evidence.frames is made
groups.SiteWants._known is made
hosts.Machines.running is made
hosts.Machines.others is made
hosts.Inventory.hosts is made
hosts.Inventory.groups is made
machines.MachineType.rdma = True
want.Group.expect is made
want.Want.ofed = 'any'
want.Want.keep_runs = 5
want.Want.mig = 'any'
want.Want.expect is made
want.Want.compat is made
demo.machine.Machine.pairs = 8
demo.machine.Machine.gpus = True
demo.machine.Machine.nvswitches = 4
demo.machine.Machine.vendor = 'Supermicro'
demo.machine.Machine.product = 'SYS-821GE-TNHR'
demo.pci.Function.mrrs = 4096
demo.recipe.Recipe.machine is made
demo.recipe.Recipe.autoload = True
demo.recipe.Recipe.hooks = True
demo.recipe.Recipe.memlock = True
demo.recipe.Recipe.user = 'root'
demo.server.Server.stop(grace_s) = 5.0
demo.server.Node.connections is made
demo.server.Node.commands is made
demo.tree.Tree.files is made
demo.tree.Tree.links is made
demo.tree.Tree.folders is made
demo.tree.Tree.programs is made
reach.ansible.Group.hosts is made
reach.ansible.Group.children is made
reach.ansible.Group.values is made
reach.ansible_write.Manners.become = True
reach.become.Become.wanted = True
reach.budget_book.Row.count = 1
reach.chroot.ChrootTransport.__init__(kernel) = '-'
reach.chroot.ChrootTransport.run(limit_s) = 120
reach.collect.collect(limit_s) = 90
reach.credentials.read_secret(option) = 'pass-fd'
reach.deliver.apply(limit_s) = 3600
reach.deliver.rollback(run) = 'last'
reach.deliver.rollback(wait_s) = 60
reach.deliver.rollback(limit_s) = 3600
reach.deliver.restart(wait_s) = 60
reach.deliver.restart(by_itself) = True
reach.deliver.restart_script(by_itself) = True
reach.domains.change_script(wait_s) = 60
reach.domains.change(limit_s) = 1800
reach.executors.Processes.shutdown(wait) = True
reach.executors.Processes._give_back(usable) = True
reach.fleet.run_all(fanout) = 64
reach.headers._piped(stdin) = -3
reach.holding.ask(call) = 'holding'
reach.kubectl.Kubectl.answer(limit_s) = 120
reach.kubectl.Kubectl.program = 'kubectl'
reach.kubernetes_node.Cluster.poll_s = 5.0
reach.kubernetes_node.Cluster.silence_s = 300.0
reach.kvm.accelerator(limit_s) = 5.0
reach.limits.Hearing.__init__(room) = 4194304
reach.local.LocalTransport.__init__(name) = 'localhost'
reach.local.LocalTransport.__init__(become) = True
reach.local.LocalTransport.run(limit_s) = 120
reach.media.Staged.run(limit_s) = 120
reach.media.Staged.write(mode) = 420
reach.media_inside.write_inside(mode) = 420
reach.media_journal._Step.attributes is made
reach.media_room.Ground.run(limit_s) = 120
reach.openssh.OpensshTransport.__init__(become) = True
reach.openssh.OpensshTransport.run(limit_s) = 120
reach.packed.Room.files = 10000
reach.passport.read_parts(limit_s) = 300
reach.passport.place(limit_s) = 60
reach.qemu.Machine.accelerator = 'tcg'
reach.qemu.Machine.memory_mb = 2048
reach.qemu.Machine.cpus = 2
reach.reboot.reboot(wait_s) = 60
reach.reboot.reboot(limit_s) = 900
reach.redfish.Job.percent = -1
reach.redfish_http.Limits.connect_s = 10
reach.redfish_http.Limits.answer_s = 30
reach.redfish_http.Limits.total_s = 120
reach.reload.script(wait_s) = 60
reach.reload.carry_out(limit_s) = 1800
reach.replay.ReplayTransport.run(limit_s) = 120
reach.safe_file.open_beside(mode) = 438
reach.safe_file.open_beside(errors) = 'replace'
reach.safe_file.write_file(mode) = 438
reach.safe_file.write_file(errors) = 'replace'
reach.sealing.sign(purpose) = 'gdr-toolkit-passport'
reach.ssh.SshTransport.__init__(become) = True
reach.ssh.SshTransport.run(limit_s) = 120
reach.ssh_config_file.Found.values is made
reach.store.Store.look(again) = True
reach.tar_member.Unpacked.read(size) = -1
reach.transport.Transport.run(limit_s) = 120
reach.trouble.Door.port = 22
reach.trouble.Door.known_hosts = '~/.ssh/known_hosts'
reach.workshop.Laid.mode = 420
"""


def modules() -> Iterator[ModuleType]:
    for place in PLACES:
        for file in sorted(HOME.glob(place)):
            if file.stem != "__main__":
                name = ".".join(("toolkit", *file.relative_to(HOME).with_suffix("").parts))
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
