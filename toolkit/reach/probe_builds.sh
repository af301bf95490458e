# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: DKMS, headers, compilers, what the next boot would find.

tools() { # which of what builds need is there, the compiler that the kernel names among them
    named=$(printf '%s\n' "$kernel_options" | sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ "]*\).*/\1/p')
    for tool in gcc g++ clang make ld $named; do
        if [ -n "$(locate "$tool")" ]; then echo "$tool"; fi
    done
}

kernel_configs() { # the options of every kernel that has modules
    for kernel in $(printf '%s\n' "$kernel_list" | sed -n 's/^@//p'); do
        echo "@$kernel"
        for config in "/lib/modules/$kernel/config" "/boot/config-$kernel" "/lib/modules/$kernel/build/.config"; do
            [ -r "$root$config" ] || continue
            options_in cat "$root$config"
            break
        done
    done
}

kernel_modules() { # one modinfo for the modules of every kernel
    paths=$(printf '%s\n' "$kernel_list" | sed -n "s|^/|$root/|p")
    [ -n "$paths" ] || return 0
    # shellcheck disable=SC2086 # one word a file; the module folders have no blanks
    "$(locate modinfo)" $paths 2>/dev/null |
        grep -E '^(filename|version|depends|vermagic|signer|sig_key):' | sed "s|^\(filename: *\)$root/|\1/|"
}

dkms_tree() {
    names /etc/dkms/no-autoinstall '/var/lib/dkms/*' '/var/lib/dkms/*/*/build'
    echo 'called by:' # for a new kernel: by hooks of the packages, or at boot
    names '/etc/kernel/postinst.d/*dkms*' '/etc/kernel/install.d/*dkms*' '/usr/lib/kernel/install.d/*dkms*' \
        '/usr/lib/kernel/postinst.d/*dkms*' '/usr/share/libalpm/hooks/*dkms*' '/etc/pacman.d/hooks/*dkms*' \
        /usr/lib/systemd/system/dkms.service '/etc/systemd/system/*.wants/dkms.service'
}

shut_away() { # shut_away FOLDER...: the first that cannot be looked into, or one above it
    for folder; do
        while [ -n "$folder" ] && [ ! -e "$root$folder" ]; do folder=${folder%/*}; done
        if [ ! -r "$root$folder/" ] || [ ! -x "$root$folder/" ]; then echo "$folder/"; return; fi
    done
}

hooks() { # what of ours has nvidia-peermem rebuilt, and the plugin without which dnf does not call it
    for found in "$root"/usr/lib/gdr-toolkit/rebuild "$root"/etc/dkms/framework.conf.d/*gdr-toolkit* \
        "$root"/etc/apt/apt.conf.d/*gdr-toolkit* "$root"/etc/dnf/plugins/*/*gdr-toolkit* \
        "$root"/usr/lib/zypp/plugins/commit/*gdr-toolkit* "$root"/etc/kernel/*.d/*gdr-toolkit* \
        "$root"/usr/lib/python3*/site-packages/dnf-plugins/post-transaction-actions.py; do
        [ -f "$found" ] || continue
        if [ ! -s "$found" ]; then kind=empty
        elif [ -x "$found" ]; then kind=runs
        else kind=text; fi
        echo "$kind ${found#"$root"}"
    done
}

rebuild_hooks() { # the frame
    shut=$(shut_away /usr/lib/gdr-toolkit /etc/dkms/framework.conf.d /etc/apt/apt.conf.d \
        /etc/dnf/plugins/post-transaction-actions.d /usr/lib/zypp/plugins/commit /etc/kernel/postinst.d \
        /etc/kernel/header_postinst.d /etc/kernel/install.d)
    if [ -n "$shut" ]; then frame rebuild-hooks denied "$shut"
    else take rebuild-hooks 'the places of hooks' hooks; fi
}

build_failures() { # DKMS keeps the build folder only after a failure
    for log in "$root"/var/lib/dkms/*/*/build/make.log; do
        [ -e "$log" ] || continue
        echo "@${log#"$root"}"
        if [ ! -r "$log" ]; then echo unreadable; continue; fi
        echo "first: $(head -n 1 "$log" | cut -c 1-300)"
        # Warnings come in hundreds, and the error stands at the end.
        grep -E 'rror|\*\*\*|undefined|[Ff]atal|FATAL|annot|o such file|ot found|anity|GPL-|nrecogni|differs|Skipping BTF|nable to' "$log" |
            grep -vE '^ *(CC|LD|AR|MODPOST|BTF) ' | cut -c 1-300 | tail -n 30
        echo "last: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | cut -c 1-300)"
    done
}

newer_than() { # newer_than IMAGE FOLDER: modules of OFED that were written after the image was
    for dir in updates extra weak-updates; do
        find "$root$2/$dir" -name '*.ko*' -newer "$root$1" 2>/dev/null
    done | grep -E '/(mlx5_core|mlx5_ib|ib_core|ib_uverbs)\.ko' | sed "s|^$root|newer |"
}

initramfs_of() { # initramfs_of KEY RELEASE: the names of RDMA and GPU modules and of module options in it
    for image in "/boot/initrd.img-$2" "/boot/initramfs-$2.img" "/boot/initrd-$2"; do
        [ -e "$root$image" ] || continue
        lister=lsinitrd
        [ -z "$(locate lsinitramfs)" ] || lister=lsinitramfs
        # It decompresses a hundred MB: worth it only where OFED and the inbox stack may mix.
        cmd "$1" 20 "$lister" "$image" | grep -E '^=|/(mlx[45x]_[a-z]*|ib_[a-z]*|rdma_[a-z]*|nvidia[a-z_-]*|nouveau)\.ko|/modules\.dep$|/modprobe\.d/.*\.conf'
        count=$((count + 1)) # the pipe kept the frame's own
        bars "$(newer_than "$image" "/lib/modules/$2")"
        return
    done
    frame "$1" absent "/boot/initrd.img-$2"
}

newest_other() { # the release of the newest image beside the running kernel's
    # shellcheck disable=SC2012 # the names are kernel releases
    ls -t "$root"/boot/vmlinuz-* 2>/dev/null | sed 's|.*/vmlinuz-||' | grep -v rescue | grep -vxF "$release" | head -n 1
}

initramfs() {
    case $kernel_list in
        */updates/*/ib_core.ko* | */updates/ib_core.ko* | */extra/*ib_core.ko* | */weak-updates/*ib_core.ko*) ;;
        *)
            frame initramfs absent 'not listed: there is no RDMA stack beside the inbox one'
            frame initramfs-next absent 'not listed: there is no RDMA stack beside the inbox one'
            return
            ;;
    esac
    initramfs_of initramfs "$release"
    next=$(newest_other)
    if [ -n "$next" ]; then initramfs_of initramfs-next "$next"
    else frame initramfs-next absent 'an image of another kernel in /boot'; fi
}

openibd_units() {
    if [ -e "$root/etc/infiniband/openib.conf" ] || [ -e "$root/etc/init.d/openibd" ]; then
        cmd openibd-state 5 systemctl show openibd -p LoadState -p ActiveState -p Result -p UnitFileState
        cmd openibd-log 5 journalctl -q --no-pager -b -u openibd -n 30 -o cat
    else
        frame openibd-state absent /etc/init.d/openibd
        frame openibd-log absent /etc/init.d/openibd
    fi
}

probe_builds() {
    take tools 'compilers in PATH' tools
    cmd gcc-version 5 gcc -dumpfullversion -dumpversion
    take kernel-configs '/boot/config-*' kernel_configs
    if need modinfo all-modinfo; then take all-modinfo 'modinfo, for every kernel' kernel_modules; fi
    cmd dkms-version 5 dkms --version
    if [ ! -d "$root/var/lib/dkms" ]; then
        for key in dkms-tree dkms-failures; do frame $key absent /var/lib/dkms; done
    elif [ ! -r "$root/var/lib/dkms" ] || [ ! -x "$root/var/lib/dkms" ]; then
        for key in dkms-tree dkms-failures; do frame $key denied /var/lib/dkms; done
    else
        take dkms-tree /var/lib/dkms dkms_tree
        take dkms-failures '/var/lib/dkms/*/*/build/make.log' build_failures
    fi
    rebuild_hooks
    take ofed-container /run/mellanox/drivers names /run/mellanox/drivers '/run/mellanox/drivers/*'
    file openib-conf /etc/infiniband/openib.conf
    openibd_units
    initramfs
}
