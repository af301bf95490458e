# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: who would use GPUDirect: NCCL, UCX, MPI, and their settings.

libraries() { # in their usual places alone: nothing is searched for, no library is read
    set --
    for folder in /usr/lib /usr/lib64 '/usr/lib/*-linux-gnu' /usr/local/lib /usr/local/lib64 \
        '/usr/local/cuda*/lib64' '/usr/local/nccl*/lib' '/opt/nccl*/lib' '/opt/nccl*/build/lib' \
        '/opt/nvidia/hpc_sdk/Linux_*/*/comm_libs/*/lib' '/usr/local/nvshmem*/lib' '/opt/nvshmem*/lib' \
        '/usr/lib/*-linux-gnu/nvshmem/*' '/opt/hpcx*/*/lib' '/opt/amazon/ofi-nccl/lib*' /opt/aws-ofi-nccl/lib ${more_folders-}; do
        set -- "$@" "$folder/libnccl.so*" "$folder/libnccl-net*.so*" "$folder/libnvshmem_host.so*" "$folder/libucp.so.0"
    done
    # A wheel's library has no version in its name, its metadata has.
    for folder in '/usr/lib/python3*' '/usr/lib*/python3.*' '/usr/local/lib*/python3*' \
        '/opt/conda/lib/python3*' '/opt/*/lib/python3*'; do
        set -- "$@" "$folder/*-packages/nvidia_nccl_cu*.dist-info" "$folder/*-packages/nvidia_nvshmem_cu*.dist-info" \
            "$folder/*-packages/libucx_cu*.dist-info" "$folder/*-packages/nixl_cu*.dist-info"
    done
    paths "$@"
}

has() { # has WORD FILE: sets held to whether the file, binary or not, holds the word
    grep -q "$1" "$2" 2>/dev/null
    case $? in 0) held=yes ;; 1) held=no ;; *) held=unreadable ;; esac
}

verbs_libraries() { # each libibverbs, and whether it can register dma-buf memory
    for found in "$root"/usr/lib/libibverbs.so.1 "$root"/usr/lib64/libibverbs.so.1 \
        "$root"/usr/lib/*-linux-gnu/libibverbs.so.1 "$root"/usr/local/lib*/libibverbs.so.1; do
        [ -f "$found" ] || continue # a pipe would never end
        has ibv_reg_dmabuf_mr "$found"
        add "${found#"$root"} $held"
    done
}

perftest() { # what it was built with: the calls of CUDA's library that its binary names
    path=${where#"$root"}
    add "path ${path#"${GDR_BIN-}"}" # a simulated node's commands lie beside its tree
    has cuMemAlloc "$where"
    add "cuda $held"
    has cuMemGetHandleForAddressRange "$where"
    add "dmabuf $held"
}

probe_consumers() {
    give memory-peers /sys/kernel/mm/memory_peers paths '/sys/kernel/mm/memory_peers/*/version'
    give libraries 'libraries in their usual places' libraries
    give verbs-libraries libibverbs.so.1 verbs_libraries
    if need ib_write_bw perftest; then give perftest ib_write_bw perftest; fi
    short nccl-conf /etc/nccl.conf
    give nccl-topology /var/run/nvidia-topologyd paths /var/run/nvidia-topologyd/virtualTopology.xml
    # Of everybody; those of one job or user are not ours to read.
    give consumer-settings '/etc/environment, /etc/profile.d' lines /etc \
        '^[[:space:]]*(export[[:space:]]+)?(NCCL|UCX|NVSHMEM|FI|MV2|MVP|OMPI_MCA)_[A-Za-z0-9_]+=' environment 'profile.d/*.sh'
    cmd ucx-info 5 ucx_info -v
}
