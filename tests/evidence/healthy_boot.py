"""What boots the healthy node."""

from __future__ import annotations

_KERNEL = "5.15.0-170-generic"  # as in build.py, which imports this
ARGUMENTS = "root=UUID=1 ro quiet iommu=pt"


def grub(arguments: str = ARGUMENTS, *, kernels: tuple[str, ...] = (_KERNEL,)) -> str:
    """grub.cfg as update-grub writes it, cut down to the lines that the probe takes."""
    first = kernels[0]
    lines = [
        '   set default="${next_entry}"',
        '   set default="0"',
        "menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-1' {",
        f"\tlinux\t/boot/vmlinuz-{first} {arguments}",
        "submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-1' {",
    ]
    for release in kernels:
        title = f"Ubuntu, with Linux {release}"
        for suffix, extra in (("", ""), (" (recovery mode)", " recovery nomodeset")):
            ident = f"gnulinux-{release}-{'recovery' if suffix else 'advanced'}-1"
            lines.append(f"\tmenuentry '{title}{suffix}' $menuentry_id_option '{ident}' {{")
            lines.append(f"\t\tlinux\t/boot/vmlinuz-{release} {arguments}{extra}")
    lines.append("menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {")
    return "".join(f"grub/grub.cfg:{line}\n" for line in lines)
