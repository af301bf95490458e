# shellcheck shell=sh
# Reads what a verdict can rest on; changes nothing. Runs under dash, busybox and bash.
#
# Prints frames: "= KEY STATE SOURCE" at column 0, content behind a bar, an end frame
# that counts them. STATE is ok, absent, denied, failed:N or timeout.
#
# GDR_ROOT  a prefix for every path: an image, a captured tree, a simulated node.
# GDR_BIN   where that root's own commands are. Under a prefix no other command counts
#           as the node's, for it would answer for this machine instead.

# --- vocabulary -------------------------------------------------------------------

frame() { # frame KEY STATE SOURCE
    count=$((count + 1))
    printf '= %s %s %s\n' "$1" "$2" "$3"
}

bars() { # bars TEXT: each line behind a bar
    [ -n "$1" ] || return 0
    # Most frames are short: without a pipe, a probe has a hundred processes fewer.
    if [ -n "$has_awk" ] && [ "${#1}" -gt 600 ]; then
        printf '%s\n' "$1" | awk '{ print "|" $0 }'
        return
    fi
    while IFS= read -r line; do printf '|%s\n' "$line"; done <<GDR_TEXT
$1
GDR_TEXT
}

file() { # file KEY PATH: a copy
    if [ ! -e "$root$2" ]; then frame "$1" absent "$2"
    elif content=$(cat "$root$2" 2>/dev/null); then
        frame "$1" ok "$2"
        bars "$content"
    else frame "$1" denied "$2" # sysfs and lockdown refuse at read, not at open
    fi
}

take() { # take KEY SOURCE FUNCTION...: what one of the functions below gathers
    take_key=$1 take_source=$2
    shift 2
    content=$("$@")
    frame "$take_key" ok "$take_source"
    bars "$content"
}

need() { # need COMMAND KEY...: without COMMAND, say so for each KEY and return false
    tool=$1
    shift
    [ -n "$(locate "$tool")" ] && return
    for key; do frame "$key" absent "$tool"; done
    false
}

locate() { # locate COMMAND: where the node has it
    PATH=$node_path command -v "$1" 2>/dev/null
}

cmd() { # cmd KEY SECONDS COMMAND...
    cmd_key=$1 left=$(($2 * 20)) job=$scratch/$1
    shift 2
    shown=$*
    where=$(locate "$1") status=127
    if [ -z "$where" ]; then frame "$cmd_key" absent "$shown"; return; fi
    if [ -z "$scratch" ]; then frame "$cmd_key" failed:28 "$shown"; return; fi # ENOSPC
    shift
    # Nothing here may hold our own output open, or the connection waits for it.
    {
        "$where" "$@" >"$job" 2>"$job.err" </dev/null &
        echo $! >"$job.pid"
        wait $!
        echo $? >"$job.rc"
    } >/dev/null 2>&1 &
    # A command stuck in the kernel ignores even SIGKILL: abandon it, never wait.
    nap=0.01
    until [ -s "$job.rc" ] || [ "$left" -le 0 ]; do
        sleep "$nap" 2>/dev/null || sleep 1 # a busybox may lack fractions
        case $nap in
            0.01) nap=0.02 ;;
            0.02) nap=0.05 ;;
            *) left=$((left - 1)) ;;
        esac
    done
    status=$(cat "$job.rc" 2>/dev/null)
    case $status in
        '')
            kill -9 "$(cat "$job.pid")" 2>/dev/null
            frame "$cmd_key" timeout "$shown"
            ;;
        0)
            frame "$cmd_key" ok "$shown"
            bars "$(tr -d '\000' <"$job")"
            ;;
        *)
            frame "$cmd_key" "failed:$status" "$shown"
            bars "$(cat "$job" "$job.err" | tr -d '\000')"
            ;;
    esac
}

from() { # from DIR PATTERN...: every line of the files, as "name:line", names below DIR
    dir=$1
    shift
    # shellcheck disable=SC2068 # the patterns are meant to be expanded, in that folder
    (cd "$root$dir" 2>/dev/null && grep -s '' $@ /dev/null)
    return 0
}

names() { # names PATTERN...: the paths that exist, links with what they point at
    for pattern; do
        for found in "$root"$pattern; do
            if [ -L "$found" ]; then echo "${found#"$root"} -> $(readlink "$found")"
            elif [ -e "$found" ]; then echo "${found#"$root"}"; fi
        done
    done
}

info() { # info MODULE...: the lines of modinfo that identify it
    for module; do
        printf '@%s\n' "${module#"$root"}"
        "$(locate modinfo)" -k "$release" "$module" 2>/dev/null |
            grep -E '^(filename|version|license|srcversion|depends|vermagic|signer|sig_key):'
    done
}

# --- what takes more than a copy ----------------------------------------------------

first_cpu() { sed '/^$/q' "$root/proc/cpuinfo" 2>/dev/null; }

kernel_config() { # kernel_config: the frame, from the first place that has the options
    options='DMA_SHARED_BUFFER|DMABUF_MOVE_NOTIFY|PCI_P2PDMA|INFINIBAND(_USER_ACCESS|_USER_MEM|_ON_DEMAND_PAGING|_USER_MAD)?|MLX5_(CORE|INFINIBAND)|MODVERSIONS|MODULE_SIG(_FORCE|_HASH)?|SECURITY_LOCKDOWN_LSM|LOCK_DOWN_[A-Z_]+|IOMMU_DEFAULT_PASSTHROUGH|PREEMPT_RT|CC_VERSION_TEXT|GCC_PLUGINS|RANDSTRUCT'
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
    from /boot/loader/entries '*.conf' | grep -E ':(version|linux|options|title) '
    from /boot grub2/grub.cfg grub/grub.cfg |
        grep -E ':[[:space:]]*(menuentry|submenu|linux|linux16|linuxefi|set default)[[:space:]=]'
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
        "$root"/etc/dkms/*.conf "$root"/usr/src/nvidia-peermem-*/*; do
        [ -f "$found" ] || continue
        sum=$(sha256sum <"$found")
        echo "${sum%% *} $(stat -c '%a %u %g' "$found") ${found#"$root"}"
    done
}

# --- the list: cheap and certain first, what may hang last ---------------------------

probe() {
    root=${GDR_ROOT%/} count=0 has_awk=''
    if [ -n "$root" ]; then node_path=$GDR_BIN; else node_path=$PATH:/usr/sbin:/sbin:/usr/bin:/bin; fi
    scratch=$(mktemp -d 2>/dev/null || TMPDIR=/dev/shm mktemp -d 2>/dev/null)
    trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT
    trap 'exit 129' HUP INT TERM
    LC_ALL=C
    export LC_ALL
    if command -v awk >/dev/null; then has_awk=1; fi
    printf '= begin ok gdr-toolkit/1\n'

    take uid 'id -u' id -u
    file boot-id /proc/sys/kernel/random/boot_id
    file hostname /proc/sys/kernel/hostname
    if [ -e "$root/etc/os-release" ]; then file os-release /etc/os-release; else file os-release /usr/lib/os-release; fi
    take cpu 'the first processor of /proc/cpuinfo' first_cpu
    take dmi /sys/class/dmi/id from /sys/class/dmi/id sys_vendor product_name board_name bios_version bios_date
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

    probe_modules
    take infiniband /sys/class/infiniband infiniband
    take rdma-nodes /dev/infiniband names '/dev/infiniband/*'
    probe_pci
    take limits /etc/security limits
    take service-limits /etc/systemd from /etc/systemd system.conf 'system.conf.d/*.conf'
    file limits-now /proc/1/limits
    if command -v sha256sum >/dev/null; then take placed 'the places of artefacts' placed; else frame placed absent sha256sum; fi
    take ours 'what we placed' from / 'etc/*/*gdr-toolkit*' 'etc/*/*.d/*gdr-toolkit*' 'etc/gdr-toolkit/*' 'etc/dkms/*.conf' 'usr/src/nvidia-peermem-*/dkms.conf'
    for kept in owned pending journal; do file $kept /var/lib/gdr-toolkit/$kept; done

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
    cmd dkms-status 20 dkms status
    cmd ofed-info 10 ofed_info -s
    cmd openibd 5 systemctl is-enabled openibd
    kernel_log
    probe_consumers
    nvidia_answers

    printf '= end ok %s\n' "$count"
}

probe
