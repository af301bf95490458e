# shellcheck shell=sh disable=SC2154,SC2317 # frames.sh sets what is used here; who comes after calls it
# By which net devices a node is reached: the default routes, and the session that runs us.

default_routes() { # the interfaces by which the node reaches the world
    {
        sed -n 's/^\([^[:space:]]*\)[[:space:]]*00000000[[:space:]].*/\1/p' "$root/proc/net/route"
        sed -n 's/^00000000000000000000000000000000 00 .* \([^ ]*\)$/\1/p' "$root/proc/net/ipv6_route" |
            grep -v '^lo$' # unreachable routes point there
    } 2>/dev/null | sort -u
}

ssh_connection() { # ours, of the session that runs us; sudo hides it from us, not from its parents
    if [ -n "$SSH_CONNECTION" ]; then
        connection=$SSH_CONNECTION
    else
        connection='' parent=$PPID
        for _ in 1 2 3 4 5 6 7 8 9; do
            [ "${parent:-0}" -gt 1 ] || break
            connection=$(tr '\000' '\n' <"/proc/$parent/environ" | sed -n 's/^SSH_CONNECTION=//p')
            [ -z "$connection" ] || break
            parent=$(sed 's/^.*) . //; s/ .*//' "/proc/$parent/stat")
        done
    fi 2>/dev/null
    echo "$connection" # client, port, server, port
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
