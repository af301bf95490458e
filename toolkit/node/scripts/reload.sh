# shellcheck shell=sh disable=SC2154,SC2034 # the parts above set and read what is used here
# Takes modules out and puts them back, under the node's lock: after frames.sh, routes.sh,
# holding.sh and lock.sh. Nobody's job is ended and nothing is forced: rmmod refuses what is in use.
#
# gdr_reload SUM WAIT UNLOAD LOAD OURS end
#   SUM     of the look that the work was agreed on; where the node now says something else about
#           who depends on what (a job has begun), nothing is touched
#   WAIT    seconds to wait for another run's lock
#   UNLOAD  modules to take out, in this order; LOAD those to load, likewise
#   OURS    net devices of our own session that will go: whoever sends them has agreed that the
#           node reboots, where it cannot be reached by its address any more

AWAY_S=60 BY_HAND_S=10 # without its address: at most, and before we give it back ourselves

guard() { # of the look what was judged: of other modules than these the counts come and go
    awk -v names=" $1 " '
        /^= / { key = $2; print "= " key; next }
        key == "modules" { name = $1; sub(/^[|]/, "", name); if (!index(names, " " name " ")) next }
        { print }'
}

same() { # same SUM MODULES: whether the node still says what was judged; its frames are told
    again=$(look)
    printf '%s\n' "$again"
    count=$((count + $(printf '%s\n' "$again" | grep -c '^= ')))
    sum=$(printf '%s\n' "$again" | guard "$2" | sha256sum)
    [ "${sum%% *}" = "$1" ]
}

step() { # step NAME COMMAND...: in a frame of its own; a command that hangs is abandoned
    number=$((number + 1))
    cmd "$number.$1" 180 "$2" "$3"
    [ "$status" = 0 ]
}

unload() { # unload MODULE...: until one refuses; those that went are in out, the last one first
    out=''
    for module; do
        if [ -n "$stop" ]; then return 1; fi
        step unload rmmod "$module" || return
        out="$module $out"
    done
}

load() { # load NAME MODULE...: all of them, whatever becomes of one
    name=$1 missed=0
    shift
    for module; do step "$name" modprobe "$module" || missed=1; done
    return "$missed"
}

# --- our own session's interface ------------------------------------------------------

remember() { # remember NET...: addresses and routes, as commands that give them back
    for net; do
        echo "link set dev $net up"
        "$(locate ip)" -o addr show dev "$net" scope global 2>/dev/null |
            sed -n "s/^.* \\(inet6*\\) \\([^ ]*\\)\\( brd [^ ]*\\)\\{0,1\\} .*/addr replace \\2\\3 dev $net/p"
        for family in -4 -6; do
            "$(locate ip)" "$family" route show dev "$net" 2>/dev/null | grep -v 'proto kernel' |
                sed "s/^/$family route replace /; s/\$/ dev $net/; s/ linkdown//"
        done
    done
}

give_back() { # give_back ADDRESS: of the system's own services; else by hand; false where it stays away
    waited=0
    while [ -z "$(holder_of "$1")" ]; do
        if [ "$waited" -ge "$AWAY_S" ]; then return 1; fi
        if [ "$waited" = "$BY_HAND_S" ]; then
            while read -r words; do
                # shellcheck disable=SC2086 # words of a command
                "$(locate ip)" $words
            done <"$scratch/net" >/dev/null 2>&1
        fi
        sleep 1
        waited=$((waited + 1))
    done
}

# --- the work -------------------------------------------------------------------------

work() { # work SUM UNLOAD LOAD OURS: 0, 5 where a step failed, 65 where the node has changed
    take uid 'id -u' id -u
    if ! same "$1" "$2 $3"; then
        frame expect failed:65 'who depends on the modules'
        return 65
    fi
    told_of "reload $3, after unloading $2"
    address=''
    # shellcheck disable=SC2086 # one word a net device, one word a module
    if [ -n "$4" ]; then
        address=$(ssh_address)
        remember $4 >"$scratch/net"
    fi
    ended=0
    # shellcheck disable=SC2086
    if unload $2; then load load $3 || ended=5
    else
        ended=5
        load back $out
    fi
    if [ -n "$address" ] && ! give_back "$address"; then
        frame address failed:1 "$address stays away"
        restart "$boot_id"
        ended=5
    fi
    file modules-after /proc/modules
    return "$ended"
}

gdr_reload() {
    last=''
    for last; do :; done
    if [ "$last" != end ] || [ $# != 6 ]; then exit 64; fi
    begin_frames
    number=0
    under_lock "$2" work "$1" "$3" "$4" "$5"
    ended=$?
    end_frames
    exit "$ended"
}
