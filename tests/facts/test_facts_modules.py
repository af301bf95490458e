"""Kernel modules: loaded, on disk, configured and chosen."""

from __future__ import annotations

import pytest

from tests.evidence.build import node
from toolkit.errors import Unparsable
from toolkit.facts.boot.kernel import InstalledKernel, module_name, parse_kernels
from toolkit.facts.modules.kernel_modules import (
    LoadedModule,
    ModuleFile,
    ModuleState,
    parse_kallsyms,
    parse_modinfo,
    parse_modprobe_config,
    parse_module_state,
    parse_modules,
    parse_modules_load,
    parse_show_depends,
    parse_symvers,
)
from toolkit.facts.node.node import Node


@pytest.mark.parametrize(
    ("line", "module"),
    [
        pytest.param(
            "nvidia_peermem 16384 0 - Live 0xffffffffc1a4d000 (OE)",
            LoadedModule("nvidia_peermem", (), True),
            id="no-users",
        ),
        pytest.param(
            "ib_uverbs 192512 3 nvidia_peermem,rdma_ucm,mlx5_ib, Live 0x0000000000000000 (OE)",
            LoadedModule("ib_uverbs", ("nvidia_peermem", "rdma_ucm", "mlx5_ib"), True, 3),
            id="users",
        ),
        pytest.param(
            "nvidia_peermem 16384 0 - Loading 0xffffffffc1a4d000 (OE+)",
            LoadedModule("nvidia_peermem", (), False),
            id="loading",
        ),
        pytest.param(
            "nv_peer_mem 16384 1 [permanent], Live 0xffffffffc1a4d000 (OE)",
            LoadedModule("nv_peer_mem", (), True, -1),
            id="permanent",
        ),
    ],
)
def test_a_loaded_module(line: str, module: LoadedModule) -> None:
    assert parse_modules(line + "\n") == (module,)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("nvidia_modeset       1343488  0", id="lsmod"),
        pytest.param("Module                  Size  Used by", id="header-of-lsmod"),
        pytest.param("nvidia 16384", id="two-fields"),
        pytest.param("nvidia big 0 - Live 0x0", id="no-size"),
    ],
)
def test_what_is_not_proc_modules_is_refused(line: str) -> None:
    with pytest.raises(Unparsable, match="/proc/modules"):
        parse_modules(line + "\n")


def test_sys_module_tells_state_and_holders() -> None:
    text = (
        "nvidia/version:570.86.15\nnvidia/srcversion:ABC\nnvidia/initstate:live\n"
        "nvidia/holder:nvidia_uvm\nnvidia/holder:nvidia_peermem\n"
        "ib_core/version:built in: no state\n"
    )
    assert parse_module_state(text) == {
        "nvidia": ModuleState(
            "nvidia", "live", "570.86.15", "ABC", ("nvidia_uvm", "nvidia_peermem")
        ),
        "ib_core": ModuleState("ib_core", version="built in: no state"),
    }


PEERMEM = """\
@/lib/modules/5.15.0-170-generic/updates/dkms/nvidia-peermem.ko
filename:       /lib/modules/5.15.0-170-generic/updates/dkms/nvidia-peermem.ko
version:        580.126.16
license:        Dual BSD/GPL
srcversion:     2222222222222222222222B
depends:        nvidia,ib_uverbs
vermagic:       5.15.0-170-generic SMP mod_unload modversions \n\
sig_key:        5A:11
signer:         gpu01 Secure Boot Module Signature key
"""


def test_modinfo_of_a_file() -> None:
    (path, file), *_ = parse_modinfo(PEERMEM).items()
    assert path == file.filename
    assert (file.name, file.stem) == ("nvidia_peermem", "nvidia-peermem")
    assert (file.version, file.srcversion) == ("580.126.16", "2222222222222222222222B")
    assert file.kernel == "5.15.0-170-generic"
    assert file.depends == ("nvidia", "ib_uverbs")
    assert file.signer == "gpu01 Secure Boot Module Signature key"


def test_a_module_that_modinfo_does_not_know_has_no_entry() -> None:
    assert parse_modinfo("@nvidia\n@ib_core\nfilename: /lib/modules/1/x/ib_core.ko\n").keys() == {
        "ib_core"
    }


def test_a_stub_depends_on_nothing() -> None:
    (file,) = parse_modinfo("@x\nfilename: /x.ko\ndepends:        \n").values()
    assert file.depends == ()


def test_a_line_of_modinfo_without_colon_is_refused() -> None:
    with pytest.raises(Unparsable, match="modinfo ib_core: cannot read: 'nonsense'"):
        parse_modinfo("@ib_core\nnonsense\n")


@pytest.mark.parametrize(
    ("filename", "origin"),
    [
        pytest.param("/lib/modules/5/updates/dkms/mlx5_core.ko", "out-of-tree", id="dkms"),
        pytest.param("/lib/modules/5/extra/mlnx-ofa_kernel/mlx5_core.ko", "out-of-tree", id="rpm"),
        pytest.param("/lib/modules/5/weak-updates/mlx5_core.ko", "out-of-tree", id="weak"),
        pytest.param("/lib/modules/5/kernel/drivers/infiniband/ib_core.ko.zst", "inbox", id="own"),
        pytest.param("(builtin)", "inbox", id="built-in"),
    ],
)
def test_where_a_module_comes_from(filename: str, origin: str) -> None:
    assert ModuleFile(filename).origin == origin


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param("/x/nvidia-peermem.ko", "nvidia_peermem", id="nvidias-own"),
        pytest.param("/x/nvidia-peermem.ko.xz", "nvidia_peermem", id="compressed"),
        pytest.param("/x/nvidia-current-peermem.ko", "nvidia_peermem", id="debian"),
        pytest.param("/x/nvidia-current-open-peermem.ko.zst", "nvidia_peermem", id="debian-open"),
        pytest.param("/x/nvidia-current.ko", "nvidia", id="debian-driver"),
        pytest.param("/x/nvidia-tesla-470-peermem.ko", "nvidia_peermem", id="debian-tesla"),
        pytest.param("/x/nvidia-legacy-390xx.ko", "nvidia", id="debian-legacy"),
        pytest.param("/x/nvidia-uvm.ko", "nvidia_uvm", id="not-renamed"),
        pytest.param("/x/nvidiafb.ko", "nvidiafb", id="another-module"),
        pytest.param("/x/nv_peer_mem.ko", "nv_peer_mem", id="legacy"),
    ],
)
def test_the_module_in_a_file_of_any_packager(path: str, name: str) -> None:
    assert module_name(path) == name


def test_installed_kernels_and_what_they_have() -> None:
    text = (
        "@6.8.0-45-generic\nimage\nheaders\n"
        "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia-current-peermem.ko\n"
        "@5.15.0-91-generic\n"
    )
    new, old = parse_kernels(text)
    assert new == InstalledKernel("6.8.0-45-generic", True, True, new.modules)
    assert new.has("nvidia-peermem")
    assert not new.has("nvidia")
    assert old == InstalledKernel("5.15.0-91-generic", False, False, ())


def test_an_unknown_line_among_kernels_is_refused() -> None:
    with pytest.raises(Unparsable, match=r"/lib/modules/6\.8: cannot read: 'imagine'"):
        parse_kernels("@6.8\nimagine\n")


def test_modprobe_configuration() -> None:
    config = parse_modprobe_config(
        "blacklist ib-core\n"
        "install nvidia /bin/false\n"
        "install nvidia_peermem modprobe -i nvidia-current-peermem $CMDLINE_OPTS\n"
        "options mlx5_core probe_vf=1\n"
        "options nvidia\n"
        "softdep nvidia post: nvidia-peermem\n"
        "remove nvidia modprobe -r nvidia-uvm\n"
    )
    assert config.blacklisted == {"ib_core"}
    assert config.options == (("mlx5_core", "probe_vf=1"), ("nvidia", ""))
    assert config.softdeps == (("nvidia", "post: nvidia-peermem"),)
    assert config.blocked("nvidia") == "/bin/false"
    assert config.blocked("nvidia_peermem") == ""
    assert config.blocked("ib_core") == ""


@pytest.mark.parametrize("command", ["/bin/true", "/usr/bin/false", "/sbin/false", "true", ":"])
def test_install_commands_that_load_nothing(command: str) -> None:
    assert parse_modprobe_config(f"install x {command}\n").blocked("x") == command


def test_install_commands_that_only_look_like_it() -> None:
    assert parse_modprobe_config("install x /sbin/truest\n").blocked("x") == ""


def test_a_directive_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(Unparsable, match="modprobe -c: cannot read line 1"):
        parse_modprobe_config("alias net-pf-10 ipv6\n")


def test_modules_load_ignores_comments_and_either_dash() -> None:
    text = (
        "/etc/modules-load.d/a.conf:# comment\n"
        "/etc/modules-load.d/a.conf:; comment\n"
        "/etc/modules-load.d/a.conf:  nvidia-peermem  \n"
    )
    assert parse_modules_load(text) == {"/etc/modules-load.d/a.conf": ("nvidia_peermem",)}


def test_a_file_in_etc_hides_one_of_its_name_elsewhere() -> None:
    text = (
        "/usr/lib/modules-load.d/a.conf:nvidia-peermem\n"
        "/usr/lib/modules-load.d/b.conf:ib_umad\n"
        "/etc/modules-load.d/a.conf:# nothing\n"
    )
    assert parse_modules_load(text) == {
        "/etc/modules-load.d/a.conf": (),
        "/usr/lib/modules-load.d/b.conf": ("ib_umad",),
    }


def test_show_depends_passes_over_a_line_that_was_cut() -> None:
    assert parse_show_depends("insmod\ninsmod /a.ko \n") == ("/a.ko",)


def test_show_depends_lists_files_in_the_order_of_loading() -> None:
    text = (
        "builtin ib_core\n"
        "insmod /lib/modules/5/nvidia.ko NVreg_EnableMSI=1\n"
        "insmod /lib/modules/5/nvidia-peermem.ko \n"
        "install modprobe -i nvidia-current-peermem $CMDLINE_OPTS\n"
    )
    assert parse_show_depends(text) == (
        "/lib/modules/5/nvidia.ko",
        "/lib/modules/5/nvidia-peermem.ko",
    )


@pytest.mark.parametrize(
    ("line", "module"),
    [
        pytest.param(
            "0x1\tib_register_peer_memory_client\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL",
            "ib_uverbs",
            id="ofed-24.07",
        ),
        pytest.param(
            "0x1\tib_register_peer_memory_client\t/usr/src/ofa/drivers/ib_core\tEXPORT_SYMBOL\t",
            "ib_core",
            id="older-with-namespace-column",
        ),
        pytest.param(
            "0x1\tib_unregister_peer_memory_client\tib_core\tEXPORT_SYMBOL", "", id="another-symbol"
        ),
    ],
)
def test_who_exports_the_interface_on_disk(line: str, module: str) -> None:
    assert parse_symvers(f"@/usr/src/ofa_kernel/Module.symvers\n{line}\n") == {
        "/usr/src/ofa_kernel/Module.symvers": module
    }


def test_kallsyms_with_and_without_a_module() -> None:
    text = (
        "0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]\n"
        "ffffffff8a000000 T ib_umem_dmabuf_get\n"
    )
    assert parse_kallsyms(text) == {
        "ib_register_peer_memory_client": "ib_uverbs",
        "ib_umem_dmabuf_get": "",
    }


def test_kallsyms_of_another_shape_is_refused() -> None:
    with pytest.raises(Unparsable, match="/proc/kallsyms: cannot read line 1"):
        parse_kallsyms("ib_umem_dmabuf_get\n")


def test_files_of_another_kernel_offer_this_one_nothing_wherever_its_folder_lies() -> None:
    kept = ["/lib/modules/6.1/a.ko", "/usr/lib/modules/6.1/b.ko", "/opt/c.ko"]
    others = ["/lib/modules/6.2/d.ko", "/usr/lib/modules/6.2/e.ko", "/lib/modules/6.10/f.ko"]
    told = "".join(f"@{path}\n" for path in (*kept, *others))
    here = Node(node({"exports": told}))
    assert [each.path for each in here.exports_for("6.1")] == kept
