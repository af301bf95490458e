"""Captures of real machines: each is read as its source says, or refused, and none crashes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.corpus.known import CORPUS, index
from toolkit.checks.pci.iommu_words import passes_through
from toolkit.errors import NoEvidence, Unparsable
from toolkit.evidence import Evidence
from toolkit.facts.boot.cmdline import Cmdline, parse_cmdline
from toolkit.facts.boot.kernel import parse_config, parse_headers, parse_kernels, parse_lockdown
from toolkit.facts.boot.next_boot import default_entry, parse_boot_entries
from toolkit.facts.distros import parse_os_release
from toolkit.facts.firmware.machine import parse_cpu, parse_dmi
from toolkit.facts.gpu.driver import (
    option_values,
    parse_driver,
    parse_gpu_rows,
    parse_nvml_mismatch,
    parse_params,
)
from toolkit.facts.modules.dkms import DkmsBuild, DkmsState, parse_dkms_confs, parse_dkms_status
from toolkit.facts.modules.kernel_modules import (
    LoadedModule,
    parse_kallsyms,
    parse_modinfo,
    parse_modprobe_config,
    parse_module_state,
    parse_modules,
    parse_modules_load,
    parse_show_depends,
    parse_symvers,
)
from toolkit.facts.modules.placed_files import parse_contents, parse_placed
from toolkit.facts.pci.config_space import ConfigSpace
from toolkit.facts.pci.functions import parse_pci
from toolkit.facts.pci.iommu import parse_groups
from toolkit.facts.rdma.devices import parse_infiniband
from toolkit.facts.rdma.ucx import parse_ucx_info
from toolkit.facts.versions import parse_kernel_release, parse_ofed_version

FILES = sorted(str(path.relative_to(CORPUS)) for path in CORPUS.glob("*/*.txt"))
INDEX = {file: row["ground_truth"] for file, row in index().items()}
PARSERS: dict[str, Callable[[str], object]] = {
    "boot entries": lambda text: default_entry(parse_boot_entries(text, text)),
    "command line": parse_cmdline,
    "config space": lambda text: ConfigSpace.parse("0000:00:00.0", text.split("\n")).acs(),
    "contents": parse_contents,
    "cpu": parse_cpu,
    "dkms confs": parse_dkms_confs,
    "dkms status": parse_dkms_status,
    "dmi": parse_dmi,
    "driver": parse_driver,
    "evidence": Evidence.parse,
    "gpu rows": parse_gpu_rows,
    "groups": parse_groups,
    "headers": parse_headers,
    "infiniband": parse_infiniband,
    "kallsyms": parse_kallsyms,
    "kernel config": parse_config,
    "kernel release": parse_kernel_release,
    "kernels": parse_kernels,
    "lockdown": parse_lockdown,
    "modinfo": parse_modinfo,
    "modprobe": parse_modprobe_config,
    "module state": parse_module_state,
    "modules": parse_modules,
    "modules-load": parse_modules_load,
    "nvml": parse_nvml_mismatch,
    "ofed version": parse_ofed_version,
    "options": option_values,
    "os-release": parse_os_release,
    "params": parse_params,
    "pci": lambda text: parse_pci(text, "", "", ""),
    "pci links": lambda text: parse_pci("", text, "", ""),
    "pci resources": lambda text: parse_pci("", "", text, ""),
    "placed": parse_placed,
    "show-depends": parse_show_depends,
    "symvers": parse_symvers,
}


def capture(name: str) -> str:
    return (CORPUS / name).read_text(errors="surrogateescape")


def without_prompts(text: str) -> str:
    """A capture without the lines that the person at the terminal typed.

    They are no output of the command: the probe's frames never hold them.
    """
    prompt = re.compile(r"\s*(\$ .*|[\w.-]+@[\w.-]+:\S*[#$].*|ofed_info -s)")
    return "".join(line + "\n" for line in text.split("\n")[:-1] if not prompt.fullmatch(line))


def dkms(name: str) -> tuple[DkmsBuild, ...]:
    return parse_dkms_status(without_prompts(capture(f"dkms/{name}.txt")))


@pytest.mark.parametrize("name", FILES)
def test_no_capture_ends_a_parser_otherwise_than_by_refusing_it(name: str) -> None:
    text = capture(name)
    for parse in PARSERS.values():
        for shape in (text, without_prompts(text), text.replace("\n", "\r\n")):
            with suppress(Unparsable, NoEvidence):  # anything else ends the test
                parse(shape)


@pytest.mark.parametrize(
    "name",
    [name for name in FILES if name.startswith("dkms/") and not name.startswith("dkms/dkms")],
)
def test_a_build_log_is_not_taken_for_the_status_of_dkms(name: str) -> None:
    with pytest.raises(Unparsable, match="dkms status: cannot read line"):
        parse_dkms_status(capture(name))


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("nvsmi/")])
def test_another_answer_of_nvidia_smi_is_not_taken_for_ours(name: str) -> None:
    with pytest.raises(Unparsable, match="nvidia-smi --query-gpu: cannot read line"):
        parse_gpu_rows(without_prompts(capture(name)))


def test_a_shell_prompt_is_refused_where_it_was_not_taken_away() -> None:
    with pytest.raises(Unparsable, match="cannot read line 1: 'root@"):
        parse_dkms_status(capture("dkms/dkms2x_ofed54_then_nvme_added.txt"))


def test_ofed_49_is_installed_for_three_kernels_and_there_is_no_driver() -> None:
    builds = dkms("dkms2x_mlnx49_three_kernels")
    assert {build.state for build in builds} == {DkmsState.INSTALLED}
    assert len({build.kernel for build in builds}) == 3
    assert not any(build.module == "nvidia" for build in builds)


def test_mlnx_nvme_came_later() -> None:
    modules = [build.module for build in dkms("dkms2x_ofed54_then_nvme_added")]
    assert modules.count("mlnx-nvme") == 1
    assert modules.count("mlnx-ofed-kernel") == 2


def test_the_driver_is_missing_for_one_of_three_kernels() -> None:
    builds = dkms("dkms3x_nvidia_missing_on_one_kernel")
    kernels = {build.kernel for build in builds}
    driver = {build.kernel for build in builds if build.module == "nvidia" and build.usable}
    assert kernels - driver == {"5.15.0-89-generic"}


def test_ofed_and_driver_are_installed_for_the_same_kernel() -> None:
    ofed, driver = dkms("dkms3x_mlnx_ofed_2510_and_nvidia580")
    assert (ofed.module, driver.module) == ("mlnx-ofed-kernel", "nvidia")
    assert ofed.kernel == driver.kernel == "5.15.0-170-generic"
    assert ofed.usable
    assert driver.usable


@pytest.mark.parametrize(
    ("name", "identity", "version"),
    [
        ("amazon_2023", "amzn", "2023"),
        ("cbl-mariner_2", "mariner", "2.0"),
        ("oracle_8", "ol", "8.7"),
        ("redhat_9", "rhel", "9.6"),
        ("sles_15", "sles", "15.7"),
        ("ubuntu_2204", "ubuntu", "22.04"),
    ],
)
def test_distributions(name: str, identity: str, version: str) -> None:
    distro = parse_os_release(capture(f"osrelease/{name}.txt"))
    assert (distro.id, distro.version) == (identity, version)
    told = re.search(r"\bID=(\w+)", INDEX[f"osrelease/{name}.txt"])
    assert told is None or told[1] == distro.id


def test_the_version_of_ofed_is_the_one_that_the_index_tells() -> None:
    version = parse_ofed_version(without_prompts(capture("modinfo/ofed_info_s.txt")))
    assert f"-{version} " in INDEX["modinfo/ofed_info_s.txt"]


def _cmdline(name: str) -> Cmdline:
    """The line of /proc/cmdline among what else was typed and printed."""
    (line,) = re.findall(r"^BOOT_IMAGE=.*", capture(f"iommu/{name}.txt"), re.MULTILINE)
    return parse_cmdline(line)


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("cmdline_dmesg_amd_passthrough", "AuthenticAMD"),
        ("cmdline_ubuntu2404_iommu_pt_realloc", "GenuineIntel"),
    ],
)
def test_both_machines_ask_for_passthrough(name: str, vendor: str) -> None:
    assert passes_through(_cmdline(name), vendor) == "iommu=pt"


def test_off_wins_over_passthrough_in_a_site_s_grub_defaults() -> None:
    text = capture("iommu/grub_esc8000_amd_iommu_off_and_pt.txt")
    (arguments,) = re.findall(r'GRUB_CMDLINE_LINUX_DEFAULT="(.*)"', text)
    assert passes_through(parse_cmdline(arguments), "AuthenticAMD") == "amd_iommu=off"


def _lsmod(name: str) -> dict[str, LoadedModule]:
    """lsmod prints /proc/modules in columns, without state and address."""
    lines = []
    for line in without_prompts(capture(f"peermem/{name}.txt")).split("\n"):
        if (words := line.split()) and words[1].isdigit():
            users = f"{words[3]}," if len(words) == 4 else "-"
            lines.append(f"{words[0]} {words[1]} {words[2]} {users} Live 0x0000000000000000\n")
    return {module.name: module for module in parse_modules("".join(lines))}


def test_peermem_is_held_by_the_driver_and_the_rdma_core_of_an_older_ofed() -> None:
    modules = _lsmod("lsmod_gpuoperator_good_old")
    assert "nvidia_peermem" in modules
    assert {name for name, each in modules.items() if "nvidia_peermem" in each.users} == {
        "nvidia",
        "ib_core",
    }


def test_the_driver_runs_without_peermem() -> None:
    modules = _lsmod("lsmod_gpuoperator_no_peermem")
    assert "nvidia" in modules
    assert "nvidia_peermem" not in modules


@pytest.mark.parametrize("name", ["lsmod_gpuoperator_good_old", "lsmod_gpuoperator_no_peermem"])
def test_lsmod_itself_is_refused(name: str) -> None:
    with pytest.raises(Unparsable, match="/proc/modules: cannot read line 1"):
        parse_modules(without_prompts(capture(f"peermem/{name}.txt")))


def test_an_old_ucx_tells_what_it_can_do() -> None:
    found = parse_ucx_info(capture("ucx/ucx_info_cuda_gdrcopy_old.txt"))
    assert found.transports == {"cuda_copy", "cuda_ipc", "gdr_copy"}
