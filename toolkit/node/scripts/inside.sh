# shellcheck shell=sh disable=SC2154,SC2317 # frames.sh and probe_consumers.sh stand above
# What runs the job, read from within it: the container's own libraries, devices, limits, settings.
#
# Writes nothing, and needs no more than a shell: where a command is lacking, less is told. With
# GDR_ROOT the same is read from outside, of files below that folder.

straight() { # straight PATH: no part of it is a link, which from outside leads to files of the node's own
    [ -n "$root" ] || return 0
    part=$1
    while [ -n "$part" ]; do
        [ ! -L "$root$part" ] || return 1
        part=${part%/*}
    done
}

copy() { # copy KEY PATH...: the first that is there
    copy_key=$1
    shift
    for found; do
        if [ -e "$root$found" ] && straight "$found"; then
            short "$copy_key" "$found"
            return
        fi
    done
    frame "$copy_key" absent "$found"
}

process() { # of the first process, which the job descends from, or is
    content=''
    # With the host's process numbers that one is of another container, or of none.
    if [ -z "$root" ] && [ "$(readlink /proc/1/ns/mnt 2>/dev/null)" != "$(readlink /proc/self/ns/mnt 2>/dev/null)" ]; then
        leader=/proc/self
    fi
    [ -r "$root$leader/status" ] || [ -n "$root" ] || leader=/proc/self
    told="process:$leader$nl"
    for part in status limits uid_map; do
        content=''
        [ -r "$root$leader/$part" ] && slurp "$root$leader/$part"
        said=$content content=''
        case $part in
            status) pick Uid: "$said" && pick CapEff: "$said" ;;
            limits) pick 'Max locked memory' "$said" ;;
            uid_map) pick ' ' "$said" uid_map: ;;
        esac
        told=$told$content
    done
    content=$told
}

shared_memory() { # its mount, whose options have the size
    [ -r "$root$leader/mounts" ] || return 0
    slurp "$root$leader/mounts"
    said=$content content=''
    by_line
    for line in $said; do
        case $line in *' /dev/shm '*) add "$line" ;; esac
    done
    by_word
}

opened() { # opened: each uverbs device, and whether it may be opened: its node may be there in vain
    for found in "$root"/dev/infiniband/uverbs*; do
        [ -e "$found" ] || continue
        if [ -n "$root" ]; then add "${found#"$root"} not tried"
        elif why=$({ : <"$found"; } 2>&1); then add "$found ok"
        else add "$found ${why##*: }"; fi
    done
}

variables() { # sets variables to all that are told: of the first process, then of ours
    variables='' content=''
    if [ -r "$root$leader/environ" ] && command -v tr >/dev/null; then
        variables=$(tr '\000' '\n' <"$root$leader/environ" 2>/dev/null)
    fi
    if [ -z "$root" ] && command -v env >/dev/null; then variables=$variables$nl$(env); fi
    by_line
    for line in $variables; do # what a folder of libraries is called is needed here
        case $line in
            LD_LIBRARY_PATH=*) more_folders=${line#*=} ;;
            HOME=*) home=${line#*=} ;;
            NCCL_CONF_FILE=?*) user_conf=${line#*=} ;;
        esac
    done
    by_word
    for name in LD_LIBRARY_PATH LD_PRELOAD NVIDIA_ RDMAV_ IBV_ NCCL_CONF_FILE; do
        pick "$name" "$variables"
    done
}

folders() { # sets more_folders to those that the loader is told of
    IFS=:
    # shellcheck disable=SC2086 # apart by colons, as it reads them
    set -- $more_folders
    by_word
    more_folders=$*
    for found in "$root"/etc/ld.so.conf "$root"/etc/ld.so.conf.d/*.conf; do
        if ! [ -r "$found" ] || ! straight "${found#"$root"}"; then continue; fi
        slurp "$found"
        by_line
        for line in $content; do
            case $line in /*) more_folders="$more_folders $line" ;; esac
        done
        by_word
    done
}

settings() { # what NCCL, UCX and NVSHMEM read, the last of a name counts
    : "${user_conf:=${home:-/root}/.nccl.conf}"
    if [ -r "$root$user_conf" ] && straight "$user_conf"; then
        slurp "$root$user_conf"
        said=$content content=''
        by_line
        for line in $said; do add "$user_conf:$line"; done
        by_word
    fi
    for name in NCCL_ UCX_ NVSHMEM_ FI_ OMPI_MCA_ MV2_ MVP_; do
        pick "$name" "$variables" 'its environment:'
    done
}

named_files() { # the files that settings name, and whether they are there
    content=''
    if [ -r "$root/etc/nccl.conf" ] && straight /etc/nccl.conf; then slurp "$root/etc/nccl.conf"; fi
    said="$content$nl$(settings_again)" content=''
    by_line
    for line in $said; do
        line=${line#"its environment:"}
        case $line in
            *NCCL_TOPO_FILE=/* | *NCCL_GRAPH_FILE=/* | *NCCL_CONF_FILE=/* | *NCCL_NET_PLUGIN=/*)
                named=${line#*=}
                if [ -e "$root$named" ]; then add "${line%%=*} $named yes"; else add "${line%%=*} $named no"; fi
                ;;
        esac
    done
    by_word
}

settings_again() {
    content=''
    settings
    printf '%s' "$content"
}

drivers() { # which providers libibverbs is told of
    for found in "$root"/etc/libibverbs.d/*.driver; do
        if ! [ -r "$found" ] || ! straight "${found#"$root"}"; then continue; fi
        slurp "$found"
        said=$content content=$held_lines
        pick 'driver' "$said" "${found#"$root"}:"
        held_lines=$content
    done
    content=$held_lines
}

in_folders() { # in_folders NAME...: of each folder in which libraries lie
    for folder in /usr/lib /usr/lib64 /lib64 '/usr/lib/*-linux-gnu' /usr/local/lib /usr/local/lib64 $more_folders; do
        for name; do paths "$folder/$name"; done
    done
}

providers() { # with each number of their private interface, and whether a libibverbs looks for it
    in_folders 'libibverbs.so.1' 'libibverbs/lib*-rdmav*.so' 'lib*-rdmav*.so'
    numbers='' libraries=''
    by_line
    for line in $content; do
        number=${line##*-rdmav}
        number=${number%%.so*}
        case $line in
            */libibverbs.so.1*' -> /'* | */libibverbs.so.1*' -> '*..*)
                # From outside it leads to the node's own.
                [ -n "$root" ] || libraries="$libraries ${line%% -> *}"
                ;;
            */libibverbs.so.1*) libraries="$libraries ${line%% -> *}" ;;
            *) case $number in *[!0-9]*) ;; *) numbers="$numbers $number" ;; esac ;;
        esac
    done
    by_word
    for number in $numbers; do
        for found in $libraries; do
            if ! [ -f "$root$found" ] || ! straight "${found%/*}"; then continue; fi
            case $content in *"$nl$found takes $number "*) continue ;; esac
            has "rdmav${number}[.]so" "$root$found"
            add "$found takes $number $held"
        done
    done
}

cuda() {
    in_folders libcuda.so.1
    paths '/usr/local/cuda*/compat/libcuda.so.1' '/usr/local/cuda*/*/stubs/libcuda.so' '/usr/local/cuda*/targets/*/lib/stubs/libcuda.so'
}

mlx5() { # each libmlx5, and whether it has the call by which NCCL asks for data-direct
    for folder in /usr/lib /usr/lib64 '/usr/lib/*-linux-gnu' /usr/local/lib* $more_folders; do
        for found in "$root"$folder/libmlx5.so.1; do
            [ -f "$found" ] || continue
            has mlx5dv_get_data_direct_sysfs_path "$found"
            add "${found#"$root"} $held"
        done
    done
}

ucx() { # its own words; under another root no command of it counts
    if ! seek ucx_info; then frame ucx-info absent 'ucx_info -v'
    elif content=$("$where" -v 2>&1 </dev/null); then tell ucx-info 'ucx_info -v'
    else
        frame ucx-info "failed:$?" 'ucx_info -v'
        bars "$content"
    fi
}

inside() {
    # shellcheck disable=SC2034 # begin_frames reads it
    writes_nothing=yes
    begin_frames
    leader=/proc/1 held_lines='' more_folders='' home='' user_conf=''
    short boot-id /proc/sys/kernel/random/boot_id
    copy os-release /etc/os-release /usr/lib/os-release
    give process /proc/PID process
    give shm /proc/PID/mounts shared_memory
    give environment /proc/PID/environ variables
    folders
    give rdma-nodes /dev/infiniband paths '/dev/infiniband/*'
    give rdma-open /dev/infiniband opened
    give rdma-devices /sys/class/infiniband paths '/sys/class/infiniband/*'
    give gpu-nodes /dev paths '/dev/nvidia[0-9]*' /dev/nvidiactl /dev/nvidia-uvm
    give providers 'libibverbs and its providers' providers
    give drivers /etc/libibverbs.d drivers
    give mlx5-libraries libmlx5.so.1 mlx5
    give cuda-libraries libcuda.so.1 cuda
    give libraries 'libraries in their usual places' libraries
    give verbs-libraries libibverbs.so.1 verbs_libraries
    if need ib_write_bw perftest; then give perftest ib_write_bw perftest; fi
    copy nccl-conf /etc/nccl.conf
    give nccl-topology /var/run/nvidia-topologyd paths /var/run/nvidia-topologyd/virtualTopology.xml
    give consumer-settings 'its environment, .nccl.conf' settings
    give named-files 'files that settings name' named_files
    ucx
    end_frames
}

inside
