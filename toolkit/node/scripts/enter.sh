# shellcheck shell=sh
# Enters a ground: a view of this machine, or of a tree on it, in which one script runs. All
# of it is read-only there but for what is named below, whatever the script does; and when
# its first process ends, or the one that waits for it is killed, nothing of it goes on.
#
#   enter ROOT WAY HIDDEN [LAYER]   ROOT "" for this machine; the script comes on stdin
#
#   /mnt             a scratch folder on the disk of the ground's /var/tmp, the same path
#                    always, so that a build leaves the same bytes wherever it ran
#   /usr/src         what is there but for HIDDEN, and what the script lays beside it
#   /var/lib/dkms    empty, in memory
#   /tmp, /run       empty, in memory
#
# WAY is "look": /usr/src and /var/lib/dkms are as they are; "build"; or "open", which leaves
# the rest of the ground as writable as it is, but for what update-alternatives keeps and logs: OFED
# registers a folder of the view alone, and a later install would take it for its own. HIDDEN are
# names, apart by blanks. LAYER is a folder of this machine with a usr in it, which is seen above
# the ground's own: headers of a kernel that is not installed there.

# mount -n: what is mounted in here is nobody else's to know.
#
# What runs in the new namespaces before the script: $1 ROOT, $2 scratch, $3 WAY, $4 HIDDEN,
# $5 LAYER.
# shellcheck disable=SC2016 # expanded there
view='
set -eu
ground=$1 scratch=$2
exec 3>&2 2>"$scratch/said"
trap refused EXIT
refused() { # what mount said, in frames, as the script would have said it
    printf "= begin ok gdr-toolkit/1\n= prepare.output ok the ground\n"
    sed "/dmesg(1)/d; s/^/|/" "$scratch/said"
    printf "= prepare failed:1 the ground\n= end ok 2\n"
}
mount -n --make-rprivate /
if [ -n "$ground" ]; then
    mount -n --rbind "$ground" "$ground"
    [ -c "$ground/dev/null" ] || mount -n --rbind /dev "$ground/dev"
fi
mount -n -t proc proc "$ground/proc"
if [ -n "$5" ]; then
    mount -n -t overlay -o "ro,lowerdir=$5/usr:$ground/usr" gdr "$ground/usr"
    # Where /lib is a folder of its own.
    [ -L "$ground/lib" ] ||
        mount -n -t overlay -o "ro,lowerdir=$5/usr/lib/modules:$ground/lib/modules" gdr "$ground/lib/modules"
fi
mkdir "$scratch/usr-src"
mount -n --bind "$scratch" "$ground/mnt"
mount -n --rbind "$ground/usr/src" "$scratch/usr-src"
if [ "$3" != open ]; then
    while read -r _ _ _ _ point _; do
        point=$(printf "%b" "$point")
        case $point/ in
            "$ground"/mnt/* | "$ground"/dev/* | "$ground"/proc/* | "$ground"/sys/*) ;;
            "$ground"/*) mount -n -o remount,bind,ro "$point" 2>/dev/null || : ;;
        esac
    done </proc/self/mountinfo
fi
if [ "$3" = open ]; then
    for each in etc/alternatives var/lib/dpkg/alternatives var/lib/alternatives; do
        [ -d "$ground/$each" ] || continue
        mkdir -p "$scratch/own/$each"
        cp -a "$ground/$each/." "$scratch/own/$each"
        mount -n --bind "$scratch/own/$each" "$ground/$each"
    done
    [ ! -d "$ground/var/log" ] || mount -n -t tmpfs -o mode=755 gdr "$ground/var/log"
fi
if [ "$3" != look ]; then
    mount -n -t tmpfs -o mode=755 gdr "$ground/usr/src"
    for each in "$scratch/usr-src"/*; do
        name=${each##*/}
        case " $4 " in *" $name "*) continue ;; esac
        if [ -L "$each" ]; then cp -P "$each" "$ground/usr/src/$name"
        elif [ -d "$each" ]; then
            mkdir "$ground/usr/src/$name"
            mount -n --rbind "$each" "$ground/usr/src/$name"
        fi
    done
    [ ! -d "$ground/var/lib/dkms" ] || mount -n -t tmpfs -o mode=755 gdr "$ground/var/lib/dkms"
fi
mount -n -t tmpfs -o mode=1777 gdr "$ground/tmp"
mount -n -t tmpfs -o mode=755 gdr "$ground/run"
set -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
    KBUILD_BUILD_USER=gdr KBUILD_BUILD_HOST=gdr KBUILD_BUILD_TIMESTAMP="Thu Jan  1 00:00:00 UTC 1970" sh -s
cd /
exec 2>&3 3>&-
trap - EXIT
if [ -n "$ground" ]; then exec chroot "$ground" "$@"; else exec "$@"; fi
'

enter() {
    where=${1%/}/var/tmp
    if [ "$(id -u)" != 0 ]; then enter_refused 1 'only root can build aside'; return; fi
    if [ ! -d "$1/" ]; then enter_refused 2 "there is no folder $1"; return; fi
    for word in unshare mount chroot flock setsid; do
        if ! command -v "$word" >/dev/null; then enter_refused 127 "$word is not there (package util-linux)"; return; fi
    done
    # One at a time here: between two lines a scratch folder has no lock yet.
    exec 8<"$where"
    flock -w 60 8 || { enter_refused 75 "somebody has had $where locked for a minute"; return; }
    for left in "$where"/gdr-build.*; do # of runs that were killed: their locks are free again
        if [ -O "$left" ] && [ -f "$left/lock" ] && flock -n "$left/lock" true; then rm -rf "$left"; fi
    done
    scratch=$(mktemp -d "$where/gdr-build.XXXXXX" 2>&1) || { enter_refused 28 "$scratch"; return; }
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 129' HUP INT TERM PIPE
    exec 9>"$scratch/lock"
    flock 9
    exec 8<&-
    # Clears away behind a run that is killed: in a session of its own, which outlives ours.
    # shellcheck disable=SC2016 # expanded there
    setsid sh -c 'exec 8<"$1/lock" && flock 8 && rm -rf "$1"' gdr "$scratch" 9>&- </dev/null >/dev/null 2>&1 &
    if ! unshare --mount --pid --fork true 2>"$scratch/said"; then
        enter_refused 1 "this machine gives no namespace to build in: $(cat "$scratch/said")"
        return
    fi
    unshare --mount --pid --fork --kill-child sh -c "$view" gdr "${1%/}" "$scratch" "$2" "$3" "${4-}"
}

enter_refused() { # enter_refused STATUS SENTENCE: in frames, as the script would have said it
    printf '= begin ok gdr-toolkit/1\n= prepare.output ok the ground\n|%s\n= prepare failed:%s the ground\n= end ok 2\n' "$2" "$1"
    return 1
}
