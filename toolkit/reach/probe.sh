# shellcheck shell=sh disable=SC2154 # frames.sh sets what is used here
# Reads what a verdict can rest on; changes nothing. Runs under dash, busybox and bash.
#
# Prints frames: "= KEY STATE SOURCE" at column 0, content behind a bar, an end frame
# that counts them. STATE is ok, absent, denied, failed:N or timeout.
#
# GDR_ROOT  a prefix for every path: an image, a captured tree, a simulated node.
# GDR_BIN   where that root's own commands are. Under a prefix no other command counts
#           as the node's, for it would answer for this machine instead.

# --- what takes more than a copy ----------------------------------------------------

first_cpu() { sed '/^$/q' "$root/proc/cpuinfo" 2>/dev/null; }

kernel_config() { # kernel_config: the frame, from the first place that has the options
    options='DMA_SHARED_BUFFER|DMABUF_MOVE_NOTIFY|PCI_P2PDMA|INFINIBAND(_USER_ACCESS|_USER_MEM|_ON_DEMAND_PAGING|_USER_MAD)?|MLX5_(CORE|INFINIBAND)|MODVERSIONS|MODULE_SIG(_FORCE|_HASH)?|SECURITY_LOCKDOWN_LSM|LOCK_DOWN_[A-Z_]+|(INTEL_)?IOMMU_DEFAULT_(PASSTHROUGH|ON)|PREEMPT_RT|CC_VERSION_TEXT|GCC_PLUGINS|RANDSTRUCT'
    for config in "/lib/modules/$release/config" "/boot/config-$release" /proc/config.gz \
        "/lib/modules/$release/build/.config"; do
        [ -r "$root$config" ] || continue
        case $config in *.gz) reader='zcat' ;; *) reader='cat' ;; esac
        take kernel-config "$config" options_in "$reader" "$root$config"
        return
    done
    frame kernel-config absent "/boot/config-$release"
}

options_in() { "$1" "$2" 2>/dev/null | grep -E "^(# )?CONFIG_($options)[ =]"; }

headers() {
    for part in Makefile include/config/auto.conf Module.symvers; do
        if [ -s "$root/lib/modules/$release/build/$part" ]; then echo "$part present"
        else echo "$part missing"; fi
    done
}

kernels() { # every kernel that has modules, with what its next boot would find
    for dir in "$root"/lib/modules/*/; do
        [ -e "$dir" ] || continue
        kernel=${dir%/}
        kernel=${kernel##*/}
        echo "@$kernel"
        if [ -e "$root/boot/vmlinuz-$kernel" ] || [ -e "$dir/vmlinuz" ]; then echo image; fi
        if [ -e "${dir}build/Makefile" ]; then echo headers; fi
        find "$dir" -name '*.ko*' 2>/dev/null | sed "s|^$root||" |
            grep -E '/(nvidia([-_](current|tesla([-_][0-9]+)?))?([-_]open)?([-_]peermem)?|nv_peer_mem|ib_core|ib_uverbs|mlx5_core)\.ko'
    done
}

boot_entries() { # what the boot loader would pass to each kernel
    from /boot/loader/entries '*.conf' | grep -E ':[a-z_-]+[[:space:]]'
    from /boot grub2/grub.cfg grub/grub.cfg |
        grep -E ':[[:space:]]*(menuentry|submenu|linux|linux16|linuxefi|set default|set timeout|if \[ "\$\{recordfail\}")[[:space:]=]'
}

uppers() { # uppers PREFIX NET: the bonds, bridges and VLANs that stand on a net device
    for up in "$root/sys/class/net/$2"/upper_*; do
        [ -e "$up" ] || continue
        echo "$1${up##*/upper_}"
        uppers "$1" "${up##*/upper_}"
    done
}

infiniband() {
    from /sys/class/infiniband '*/fw_ver' '*/hca_type' '*/board_id' '*/node_guid' '*/node_type' \
        '*/ports/*/state' '*/ports/*/phys_state' '*/ports/*/rate' '*/ports/*/link_layer'
    for link in "$root"/sys/class/infiniband/*/device; do
        [ -e "$link" ] || continue
        device=${link%/device}
        real=$(readlink -f "$link")
        echo "${device##*/}/device:${real##*/}"
        for net in "$link"/net/*; do
            [ -e "$net" ] || continue
            echo "${device##*/}/net:${net##*/}"
            uppers "${device##*/}/upper:" "${net##*/}"
        done
    done
}

grub_env() { # the frame; the tool makes the file where it is missing, so it is not asked then
    editor=grub-editenv folder=/boot/grub
    if [ -n "$(locate grub2-editenv)" ]; then editor=grub2-editenv folder=/boot/grub2; fi # the RHEL family
    if [ -e "$root$folder/grubenv" ]; then cmd grub-env 5 $editor list
    elif [ -d "$root$folder" ] && [ ! -x "$root$folder" ]; then frame grub-env denied "$folder/grubenv"
    elif [ -z "$(locate $editor)" ] || [ ! -d "$root$folder" ] || [ -L "$root$folder/grubenv" ]; then
        frame grub-env absent "$editor list"
    else take grub-env "$folder: no grubenv" true; fi # so no variable is set
}

limits() { from /etc/security limits.conf 'limits.d/*.conf' | grep -E ':[^#]*memlock'; }

placed() { # SHA256 MODE UID GID PATH of whatever lies where artefacts would go
    for found in "$root"/etc/modules-load.d/*gdr-toolkit* "$root"/etc/modprobe.d/*gdr-toolkit* \
        "$root"/etc/default/grub.d/*gdr-toolkit* "$root"/etc/security/limits.d/*gdr-toolkit* \
        "$root"/etc/systemd/system.conf.d/*gdr-toolkit* "$root"/etc/gdr-toolkit/* \
        "$root"/etc/dkms/*.conf "$root"/usr/src/nvidia-peermem-*/* \
        "$root"/etc/depmod.d/*gdr-toolkit* "$root"/etc/tmpfiles.d/*gdr-toolkit* \
        "$root"/etc/systemd/system/gdr-toolkit* "$root"/etc/systemd/system/*.d/*gdr-toolkit* \
        "$root"/usr/share/dkms/modules_to_force_install/gdr-toolkit \
        "$root"/etc/apt/apt.conf.d/*gdr-toolkit* "$root"/etc/kernel/*.d/*gdr-toolkit* \
        "$root"/etc/dnf/plugins/*/*gdr-toolkit* "$root"/usr/lib/zypp/plugins/commit/*gdr-toolkit* \
        "$root"/etc/dkms/framework.conf.d/*gdr-toolkit* \
        "$root"/etc/grub.d/*gdr-toolkit* "$root"/boot/loader/entries/*gdr-toolkit* \
        "$root"/usr/lib/gdr-toolkit/* "$root"/lib/modules/*/updates/gdr-toolkit/*.ko; do
        [ -f "$found" ] || continue
        sum=$(sha256sum <"$found")
        echo "${sum%% *} $(stat -c '%a %u %g' "$found") ${found#"$root"}"
    done
}

left() { # SHA256 PATH: what our latest run that touched it left there, of runs that still stand
    (
        cd "$root/var/lib/gdr-toolkit" 2>/dev/null || return 0
        files=$(while read -r run _; do
            if [ -f "runs/$run/undo" ]; then echo "runs/$run/undo"; fi
        done 2>/dev/null <journal)
        # shellcheck disable=SC2086 # one word a file
        [ -z "$files" ] || awk '/^file / { new[$2] = $3 } END { for (path in new) print new[path], path }' $files | sort
    )
}

# --- the list: cheap and certain first, what may hang last ---------------------------

probe() {
    begin_frames
    take uid 'id -u' id -u
    file boot-id /proc/sys/kernel/random/boot_id
    file hostname /proc/sys/kernel/hostname
    if [ -e "$root/etc/os-release" ]; then file os-release /etc/os-release; else file os-release /usr/lib/os-release; fi
    take cpu 'the first processor of /proc/cpuinfo' first_cpu
    take dmi /sys/class/dmi/id from /sys/class/dmi/id sys_vendor product_name board_name bios_version bios_date product_serial product_uuid
    take acpi-tables /sys/firmware/acpi/tables names /sys/firmware/acpi/tables/DMAR /sys/firmware/acpi/tables/IVRS /sys/firmware/acpi/tables/IORT

    file kernel-release /proc/sys/kernel/osrelease
    release=$(cat "$root/proc/sys/kernel/osrelease" 2>/dev/null)
    file cmdline /proc/cmdline
    file lockdown /sys/kernel/security/lockdown
    kernel_config
    # shellcheck disable=SC2034 # probe_builds.sh reads it
    kernel_options=$content
    take kernels /lib/modules kernels
    # shellcheck disable=SC2034 # and this
    kernel_list=$content
    take headers "/lib/modules/$release/build" headers
    file reboot-required /run/reboot-required
    take boot-entries '/boot/grub*/grub.cfg, /boot/loader/entries' boot_entries
    probe_boot

    probe_modules
    take infiniband /sys/class/infiniband infiniband
    take rdma-nodes /dev/infiniband names '/dev/infiniband/*'
    probe_pci
    probe_firmware
    take limits /etc/security limits
    take service-limits /etc/systemd from /etc/systemd system.conf 'system.conf.d/*.conf'
    file limits-now /proc/1/limits
    if command -v sha256sum >/dev/null; then take placed 'the places of artefacts' placed; else frame placed absent sha256sum; fi
    take ours 'what we placed' from / 'etc/*/*gdr-toolkit*' 'etc/*/*.d/*gdr-toolkit*' 'etc/gdr-toolkit/*' 'etc/dkms/*.conf' 'usr/src/nvidia-peermem-*/dkms.conf'
    for kept in owned pending journal; do file $kept /var/lib/gdr-toolkit/$kept; done
    take left '/var/lib/gdr-toolkit/runs/*/undo' left

    if need modprobe modprobe-config; then take modprobe-config 'modprobe -c' modprobe_config; fi
    if need modinfo rdma-modinfo nvidia-modinfo peermem-modinfo; then
        take rdma-modinfo modinfo info mlx5_core mlx5_ib ib_core ib_uverbs rdma_cm
        nvidia=$(chosen nvidia)
        take nvidia-modinfo "modinfo ${nvidia:-nvidia}" info "${nvidia:-nvidia}"
        # shellcheck disable=SC2046 # one word a file; the module folders have no blanks
        take peermem-modinfo modinfo info $(peermem_files)
    fi
    probe_elf
    probe_builds
    probe_fabric
    probe_companions
    cmd peermem-resolve 5 modprobe --show-depends nvidia-peermem
    cmd arch 5 uname -m
    cmd boot-default 5 grubby --default-kernel
    grub_env
    loader_disk
    cmd dkms-status 20 dkms status
    cmd ofed-info 10 ofed_info -s
    cmd openibd 5 systemctl is-enabled openibd
    load_order
    kernel_log
    probe_consumers
    nvidia_answers

    end_frames
}

probe
