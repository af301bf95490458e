#!/bin/sh
# Runs in a pod, by the sh of whatever small image that has one: hands scripts of ours to the
# node that the pod is on. Beside it lie probe.sh, and for "apply" the parts of one bundle.
#
#   pod.sh probe        the node is read, then the pod sits still: a DaemonSet's may not end
#   pod.sh apply SUM    the bundle whose SHA-256 is SUM is carried out, then the node is read;
#                       ends as the bundle did
#
# GDR_NODE    the node's name, which goes before all that is said: logs of many pods are one text
# GDR_TARGET  a process whose namespaces are the node's: 1, for the pod has hostPID
# GDR_READY   a file that says that the node was read to the end; "" for none

say() { printf 'gdr-toolkit: node %s: %s\n' "$GDR_NODE" "$*"; }

# A pod without hostPID has itself as process 1, and would pass for the node.
outside() {
    there=$(readlink "/proc/$target/ns/mnt") || { say "process $target cannot be looked at"; return 1; }
    if [ "$there" = "$(readlink /proc/self/ns/mnt)" ]; then
        say "process $target is in this very container: hostPID is missing"
        return 1
    fi
}

# The node's own sh, in all namespaces of the node but two: hostPID has brought that of processes,
# and no nsenter of a busybox knows that of control groups. Nothing of the pod's environment.
hand() { # hand FILE...: its status. It is told when the pod is to end, and finishes what it is at.
    cat "$@" | (
        exec nsenter -t "$target" -m -u -i -n -- /usr/bin/env -i HOME=/root LC_ALL=C \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -s
    ) &
    child=$!
    trap 'kill -TERM "$child" 2>/dev/null' TERM INT
    wait "$child"
    status=$?
    while kill -0 "$child" 2>/dev/null; do # a signal ends a wait, and not the child
        wait "$child"
        status=$?
    done
    trap - TERM INT
    return "$status"
}

probe() {
    [ -z "$GDR_READY" ] || rm -f "$GDR_READY" # of a container before this one
    say probe
    hand "$here/probe.sh"
}

ready() { [ -z "$GDR_READY" ] || : >"$GDR_READY"; }

whole() { # whole SUM: are the parts those of that bundle
    sum=$(cat "$here"/bundle.* | sha256sum) && [ "${sum%% *}" = "$1" ] && return
    say "the parts of the bundle do not make the whole that was rendered; nothing was touched"
    return 1
}

sit() { # until the pod is to end: who is told that it is ready may say so at once
    trap 'kill "$!" 2>/dev/null; exit 0' TERM INT
    ready
    while :; do
        sleep 3600 >/dev/null 2>&1 &
        wait "$!"
    done
}

here=${0%/*} target=${GDR_TARGET:-1} GDR_NODE=${GDR_NODE:-?} GDR_READY=${GDR_READY:-}
case $1.$# in
    probe.1)
        outside && probe || exit
        sit
        ;;
    apply.2)
        outside && whole "$2" || exit 74
        say "apply $2"
        hand "$here"/bundle.*
        ended=$?
        say "ended $ended"
        probe && ready
        exit "$ended"
        ;;
    *) exit 64 ;;
esac
