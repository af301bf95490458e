# shellcheck shell=sh disable=SC2154,SC2317 # apply.sh sets what is used here, and calls it
# An initramfs made again, and looked into before it counts: a part of the engine on the node.
# It is derived from files, and what derives it may end well with a module missing, or with
# the kernel's own RDMA stack in it: then the image from before comes back, byte for byte.

image_modules() { # image_modules IMAGE: each module in it, as its path below /lib/modules/RELEASE
    listed=$(run_there "$lister" "$1" 2>&1) || return 1
    printf '%s\n' "$listed" | sed -n -e 's/ -> .*//' -e 's|^.*lib/modules/[^/ ]*/\([^ ]*\)\.ko[.a-z0-9]*$|\1|p'
}

named() { # named PATHS: their modules' names, as the kernel spells them
    printf '%s\n' "$1" | sed -e 's|.*/||' -e 's/-/_/g'
}

image_other() { # image_other RELEASE PATHS: the first RDMA or GPU module that is not the one on disk
    for path in $2; do
        case ${path##*/} in mlx[45x]*_* | mlxfw | ib_* | iw_cm | rdma_* | nvidia*) ;; *) continue ;; esac
        disk=$(run_there modinfo -k "$1" -F filename "${path##*/}" 2>/dev/null | head -n 1)
        disk=${disk##*/lib/modules/"$1"/}
        # What weak-modules links to lies in another kernel's folder: the path proves nothing.
        case $path:$disk in *: | *'(builtin)' | "$path:$path".ko* | *weak-updates/*) continue ;; esac
        echo "it holds $path, and modprobe would load $disk"
        return
    done
}

image_lost() { # image_lost OLD-PATHS NEW-PATHS: the first of the old ones in use that disks may rest on
    now=$(named "$2")
    for path in $1; do
        case /$path in
            */drivers/ata/* | */drivers/scsi/* | */drivers/nvme/* | */drivers/md/* | */drivers/block/*) ;;
            */drivers/virtio/* | */drivers/message/* | */fs/*) ;;
            *) continue ;;
        esac
        name=${path##*/}
        case $name in *-*) name=$(named "$path") ;; esac
        if [ ! -d "$root/sys/module/$name" ] || printf '%s\n' "$now" | grep -qxF -e "$name"; then continue; fi
        echo "it lacks $path, which the one before had, and which is in use"
        return
    done
}

image_wrong() { # image_wrong RELEASE IMAGE OLD-PATHS: the first reason not to boot with it
    if [ ! -s "$root$2" ]; then echo 'it is not there'; return; fi
    if ! has=$(image_modules "$2"); then
        echo 'it cannot be listed'
        return
    fi
    if [ -n "$3" ] && [ -z "$has" ]; then echo 'it holds no module any more'; return; fi
    other=$(image_other "$1" "$has")
    if [ -n "$other" ]; then echo "$other"; else image_lost "$3" "$has"; fi
}

initramfs() { # initramfs RELEASE IMAGE COMMAND...: made again by the command, and looked into
    release=$1 image=$2 status=0 lister=lsinitrd
    shift 2
    [ -z "$(locate lsinitramfs)" ] || lister=lsinitramfs
    before=$run/kept/tree$root$image listable=1 had=''
    if [ -e "$root$image" ]; then had=$(image_modules "$image") || listable=''; fi
    run_there "$@" || status=$?
    why="$1 ended with status $status"
    if [ "$status" = 0 ]; then
        why=''
        if [ -n "$listable" ]; then why=$(image_wrong "$release" "$image" "$had"); fi
    fi
    if [ -z "$why" ]; then
        if [ -n "$listable" ]; then echo "$image: looked into, and as it should be"
        else echo "$image: not looked into, for $lister lists none here"; fi
        return 0
    fi
    echo "$image: $why"
    [ "$status" != 0 ] || status=1
    if [ ! -e "$before" ]; then return "$status"; fi
    # Where there is no room beside it, a bad image makes room for the good one.
    if cp -a "$before" "$(temp_of "$root$image")" && mv -f "$(temp_of "$root$image")" "$root$image"; then :
    else
        rm -f "$(temp_of "$root$image")"
        cat "$before" >"$root$image"
    fi
    flush "$root$image" || status=1
    flush_folder "$root${image%/*}"
    if [ "$(hash "$before")" = "$(hash "$root$image")" ]; then echo "$image: the one before is back, byte for byte"
    else echo "$image: the one before could not be put back: it is $before; do not reboot"; fi
    return "$status"
}
