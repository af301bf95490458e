"""Greps of /proc and /etc, what openibd says and units that are missing, in all their words.

Texts are drawn from the sources that stand above each; each form is tried on ``TEXTS`` of them.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.checks.test_told_otherwise import CHECKS, TEXTS, read, status
from toolkit.checks.check import Status
from toolkit.facts.node.node import Node
from toolkit.want import Want

FAIL, PASS, UNKNOWN = Status.FAIL, Status.PASS, Status.UNKNOWN


def found(check: str, text: str) -> str:
    return CHECKS[check](Node(read(text)), Want()).finding.found


def quoted(draw: Random, text: str) -> str:
    """As it is, or as mail quotes it."""
    if draw.random() < 0.7:
        return text
    return "".join(f"> {line}\n" for line in text.removesuffix("\n").split("\n"))


# Linux kernel/kallsyms.c, s_show: zeros for who is not root, a tab before the module.
EXPORT = "ib_register_peer_memory_client"


def symbol_line(draw: Random, name: str, module: str) -> str:
    address = draw.choice(("0" * 16, f"ffffffffc{draw.randrange(16**7):07x}"))
    kind, before = draw.choice((("T", ""), ("t", ""), ("r", "__ksymtab_"), ("r", "__kstrtab_")))
    number = draw.choice(("", f"{draw.randrange(10**6)}:"))
    tab = draw.choice(("\t", "\t", "  "))  # a terminal may have made blanks of it
    return f"{number}{address} {kind} {before}{name}{tab}[{module}]\n"


def test_a_symbol_that_grep_found_is_exported_and_none_that_it_did_not_find_is_missed() -> None:
    draw = Random(91)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        module = draw.choice(("ib_core", "ib_uverbs"))
        has = draw.random() < 0.5
        names = [(EXPORT, module)] if has else []
        names += [("ib_unregister_peer_memory_client_x", "ib_core"), ("nv_cap_close", "nvidia")]
        lines = [symbol_line(draw, *each) for each in draw.sample(names, len(names))]
        asked = draw.choice((f"grep {EXPORT}", "sudo grep -i peer", "cat"))
        prompt = draw.choice(("", f"$ {asked} /proc/kallsyms\n"))
        text = quoted(draw, prompt + "".join(lines))
        assert set(read(text).frames) == {"kallsyms-said"}, text
        assert status("ib.peer_symbol", text) is (PASS if has else UNKNOWN), text


@pytest.mark.parametrize("module", ["nvidia_peermem", "nv_peer_mem"])
def test_a_module_whose_symbols_are_live_is_loaded(module: str) -> None:
    draw = Random(92)  # noqa: S311 # drawn again the same
    text = "$ grep nv_mem /proc/kallsyms\n" + symbol_line(draw, "nv_mem_acquire", module)
    new = module == "nvidia_peermem"
    assert status("peermem.loaded", text) is (PASS if new else UNKNOWN)
    assert status("peermem.legacy_conflict", text) is (UNKNOWN if new else FAIL)


GREP = "$ grep nv_mem /proc/kallsyms\n"
REFUSED = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
NO_SYMBOL = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n"


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(
            f"# rmmod nvidia_peermem\n# modprobe nvidia_peermem\n{REFUSED}", id="modprobe"
        ),
        pytest.param(f"$ dmesg\n[   93.123456] {NO_SYMBOL}", id="the-log"),
        pytest.param(
            "$ dmesg\n[    9.123456] systemd-modules-load[412]: Failed to insert module "
            "'nvidia_peermem': Invalid argument\n",
            id="a-loader-in-the-log",
        ),
    ],
)
def test_symbols_that_stood_there_before_or_after_a_refusal_pass_nothing(later: str) -> None:
    draw = Random(101)  # noqa: S311 # drawn again the same
    lines = GREP + symbol_line(draw, "nv_mem_acquire", "nvidia_peermem")
    for text in (lines + later, later + lines):
        for check in ("peermem.loaded", "peermem.loadable", "peermem.provider"):
            assert status(check, text) is UNKNOWN, (check, text)
        assert status("peermem.unknown_symbol", text) is (FAIL if NO_SYMBOL in later else UNKNOWN)
        assert "which came last?" in found("peermem.loaded", text)


@pytest.mark.parametrize(("more", "want"), [(60_000, FAIL), (40_000, UNKNOWN)])
def test_of_the_whole_of_kallsyms_absence_is_told(more: int, want: Status) -> None:
    rows = [f"ffffffff81{at:06x} t kernel_{at}" for at in range(more)]
    rows += ["ffffffffc0000010 t a\t[ib_uverbs]", "ffffffffc0000020 t b\t[ib_core]"]
    text = "$ cat /proc/kallsyms\n" + "\n".join([*rows, "ffffffffc0000030 t c\t[tls]", ""])
    assert status("ib.peer_symbol", text) is want
    if want is FAIL:
        assert status("ib.peer_symbol", text[: text.index("\t[tls]")]) is UNKNOWN, "cut"


# kmod libkmod/libkmod-config.c, kmod_config_parse; grep -r, -n and -h; kernel-open nv-reg.h.
def config_lines(draw: Random, lines: list[str]) -> str:
    file = draw.choice(("/etc/modprobe.d/gpu.conf", "/etc/modprobe.d/blacklist-ofed.conf"))
    before = draw.choice(("", f"{file}:", f"{file}:{draw.randrange(1, 90)}:"))
    lines = draw.sample(
        [*lines, "blacklist nouveau", "softdep nvidia post: nvidia-uvm"], 2 + len(lines)
    )
    asked = draw.choice(
        ("grep -rn -e nvidia -e mlx /etc/modprobe.d/", "cat /etc/modprobe.d/*.conf")
    )
    prompt = draw.choice(("", f"$ {asked}\n"))
    return prompt + "".join(f"{before}{line}\n" for line in lines)


def test_a_line_that_keeps_a_module_from_loading_is_found_and_none_is_missed_elsewhere() -> None:
    draw = Random(93)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        module = draw.choice(("nvidia", "nvidia-peermem", "mlx5_core", "ib_core", "mlx5-ib"))
        line = draw.choice(
            (f"blacklist {module}", f"blacklist  {module}", f"install {module} /bin/false",
             f"install {module} /usr/bin/true")
        )  # fmt: skip
        ill = draw.random() < 0.5
        text = quoted(draw, config_lines(draw, [line] if ill else [f"#{line}"]))
        assert set(read(text).frames) == {"modprobe-d-said"}, text
        assert status("modules.blacklist", text) is (FAIL if ill else UNKNOWN), text


# kmod libkmod/libkmod-config.c, conf_files_filter_out and conf_files_insert_sorted;
# modprobe.d(5), "Configuration format" and its folders.
STOP = "blacklist nvidia"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (f"$ cat /etc/modprobe.d/nv.conf.bak\n{STOP}\n", UNKNOWN),
        (f"$ cat /etc/modprobe.d/nv.conf\n{STOP}\n", FAIL),
        (f"$ cat /etc/modprobe.d/*\n{STOP}\n", FAIL),
        (f"$ grep -rh nvidia /etc/modprobe.d\n{STOP}\n", FAIL),
        (f"$ cat nv.conf.disabled\n{STOP}\n", UNKNOWN),
        (f"$ cat /root/nv.conf\n{STOP}\n", UNKNOWN),
        (f"$ tail /etc/modprobe.d/*\n==> /etc/modprobe.d/nv.conf~ <==\n{STOP}\n", UNKNOWN),
        (f"$ tail /etc/modprobe.d/*\n==> /etc/modprobe.d/nv.conf <==\n{STOP}\n", FAIL),
        (f"/etc/modprobe.d/nv.conf.rpmsave:{STOP}\n", UNKNOWN),
        (f"/etc/modprobe.d/nv.conf:{STOP}\n/etc/modprobe.d/a.bak:{STOP}\n", FAIL),
        (f"/etc/modprobe.d/old/nv.conf:{STOP}\n", UNKNOWN),
        (f"/etc/modprobe.d/.nv.conf:{STOP}\n", UNKNOWN),
        (f"/host/etc/modprobe.d/nv.conf:{STOP}\n", FAIL),
        (f"$ modprobe -c\n{STOP}\n", FAIL),
    ],
)
def test_a_file_that_modprobe_does_not_read_keeps_nothing_from_loading(
    text: str, want: Status
) -> None:
    assert status("modules.blacklist", text) is want


READ_FIRST = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")


@pytest.mark.parametrize("masked", range(1, len(READ_FIRST)))
@pytest.mark.parametrize(
    "beside", ["# nothing", "options nvidia NVreg_OpenRmEnableUnsupportedGpus=1"]
)
def test_a_file_of_the_same_name_in_an_earlier_folder_masks_it(masked: int, beside: str) -> None:
    late, early = READ_FIRST[masked], READ_FIRST[masked - 1]
    asked = "$ grep -rn nv /etc/modprobe.d /run/modprobe.d /usr/lib/modprobe.d /lib/modprobe.d\n"
    row = f"{late}/modprobe.d/nv.conf:1:{STOP}\n"
    over = f"{early}/modprobe.d/nv.conf:1:{beside}\n"
    for text in (asked + row + over, asked + over + row):
        assert status("modules.blacklist", text) is UNKNOWN, text
    assert status("modules.blacklist", asked + row) is FAIL
    for other in (over.replace("nv.conf", "ofed.conf"), over.replace("nv.conf", "nv.conf.bak")):
        assert status("modules.blacklist", asked + row + other) is FAIL, other
    swapped = f"{asked}{early}/modprobe.d/nv.conf:1:{STOP}\n{late}/modprobe.d/nv.conf:1:{beside}\n"
    assert status("modules.blacklist", swapped) is FAIL


def test_of_two_files_of_one_name_that_were_printed_nobody_knows_whose_a_line_is() -> None:
    late = f"$ cat /usr/lib/modprobe.d/nv.conf\n{STOP}\n"
    over = "$ cat /etc/modprobe.d/nv.conf\noptions nvidia NVreg_EnableStreamMemOPs=1\n"
    assert status("modules.blacklist", late) is FAIL
    assert status("modules.blacklist", late + over) is UNKNOWN


VALUES = ("EnableStreamMemOPs", "EnableResizableBar", "GrdmaPciTopoCheckOverride")


def test_a_parameter_that_is_not_live_is_told_and_what_some_lines_lack_is_not() -> None:
    draw = Random(94)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        name, now, wanted = draw.choice(VALUES), draw.randrange(2), draw.randrange(2)
        rows = [
            "ResmanDebugLevel: 4294967295",
            *(f"{e}: {now if e == name else 0}" for e in VALUES),
        ]
        rows += ['RegistryDwords: ""', 'RmMsg: ""']
        whole = draw.random() < 0.5
        params = "\n".join(rows if whole else [f"{name}: {now}"])
        asked = "cat" if whole else f"grep {name}"
        text = f"$ {asked} /proc/driver/nvidia/params\n{params}\n"
        text += config_lines(draw, [f"options nvidia NVreg_{name}={wanted}"])
        text = quoted(draw, text)
        assert status("nvidia.params", text) is (FAIL if now != wanted else UNKNOWN), text
    alone = 'RegistryDwords: "RMForceStaticBar1=1;"\nEnableStreamMemOPs: 1\n'
    assert "EnableStreamMemOPs 1" in found("nvidia.params", alone)


# mlnx-ofa_kernel ofed_scripts/openibd, start, stop, load_module, echo_success and echo_failure.
UP, DOWN = "Loading HCA driver and Access Layer:", "Unloading HCA driver:"
WRONG = (
    "Failed loading kernel module mlx5_ib:",
    "Loading Mellanox MLX5_IB HCA driver:",
    "Module mlx5_ib does not exist, skipping...",
    "Module mlx5_core belong to kernel which is not a part of MLNX_OFED, skipping...",
)


def step(draw: Random, words: str, result: str) -> str:
    bare = {"OK": "[  OK  ]", "FAILED": "[FAILED]"}[result]
    coloured = bare.replace(result, f"\x1b[1;3{'12'[result == 'OK']}m{result}\x1b[0;39m")
    return draw.choice(
        (f"{words:<59}{bare}\n", f"{words}\x1b[60G{coloured}\r\n", f"{words}[60G{bare}\n")
    )


def test_what_openibd_could_not_do_fails_and_what_it_did_passes_no_boot() -> None:
    draw = Random(99)  # noqa: S311 # drawn again the same
    for _ in range(TEXTS):
        ill = draw.random() < 0.5
        text = step(draw, DOWN, draw.choice(("OK", "OK", "FAILED")))
        if ill:
            wrong = draw.choice(WRONG)
            text += step(draw, wrong, "FAILED") + step(draw, UP, "FAILED")
        if not ill or draw.random() < 0.2:  # tried again
            text += step(draw, DOWN, "OK") + step(draw, UP, "OK")
            ill = False
        text = (
            draw.choice(("", "# /etc/init.d/openibd restart\n", "$ service openibd restart\n"))
            + text
        )
        assert set(read(text).frames) == {"openibd-said"}, text
        assert status("ofed.openibd", text) is (FAIL if ill else UNKNOWN), text


OTHERS = ("Starting sshd:", "Bringing up interface eth0:", "Starting opensmd: ", "Loading NFS:")


@pytest.mark.parametrize("service", OTHERS)
def test_what_another_service_could_not_do_is_not_openibds(service: str) -> None:
    draw = Random(101)  # noqa: S311 # drawn again the same
    up, other = step(draw, UP, "OK"), step(draw, service, "FAILED")
    for text in (up + other, other + up, f"$ service openibd start\n{up}{other}"):
        assert status("ofed.openibd", text) is UNKNOWN, text
    assert status("ofed.openibd", f"$ service openibd start\n{other}") is UNKNOWN
    assert status("ofed.openibd", up + other + step(draw, WRONG[0], "FAILED")) is FAIL


@pytest.mark.parametrize(
    "words",
    [
        *WRONG,
        DOWN,
        UP,
        "Unloading ib_core",
        "Loading mlx5_core:",
        "Loading Mellanox MLX4 HCA driver:",
    ],
)
def test_openibds_own_steps_count(words: str) -> None:
    text = step(Random(102), words, "FAILED")  # noqa: S311 # drawn again the same
    assert status("ofed.openibd", f"$ /etc/init.d/openibd restart\n{text}") is FAIL


# systemd src/systemctl/systemctl-show.c, show_one; src/shared/bus-wait-for-jobs.c.
MISSING = "Unit nvidia-fabricmanager.service could not be found.\n"
SWITCH = "07:00.0 Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)\n"
FABRIC = (
    "$ nvidia-smi -q\n\n==============NVSMI LOG==============\n\nDriver Version    : 570.86.15\n"
    "Attached GPUs     : 1\nGPU 00000000:1B:00.0\n    Product Name   : NVIDIA H100 80GB HBM3\n"
    "    Fabric\n        State      : {}\n        Status     : {}\n    Processes      : None\n"
)
NO_SWITCH = "07:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe] [10de:20f1]\n"


@pytest.mark.parametrize(
    ("beside", "want"),
    [
        pytest.param("", UNKNOWN, id="alone"),
        pytest.param(f"$ lspci -nn\n{SWITCH}", FAIL, id="nvswitches"),
        pytest.param(f"$ lspci -nn\n{NO_SWITCH}", UNKNOWN, id="an-excerpt-without"),
        pytest.param(
            f"$ lspci -nnk\n{SWITCH}\tKernel driver in use: vfio-pci\n", UNKNOWN, id="given-away"
        ),
        pytest.param(FABRIC.format("In Progress", "N/A"), FAIL, id="not-joined"),
        pytest.param(
            FABRIC.format("Completed", "Success") + f"$ lspci -nn\n{SWITCH}",
            UNKNOWN,
            id="a-driver-container-runs-it",
        ),
        pytest.param(
            "$ dmesg\n[    9.1] nvidia-nvswitch0: using MSI\n[    9.123456] nvidia-nvswitch0: up\n",
            FAIL,
            id="told-by-the-log",
        ),
    ],
)
def test_a_fabric_manager_that_is_not_there_is_missed_where_nvswitches_are_told(
    beside: str, want: Status
) -> None:
    text = f"$ systemctl status nvidia-fabricmanager\n{MISSING}{beside}"
    assert status("nvidia.fabricmanager", text) is want


def test_the_older_module_alone_is_no_conflict_by_a_list_of_modules() -> None:
    row = "{} 16384 0\nib_core 442368 2 {},mlx5_ib\n"
    old, both = row.format(*["nv_peer_mem"] * 2), "nvidia_peermem 16384 0\nnv_peer_mem 16384 0\n"
    assert status("peermem.legacy_conflict", f"$ lsmod\n{old}") is UNKNOWN
    assert status("peermem.legacy_conflict", f"$ lsmod\n{both}") is FAIL


# NVIDIA's fabric manager, of 535 to 610, and its nvidia-fabricmanager-start.sh.
STAMPS = (
    "[Jan 30 2025 10:15:30] [ERROR] [tid 12345] ", "Sep 18 03:19:01 h nv-fabricmanager[41]: ",
    "Nov 05 13:55:26 node1 nvidia-fabricmanager-start.sh[4756]: ",
)  # fmt: skip
NOTHING = (
    "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING "
    "Nothing to do [NV_WARN_NOTHING_TO_DO]"
)
UP_NOW = "Successfully configured all the available GPUs and NVSwitches to route NVLink traffic."


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize(
    ("words", "beside", "want"),
    [
        (NOTHING, "", UNKNOWN),
        (NOTHING, f"$ lspci -nn\n{SWITCH}", FAIL),
        (NOTHING, FABRIC.format("In Progress", "N/A"), FAIL),
        (NOTHING, "$ systemctl status x\n\u00d7 nvidia-fabricmanager.service - x\n"
         "     Loaded: loaded (/x; enabled)\n     Active: failed (Result: exit-code)\n", UNKNOWN),
        ("fabric manager NVIDIA GPU driver interface version 570.86.15 don't match with driver "
         "version 570.124.06. Please update with matching NVIDIA driver package.", "", FAIL),
        ("failed to configure all the available GPUs or NVSwitches", "", FAIL),
        (UP_NOW, "", Status.PASS),
        (UP_NOW.replace("GPUs and ", ""), "", Status.PASS),
    ],
)  # fmt: skip
def test_what_the_fabric_manager_says_of_itself(
    stamp: str, words: str, beside: str, want: Status
) -> None:
    assert status("nvidia.fabricmanager", f"{stamp}{words}\n{beside}") is want


def test_of_two_starts_of_the_fabric_manager_the_last_counts() -> None:
    text = f"{STAMPS[0]}{NOTHING}\n{STAMPS[0]}{UP_NOW}\n"
    assert status("nvidia.fabricmanager", text) is Status.PASS


def test_a_unit_whose_start_failed_has_failed() -> None:
    said = "Job for openibd.service failed because the control process exited with error code.\n"
    assert status("ofed.openibd", f"# systemctl restart openibd\n{said}") is FAIL
