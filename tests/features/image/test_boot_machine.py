"""What QEMU is told for one boot of an image, and what its tools answer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolkit.errors import UsageError
from toolkit.features.image.boot import qemu
from toolkit.features.image.boot import qemu as kvm
from toolkit.features.image.boot.folder import boot_folder, boot_home
from toolkit.features.image.boot.qemu import (
    Accelerator,
    Direct,
    QemuMachine,
    Uefi,
    accelerator,
    ask,
    boots_by_bios,
    command,
    disk_format,
    find_uefi,
    mortal,
)

MACHINE = QemuMachine(Path("/d,1"), "raw", Path("/f,1"), 2222, Path("/c,1"), Path("/s,1"))
COMMAND = [
    *(["qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-machine", "q35"]),
    *(
        [
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-m",
            "2048",
            "-serial",
            "file:/f,,1/console",
            "-vga",
            "std",
        ]
    ),
    *("-smbios", "type=11,path=/c,,1"),
    *("-drive", "file=/d,,1,format=raw,snapshot=on,if=none,id=disk,cache=unsafe,discard=unmap"),
    *("-device", "virtio-blk-pci,drive=disk,bootindex=0"),
    *("-blockdev", "driver=vvfat,node-name=seed,dir=/s,,1,label=CIDATA,read-only=on"),
    *("-device", "virtio-blk-pci,drive=seed"),
    *("-netdev", "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22"),
    *("-device", "virtio-net-pci,netdev=net,romfile="),
    *("-object", "rng-random,filename=/dev/urandom,id=rng"),
    *("-device", "virtio-rng-pci,rng=rng"),
]


def machine(**more: object) -> QemuMachine:
    fields = {name: getattr(MACHINE, name) for name in QemuMachine.__struct_fields__}
    return QemuMachine(**{**fields, **more})


def test_a_boot_leaves_nothing_behind_and_reaches_nobody() -> None:
    assert list(command(MACHINE)) == COMMAND


def test_a_processor_of_this_machine_under_kvm() -> None:
    words = list(command(machine(accelerator="kvm", cpus=4, memory_mb=512)))
    assert words == [
        {"tcg": "kvm", "max": "host", "2": "4", "2048": "512"}.get(each, each) for each in COMMAND
    ]


def test_a_kernel_of_its_own_takes_the_first_place() -> None:
    words = list(command(machine(direct=Direct(Path("/k"), Path("/i"), "a b"), uefi=None)))
    at = COMMAND.index("-drive")
    more = ["-kernel", "/k", "-initrd", "/i", "-append", "a b"]
    expected = [*COMMAND[:at], *more, *COMMAND[at:]]
    assert words == [each.removesuffix(",bootindex=0") for each in expected]


def test_firmware_and_its_variables() -> None:
    words = list(command(machine(uefi=Uefi(Path("/a,b"), Path("/v,1")))))
    at = COMMAND.index("-drive")
    assert words == [
        *COMMAND[:at],
        *("-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/a,,b"),
        *("-drive", "if=pflash,unit=1,format=raw,file=/v,,1"),
        *COMMAND[at:],
    ]


@pytest.mark.parametrize("there", [True, False])
def test_it_ends_with_us_where_that_can_be_had(
    monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/setpriv" if there else None)
    before = ("setpriv", "--pdeathsig", "KILL") if there else ()
    assert mortal(["a", "b"]) == (*before, "a", "b")


@pytest.mark.parametrize(("data", "kind"), [(b"QFI\xfb.", "qcow2"), (b"QFI", "raw"), (b"", "raw")])
def test_the_format_of_a_disk(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "d").write_bytes(data)
    assert disk_format(tmp_path / "d") == kind


@pytest.mark.parametrize("code", [True, False])
@pytest.mark.parametrize("variables", [True, False])
def test_the_firmware_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: bool, variables: bool
) -> None:
    here = [(str(tmp_path / "none"), str(tmp_path / "none")), (f"{tmp_path}/c", f"{tmp_path}/v")]
    monkeypatch.setattr(qemu, "_UEFI", here)
    if code:
        (tmp_path / "c").write_text("code")
    if variables:
        (tmp_path / "v").write_text("variables")
    (tmp_path / "folder").mkdir()
    if not (code and variables):
        with pytest.raises(UsageError, match="boots by UEFI alone, and no firmware"):
            find_uefi(tmp_path / "folder")
        return
    found = find_uefi(tmp_path / "folder")
    assert found == Uefi(tmp_path / "c", tmp_path / "folder/variables")
    assert found.variables.read_text() == "variables"


@pytest.mark.parametrize(
    ("code", "variables"),
    [
        ("OVMF/OVMF_CODE_4M.fd", "OVMF/OVMF_VARS_4M.fd"),
        ("OVMF/OVMF_CODE.fd", "OVMF/OVMF_VARS.fd"),
        ("edk2/ovmf/OVMF_CODE.fd", "edk2/ovmf/OVMF_VARS.fd"),
        ("qemu/ovmf-x86_64-code.bin", "qemu/ovmf-x86_64-vars.bin"),
    ],
)
def test_where_the_families_put_the_firmware(
    code: str, variables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [f"/usr/share/{code}", f"/usr/share/{variables}"]
    copied: list[str] = []
    monkeypatch.setattr(Path, "exists", lambda path: str(path) in here)
    monkeypatch.setattr("shutil.copyfile", lambda source, _: copied.append(source))
    assert find_uefi(tmp_path) == Uefi(Path(here[0]), tmp_path / "variables")
    assert copied == here[1:]


@pytest.mark.parametrize(
    ("code", "mark", "boots"),
    [
        (b"\x01" + bytes(439), b"\x55\xaa", True),
        (bytes(439) + b"\x01", b"\x55\xaa", True),
        (bytes(440) + b"\x01", b"\x55\xaa", False),
        (bytes(440), b"\x55\xaa", False),
        (b"\x01", b"\0\0", None),
        (b"\x01", b"\x55", None),
        (b"\x01", b"\x55\xaa\0", True),
    ],
)
def test_a_disk_with_a_boot_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: bytes, mark: bytes, boots: bool | None
) -> None:
    disk = tmp_path / "d"
    disk.write_bytes(b"QFI\xfb")

    def dd(*words: str) -> bytes:
        assert words == (
            *["qemu-img", "dd", "-U", "-f", "qcow2", "-O", "raw", "bs=512", "count=1"],
            *(f"if={disk}", f"of={tmp_path}/sector"),
        )
        (tmp_path / "sector").write_bytes(code.ljust(510, b"\0") + mark)
        return b""

    monkeypatch.setattr(qemu, "ask", dd)
    if boots is None:
        with pytest.raises(UsageError, match="/d: no partition table, so no boot loader"):
            boots_by_bios(disk, tmp_path)
    else:
        assert boots_by_bios(disk, tmp_path) is boots


def test_what_a_tool_of_qemus_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask("printf", "a\\377b") == b"a\xffb"
    with pytest.raises(UsageError) as raised:
        ask("sh", "-c", "printf 'first\\nlast\\n' >&2; exit 3")
    assert str(raised.value) == "sh: last"
    assert raised.value.hint.startswith("run it by hand: sh -c printf")
    with pytest.raises(UsageError, match="--boot needs QEMU, and qemu-none is not here"):
        ask("qemu-none")
    with pytest.raises(UsageError, match=r"^/dev/null: "):
        ask("/dev/null")
    monkeypatch.setattr(qemu, "_LIMIT_S", 0.05)
    with pytest.raises(UsageError, match=r"^sleep: .*timed out"):
        ask("sleep", "9")


# --- how its instructions are carried out


def test_emulation_takes_its_time_and_says_why() -> None:
    quick, slow = Accelerator("kvm"), Accelerator("tcg", "why")
    assert (quick.factor, quick.told) == (1, "KVM")
    assert (slow.factor, slow.told) == (4, "emulation (TCG): why")


@pytest.mark.parametrize(
    ("status", "name", "why"),
    [
        (33, "kvm", ""),
        (32, "tcg", "{} refuses a guest"),
        (-1, "tcg", "{} refuses a guest"),
        (None, "tcg", "{} is there, and a guest's first second takes it more than 2.5"),
    ],
)
def test_kvm_where_a_guest_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int | None, name: str, why: str
) -> None:
    device = tmp_path / "kvm"
    assert accelerator(device) == Accelerator("tcg", f"no {device} here")
    device.touch()
    asked: list[float] = []

    def run(limit_s: float) -> int | None:
        asked.append(limit_s)
        return status

    monkeypatch.setattr(kvm, "_run_one", run)
    assert accelerator(device, 2.5) == Accelerator(name, why.format(device))
    assert asked == [2.5]
    access: list[int] = []
    monkeypatch.setattr(os, "access", lambda _, mode: access.append(mode))
    found = accelerator(device)
    assert found == Accelerator("tcg", f"{device} is not ours to use; join the group kvm")
    assert access == [os.R_OK | os.W_OK]


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        (SimpleNamespace(returncode=33), 33),
        (subprocess.TimeoutExpired("x", 1), None),
        (OSError(), -1),
    ],
)
def test_the_smallest_guest(
    monkeypatch: pytest.MonkeyPatch, ends: object, status: int | None
) -> None:
    def run(words: tuple[str, ...], **more: object) -> object:
        start = words.index("qemu-system-x86_64")
        told = " ".join(words[start:])
        assert told.startswith(
            "qemu-system-x86_64 -nodefaults -display none -machine pc -accel kvm -cpu host "
            "-m 64 -device isa-debug-exit,iobase=0xf4,iosize=1 -drive file="
        )
        assert told.endswith(",format=raw,if=ide,snapshot=on")
        sector = Path(told.split("file=")[1].partition(",")[0]).read_bytes()
        assert (len(sector), sector[-2:]) == (512, b"\x55\xaa")
        assert sector.startswith(bytes.fromhex("66b980f0fa0266"))
        assert more["timeout"] == 7
        if isinstance(ends, Exception):
            raise ends
        return ends

    monkeypatch.setattr(subprocess, "run", run)
    assert kvm._run_one(7) == status


# --- the folder that a boot has for itself


def test_where_boots_have_their_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/somewhere")
    assert boot_home() == Path("/somewhere")
    for gone in (True, False):
        monkeypatch.delenv("TMPDIR") if gone else monkeypatch.setenv("TMPDIR", "")
        assert boot_home() == Path("/var/tmp")  # where it is by default


@pytest.mark.parametrize(("age_s", "gone"), [(30, False), (90, True)])
def test_what_a_killed_boot_left_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: int, gone: bool
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left, other = tmp_path / "gdr-boot-old", tmp_path / "other"
    for each in (left, other):
        (each / "deep").mkdir(parents=True)
    then = left.stat().st_mtime - age_s
    os.utime(left, (then, then))
    file = tmp_path / "gdr-boot-file"
    file.touch()
    os.utime(file, (1, 1))
    with boot_folder() as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith("gdr-boot-")
        assert left.exists() is not gone
        os.utime(folder, (1, 1))
        with boot_folder() as second:  # one that lives is left
            assert folder.exists()
            assert second != folder
    assert not folder.exists()
    assert other.exists()
    assert file.exists()


def test_a_boot_without_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="/none: No such file or directory"), boot_folder():
        pass


def test_what_belongs_to_somebody_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left = tmp_path / "gdr-boot-old"
    left.mkdir()
    os.utime(left, (1, 1))
    theirs = left.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: theirs)
    with boot_folder():
        assert left.exists()
