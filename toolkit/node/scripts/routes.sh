# shellcheck shell=sh disable=SC2154,SC2317 # frames.sh sets what is used here; who comes after calls it
# By which net devices a node is reached: the default routes, and the session that runs us.

default_routes() { # the interfaces by which the node reaches the world; unreachable routes point at lo
    sed -n -e '/^0\{32\} 00 .* lo$/d' -e 's/^0\{32\} 00 .* \([^ ]*\)$/\1/p' \
        -e 's/^\([^[:space:]]*\)[[:space:]]\{1,\}00000000[[:space:]].*/\1/p' \
        "$root/proc/net/route" "$root/proc/net/ipv6_route" 2>/dev/null | sort -u
}

ssh_connection() { # ours, of the session that runs us; sudo hides it from us, not from its parents
    if [ -n "$SSH_CONNECTION" ]; then
        echo "$SSH_CONNECTION" # client, port, server, port
        return
    fi
    parent=$PPID parents=''
    for _ in 1 2 3 4 5 6 7 8 9; do
        [ "${parent:-0}" -gt 1 ] || break
        parents="$parents /proc/$parent/environ /proc/$parent/comm" # the latter ends its line
        stat='' # "PID (COMMAND) STATE PARENT ..."
        read -r stat <"/proc/$parent/stat"
        stat=${stat##*) ? }
        parent=${stat%% *}
    done 2>/dev/null
    # shellcheck disable=SC2086 # one word a file; the nearest one counts
    [ -z "$parents" ] || cat $parents 2>/dev/null | tr '\000' '\n' | sed -n '/^SSH_CONNECTION=/{s///p;q;}'
}

ssh_address() { # the server's own
    connection=$(ssh_connection)
    connection=${connection% *}
    echo "${connection##* }"
}

holder_of() { # holder_of ADDRESS: the interface that holds it
    "$(locate ip)" -o addr show to "${1%%%*}" 2>/dev/null | sed 's/^[0-9]*: *//; s/[@ ].*//; q'
}

ssh_interface() { # the frame: the interface that holds that address
    address='' interface=''
    if [ -z "$root" ]; then address=$(ssh_address); fi # another root is no session of ours
    if [ -n "$address" ]; then
        interface=$(holder_of "$address")
    fi
    if [ -n "$interface" ]; then take ssh-interface SSH_CONNECTION echo "$interface"
    else frame ssh-interface absent SSH_CONNECTION; fi
}
