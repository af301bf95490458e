# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: what stands beside: GDRCopy, GPUDirect Storage, containers.

gdrcopy() {
    from / sys/module/gdrdrv/version sys/module/gdrdrv/initstate proc/driver/gdrdrv/params
    if [ -e "$root/dev/gdrdrv" ]; then echo 'dev/gdrdrv:there'; fi
}

gds() {
    from / sys/module/nvidia_fs/version sys/module/nvidia_fs/initstate \
        proc/driver/nvidia-fs/version proc/driver/nvidia-fs/modules \
        sys/module/nvme_core/parameters/multipath
}

cufile() { # what decides the mode; the files have hundreds of lines of comment
    from / etc/cufile.json 'usr/local/cuda*/gds/cufile.json' |
        grep -E '^[^:]*:[[:space:]]*"(use_pci_p2pdma|allow_compat_mode|force_compat_mode)"'
}

companion_modules() {
    for module in gdrdrv nvidia-fs; do
        printf '@%s\n' "$module"
        "$(locate modinfo)" -k "$release" "$module" 2>/dev/null |
            grep -E '^(filename|version|license|srcversion|description|vermagic):'
    done
}

companion_files() { # by well-known places alone: nothing is searched for
    names '/opt/hpcx*' '/opt/*/hpcx*' '/usr/local/hpcx*' \
        '/usr/lib/*/nvshmem/*/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/usr/lib*/libnvshmem_host.so.[0-9]*.[0-9]*' '/usr/lib/*/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/usr/local/nvshmem*/lib/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/opt/nvshmem*/lib/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/usr/lib*/python3*/*-packages/deep_ep' '/usr/local/lib*/python3*/*-packages/deep_ep'
}

containers() { # runtimes with their limits, and what the operators' pods leave in /run
    for pair in containerd:/run/containerd/containerd.sock k3s:/run/k3s/containerd/containerd.sock \
        cri-o:/run/crio/crio.sock docker:/run/docker.sock; do
        if [ -e "$root${pair#*:}" ]; then echo "runtime:${pair%%:*}"; fi
    done
    from / sys/module/ib_core/parameters/netns_mode run/nvidia/validations/.driver-ctr-ready \
        run/nvidia/validations/driver-ready
    gpu=$root/run/nvidia/validations/.driver-ctr-ready hca=$root/run/mellanox/drivers/.driver-ready
    if [ -e "$hca" ]; then echo 'ofed:ready'; fi
    # Not in POSIX, and in each of the shells that we know.
    # shellcheck disable=SC3013
    if [ "$hca" -nt "$gpu" ] && [ -e "$gpu" ]; then echo 'ofed:newer'; fi
    if [ -e "$root/run/nvidia/driver/usr" ]; then echo 'driver-root:/run/nvidia/driver'; fi
    for found in $(cd "$root/proc" 2>/dev/null && grep -slxE 'containerd|crio|dockerd' [0-9]*/comm); do
        # A container gets the limits of its runtime, unless it is told otherwise.
        { read -r runtime <"$root/proc/$found"; } 2>/dev/null || continue # it may have ended
        limit=$(sed -n 's/^Max locked memory *\([a-z0-9]*\).*/\1/p' "$root/proc/${found%/comm}/limits" 2>/dev/null)
        if [ -n "$limit" ]; then echo "memlock/$runtime:$limit"; fi
    done
}

only() { # only PATTERN KEY SECONDS COMMAND...: of a long answer the lines that count
    pattern=$1
    shift
    cmd "$@" | grep -E "^= |^\|($pattern)"
    count=$((count + 1)) # cmd counted in the pipe's own shell
}

probe_companions() {
    take gdrcopy 'gdrdrv in /sys/module and /proc/driver' gdrcopy
    take gds 'nvidia_fs in /sys/module and /proc/driver, nvme_core' gds
    take cufile cufile.json cufile
    if need modinfo companion-modinfo; then take companion-modinfo 'modinfo gdrdrv nvidia-fs' companion_modules; fi
    take companion-files 'HPC-X, NVSHMEM and DeepEP in their usual places' companion_files
    take containers 'container runtimes, /run/nvidia, /run/mellanox' containers
    only 'path:prefix:|ompi:version:full:|mca:mpi:base:param:mpi_built_with_cuda_support:value:' \
        ompi-info 5 ompi_info --parsable --all
    only 'MVAPICH|Version|.*--enable-cuda|.*--with-cuda' mpiname 5 mpiname -a
    only '[0-9]+ GPUs? found|Error' dcgm 5 dcgmi discovery -l
}
