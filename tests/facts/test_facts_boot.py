"""What the next boot starts, from boot loaders as distributions configure them."""

from __future__ import annotations

import pytest

from toolkit.facts.boot.next_boot import BootMenu, default_entry, parse_boot_entries

OLD, NEW = "5.15.0-170-generic", "6.8.0-45-generic"
EL_OLD, EL_NEW = "5.14.0-427.el9.x86_64", "5.14.0-427.13.1.el9_4.x86_64"
ID = "5b2f1c0e8d3a4f6797c4a1be20d95e31"
UUID = "11111111-2222"


def cfg(*lines: str, file: str = "grub/grub.cfg") -> str:
    return "".join(f"{file}:{line}\n" for line in lines)


def ubuntu(default: str = "0") -> str:
    """As update-grub of 22.04 writes it, with two kernels."""
    return cfg(
        '   set default="${next_entry}"',
        f'   set default="{default}"',
        f"menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-{UUID}' {{",
        f"\tlinux\t/boot/vmlinuz-{NEW} root=UUID={UUID} ro quiet splash $vt_handoff",
        "submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-1' {",
        f"\tmenuentry 'Ubuntu, with Linux {NEW}' $menuentry_id_option 'gnulinux-{NEW}-advanced' {{",
        f"\t\tlinux\t/boot/vmlinuz-{NEW} root=UUID={UUID} ro quiet splash",
        f"\tmenuentry 'Ubuntu, with Linux {NEW} (recovery mode)' "
        f"$menuentry_id_option 'gnulinux-{NEW}-recovery' {{",
        f"\t\tlinux\t/boot/vmlinuz-{NEW} root=UUID={UUID} ro recovery nomodeset",
        f"\tmenuentry 'Ubuntu, with Linux {OLD}' $menuentry_id_option 'gnulinux-{OLD}-advanced' {{",
        f"\t\tlinux\t/boot/vmlinuz-{OLD} root=UUID={UUID} ro quiet iommu=pt",
        "menuentry 'Memory test (memtest86+.bin)' {",
        "\tlinux16\t/boot/memtest86+.bin",
        "menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {",
    )


def debian() -> str:
    """Debian 12: no next_entry in the file's first block, an indented firmware entry."""
    return cfg(
        'set default="0"',
        f"menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-{UUID}' {{",
        f"\tlinux\t/boot/vmlinuz-6.1.0-28-amd64 root=UUID={UUID} ro  quiet",
        "submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'advanced' {",
        "\tmenuentry 'Debian GNU/Linux, with Linux 6.1.0-28-amd64' --class debian {",
        f"\t\tlinux\t/boot/vmlinuz-6.1.0-28-amd64 root=UUID={UUID} ro  quiet",
        "\t\tmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {",
    )


def rhel(options: str, *kernels: str, default: str = "${saved_entry}") -> str:
    """Boot Loader Specification entries and the grub.cfg that lists none itself."""
    entries = [
        cfg(
            f"title Red Hat Enterprise Linux ({kernel}) 9.4 (Plow)",
            f"version {kernel}",
            f"linux /vmlinuz-{kernel}",
            f"options {options}",
            file=f"{ID}-{kernel}.conf",
        )
        for kernel in kernels
    ]
    rescue = cfg(
        "title Red Hat Enterprise Linux (0-rescue) 9.4 (Plow)",
        f"version 0-rescue-{ID}",
        f"linux /vmlinuz-0-rescue-{ID}",
        f"options {options}",
        file=f"{ID}-0-rescue.conf",
    )
    grub = cfg(
        '   set default="${next_entry}"',
        f'   set default="{default}"',
        "menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {",
        file="grub2/grub.cfg",
    )
    return "".join((*entries, rescue, grub))


def chosen(menu: BootMenu, grubby: str = "") -> str:
    entry = default_entry(menu, grubby)
    return entry.kernel if entry else "not told"


@pytest.mark.parametrize(
    ("text", "environment", "kernel"),
    [
        pytest.param(ubuntu(), "", NEW, id="ubuntu-first-entry"),
        pytest.param(ubuntu("1>0"), "", NEW, id="ubuntu-submenu-by-number"),
        pytest.param(ubuntu("1>2"), "", OLD, id="ubuntu-pinned-behind-a-recovery-entry"),
        pytest.param(ubuntu("3"), "", "not told", id="ubuntu-firmware-setup"),
        pytest.param(ubuntu("2"), "", "not told", id="ubuntu-memory-test"),
        pytest.param(ubuntu("1"), "", "not told", id="ubuntu-a-submenu-that-waits"),
        pytest.param(
            ubuntu(f"gnulinux-advanced-1>gnulinux-{OLD}-advanced"), "", OLD, id="ubuntu-by-ids"
        ),
        pytest.param(
            ubuntu(f"Advanced options for Ubuntu>Ubuntu, with Linux {OLD}"),
            "",
            OLD,
            id="ubuntu-by-titles",
        ),
        pytest.param(
            ubuntu(f"Ubuntu, with Linux {OLD}"), "", NEW, id="title-without-its-submenu-is-no-entry"
        ),
        pytest.param(
            ubuntu("${saved_entry}"),
            f"saved_entry=gnulinux-advanced-1>gnulinux-{OLD}-advanced\n",
            OLD,
            id="ubuntu-saved",
        ),
        pytest.param(ubuntu("${saved_entry}"), "", NEW, id="ubuntu-nothing-saved-yet"),
        pytest.param(
            ubuntu("${saved_entry}"), None, "not told", id="ubuntu-saved-and-environment-not-read"
        ),
        pytest.param(ubuntu(), None, NEW, id="ubuntu-needs-no-environment"),
        pytest.param(ubuntu(), "next_entry=1>2\n", OLD, id="grub-reboot-once"),
        pytest.param(ubuntu(), "next_entry=\n", NEW, id="grub-reboot-done"),
        pytest.param(debian(), "", "6.1.0-28-amd64", id="debian"),
        pytest.param(debian(), "next_entry=1>0\n", "6.1.0-28-amd64", id="debian-ignores-next"),
        pytest.param(
            rhel("ro iommu=pt", EL_OLD, EL_NEW),
            f"saved_entry={ID}-{EL_OLD}\n",
            EL_OLD,
            id="rhel-saved",
        ),
        pytest.param(rhel("ro", EL_OLD, EL_NEW), "", EL_NEW, id="rhel-newest-first"),
        pytest.param(rhel("ro", EL_OLD, EL_NEW), None, "not told", id="rhel-environment-not-read"),
        pytest.param(rhel("ro", EL_OLD, EL_NEW, default="1"), None, EL_OLD, id="rhel-by-number"),
        pytest.param(
            rhel("ro", EL_OLD, EL_NEW),
            f"saved_entry={ID}-{EL_NEW}\nnext_entry={ID}-{EL_OLD}\n",
            EL_OLD,
            id="rhel-next-entry",
        ),
        pytest.param("", "", "not told", id="nothing-found"),
        pytest.param(
            cfg(
                "menuentry 'SLES 15-SP6' --class sles $menuentry_id_option 'gnulinux-1' {",
                "\tlinuxefi /boot/vmlinuz-6.4.0-150600.23-default root=UUID=1 splash=silent",
                file="grub2/grub.cfg",
            ),
            "",
            "6.4.0-150600.23-default",
            id="suse-linuxefi",
        ),
        pytest.param(
            cfg('menuentry "Arch Linux" {', "\tlinux /boot/vmlinuz-linux root=UUID=1 rw"),
            "",
            "linux",
            id="arch-names-no-release",
        ),
    ],
)
def test_the_kernel_of_an_unattended_boot(text: str, environment: str | None, kernel: str) -> None:
    assert chosen(parse_boot_entries(text, environment)) == kernel


def test_grubby_knows_better_than_the_menu() -> None:
    menu = parse_boot_entries(rhel("ro", EL_OLD, EL_NEW), None)
    assert chosen(menu, f"/boot/vmlinuz-{EL_OLD}\n") == EL_OLD


def test_but_grub_reboot_knows_better_than_grubby() -> None:
    menu = parse_boot_entries(rhel("ro", EL_OLD, EL_NEW), f"next_entry={ID}-{EL_NEW}\n")
    assert chosen(menu, f"/boot/vmlinuz-{EL_OLD}\n") == EL_NEW


def test_grubby_never_means_a_rescue_entry() -> None:
    menu = parse_boot_entries(rhel("ro", EL_NEW), None)
    assert chosen(menu, f"/boot/vmlinuz-0-rescue-{ID}\n") == "not told"


@pytest.mark.parametrize(
    ("environment", "words", "unresolved"),
    [
        pytest.param(
            "kernelopts=root=/dev/sda ro iommu=pt\ntuned_params=skew_tick=1\n",
            ("root=/dev/sda", "ro", "iommu=pt", "skew_tick=1"),
            (),
            id="both-set",
        ),
        pytest.param(
            "kernelopts=root=/dev/sda iommu=pt\n",
            ("root=/dev/sda", "iommu=pt"),
            (),
            id="unset-is-empty-as-for-grub",
        ),
        pytest.param(None, (), ("kernelopts", "tuned_params"), id="environment-not-read"),
    ],
)
def test_variables_of_the_environment_are_filled_in_or_named(
    environment: str | None, words: tuple[str, ...], unresolved: tuple[str, ...]
) -> None:
    menu = parse_boot_entries(rhel("$kernelopts $tuned_params", EL_NEW), environment)
    entry = menu.entries[0]
    assert (entry.cmdline.words, entry.unresolved) == (words, unresolved)


def test_arguments_are_those_of_the_chosen_entry() -> None:
    entry = default_entry(parse_boot_entries(ubuntu("1>2"), ""))
    assert entry is not None
    assert entry.cmdline["iommu"] == "pt"


def test_several_options_lines_add_up() -> None:
    text = cfg("version 6.12.0", "linux /v", "options root=/dev/sda", "options ro", file="a.conf")
    assert parse_boot_entries(text, "").entries[0].cmdline.words == ("root=/dev/sda", "ro")


def test_an_entry_that_boots_no_kernel_is_no_entry() -> None:
    text = cfg("title Memory test", "linux /memtest", file="a.conf")
    assert parse_boot_entries(text, "").entries == ()
