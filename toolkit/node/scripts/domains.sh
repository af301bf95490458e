# shellcheck shell=sh disable=SC2154,SC2034,SC2317 # the parts before it set and read what is used here
# The domains of IOMMU groups: which devices are in them, what these carry, and the change of a
# group's domain without a boot, under the node's lock. After frames.sh, routes.sh, holding.sh,
# lock.sh and agreed.sh.
#
# domains                        looks
# set_domains SUM WAIT GROUP... end
#   SUM    of the look that the work was agreed on; where the node now says something else, a new
#          process that has a device open, say, nothing is touched
#   WAIT   seconds to wait for another run's lock
#   GROUP  12/identity/0000:19:00.0=mlx5_core,0000:19:00.1=   number, type, devices and drivers:
#          these let go of the device before the type is written, and get it back after
#
# /run/gdr-toolkit/domains remembers ADDRESS TYPE: what the group of that device was before
# anything was changed. The kernel forgets its domains at the next boot, and /run this file.

groups() { # GROUP TYPE WRITABLE ADDRESS CLASS VENDOR:DEVICE DRIVER VFS, a line a device; "-" for none,
    # ADDRESS too where a group lists none: the kernel keeps no such group, so it was not read.
    # Two ls for all of them: an emulated node takes long to begin a process.
    writable=no links=$(cd "$root/sys/kernel/iommu_groups" 2>/dev/null && ls -ld -- */devices/*/driver 2>/dev/null)
    # Kernels before 5.11 show the type, and take none: of every group.
    case $(ls -ld "$root"/sys/kernel/iommu_groups/*/type 2>/dev/null) in -?w*) writable=yes ;; esac
    for group in "$root"/sys/kernel/iommu_groups/*; do
        type=''
        { read -r type <"$group/type"; } 2>/dev/null
        for device in "$group"/devices/*; do
            if [ ! -e "$device" ]; then
                [ ! -d "$group" ] || echo "${group##*/} ${type:--} $writable - - - - 0"
                continue
            fi
            class='' vendor='' chip='' vfs='' address=${device##*/}
            { read -r class <"$device/class" && read -r vendor <"$device/vendor"; } 2>/dev/null
            { read -r chip <"$device/device"; } 2>/dev/null
            { read -r vfs <"$device/sriov_numvfs"; } 2>/dev/null
            link=${links#*"/$address/driver -> "}
            if [ "$link" = "$links" ]; then driver=-
            else
                link=${link%%"$newline"*}
                driver=${link##*/}
            fi
            echo "${group##*/} ${type:--} $writable $address ${class:--} ${vendor:--}:${chip:--} ${driver:--} ${vfs:-0}"
        done
    done
}
newline='
'

driver_of() { # driver_of DEVICE: "-" for none
    driver=$(readlink "$1/driver")
    driver=${driver##*/}
    echo "${driver:--}"
}

carried() { # KIND NAME PATH: net devices, disks and RDMA devices, and where they hang below /sys
    for kind in net block infiniband; do
        (cd "$root/sys/class/$kind" 2>/dev/null && ls -ld -- * 2>/dev/null) |
            sed -n "s;^.* \\([^ ]*\\) -> .*/devices/\\(pci.*\\);$kind \\1 /sys/devices/\\2;p"
    done
}

look_at_domains() {
    file kernel-release /proc/sys/kernel/osrelease
    take groups '/sys/kernel/iommu_groups/*' groups
    take carried /sys/class carried
    look
}

domains() {
    begin_frames
    take uid 'id -u' id -u
    look_at_domains
    file domains-before /run/gdr-toolkit/domains
    end_frames
}

# --- the change -----------------------------------------------------------------------

judged() { # of the look: modules come and go, and were not judged
    awk '/^= / { key = $2; print "= " key; next } key != "modules" { print }'
}

same_domains() { # same_domains SUM: whether the node still says what was judged
    again=$(look_at_domains)
    printf '%s\n' "$again"
    count=$((count + $(printf '%s\n' "$again" | grep -c '^= ')))
    sum=$(printf '%s\n' "$again" | judged | sha256sum)
    [ "${sum%% *}" = "$1" ]
}

put() { # put NAME VALUE PATH CHECK...: written, and true once the kernel shows it
    number=$((number + 1)) key=$number.$1 value=$2 path=$3
    shift 3
    # What a shell says of a failed write differs; what the kernel shows afterwards does not. A
    # driver that hangs is abandoned: there is no way to call it back.
    rm -f "$scratch/wrote"
    { printf '%s\n' "$value" >"$root$path"; echo $? >"$scratch/wrote"; } 2>"$scratch/put" >/dev/null </dev/null &
    tries=0 state_word=timeout
    until "$@"; do
        if [ -s "$scratch/wrote" ] && [ "$tries" -ge 10 ]; then state_word=failed:1; break; fi
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || break
        sleep 0.1 2>/dev/null || sleep 1
    done
    if "$@"; then frame "$key" ok "echo $value >$path"; return; fi
    frame "$key" "$state_word" "echo $value >$path"
    bars "$(head -c 400 "$scratch/put" 2>/dev/null)"
    return 1
}

free() { [ "$(driver_of "$root/sys/bus/pci/devices/$1")" = - ]; }
bound() { [ "$(driver_of "$root/sys/bus/pci/devices/$1")" = "$2" ]; }
typed() { [ "$(cat "$root/sys/kernel/iommu_groups/$1/type" 2>/dev/null)" = "$2" ]; }

take_off() { # take_off PAIR...: false at the first that stays; those that went are in off
    for pair; do
        device=${pair%%=*} driver=${pair#*=}
        [ -n "$driver" ] || continue
        put unbind "$device" "/sys/bus/pci/drivers/$driver/unbind" free "$device" || return
        off="$off $pair"
    done
}

put_back() { # put_back PAIR...: all of them, whatever becomes of one
    missed=0
    for pair; do
        device=${pair%%=*} driver=${pair#*=}
        put bind "$device" "/sys/bus/pci/drivers/$driver/bind" bound "$device" "$driver" || missed=1
    done
    return "$missed"
}

remember_domain() { # remember_domain ADDRESS TYPE: the first is what undoing goes back to
    kept=$root/run/gdr-toolkit
    if grep -q "^$1 " "$kept/domains" 2>/dev/null; then return; fi
    mkdir -p "$kept" && { cat "$kept/domains" 2>/dev/null; echo "$1 $2"; } >"$kept/domains.new" &&
        mv -f "$kept/domains.new" "$kept/domains" && return
    frame kept failed:1 /run/gdr-toolkit/domains
    return 1
}

set_domain() { # set_domain GROUP TYPE DEVICES: all or nothing of it, as far as the drivers let us
    type_file=/sys/kernel/iommu_groups/$1/type
    was=$(cat "$root$type_file" 2>/dev/null) off='' group=$1 type=$2
    remember_domain "${3%%=*}" "$was" || return
    # shellcheck disable=SC2046 # one word a device
    set -- $(echo "$3" | tr , ' ')
    if take_off "$@" && put type "$type" "$type_file" typed "$group" "$type"; then
        # shellcheck disable=SC2086
        put_back $off && return
        # A driver that does not work with it gets back what it worked with.
        for pair in $off; do
            if ! free "${pair%%=*}"; then
                put unbind "${pair%%=*}" "/sys/bus/pci/drivers/${pair#*=}/unbind" free "${pair%%=*}"
            fi
        done
        put type "$was" "$type_file" typed "$group" "$was"
    fi
    # shellcheck disable=SC2086
    put_back $off
    return 1
}

change_domains() { # change_domains SUM GROUP...: 0, 5 where a step failed, 65 where the node changed
    agreed=$1
    shift
    take uid 'id -u' id -u
    if ! same_domains "$agreed"; then
        frame expect failed:65 'who depends on the devices'
        return 65
    fi
    told_of "iommu $*"
    ended=0 number=0
    for word; do
        if [ -n "$stop" ]; then ended=5; break; fi
        number_of=${word%%/*} rest=${word#*/}
        if ! set_domain "$number_of" "${rest%%/*}" "${rest#*/}"; then ended=5; break; fi
    done
    take groups-after '/sys/kernel/iommu_groups/*' groups
    return "$ended"
}

set_domains() { run_agreed change_domains "$@"; }
