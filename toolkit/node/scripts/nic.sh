# shellcheck shell=sh disable=SC2154,SC2317 # the parts before it set and read what is used here
# Settings in the firmware of ConnectX cards, by mlxconfig or mstconfig, and their change under the
# node's lock. What is written takes effect with a cold boot. After frames.sh, lock.sh, agreed.sh.
#
# nics                        looks
# set_nics SUM WAIT CARD... end
#   SUM    of the look that the work was agreed on; where a card now says something else, nothing
#          is written
#   WAIT   seconds to wait for another run's lock
#   CARD   0000:19:00.0/ATS_ENABLED=0/PCI_WR_ORDERING=0

nic_functions() { # ADDRESS VENDOR:DEVICE, a line a network function that is no virtual one
    for device in "$root"/sys/bus/pci/devices/*; do
        class='' vendor='' chip=''
        { read -r class <"$device/class"; } 2>/dev/null
        case $class in 0x0200* | 0x0207*) ;; *) continue ;; esac
        [ ! -e "$device/physfn" ] || continue
        { read -r vendor <"$device/vendor" && read -r chip <"$device/device"; } 2>/dev/null
        echo "${device##*/} ${vendor:--}:${chip:--}"
    done
}

nic_tool() { # sets tool to the one that is there
    for tool in mlxconfig mstconfig; do
        if seek "$tool"; then return; fi
    done
    tool=mlxconfig
}

nic_cards() { # nic_cards PREFIX: each card once, by its first function
    for card in $(nic_functions | sed -n 's/ 0x15b3:.*//p'); do
        case $card in *.0) cmd "$1$card" 120 "$tool" -d "$card" -e query ;; esac
    done
}

look_at_nics() {
    nic_tool
    take nics '/sys/bus/pci/devices/*' nic_functions
    nic_cards nic-
}

nics() {
    begin_frames
    take uid 'id -u' id -u
    look_at_nics
    end_frames
}

same_nics() { # same_nics SUM: whether the cards still say what was judged
    look_at_nics >"$scratch/looked"
    cat "$scratch/looked"
    sum=$(awk '/^= / { print "= " $2; next } { print }' "$scratch/looked" | sha256sum)
    [ "${sum%% *}" = "$1" ]
}

change_nics() { # change_nics SUM CARD...: 0, 5 where a step failed, 65 where a card changed
    agreed=$1
    shift
    take uid 'id -u' id -u
    if ! same_nics "$agreed"; then
        frame expect failed:65 'what the cards say'
        return 65
    fi
    told_of "nic $*"
    ended=0
    for word; do
        if [ -n "$stop" ]; then ended=5; break; fi
        card=${word%%/*}
        # shellcheck disable=SC2046 # one word a setting
        cmd "set-$card" 300 "$tool" -y -d "$card" set $(echo "${word#*/}" | tr / ' ')
        if [ "$status" != 0 ]; then ended=5; break; fi
    done
    nic_cards after-
    return "$ended"
}

set_nics() { run_agreed change_nics "$@"; }
