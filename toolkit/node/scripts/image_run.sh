# shellcheck shell=sh
# Carries out an image's bundle in its tree on this machine, in namespaces of its own, where there
# is no toolkit: the tree is changed where it lies. media.sh says what a script finds in there.
#
#   image.sh ROOT VERB WAIT end     VERB as for apply.sh; the word "end" shows that it arrived whole
#
# Above these lines stand gdr_view, which prints media.sh, and gdr_runner, which prints run.sh.

# No module is loaded, no clock set and no machine rebooted that the image does not belong to.
never='-sys_module,-syslog,-sys_boot,-sys_time,-sys_rawio'

# What runs in the new namespaces: $1 the tree, $2 the stage, then the words for run.sh.
# shellcheck disable=SC2016 # expanded there
inside='
set -e
mount -n --make-rprivate /
mount -n -t proc proc /proc
tree=$1 stage=$2
shift 2
sh "$stage/view.sh" view "$tree" "$stage"
there=/run/gdr-image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin # the builder may have others
exec <"$stage/run.sh" setpriv --bounding-set "$NEVER" chroot "$stage/view" /bin/sh -c \
    "PATH=$there && exec env -i PATH=$there HOME=/root LC_ALL=C SYSTEMD_OFFLINE=1 sh -s -- \"\$@\"" gdr "$@"
'

in_vain() { # in_vain WHERE SENTENCE: in frames, as the engine would have said it
    printf '= begin ok gdr-toolkit/1\n= state failed:1 %s\n|%s\n= end ok 1\n' "$1" "$2"
    exit 5
}

held() { # held WHERE: likewise, by the engine's word for it
    printf '= begin ok gdr-toolkit/1\n= lock failed:75 %s\n|another run is at work in it\n= end ok 1\n' "$1"
    exit 75
}

# The kernel takes locks back from whoever dies. Both are had by all that works in the tree, which
# may go on for a while when this shell alone was killed.
sweep() { # sweep FOLDER: what killed runs left there
    for left in "$1"/gdr-image.??????; do
        # A folder of root's with something in it has its lock, if it is somebody's.
        if [ ! -d "$left/view" ] || [ -z "$(find "$left" -prune -type d -user 0)" ]; then continue; fi
        if (exec 7<"$left" && flock -n 7) 2>/dev/null; then rm -rf --one-file-system "$left"; fi
    done
}

in_image() {
    last='' patience=''
    for each; do patience=$last last=$each; done
    if [ "$last" != end ]; then exit 64; fi
    tree=${1%/}
    shift
    if [ "$(id -u)" != 0 ]; then in_vain "$tree" 'only root can work in an image'; fi
    case $tree in
        /*) ;;
        *) in_vain "${tree:-/}" 'an image is a folder other than /, named by its full path' ;;
    esac
    for word in unshare mount chroot setpriv flock mktemp; do
        command -v "$word" >/dev/null || in_vain "$word" 'is not there (packages util-linux, coreutils)'
    done
    if [ ! -x "$tree/bin/sh" ] && [ ! -L "$tree/bin/sh" ]; then in_vain "$tree/bin/sh" 'is not there: no system is in it'; fi
    exec 9<"$tree" || exit 5
    until flock -n 9; do
        [ "${patience:-0}" -gt 0 ] 2>/dev/null || held "$tree"
        patience=$((patience - 1))
        sleep 1
    done
    sweep "${TMPDIR:-/var/tmp}"
    stage=$(mktemp -d "${TMPDIR:-/var/tmp}/gdr-image.XXXXXX") || in_vain "${TMPDIR:-/var/tmp}" 'no folder can be made there'
    # The mounts are gone with their namespace by then; were one left, it would not be entered.
    trap 'rm -rf --one-file-system "$stage"' EXIT
    trap 'exit 129' HUP INT TERM PIPE
    exec 8<"$stage" && flock 8
    mkdir "$stage/view" "$stage/scratch" "$stage/layers"
    { gdr_view >"$stage/view.sh" && gdr_runner >"$stage/run.sh"; } || in_vain "$stage" 'no file can be written there'
    NEVER=$never unshare --mount --pid --uts --ipc --net --fork --kill-child \
        sh -c "$inside" gdr "$tree" "$stage" "$@" 2>"$stage/said"
    status=$?
    cat "$stage/said" >&2
    return "$status"
}
