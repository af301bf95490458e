# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: DKMS, headers, compilers, what the next boot would find.

tools() { # which of what builds need is there, the compiler that the kernel names among them
    named=''
    case $kernel_options in
        *'CONFIG_CC_VERSION_TEXT="'*)
            named=${kernel_options#*'CONFIG_CC_VERSION_TEXT="'}
            named=${named%%[ \"]*}
            ;;
    esac
    for tool in gcc g++ clang make ld $named; do
        if seek "$tool"; then add "$tool"; fi
    done
}

kernel_configs() { # the options of every kernel that has modules
    for kernel in $kernel_list; do
        case $kernel in @*) kernel=${kernel#@} ;; *) continue ;; esac
        add "@$kernel"
        for config in "/lib/modules/$kernel/config" "/boot/config-$kernel" "/lib/modules/$kernel/build/.config"; do
            [ -r "$root$config" ] || continue
            options_in "$root$config"
            break
        done
    done
}

kernel_modules() { # one modinfo for the modules of every kernel
    set --
    for found in $kernel_list; do
        case $found in /*) set -- "$@" "$root$found" ;; esac
    done
    [ $# -gt 0 ] || return 0
    by_line
    for line in $("$where" "$@" 2>/dev/null); do
        case $line in
            filename:*)
                found=${line%%/*} line=${line#"${line%%/*}"}
                content=$content$found${line#"$root"}$nl
                ;;
            version:* | license:* | depends:* | vermagic:* | signer:* | sig_key:*) content=$content$line$nl ;;
        esac
    done
    by_word
}

dkms_tree() {
    paths /etc/dkms/no-autoinstall '/var/lib/dkms/*' '/var/lib/dkms/*/*/build'
    add 'called by:' # for a new kernel: by hooks of the packages, or at boot
    paths '/etc/kernel/postinst.d/*dkms*' '/etc/kernel/install.d/*dkms*' '/usr/lib/kernel/install.d/*dkms*' \
        '/usr/lib/kernel/postinst.d/*dkms*' '/usr/share/libalpm/hooks/*dkms*' '/etc/pacman.d/hooks/*dkms*' \
        /usr/lib/systemd/system/dkms.service '/etc/systemd/system/*.wants/dkms.service'
}

shut_away() { # shut_away FOLDER...: sets shut to the first that cannot be looked into, or one above it
    shut=''
    for folder; do
        while [ -n "$folder" ] && [ ! -e "$root$folder" ]; do folder=${folder%/*}; done
        if [ ! -r "$root$folder/" ] || [ ! -x "$root$folder/" ]; then shut=$folder/ && return; fi
    done
}

hooks() { # what of ours has nvidia-peermem rebuilt; which dnf there is, and the plugin without which it does not call
    for found in "$root"/usr/lib/gdr-toolkit/rebuild "$root"/etc/dkms/framework.conf.d/*gdr-toolkit* \
        "$root"/etc/apt/apt.conf.d/*gdr-toolkit* "$root"/etc/dnf/plugins/*/*gdr-toolkit* "$root"/etc/dnf/libdnf5-plugins/*/*gdr-toolkit* \
        "$root"/usr/lib/zypp/plugins/commit/*gdr-toolkit* "$root"/etc/kernel/*.d/*gdr-toolkit* \
        "$root"/usr/lib/python3*/site-packages/dnf-plugins/post-transaction-actions.py "$root"/usr/bin/dnf5 \
        "$root"/usr/lib64/libdnf5/plugins/actions.so; do
        [ -f "$found" ] || continue
        if [ ! -s "$found" ]; then kind=empty
        elif [ -x "$found" ]; then kind=runs
        else kind=text; fi
        add "$kind ${found#"$root"}"
    done
}

rebuild_hooks() { # the frame
    shut_away /usr/lib/gdr-toolkit /etc/dkms/framework.conf.d /etc/apt/apt.conf.d \
        /etc/dnf/plugins/post-transaction-actions.d /etc/dnf/libdnf5-plugins/actions.d /usr/lib/zypp/plugins/commit /etc/kernel/postinst.d \
        /etc/kernel/header_postinst.d /etc/kernel/install.d
    if [ -n "$shut" ]; then frame rebuild-hooks denied "$shut"
    else give rebuild-hooks 'the places of hooks' hooks; fi
}

build_failures() { # DKMS keeps the build folder only after a failure
    for log in "$root"/var/lib/dkms/*/*/build/make.log; do
        [ -e "$log" ] || continue
        add "@${log#"$root"}"
        if [ ! -r "$log" ]; then add unreadable; continue; fi
        add "first: $(head -n 1 "$log" | cut -c 1-300)"
        # Warnings come in hundreds, and the error stands at the end.
        add "$(grep -E 'rror|\*\*\*|undefined|[Ff]atal|FATAL|annot|o such file|ot found|anity|GPL-|nrecogni|differs|Skipping BTF|nable to' "$log" |
            grep -vE '^ *(CC|LD|AR|MODPOST|BTF) ' | cut -c 1-300 | tail -n 30)"
        add "last: $(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | cut -c 1-300)"
    done
}

newer_than() { # newer_than IMAGE FOLDER: sets content to modules of OFED that were written after the image was
    content=''
    by_line
    # shellcheck disable=SC2044 # one a line; the module folders have no line ends
    for found in $(find "$root$2/updates" "$root$2/extra" "$root$2/weak-updates" \
        -name '*.ko*' -newer "$root$1" 2>/dev/null); do
        case $found in
            */mlx5_core.ko* | */mlx5_ib.ko* | */ib_core.ko* | */ib_uverbs.ko*) add "newer ${found#"$root"}" ;;
        esac
    done
    by_word
}

in_image() { # in_image FILE...: of the names in an image those of RDMA and GPU modules, and of their options
    content=$(grep -hE '/(mlx[45x]_[a-z]*|ib_[a-z]*|rdma_[a-z]*|nvidia[a-z_-]*|nouveau)\.ko|/modules\.dep$|/modprobe\.d/.*\.conf' "$@")
}

initramfs_of() { # initramfs_of KEY RELEASE: the frame
    for image in "/boot/initrd.img-$2" "/boot/initramfs-$2.img" "/boot/initrd-$2"; do
        [ -e "$root$image" ] || continue
        lister=lsinitrd
        if seek lsinitramfs; then lister=lsinitramfs; fi
        # It decompresses a hundred MB: worth it only where OFED and the inbox stack may mix.
        sift in_image "$1" 20 "$lister" "$image"
        newer_than "$image" "/lib/modules/$2"
        bars "${content%"$nl"}"
        return
    done
    frame "$1" absent "/boot/initrd.img-$2"
}

newest_other() { # sets next to the release of the newest image beside the running kernel's
    next=''
    set -- "$root"/boot/vmlinuz-*
    [ -e "$1" ] || return 0
    # shellcheck disable=SC2012,SC2045 # the names are kernel releases
    for image in $(ls -t "$@" 2>/dev/null); do
        case ${image##*/vmlinuz-} in *rescue* | "$release") ;; *) next=${image##*/vmlinuz-} && return ;; esac
    done
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
    newest_other
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
    give tools 'compilers in PATH' tools
    cmd gcc-version 5 gcc -dumpfullversion -dumpversion
    give kernel-configs '/boot/config-*' kernel_configs
    if need modinfo all-modinfo; then give all-modinfo 'modinfo, for every kernel' kernel_modules; fi
    cmd dkms-version 5 dkms --version
    if [ ! -d "$root/var/lib/dkms" ]; then
        for key in dkms-tree dkms-failures; do frame $key absent /var/lib/dkms; done
    elif [ ! -r "$root/var/lib/dkms" ] || [ ! -x "$root/var/lib/dkms" ]; then
        for key in dkms-tree dkms-failures; do frame $key denied /var/lib/dkms; done
    else
        give dkms-tree /var/lib/dkms dkms_tree
        give dkms-failures '/var/lib/dkms/*/*/build/make.log' build_failures
    fi
    rebuild_hooks
    give ofed-container /run/mellanox/drivers paths /run/mellanox/drivers '/run/mellanox/drivers/*'
    short openib-conf /etc/infiniband/openib.conf
    openibd_units
    initramfs
}
