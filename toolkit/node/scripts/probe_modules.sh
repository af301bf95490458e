# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: kernel modules as loaded, on disk and configured; the driver; DKMS sources;
# what the kernel says of them.

info() { # info FIELDS MODULE...: adds of what modinfo says of each the lines of these fields
    fields=" $1 "
    shift
    seek modinfo || return
    said=$("$where" -k "$release" "$@" 2>/dev/null)
    if told_apart "$@"; then content=$content$told; return; fi
    for module; do
        said=$("$where" -k "$release" "$module" 2>/dev/null)
        told_apart "$module"
        content=$content$told
    done
}

told_apart() { # told_apart MODULE...: sets told to who was told what; false where it is not plain
    told='' plain=1 alone=''
    if [ $# -eq 1 ]; then alone=1; fi # it may have another name on disk
    by_line
    for line in $said; do
        case $line in
            filename:*)
                until [ $# -eq 0 ] || [ -n "$alone" ] || same_module "$1" "$line"; do
                    told=$told@${1#"$root"}$nl
                    shift
                done
                if [ $# -gt 0 ]; then told=$told@${1#"$root"}$nl && shift
                elif [ -z "$alone" ]; then plain=''; fi
                ;;
        esac
        case $fields in *" ${line%%:*} "*) ;; *) continue ;; esac
        # Asked for a file of an image, modinfo names it as it was asked.
        case $root$line in /*"filename:"*"$root/"*) line=${line%%"$root/"*}/${line#*"$root/"} ;; esac
        told=$told$line$nl
    done
    for module; do told=$told@${module#"$root"}$nl; done
    by_word
    [ -n "$plain" ]
}

same_module() { # same_module NAME-OR-FILE LINE: whether that line of modinfo names its file
    asked=${1##*/} named=${2##*/}
    asked=${asked%%.ko*}- named=${named%%.ko*}-
    while [ "${asked%%[-_]*}" = "${named%%[-_]*}" ]; do # one and the same in a module's name
        asked=${asked#*[-_]} named=${named#*[-_]}
        if [ -z "$asked$named" ]; then return; fi
    done
    false
}

module_state() {
    files='' held=''
    for module in nvidia nvidia_uvm nvidia_peermem nv_peer_mem efa_nv_peermem mlx5_core mlx5_ib \
        ib_core ib_uverbs ib_umad rdma_cm; do
        [ -d "$root/sys/module/$module" ] || continue
        held="$held $module"
        files="$files $module/version $module/srcversion $module/initstate $module/refcnt $module/taint"
    done
    # What OFED leaves empty under these names has a version, and rests on none of the above.
    for module in 9pnet_rdma efa hfi1 ib_iser ib_isert ib_mthca ib_qib ib_srp ib_srpt ib_ucm irdma iw_cxgb4 \
        mana_ib mlx4_ib nvme_rdma nvmet_rdma ocrdma qedr rdma_rxe rdmavt rds_rdma rpcrdma smc smc_diag svcrdma \
        usnic_verbs xprtrdma; do
        [ -e "$root/sys/module/$module/version" ] || continue
        held="$held $module"
        files="$files $module/version $module/initstate $module/taint"
    done
    lines /sys/module '' "$files"
    said=$content content=''
    for module in $held; do
        pick "$module/" "$said"
        for holder in "$root/sys/module/$module/holders"/*; do
            if [ -e "$holder" ]; then add "$module/holder:${holder##*/}"; fi
        done
        note=$root/sys/module/$module/notes/.note.gnu.build-id
        if [ -r "$note" ] && [ ! -e "$root/sys/module/$module/srcversion" ]; then build_of "$module/build:" "$note" 0; fi
    done
}

build_of() { # build_of LEAD FILE OFFSET: adds behind LEAD the note with the build id that is there
    # shellcheck disable=SC2046 # three lines of bytes
    set -- "$1" $(od -A n -v -t x1 -j "$3" -N 36 "$2" 2>/dev/null)
    case "$*" in *' 47 4e 55 00 '*) add "$*" ;; esac
}

stack_info() { # what modinfo says of the RDMA modules; where one tells no srcversion, its build id
    info "$identity intree" mlx5_core mlx5_ib ib_core ib_uverbs rdma_cm
    told=$content content='' name='' file=''
    by_line
    for line in $told @; do
        case $line in
            @*)
                by_word
                # The first section of a module is its build id, as the linker puts it.
                case $file in *.ko) if [ -n "$name" ]; then build_of "$name:" "$file" 64; fi ;; esac
                by_line
                name=${line#@} file=''
                ;;
            filename:*) file=$root/${line#*/} ;;
            srcversion:*) name='' ;;
        esac
    done
    by_word
    content=$told${content:+@build-ids$nl$content}
}

symbols() { # who exports the peer-memory interface, and which driver takes dma-buf, live
    content=$(grep -E ' (ib_register_peer_memory_client|nvidia_p2p_get_pages|ib_umem_dmabuf_get|p2pdma_pgmap_ops|[a-z_]+_v[0-9]+_register_nvfs_dma_ops|[a-z0-9_]+_reg_user_mr_dmabuf)([[:space:]]|$)' \
        "$root/proc/kallsyms")
}

symvers() { # and on disk
    for found in "$root/lib/modules/$release/build/Module.symvers" \
        "$root"/usr/src/ofa_kernel/Module.symvers "$root"/usr/src/ofa_kernel/*/Module.symvers \
        "$root"/usr/src/ofa_kernel/*/*/Module.symvers; do
        [ -r "$found" ] || continue
        add "@${found#"$root"}"
        add "$(grep -E '[[:space:]]ib_(un)?register_peer_memory_client[[:space:]]' "$found")"
    done
}

modules_load() {
    lines / '' 'etc/modules-load.d/*.conf' 'run/modules-load.d/*.conf' \
        'usr/local/lib/modules-load.d/*.conf' 'usr/lib/modules-load.d/*.conf'
    said=$content content=''
    for dir in etc run usr/local/lib usr/lib; do
        for found in "$root/$dir"/modules-load.d/*.conf; do # an empty one hides others
            if [ -L "$found" ] || [ -e "$found" ]; then add "/$dir/modules-load.d/${found##*/}:"; fi
        done
        pick "$dir/" "$said" /
    done
}

on_files() { # on_files FILES COMMAND...: COMMAND with the files, one a line, behind its words
    these=$1
    shift
    by_line
    # shellcheck disable=SC2086 # by lines: where an image lies may have blanks
    set -- "$@" $these
    by_word
    "$@"
}

peermem_files() { # as the list of all kernels has them, one a line
    for found in $peermem_list; do
        case $found in "/lib/modules/$release/"*) echo "$root$found" ;; esac
    done
}

modprobe_config() {
    content=$("$where" -c 2>/dev/null | grep -E '^(blacklist|install|remove|options|softdep) ')
}

choose() { # choose MODULE: sets chosen to the file that modprobe would take for it
    chosen=''
    seek modprobe || return
    by_line
    for line in $("$where" --show-depends "$1" 2>/dev/null); do
        case $line in 'insmod '*) chosen=${line#insmod } chosen=${chosen%% *} ;; esac
    done
    by_word
}

kernel_log() { # kernel_log FILE...: of a log that may have a megabyte the lines that may concern us
    telling='nvidia|nvrm|nouveau|peer|p2p|mlx|infiniband|rdma|uverbs|[^a-z]ib_|irdma|bnxt_re|[^a-z]efa|hfi1|gdrdrv|nvme|vfio|iommu|dmar|amd-vi|smmu|acs|[^a-z]aer|numa|bandwidth|no space|refus|fail|error|unable|cannot|not support|unknown|invalid|denied|disagrees|taint|signature|x[.]509|integrity|secure ?boot|lock.?down|module|linux version|command line|hypervisor|paravirt|dmi:|dma-?buf|mmio|assigned|can.t claim|not cpu addressable'
    telling="^[^[<]|$telling" # what does not look like the log's own is said of it
    if command -v awk >/dev/null; then content=$(last_telling "$@")
    else content=$(grep -ahiE -e "$telling" -- "$@" | tail -n 2000); fi
}

last_telling() { # of the lines that match the newest, and the last line, so that no log seems empty
    exec awk -v telling="$telling" '
        tolower($0) ~ telling { kept[n++ % 2000] = $0; last = ""; next }
        $0 != "" { last = $0 }
        END {
            if (last != "") kept[n++ % 2000] = last
            for (i = n > 2000 ? n - 2000 : 0; i < n; i++) print kept[i % 2000]
        }' "$@"
}

load_order() { # the frames: when modules were loaded at boot, and when what starts jobs began
    content=''
    paths '/etc/systemd/system/*.wants/slurmd.service' '/etc/systemd/system/*.wants/kubelet.service'
    if [ -z "$content" ]; then
        for key in boot-order boot-order-log; do frame $key absent 'slurmd.service, kubelet.service'; done
        return
    fi
    cmd boot-order 5 systemctl show -p Id -p LoadState -p ActiveState -p Result -p InactiveExitTimestampMonotonic \
        -p ActiveEnterTimestampMonotonic systemd-modules-load.service gdr-toolkit-peermem.service slurmd.service kubelet.service
    cmd boot-order-log 5 journalctl -q --no-pager --no-hostname -b -t systemd-modules-load -n 200 -o short-monotonic
}

probe_modules() {
    file modules /proc/modules
    give module-state /sys/module module_state
    short nvidia-version /proc/driver/nvidia/version
    short nvidia-params /proc/driver/nvidia/params
    if [ -r "$root/proc/kallsyms" ]; then give kallsyms /proc/kallsyms symbols; else frame kallsyms absent /proc/kallsyms; fi
    give symvers '/usr/src/ofa_kernel, /lib/modules/*/build' symvers
    give dkms-fragments /etc/dkms lines /etc/dkms '' '*.conf' 'framework.conf.d/*.conf'
    give dkms-confs '/usr/src/nvidia-*/dkms.conf' lines /usr/src \
        '(^|:)(PACKAGE|BUILT_MODULE_NAME|BUILD_DEPENDS|AUTOINSTALL)|NV_VERSION_STRING=' \
        'nvidia-*/dkms.conf' 'nvidia-*/Kbuild' 'nvidia-*/kernel-open/Kbuild'
    give sources /usr/src paths '/usr/src/ofa_kernel' '/usr/src/ofa_kernel/*' '/usr/src/ofa_kernel/*/*' '/usr/src/nvidia-*[0-9]' '/usr/src/mlnx-of*'
    give modprobe-files /etc/modprobe.d lines /etc/modprobe.d '' '*.conf'
    give modules-load 'modules-load.d' modules_load
    short etc-modules /etc/modules
    give peermem-files "/lib/modules/$release" pick "/lib/modules/$release/" "$peermem_list"
    give legacy 'files of nvidia-peer-memory' paths /etc/init.d/nv_peer_mem '/usr/src/nvidia-peer-memory-*' /var/lib/dkms/nvidia-peer-memory
}
