# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: kernel modules as loaded, on disk and configured; the driver; DKMS sources;
# what the kernel says of them.

module_state() {
    for module in nvidia nvidia_uvm nvidia_peermem nv_peer_mem efa_nv_peermem mlx5_core mlx5_ib \
        ib_core ib_uverbs ib_umad rdma_cm; do
        [ -d "$root/sys/module/$module" ] || continue
        from /sys/module "$module/version" "$module/srcversion" "$module/initstate" "$module/refcnt"
        for holder in "$root/sys/module/$module/holders"/*; do
            [ -e "$holder" ] && echo "$module/holder:${holder##*/}"
        done
    done
}

symbols() { # who exports the peer-memory interface, live
    grep -E ' (ib_register_peer_memory_client|nvidia_p2p_get_pages|ib_umem_dmabuf_get|p2pdma_pgmap_ops|[a-z_]+_v[0-9]+_register_nvfs_dma_ops)([[:space:]]|$)' \
        "$root/proc/kallsyms"
}

symvers() { # and on disk
    for found in "$root/lib/modules/$release/build/Module.symvers" \
        "$root"/usr/src/ofa_kernel/Module.symvers "$root"/usr/src/ofa_kernel/*/Module.symvers \
        "$root"/usr/src/ofa_kernel/*/*/Module.symvers; do
        [ -r "$found" ] || continue
        echo "@${found#"$root"}"
        grep -E '[[:space:]]ib_(un)?register_peer_memory_client[[:space:]]' "$found"
    done
}

dkms_confs() {
    from /usr/src 'nvidia-*/dkms.conf' | grep -E ':(PACKAGE|BUILT_MODULE_NAME|BUILD_DEPENDS|AUTOINSTALL)'
}

modules_load() {
    for dir in /etc /run /usr/local/lib /usr/lib; do
        names "$dir/modules-load.d/*.conf" | sed 's/ -> .*//; s/$/:/' # an empty one hides others
        from "$dir" 'modules-load.d/*.conf' | sed "s|^|$dir/|"
    done
}

peermem_files() { find "$root/lib/modules/$release" -name '*peer*mem*.ko*' 2>/dev/null; }

unrooted() { "$@" | sed "s|^$root||"; }

modprobe_config() { "$(locate modprobe)" -c 2>/dev/null | grep -E '^(blacklist|install|remove|options|softdep) '; }

chosen() { # chosen MODULE: the file that modprobe would take for it
    "$(locate modprobe)" --show-depends "$1" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p' | tail -n 1
}

kernel_log() { # the frame: of a log that may have a megabyte the lines that may concern us
    telling='^= |^[|][^[<]|nvidia|nvrm|nouveau|peer|p2p|mlx|infiniband|rdma|uverbs|[^a-z]ib_|irdma|bnxt_re|[^a-z]efa|hfi1|gdrdrv|nvme|vfio|iommu|dmar|amd-vi|smmu|acs|[^a-z]aer|numa|bandwidth|no space|refus|fail|error|unable|cannot|not support|unknown|invalid|denied|disagrees|taint|signature|x[.]509|integrity|secure ?boot|lock.?down|module|linux version|command line|hypervisor|paravirt|dmi:|dma-?buf|mmio|can.t claim|not cpu addressable'
    log=$(cmd dmesg 5 dmesg | lines_of "$telling")
    count=$((count + 1)) # cmd counted in the pipe's own shell
    printf '%s\n' "$log" | sed 1q
    printf '%s\n' "$log" | sed 1d | tail -n 2000
}

lines_of() { # lines_of PATTERN: those that match, and the last one, so that no log seems empty
    if [ -z "$has_awk" ]; then grep -aiE "$1"; return; fi
    awk -v telling="$1" 'tolower($0) ~ telling { print; last = ""; next } { last = $0 } END { if (last != "") print last }'
}

load_order() { # the frames: when modules were loaded at boot, and when what starts jobs began
    if [ -z "$(names '/etc/systemd/system/*.wants/slurmd.service' '/etc/systemd/system/*.wants/kubelet.service')" ]; then
        for key in boot-order boot-order-log; do frame $key absent 'slurmd.service, kubelet.service'; done
        return
    fi
    cmd boot-order 5 systemctl show -p Id -p LoadState -p ActiveState -p Result -p InactiveExitTimestampMonotonic \
        -p ActiveEnterTimestampMonotonic systemd-modules-load.service gdr-toolkit-peermem.service slurmd.service kubelet.service
    cmd boot-order-log 5 journalctl -q --no-pager --no-hostname -b -t systemd-modules-load -n 200 -o short-monotonic
}

probe_modules() {
    file modules /proc/modules
    take module-state /sys/module module_state
    file nvidia-version /proc/driver/nvidia/version
    file nvidia-params /proc/driver/nvidia/params
    if [ -r "$root/proc/kallsyms" ]; then take kallsyms /proc/kallsyms symbols; else frame kallsyms absent /proc/kallsyms; fi
    take symvers '/usr/src/ofa_kernel, /lib/modules/*/build' symvers
    take dkms-fragments /etc/dkms from /etc/dkms '*.conf' 'framework.conf.d/*.conf'
    take dkms-confs '/usr/src/nvidia-*/dkms.conf' dkms_confs
    take sources /usr/src names '/usr/src/ofa_kernel' '/usr/src/ofa_kernel/*' '/usr/src/ofa_kernel/*/*' '/usr/src/nvidia-*[0-9]' '/usr/src/mlnx-of*'
    take modprobe-files /etc/modprobe.d from /etc/modprobe.d '*.conf'
    take modules-load 'modules-load.d' modules_load
    file etc-modules /etc/modules
    take peermem-files "/lib/modules/$release" unrooted peermem_files
    take legacy 'files of nvidia-peer-memory' names /etc/init.d/nv_peer_mem '/usr/src/nvidia-peer-memory-*' /var/lib/dkms/nvidia-peer-memory
}
