# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: GIDs, MTU and settings of the RDMA devices; daemons; what the driver
# says of its GPUs.

gids() { # and P_Keys; of up to 256 entries all but a few are zero, and the attributes of those are refused
    cd "$root/sys/class/infiniband" 2>/dev/null || return 0
    set -- */ports/*/gids
    [ -e "$1" ] || return 0
    # By folder: the names of all entries of many ports would not fit on a command line. The first ten
    # P_Keys alone: the firmware is asked for each, also those of virtual functions.
    content=$(grep -rsv -e '^0000:0000:0000:0000:0000:0000:0000:0000$' -e '^0x0000$' -- \
        "$@" */ports/*/gid_attrs */ports/*/pkeys/[0-9] /dev/null)
}

net_devices() { # without those of containers and guests: there may be hundreds
    cd "$root/sys/class/net" 2>/dev/null || return 0
    files='' states=''
    for net in *; do
        case $net in veth* | cali* | lxc* | tap* | vnet* | vxlan* | flannel*) continue ;; esac
        files="$files $net/mtu" states="$states $net/operstate"
    done
    lines /sys/class/net '' "$files$states"
}

roce_netdevs() { # sets roce to the net devices of the Ethernet ports that are up; the node's own only where no others are
    roce='' spare='' own='' content=''
    for port in "$root"/sys/class/infiniband/*/ports/*; do
        layer='' state=''
        { read -r layer <"$port/link_layer" && read -r state <"$port/state"; } 2>/dev/null
        case $layer:$state in Ethernet:*ACTIVE) ;; *) continue ;; esac
        own=${own:-" $(default_routes | tr '\n' ' ') "}
        for net in "${port%/ports/*}"/device/net/*; do
            [ -e "$net" ] || continue
            content=''
            uppers '' "${net##*/}"
            for name in "${net##*/}" $content; do
                case $own in *" $name "*) spare=${spare:-${net##*/}} && continue 2 ;; esac
            done
            roce="$roce ${net##*/}"
        done
    done
    roce=${roce:-$spare}
}

priorities() { # a frame for each RoCE port, mlnx-qos and mlnx-qos-2 and so on; one hang is enough
    roce_netdevs
    if [ -z "$roce" ]; then frame mlnx-qos absent 'mlnx_qos: no RoCE port is up'; fi
    asked=''
    for net in $roce; do
        cmd "mlnx-qos${asked:+-$asked}" 5 mlnx_qos -i "$net"
        case $status in '' | 127) return ;; esac
        asked=$((${asked:-1} + 1))
    done
}

running() { # running NAME...: sets running to "PID/comm:NAME" of all processes that may concern us, once
    cd "$root/proc" 2>/dev/null || return 0
    running=$(grep -sxE 'nv-fabricmanage|nvidia-imex|nvidia-persiste|nvidia-cuda-mps|nvlsm|slurmd|pbs_mom|sge_execd|lsf_sbatchd|sbatchd|raylet|containerd|crio|dockerd|kubelet|kubelite|k3s-server|k3s-agent' \
        [0-9]*/comm /dev/null)
}

daemons() { # by their names in /proc, so that those in containers count too
    for found in $running; do
        case ${found#*:} in containerd | crio | dockerd | kube* | k3s-*) continue ;; esac
        add "$found"
        lines /proc '^Max locked memory' "${found%%/*}/limits"
    done
}

denials() { # of the last of the audit log: what SELinux kept from RDMA devices
    tail -c 400000 "$root/var/log/audit/audit.log" 2>/dev/null |
        grep -E 'avc: +denied .*(infiniband|rdma)' | tail -n 20
}

gpu_lines() { # gpu_lines FILE...: of the long answer of nvidia-smi -q the sections that count
    content=$(sed -n -e '/^Driver Version/p' -e '/^Attached GPUs/p' -e '/^GPU [0-9A-Fa-f]/p' -e '/^    Product /p' \
        -e '/^    Persistence Mode/p' -e '/^    Addressing Mode/p' \
        -e '/^    PCI *$/p' -e '/^    MIG Mode/,/^        Pending/p' \
        -e '/^    GPU Virtualization Mode/,/^        Host VGPU/p' -e '/^        Device Id/p' \
        -e '/^    Conf Compute Protected Memory Usage/,/^        Total/p' \
        -e '/^    FB Memory Usage/,/^        Total/p' -e '/^    BAR1 Memory Usage/,/^        Total/p' \
        -e '/^    Fabric *$/,/^    [^ ]/p' -e '/^    GPU Reset Status *$/,/^        Drain/p' \
        -e '/^    GPU Recovery Action/p' -e '/^    Clocks [A-Z][a-z]* Reasons *$/,/^        SW Thermal/p' \
        -e '/^    ECC Errors *$/,/^    Temperature/p' -e '/^Unable /p' -e '/^Failed /p' -e '/^No devices/p' "$@")
}

nvidia_answers() { # what nvidia-smi says; one hang is enough
    # Where the driver is not loaded its setuid helper would load it, and we change nothing.
    if [ ! -e "$root/proc/driver/nvidia/version" ]; then
        for key in nvidia-smi nvidia-topology nvidia-smi-q; do frame $key absent 'nvidia-smi, which would load the driver'; done
        return
    fi
    # Where a pod brings the driver, the tool lies beside it, and only root may enter.
    smi=nvidia-smi
    if ! seek nvidia-smi && [ -x "$root/run/nvidia/driver/usr/bin/nvidia-smi" ] &&
        seek chroot && "$where" /run/nvidia/driver true 2>/dev/null; then smi='chroot /run/nvidia/driver nvidia-smi'; fi
    # shellcheck disable=SC2086 # two words or three
    cmd nvidia-smi 10 $smi --query-gpu=pci.bus_id,name,driver_version,memory.total,persistence_mode --format=csv,noheader
    # shellcheck disable=SC2086
    if [ -n "$status" ]; then cmd nvidia-topology 10 $smi topo -m
    else frame nvidia-topology timeout 'nvidia-smi topo -m'; fi # one hang is enough
    # shellcheck disable=SC2086
    if [ -n "$status" ]; then sift gpu_lines nvidia-smi-q 15 $smi -q # the dear one
    else frame nvidia-smi-q timeout 'nvidia-smi -q'; fi
}

probe_fabric() {
    give rdma-gids '/sys/class/infiniband/*/ports/*/gids' gids
    give net-devices /sys/class/net net_devices
    give roce-ecn '/sys/class/net/*/ecn' lines /sys/class/net '' '*/ecn/roce_np/enable/*' '*/ecn/roce_rp/enable/*'
    running
    cd / || return
    give daemons '/proc/*/comm' daemons
    give imex-channels /dev/nvidia-caps-imex-channels paths '/dev/nvidia-caps-imex-channels/channel[0-9]'
    give container-marks 'marks of a container' paths /.dockerenv /run/.containerenv /run/systemd/container
    short selinux /sys/fs/selinux/enforce
    audit=/var/log/audit/audit.log
    if [ -r "$root$audit" ]; then take selinux-denials $audit denials
    elif [ -e "$root$audit" ]; then frame selinux-denials denied $audit
    elif [ -d "$root${audit%/*}" ] && [ ! -x "$root${audit%/*}" ]; then frame selinux-denials denied $audit
    else frame selinux-denials absent $audit; fi
    cmd virt 5 systemd-detect-virt
    cmd fabricmanager-version 5 nv-fabricmanager --version
    # It asks the kernel by netlink, which would load ib_core for that; and we change nothing.
    if [ -d "$root/sys/class/infiniband" ]; then cmd ibv-devinfo 10 ibv_devinfo
    else frame ibv-devinfo absent 'ibv_devinfo, which would load ib_core'; fi
    priorities
}
