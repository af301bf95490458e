# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: what stands beside: GDRCopy, GPUDirect Storage, containers.

gdrcopy() {
    lines / '' sys/module/gdrdrv/version sys/module/gdrdrv/initstate proc/driver/gdrdrv/params
    if [ -e "$root/dev/gdrdrv" ]; then add 'dev/gdrdrv:there'; fi
}

companion_files() { # by well-known places alone: nothing is searched for
    paths '/opt/hpcx*' '/opt/*/hpcx*' '/usr/local/hpcx*' \
        '/usr/lib/*/nvshmem/*/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/usr/lib*/libnvshmem_host.so.[0-9]*.[0-9]*' '/usr/lib/*/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/usr/local/nvshmem*/lib/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/opt/nvshmem*/lib/libnvshmem_host.so.[0-9]*.[0-9]*' \
        '/usr/lib*/python3*/*-packages/deep_ep' '/usr/local/lib*/python3*/*-packages/deep_ep'
}

kubelet() { # adds whether it runs or is configured, and who brings IMEX to each job
    told=no kubelets=$root/var/lib/kubelet
    for found in "$kubelets/config.yaml" "$kubelets/kubeconfig" "$root/etc/kubernetes/kubelet.conf" \
        "$root/etc/kubernetes/kubelet/config.json" "$root/var/lib/rancher/k3s/agent" "$root/var/lib/rancher/rke2/agent"; do
        if [ -e "$found" ]; then told=yes; fi
    done
    for found in $running; do
        case ${found#*:} in kubelet | kubelite | k3s-server | k3s-agent) told=yes ;; esac
    done
    add "kubelet:$told"
    for found in "$kubelets"/plugins_registry/compute-domain.nvidia.com*-reg.sock; do
        if [ -e "$found" ]; then add 'imex:compute-domain' && break; fi
    done
    for found in "$root"/etc/systemd/system/nvidia-imex.service "$root"/run/systemd/system/nvidia-imex.service; do
        if [ -c "$found" ]; then add 'imex:masked'; fi # a link to /dev/null
    done
}

containers() { # runtimes with their limits, and what the operators' pods leave in /run
    for pair in containerd:/run/containerd/containerd.sock k3s:/run/k3s/containerd/containerd.sock \
        cri-o:/run/crio/crio.sock docker:/run/docker.sock; do
        if [ -e "$root${pair#*:}" ]; then add "runtime:${pair%%:*}"; fi
    done
    lines / '' sys/module/ib_core/parameters/netns_mode run/nvidia/validations/.driver-ctr-ready \
        run/nvidia/validations/driver-ready
    gpu=$root/run/nvidia/validations/.driver-ctr-ready hca=$root/run/mellanox/drivers/.driver-ready
    if [ -e "$hca" ]; then add 'ofed:ready'; fi
    # Not in POSIX, and in each of the shells that we know.
    # shellcheck disable=SC3013
    if [ "$hca" -nt "$gpu" ] && [ -e "$gpu" ]; then add 'ofed:newer'; fi
    if [ -e "$root/run/nvidia/driver/usr" ]; then add 'driver-root:/run/nvidia/driver'; fi
    kubelet
    lines / '^[[:space:]]*[Ss]witch[Tt]ype' etc/slurm/slurm.conf run/slurm/conf/slurm.conf var/spool/slurmd/conf-cache/slurm.conf
    for found in $running; do # a container gets the limits of its runtime, unless it is told otherwise
        case ${found#*:} in containerd | crio | dockerd) ;; *) continue ;; esac
        limit=$(sed -n 's/^Max locked memory *\([a-z0-9]*\).*/\1/p' "$root/proc/${found%%/*}/limits" 2>/dev/null)
        if [ -n "$limit" ]; then add "memlock/${found#*:}:$limit"; fi # it may have ended
    done
}

only() { # only PATTERN KEY SECONDS COMMAND...: of a long answer the lines that begin so
    begins="^($1)"
    shift
    sift only_those "$@"
}

# shellcheck disable=SC2034 # frames.sh tells what is in content
only_those() { content=$(grep -hE "$begins" "$@"); } # only_those FILE...

probe_companions() {
    give gdrcopy 'gdrdrv in /sys/module and /proc/driver' gdrcopy
    give gds 'nvidia_fs in /sys/module and /proc/driver, nvme_core' lines / '' sys/module/nvidia_fs/version \
        sys/module/nvidia_fs/initstate proc/driver/nvidia-fs/version proc/driver/nvidia-fs/modules \
        sys/module/nvme_core/parameters/multipath
    # What decides the mode; the files have hundreds of lines of comment.
    give cufile cufile.json lines / '^[[:space:]]*"(use_pci_p2pdma|allow_compat_mode|force_compat_mode)"' \
        etc/cufile.json 'usr/local/cuda*/gds/cufile.json'
    if need modinfo companion-modinfo; then
        give companion-modinfo 'modinfo gdrdrv nvidia-fs' \
            info 'filename version license srcversion description vermagic' gdrdrv nvidia-fs
    fi
    give companion-files 'HPC-X, NVSHMEM and DeepEP in their usual places' companion_files
    give containers 'container runtimes, /run/nvidia, /run/mellanox' containers
    only 'path:prefix:|ompi:version:full:|mca:mpi:base:param:mpi_built_with_cuda_support:value:' \
        ompi-info 5 ompi_info --parsable --all
    only 'MVAPICH|Version|.*--enable-cuda|.*--with-cuda' mpiname 5 mpiname -a
    only '[0-9]+ GPUs? found|Error' dcgm 5 dcgmi discovery -l
}
