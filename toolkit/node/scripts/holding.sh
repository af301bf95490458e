# shellcheck shell=sh disable=SC2154,SC2317 # frames.sh and routes.sh set what is used here
# What would suffer if modules were taken out, or the node went down: who has devices open, by
# which net devices sessions, routes and mounts go, what drives disks. A look of its own: the
# probe leaves it out, for a doctor has no use of it, and the files of all processes take time.
#
# The lists are short: only what may concern RDMA or a GPU, net devices of hardware, mounts of disks
# and of the network.

gpu_or_rdma='/dev/(infiniband/[a-z_]+[0-9]*|nvidia[a-z0-9-]*(/[a-z0-9-]+)?|gdrdrv)'

open_devices() { # PID/fd/N DEVICE, for each file that a process has open there
    # Each line of ls has its own path: a file named to look like a line can take nobody's place.
    # -n: no directory service is asked for names. Nothing is followed, so no dead server is waited for.
    (cd "$root/proc" 2>/dev/null && printf '%s\n' [0-9]*/fd/[0-9]* | xargs ls -ldn 2>/dev/null) |
        sed -nE "s;^.* ([0-9]+/fd/[0-9]+) -> ($gpu_or_rdma)( \\(deleted\\))?\$;\\1 \\2;p" |
        while read -r link device; do
            target=$(readlink "$root/proc/$link")
            if [ "${target% (deleted)}" = "$device" ]; then echo "$link $device"; fi
        done
}

users() { # "@PID", its status as the kernel escapes it, its control group, its devices
    last=''
    open_devices | sort -t / -k 1n | uniq | while read -r link device; do
        pid=${link%%/*}
        if [ "$pid" != "$last" ]; then
            echo "@$pid"
            grep -sE '^(Name|Uid|PPid):' "$root/proc/$pid/status"
            tail -n 1 "$root/proc/$pid/cgroup" 2>/dev/null | tr '\t' ' ' | sed 's/^/Cgroup:	/'
        fi
        last=$pid
        echo "Device:	$device"
    done | awk '!(/^Device:/ && seen[pid, $0]++) { print } /^@/ { pid = $0 }'
}

accounts() { # USER:UID of this machine's own file: a directory service may not answer
    cut -d : -f 1,3 "$root/etc/passwd" 2>/dev/null
}

above() { # above DIR: the drivers' modules of a device below /sys and of all that it hangs on
    at=$1
    while [ "${at#"$root/sys/"}" != "$at" ] && [ "$at" != "$root/sys/devices" ]; do
        if [ -e "$at/driver/module" ]; then
            module=$(readlink -f "$at/driver/module")
            echo "${module##*/}"
        elif [ -e "$at/driver" ]; then echo builtin; fi
        { read -r word <"$at/scsi_host/${at##*/}/proc_name" && echo "$word"; } 2>/dev/null
        for transport in "$at/transport" "$at"/nvme*/transport; do
            { read -r word <"$transport" && echo "nvme_$word"; } 2>/dev/null
        done
        at=${at%/*}
    done
    return 0
}

on_one_line() { sort -u | tr '\n' ',' | sed 's/,$//'; }

nets() { # NET TYPE MODULES LOWER, "-" for none: of hardware, or standing on other net devices
    for net in "$root"/sys/class/net/*; do
        lower=$(cd "$net" 2>/dev/null && for each in lower_*; do
            if [ -L "$each" ] || [ -e "$each" ]; then echo "${each#lower_}"; fi
        done | on_one_line)
        [ -e "$net/device" ] || [ -n "$lower" ] || continue
        type='' modules=''
        { read -r type <"$net/type"; } 2>/dev/null
        if [ -e "$net/device" ]; then modules=$(above "$(readlink -f "$net/device")" | on_one_line); fi
        echo "${net##*/} ${type:--} ${modules:--} ${lower:--}"
    done
}

mounts() { # TYPE MAJOR:MINOR POINT SOURCE OPTIONS: of disks and of the network, each source once;
    # of the network once for each way: an export may be mounted by TCP and, elsewhere, by RDMA.
    awk '{
        for (i = 7; i <= NF && $i != "-"; i++);
        type = $(i + 1); source = $(i + 2)
        network = type ~ /^(nfs|nfs4|cifs|smb3|ceph|lustre|beegfs|beegfs_nodev|gpfs|9p|afs|glusterfs|fuse\.(sshfs|glusterfs|ceph)|wekafs|pvfs2|orangefs)$/
        if ((network || source ~ /^\/dev\//) && !seen[type, source, network ? $(i + 3) : ""]++) print type, $3, $5, source, $(i + 3)
    }' "$root/proc/self/mountinfo"
    awk 'NR > 1 && $1 ~ /^\// { print "swap", "0:0", $1, $1, "-" }' "$root/proc/swaps" 2>/dev/null
}

disk() { # disk DIR: what drives a block device, and those that it stands on
    for slave in "$1"/slaves/*; do
        [ -e "$slave" ] || continue
        disk "$(readlink -f "$slave")"
    done
    case ${1##*/} in loop* | ram* | zram*) echo builtin ;; esac
    above "$1"
}

disks() { # MAJOR:MINOR SOURCE MODULES, "-" for none, of what is mounted from a block device
    printf '%s\n' "$mounted" | while read -r _ number _ source _; do
        case $source in /dev/*) ;; *) continue ;; esac
        at=$root/sys/dev/block/$number
        if [ ! -e "$at" ]; then # a file system with several disks has no number of its own
            real=$(readlink -f "$root$source")
            at=$root/sys/class/block/${real##*/}
        fi
        [ -e "$at" ] || continue
        modules=$(disk "$(readlink -f "$at")" | on_one_line)
        echo "$number $source ${modules:--}"
    done
}

remote_disks() { # by name: those that a server has, whether mounted or not
    from /sys/class/nvme '*/transport' '*/subsysnqn' '*/address' | grep -v ':pcie$'
    from /sys/class/scsi_host '*/proc_name'
    from /sys/class/iscsi_connection '*/address'
}

toward() { # toward ADDRESS: the net device that leads there; of a link-local one the zone tells
    case $1 in *%*) echo "${1#*%}"; return ;; esac
    "$(locate ip)" -o route get "$1" 2>/dev/null | sed -n 's/^.* dev \([^ ]*\).*/\1/p' | sed 1q
}

ways() { # KIND SUBJECT NET, "?" where nobody knows
    connection=$(if [ -z "$root" ]; then ssh_connection; else echo "${SSH_CONNECTION:-}"; fi)
    if [ -n "$connection" ]; then
        # shellcheck disable=SC2086 # four words
        set -- $connection
        net=$(holder_of "$3")
        echo "session $1 ${net:-?}"
        net=$(toward "$1")
        [ -z "$net" ] || echo "session $1 $net"
    fi
    {
        default_routes
        for family in -4 -6; do # each way of one with several
            "$(locate ip)" "$family" -o route show default 2>/dev/null | tr '\134' '\n' |
                sed -n 's/^.* dev \([^ ]*\).*/\1/p'
        done
    } | sort -u | sed 's/^/route default /'
    for server in $(servers | sort -u); do
        net=$(toward "$server")
        echo "server $server ${net:-?}"
    done
}

servers() { # the addresses of those whose file systems and disks are here
    printf '%s\n' "$mounted" | while read -r type _ _ source options; do
        case $type,$options in
            *,addr=*) options=,$options options=${options#*,addr=}; echo "${options%%,*}" ;;
            lustre,*) echo "${source%%@*}" ;;
        esac
    done
    printf '%s\n' "$remote" | sed -n 's/^.*traddr=\([^,]*\).*/\1/p; s;^connection[^/]*/address:;;p'
}

module_files() { # PATH, with "gone" behind it: of each module that is loaded, by modules.dep
    awk '
        FNR == NR { loaded[$1] = 1; next }
        { path = $1; sub(/:$/, "", path); name = path
          sub(/^.*\//, "", name); sub(/\.ko.*$/, "", name); gsub(/-/, "_", name)
          if (name in loaded || name ~ /^nvidia/) print path }
    ' "$root/proc/modules" "$root/lib/modules/$release/modules.dep" 2>/dev/null |
        while read -r path; do
            case $path in /*) ;; *) path=/lib/modules/$release/$path ;; esac
            if [ -e "$root$path" ]; then echo "$path"; else echo "$path gone"; fi
        done
}

guests() { # virtual functions that are lent to virtual machines
    (cd "$root/sys/bus/pci/devices" 2>/dev/null && for function in */physfn; do
        driver=$(readlink "${function%/physfn}/driver")
        case $driver in */vfio*) echo "${function%/physfn}" ;; esac
    done)
}

tools() { # tools KEY COMMAND...: without one of the commands say so for KEY, for nothing read is not "none"
    tools_key=$1
    shift
    for tool; do
        command -v "$tool" >/dev/null || { frame "$tools_key" absent "$tool"; return 1; }
    done
}

who() { # the frames that say who has devices open
    if tools users awk xargs ls sed grep readlink; then take users '/proc/*/fd' users; fi
    take accounts /etc/passwd accounts
}

occupied() {
    begin_frames
    take uid 'id -u' id -u
    who
    end_frames
}

look() { # the frames that say who depends on what
    file boot-id /proc/sys/kernel/random/boot_id
    release=$(cat "$root/proc/sys/kernel/osrelease" 2>/dev/null)
    file modules /proc/modules
    who
    take guests /sys/bus/pci/devices guests
    take nets '/sys/class/net/*' nets
    take remote-disks /sys/class remote_disks
    remote=$content
    content=''
    if [ ! -r "$root/proc/self/mountinfo" ]; then frame mounts absent /proc/self/mountinfo
    elif tools mounts awk; then take mounts /proc/self/mountinfo mounts; fi
    mounted=$content
    take disks /sys/dev/block disks
    if need ip ways; then take ways 'SSH_CONNECTION, ip route' ways; fi
    if tools module-files awk; then take module-files "/lib/modules/$release/modules.dep" module_files; fi
}

holding() {
    begin_frames
    take uid 'id -u' id -u
    look
    end_frames
}
