# shellcheck shell=sh disable=SC2154 # KERNEL is set by who enters the image
# What a reader has for commands in an image: those that answer from files alone, and no others.
# Whatever else the probe looks for is not there, for it would answer for the builder.

image_commands() {
    bin=/run/gdr/bin
    for each in modinfo dkms ofed_info grubby lsinitramfs lsinitrd grub-editenv grub2-editenv make ld g++ \
        openssl /usr/bin/gcc* /usr/bin/*-gcc* /usr/bin/clang*; do
        found=$(command -v "$each") && [ -x "$found" ] && ln -s "$found" "$bin/${each##*/}"
    done
    # Asked without more, these two would answer for the kernel of the builder.
    if found=$(command -v modprobe); then
        printf '#!/bin/sh\nexec %s -S %s "$@"\n' "$found" "$KERNEL" >"$bin/modprobe"
        chmod 755 "$bin/modprobe"
    fi
    if found=$(command -v uname); then
        printf '#!/bin/sh\n[ "$*" = -m ] && exec %s -m\nexit 1\n' "$found" >"$bin/uname"
        chmod 755 "$bin/uname"
    fi
    export GDR_ROOT=/run/gdr/image GDR_BIN="$bin" GDR_KERNEL="$KERNEL"
}
