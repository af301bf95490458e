# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe where it was asked for: what runs the job, looked at from within.
#
# inside.py of toolkit/node puts before it inside_program, which prints the script that runs there,
# $inside_kind and $inside_name. All that comes from there stands below "inside/": whatever a
# container says, it is no word of the node's.

enter() { # enter COMMAND...: in it, as whoever it runs as
    ulimit -f 16384 # it may say anything without end, into a file of ours
    case $inside_kind in
        docker | podman) exec "$where" exec -i "$inside_name" "$@" ;;
        enroot) exec "$where" exec "$inside_pid" "$@" ;;
        chroot) exec "$where" "$root$inside_name" "$@" ;;
    esac
}

enroot_pid() { # sets inside_pid: of a process in the container, as enroot itself tells it by mounts
    inside_pid=$inside_name
    case $inside_name in *[!0-9]*) inside_pid='' ;; *) return ;; esac
    for pid in $(lsns -n -r -t mnt -o pid 2>/dev/null); do
        told=$(awk '$5 == "/" { print $4; exit }' "/proc/$pid/mountinfo" 2>/dev/null)
        if [ "${told##*/}" = "$inside_name" ]; then inside_pid=$pid && break; fi
    done
}

others() { # what there is, one a line
    case $inside_kind in
        docker | podman) "$where" ps --format '{{.Names}}' ;;
        enroot) "$where" list -f ;;
        chroot) ls -d "$root${inside_name%/*}"/*/ ;;
    esac 2>/dev/null </dev/null | head -n 40
}

folder_of() { # sets below to where root sees its files; false where nothing is seen of it
    below='' pid=''
    case $inside_kind in
        docker | podman) pid=$("$where" inspect -f '{{.State.Pid}}' "$inside_name" 2>/dev/null </dev/null) ;;
        enroot) pid=$inside_pid ;;
        chroot) below=$root$inside_name ;;
    esac
    case $pid in
        '' | 0 | *[!0-9]*) ;;
        *) below=/proc/$pid/root ;;
    esac
    [ -n "$below" ] && [ -d "$below/" ]
}

frames_inside() { # passes on what was read there, below its own name
    sed -n -e '/^= begin ok gdr-toolkit\/1$/,$ {' -e '/^= begin /d' -e '/^= end /d' -e '/^= cut /d' \
        -e 's/^= /= inside\//p' -e '/^|/p' -e '}' "$job" >"$job.frames"
    many=$(grep -c '^= ' "$job.frames")
    whole=no
    if grep -q "^= end ok $many\$" "$job"; then whole=yes; fi
    cat "$job.frames"
    count=$((count + many))
}

read_inside() { # read_inside: the frames; false where it could not be entered, or has no shell
    way=entered
    inside_program | enter sh -s >"$job" 2>"$job.err" &
    await $! 60
    entered=$status
    if ! grep -q '^= begin ok gdr-toolkit/1$' "$job" && folder_of; then
        way=outside
        inside_program | GDR_ROOT=$below GDR_BIN=/ sh -s >"$job" 2>/dev/null &
        await $! 60
    fi
    grep -q '^= begin ok gdr-toolkit/1$' "$job"
}

register_inside() { # the frame: by its own Python, its own libibverbs and its own libcuda
    frame_key=inside/registration
    register_program | enter python3 -ISB - "$verbs_library" >"$job" 2>"$job.err" &
    await $! 240
    content=''
    slurp "$job"
    case $status in
        '') frame $frame_key timeout 'python3 register.py' ;;
        0) frame $frame_key ok 'python3 register.py' ;;
        126 | 127)
            frame $frame_key absent python3
            content=''
            ;;
        *)
            whole "$job" "$job.err"
            frame $frame_key "failed:$status" 'python3 register.py'
            ;;
    esac
    bars "$content"
}

probe_inside() {
    job=$scratch/inside
    if [ -z "$scratch" ]; then frame inside failed:28 "$inside_kind"; return; fi # ENOSPC
    if ! seek "$inside_kind"; then frame inside absent "$inside_kind"; return; fi
    if [ "$inside_kind" = enroot ]; then enroot_pid; fi
    if read_inside; then
        frames_inside
        frame inside ok "$inside_kind $inside_name"
        bars "kind $inside_kind${nl}name $inside_name${nl}way $way${nl}whole $whole"
        if command -v register_program >/dev/null; then register_inside; fi
        return
    fi
    whole "$job" "$job.err"
    frame inside "failed:${entered:-124}" "$inside_kind $inside_name"
    bars "$content"
    take inside/others "$inside_kind" others
}
