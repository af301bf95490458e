# shellcheck shell=sh disable=SC2154 # who includes this part sets what is used here, and has say
# An initramfs loads what it holds before anything on disk. Where modules in it were made anew
# since, it is made again and looked into, or else given back as it was: DKMS no longer does so.

early_list() { # early_list IMAGE
    if command -v lsinitramfs >/dev/null; then lsinitramfs "$1"; else lsinitrd "$1"; fi 2>/dev/null
}

early_make() { # early_make KERNEL
    if command -v update-initramfs >/dev/null; then update-initramfs -u -k "$1"; else dracut -f --kver "$1"; fi
}

early_held() { # early_held KERNEL IMAGE LIST: files that modprobe takes, younger than the image that has their modules
    for place in updates extra weak-updates; do
        find "/lib/modules/$1/$place" -name '*.ko*' -newer "$2" 2>/dev/null
    done | grep -E '/(mlx[45x]_[a-z]*|mlxfw|ib_[a-z]*|iw_cm|rdma_[a-z]*|nvidia[a-z_-]*)\.ko' | while IFS= read -r file; do
        name=${file##*/}
        name=${name%%.ko*}
        taken=$(modinfo -k "$1" -n "$name" 2>/dev/null)
        if [ "${taken#/usr}" = "${file#/usr}" ] && printf '%s\n' "$3" | grep -q "/$name\.ko"; then echo "$file"; fi
    done
}

early_wrong() { # early_wrong KERNEL IMAGE FILE...: why the new one is not to be booted
    list=$(early_list "$2") || list=''
    if [ -z "$list" ]; then echo 'it cannot be listed'; return; fi
    within=$1
    shift 2
    for file; do
        file=${file##*"/lib/modules/$within/"}
        if ! printf '%s\n' "$list" | grep -qF "lib/modules/$within/${file%%.ko*}.ko"; then
            echo "it does not hold ${file%%.ko*}"
            return
        fi
    done
}

early() { # early KERNEL: its initramfs
    for image in "/boot/initrd.img-$1" "/boot/initramfs-$1.img" "/boot/initrd-$1" ''; do
        if [ -e "$image" ]; then break; fi
    done
    if [ -z "$image" ] || ! list=$(early_list "$image"); then return 0; fi
    held=$(early_held "$1" "$image" "$list")
    if [ -z "$held" ]; then return 0; fi
    title="the initramfs of $1" older=$(printf '%s\n' "$held" | sed -e 's|.*/||' -e 's/\.ko.*//' | sort -u | tr '\n' ' ')
    older="it is older than ${older% }"
    if [ -n "$dry" ]; then say "$title: would be made again: $older"; return 0; fi
    mark=$state/failed/$1/initramfs log=$state/$1-initramfs.log
    # shellcheck disable=SC2086 # paths of modules have no blanks
    if [ -n "$hook" ] && [ -e "$mark" ] && [ -z "$(find $held -newer "$mark")" ]; then
        say "$title: failed before, and nothing has changed since: $(head -n 1 "$mark")"
        return 1
    fi
    if ! cp -p "$image" "$state/initramfs"; then say "$title: $older, and there is no room to keep it"; return 1; fi
    why=''
    if early_make "$1" >"$log" 2>&1; then
        # shellcheck disable=SC2086 # likewise
        why=$(early_wrong "$1" "$image" $held)
    else why="it could not be made, with status $?"; fi
    if [ -z "$why" ]; then
        rm -f "$state/initramfs" "$mark"
        say "$title: made again: $older"
        return 0
    fi
    # Where there is no room beside it, a bad image makes room for the good one.
    if ! { cp -p "$state/initramfs" "$image.gdr-toolkit" && mv -f "$image.gdr-toolkit" "$image"; }; then
        rm -f "$image.gdr-toolkit"
        cat "$state/initramfs" >"$image"
    fi
    if cmp -s "$state/initramfs" "$image"; then rm -f "$state/initramfs"; fi
    mkdir -p "${mark%/*}" && echo "$why" >"$mark"
    say "$title: not made again ($older): $why; the one before is back; see $log"
    return 1
}
