# shellcheck shell=sh disable=SC2154 # lib.sh sets what is used here
# What apt and dnf of a simulated node share: kernels, each of two packages, that are installed as one.

kernels_offered() {
    for file in "$inside"/offered/*.tar; do
        if [ -e "$file" ]; then file=${file##*/} && echo "${file%.tar}"; fi
    done
}

kernels_there() { for file in "$root"/boot/vmlinuz-*; do echo "${file##*/vmlinuz-}"; done; }

add_kernel() { # add_kernel RELEASE: what its packages bring, and what their hooks do
    if [ -e "$root/boot/vmlinuz-$1" ]; then return; fi
    tar -xf "$inside/offered/$1.tar" -C "$root" || return
    "$GDR_BIN/depmod" -a "$1"
    "$GDR_BIN/dkms" autoinstall -k "$1"
    if [ ! -d "$root/boot/loader/entries" ]; then "$GDR_BIN/update-grub"; return; fi
    old=$(sed -n 's/^saved_entry=//p' "$root/boot/grub2/grubenv")
    sed "s/${old#*-}/$1/g" "$root/boot/loader/entries/$old.conf" >"$root/boot/loader/entries/${old%%-*}-$1.conf"
    "$GDR_BIN/grub2-editenv" - set "saved_entry=${old%%-*}-$1"
}

drop_kernel() { # drop_kernel RELEASE: the newest that is left is booted then
    for built in "$root"/var/lib/dkms/*/*/"$1"; do
        if [ ! -d "$built" ]; then continue; fi
        package=${built#"$root/var/lib/dkms/"} package=${package%/*}
        "$GDR_BIN/dkms" remove "$package" -k "$1"
    done
    tar -tf "$inside/offered/$1.tar" | (cd "$root" && xargs rm -f)
    rm -rf "$root/lib/modules/$1"
    if [ ! -d "$root/boot/loader/entries" ]; then "$GDR_BIN/update-grub"; return; fi
    rm -f "$root"/boot/loader/entries/*-"$1.conf"
    for entry in "$root"/boot/loader/entries/*.conf; do
        entry=${entry##*/}
        "$GDR_BIN/grub2-editenv" - set "saved_entry=${entry%.conf}"
    done
}
