# shellcheck shell=sh
# What the commands of a simulated node share. They act on the tree below GDR_ROOT alone,
# and they replace files by renaming, never in place: trees share them by hard links.
# shellcheck disable=SC2034 # what is set here is read by those who source it

nl='
'
root=${GDR_ROOT:-}
root=${root%/}
if [ -z "$root" ] || [ ! -d "$root/.node" ]; then
    echo "${0##*/}: GDR_ROOT names no simulated node" >&2
    exit 1
fi
inside=$root/.node
LC_ALL=C
export LC_ALL

while read -r name; do # a command that hangs on this node, as if stuck in the kernel
    if [ "$name" = "${0##*/}" ]; then exec sleep 3600; fi
done <"$inside/hangs"

first_line() { # first_line FILE: sets line, to "" where there is none
    line=''
    if [ -r "$1" ]; then read -r line <"$1" || :; fi
}

put() { # put FILE TEXT: beside it first, then renamed
    printf '%s\n' "$2" >"$1.$$" && mv -f "$1.$$" "$1"
}

norm() { # norm NAME: sets normal, the name as the kernel spells it
    normal=$1
    while :; do
        case $normal in
            *-*) normal=${normal%%-*}_${normal#*-} ;;
            *) return ;;
        esac
    done
}

whoami_here() { # sets user and uid
    first_line "$inside/user"
    user=$line uid=1000
    if [ "$user" = root ] || [ "${GDR_UID:-}" = 0 ]; then uid=0; fi
}

must_be_root() { # must_be_root MESSAGE
    whoami_here
    [ "$uid" = 0 ] && return
    echo "$1" >&2
    exit 1
}

log() { # log TEXT: into the kernel's ring buffer
    messages="${messages:-}[   $((${tick:=12} + 1)).$((100000 + ${#1} * 977))] $1
"
    tick=$((tick + 1))
}

flush_log() {
    [ -n "${messages:-}" ] || return 0
    {
        cat "$root/var/log/dmesg" 2>/dev/null
        printf '%s' "$messages"
    } >"$root/var/log/dmesg.$$"
    mv -f "$root/var/log/dmesg.$$" "$root/var/log/dmesg"
    messages=''
}

first_line "$root/proc/sys/kernel/osrelease"
release=$line
