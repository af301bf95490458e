# shellcheck shell=sh disable=SC2154 # frames.sh sets what is used here
# Reads what a verdict can rest on; changes nothing. Runs under dash, busybox and bash.
#
# Prints frames: "= KEY STATE SOURCE" at column 0, content behind a bar, an end frame
# that counts them. STATE is ok, absent, denied, failed:N or timeout.
#
# GDR_ROOT  a prefix for every path: an image, a captured tree, a simulated node.
# GDR_BIN   where that root's own commands are. Under a prefix no other command counts
#           as the node's, for it would answer for this machine instead.
# GDR_KERNEL  an image is read, for this kernel of its own: it has no other release, and
#           nothing that only a running machine has.

# --- what takes more than a copy ----------------------------------------------------

first_cpu() { content=$(sed '/^$/q' "$root/proc/cpuinfo" 2>/dev/null); }

kernel_config() { # kernel_config: the frame, from the first place that has the options
    options='DMA_SHARED_BUFFER|DMABUF_MOVE_NOTIFY|PCI_P2PDMA|INFINIBAND(_USER_ACCESS|_USER_MEM|_ON_DEMAND_PAGING|_USER_MAD)?|MLX5_(CORE|INFINIBAND)|MODVERSIONS|MODULE_SIG(_FORCE|_HASH)?|SECURITY_LOCKDOWN_LSM|LOCK_DOWN_[A-Z_]+|(INTEL_)?IOMMU_DEFAULT_(PASSTHROUGH|ON)|PREEMPT_RT|CC_VERSION_TEXT|GCC_PLUGINS|RANDSTRUCT'
    for config in "/lib/modules/$release/config" "/boot/config-$release" /proc/config.gz \
        "/lib/modules/$release/build/.config"; do
        [ -r "$root$config" ] || continue
        give kernel-config "$config" options_in "$root$config"
        return
    done
    content=''
    frame kernel-config absent "/boot/config-$release"
}

options_in() { # options_in FILE: adds them
    case $1 in
        *.gz) add "$(zcat "$1" 2>/dev/null | grep -E "^(# )?CONFIG_($options)[ =]")" ;;
        *) add "$(grep -E "^(# )?CONFIG_($options)[ =]" "$1" 2>/dev/null)" ;;
    esac
}

headers() {
    for part in Makefile include/config/auto.conf Module.symvers; do
        if [ -s "$root/lib/modules/$release/build/$part" ]; then add "$part present"
        else add "$part missing"; fi
    done
}

list_modules() { # sets module_list and peermem_list: of the files of all kernels those that count
    module_list='' peermem_list=''
    set -- "$root"/lib/modules/*/
    [ -e "$1" ] || return 0
    by_line
    for found in $(find "$@" -name '*.ko*' 2>/dev/null | sed -nE -e "s|^$root||" \
        -e '\%/(nvidia([-_](current|tesla([-_][0-9]+)?))?([-_]open)?([-_]peermem)?|nv_peer_mem|ib_core|ib_uverbs|mlx5_core)\.ko%p' \
        -e '\%/[^/]*peer[^/]*mem[^/]*\.ko[^/]*$%s/^/peermem /p'); do
        case $found in
            'peermem '*) peermem_list=$peermem_list${found#peermem }$nl ;;
            *) module_list=$module_list$found$nl ;;
        esac
    done
    by_word
}

kernels() { # every kernel that has modules, with what its next boot would find
    list_modules
    for dir in "$root"/lib/modules/*/; do
        [ -e "$dir" ] || continue
        kernel=${dir%/}
        kernel=${kernel##*/}
        add "@$kernel"
        if [ -e "$root/boot/vmlinuz-$kernel" ] || [ -e "$dir/vmlinuz" ]; then add image; fi
        if [ -e "${dir}build/Makefile" ]; then add headers; fi
        pick "/lib/modules/$kernel/" "$module_list"
    done
}

boot_entries() { # what the boot loader would pass to each kernel
    lines /boot/loader/entries '(^|:)[a-z_-]+[[:space:]]' '*.conf'
    lines /boot '(^|:)[[:space:]]*(menuentry|submenu|linux|linux16|linuxefi|set default|set timeout|if \[ "\$\{recordfail\}")[[:space:]=]' \
        grub2/grub.cfg grub/grub.cfg
}

uppers() { # uppers PREFIX NET: adds the bonds, bridges and VLANs that stand on a net device
    for up in "$root/sys/class/net/$2"/upper_*; do
        [ -e "$up" ] || continue
        add "$1${up##*/upper_}"
        uppers "$1" "${up##*/upper_}"
    done
}

infiniband() {
    lines /sys/class/infiniband '' '*/fw_ver' '*/hca_type' '*/board_id' '*/node_guid' '*/node_type' \
        '*/ports/*/state' '*/ports/*/phys_state' '*/ports/*/rate' '*/ports/*/link_layer' \
        '*/ports/*/counters/symbol_error' '*/ports/*/counters/link_*' '*/ports/*/counters/[el]*_errors' \
        '*/ports/*/counters/port_rcv_errors' '*/ports/*/hw_counters/local_ack_timeout_err' \
        '*/ports/*/hw_counters/out_of_sequence'
    for link in "$root"/sys/class/infiniband/*/device; do
        [ -e "$link" ] || continue
        device=${link%/device}
        real=$link
        if cd -P "$link" 2>/dev/null; then real=$PWD; fi # as readlink -f, and no process
        add "${device##*/}/device:${real##*/}"
        for net in "$link"/net/*; do
            [ -e "$net" ] || continue
            add "${device##*/}/net:${net##*/}"
            uppers "${device##*/}/upper:" "${net##*/}"
        done
    done
}

grub_env() { # the frame; the tool makes the file where it is missing, so it is not asked then
    editor=grub-editenv folder=/boot/grub
    if seek grub2-editenv; then editor=grub2-editenv folder=/boot/grub2; fi # the RHEL family
    if [ -e "$root$folder/grubenv" ]; then cmd grub-env 5 $editor list
    elif [ -d "$root$folder" ] && [ ! -x "$root$folder" ]; then frame grub-env denied "$folder/grubenv"
    elif ! seek $editor || [ ! -d "$root$folder" ] || [ -L "$root$folder/grubenv" ]; then
        frame grub-env absent "$editor list"
    else give grub-env "$folder: no grubenv" true; fi # so no variable is set
}

placed() { # SHA256 MODE UID GID PATH of whatever lies where artefacts would go
    files=''
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
        if [ -f "$found" ]; then files=$files$found$nl; fi
    done
    by_line
    # shellcheck disable=SC2086 # one word a line
    if [ -n "$files" ]; then
        sums=$(sha256sum -- $files 2>/dev/null)
        answers "$(stat -c '%a %u %g %n' -- $files 2>/dev/null)" $files
    fi
    by_word
}

answers() { # answers SAID FILE...: adds "SHA256 MODE UID GID PATH" of each
    said=$1
    shift
    for found; do
        sum='' mode=''
        for line in $sums; do
            case $line in *"  $found") sum=${line%% *} && break ;; esac
        done
        for line in $said; do
            case $line in *" $found") mode=${line%" $found"} && break ;; esac
        done
        add "$sum $mode ${found#"$root"}"
    done
}

left() { # SHA256 PATH: what our latest run that touched it left there, of runs that still stand
    (
        cd "$root/var/lib/gdr-toolkit" 2>/dev/null && [ -e journal ] || return 0
        files=''
        while read -r run _; do
            if [ -f "runs/$run/undo" ]; then files="$files runs/$run/undo"; fi
        done 2>/dev/null <journal
        # shellcheck disable=SC2086 # one word a file
        [ -z "$files" ] || awk '/^file / { new[$2] = $3 } END { for (path in new) print new[path], path }' $files | sort
    )
}

# --- the list: cheap and certain first, what may hang last ---------------------------

probe() {
    begin_frames
    take uid 'id -u' id -u
    short boot-id /proc/sys/kernel/random/boot_id
    short hostname /proc/sys/kernel/hostname
    if [ -e "$root/etc/os-release" ]; then short os-release /etc/os-release; else short os-release /usr/lib/os-release; fi
    give cpu 'the first processor of /proc/cpuinfo' first_cpu
    give dmi /sys/class/dmi/id lines /sys/class/dmi/id '' sys_vendor product_name board_name bios_version bios_date product_serial product_uuid
    give acpi-tables /sys/firmware/acpi/tables paths /sys/firmware/acpi/tables/DMAR /sys/firmware/acpi/tables/IVRS /sys/firmware/acpi/tables/IORT

    content=''
    if [ -n "${GDR_KERNEL-}" ]; then content=$GDR_KERNEL && tell kernel-release 'a kernel of the image'
    else short kernel-release /proc/sys/kernel/osrelease; fi
    release=$content
    short cmdline /proc/cmdline
    short lockdown /sys/kernel/security/lockdown
    kernel_config
    # shellcheck disable=SC2034 # probe_builds.sh reads it
    kernel_options=$content
    give kernels /lib/modules kernels
    # shellcheck disable=SC2034 # and this
    kernel_list=$content
    give headers "/lib/modules/$release/build" headers
    short reboot-required /run/reboot-required
    give boot-entries '/boot/grub*/grub.cfg, /boot/loader/entries' boot_entries
    probe_boot

    probe_modules
    give infiniband /sys/class/infiniband infiniband
    give rdma-nodes /dev/infiniband paths '/dev/infiniband/*'
    probe_pci
    probe_firmware
    give limits /etc/security lines /etc/security '(^|:)[^#]*memlock' limits.conf 'limits.d/*.conf'
    give service-limits /etc/systemd lines /etc/systemd '' system.conf 'system.conf.d/*.conf'
    short limits-now /proc/1/limits
    if command -v sha256sum >/dev/null; then give placed 'the places of artefacts' placed; else frame placed absent sha256sum; fi
    give ours 'what we placed' lines / '' 'etc/*/*gdr-toolkit*' 'etc/*/*.d/*gdr-toolkit*' 'etc/gdr-toolkit/*' 'etc/dkms/*.conf' 'usr/src/nvidia-peermem-*/dkms.conf'
    for kept in owned pending journal; do short $kept /var/lib/gdr-toolkit/$kept; done
    take left '/var/lib/gdr-toolkit/runs/*/undo' left
    probe_passport

    if need modprobe modprobe-config; then give modprobe-config 'modprobe -c' modprobe_config; fi
    if need modinfo rdma-modinfo nvidia-modinfo peermem-modinfo; then
        identity='filename version license srcversion depends vermagic signer sig_key'
        give rdma-modinfo modinfo stack_info
        choose nvidia
        give nvidia-modinfo "modinfo ${chosen:-nvidia}" info "$identity" "${chosen:-nvidia}"
        on_files "$(peermem_files)" give peermem-modinfo modinfo info "$identity"
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
    sift kernel_log dmesg 5 dmesg
    probe_consumers
    nvidia_answers
    if command -v inside_program >/dev/null; then probe_inside
    elif command -v register_program >/dev/null; then probe_register; fi

    end_frames
}

probe
