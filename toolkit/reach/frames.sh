# shellcheck shell=sh disable=SC2154,SC2317 # who comes after this part sets and calls what is here
# The words of the scripts that read a machine: the first part of the probe, the survey and
# the builds. A frame is "= KEY STATE SOURCE" at column 0, its content stands behind bars.
#
# Each script calls begin_frames first, and end_frames last.

begin_frames() { # begin_frames: root, where its commands are, a scratch folder, the first frame
    root=${GDR_ROOT%/} count=0 has_awk=''
    if [ -n "$root" ]; then node_path=$GDR_BIN; else node_path=$PATH:/usr/sbin:/sbin:/usr/bin:/bin; fi
    scratch=$(mktemp -d 2>/dev/null || TMPDIR=/dev/shm mktemp -d 2>/dev/null)
    trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT
    trap 'exit 129' HUP INT TERM
    LC_ALL=C
    export LC_ALL
    if command -v awk >/dev/null; then has_awk=1; fi
    printf '= begin ok gdr-toolkit/1\n'
}

end_frames() { printf '= end ok %s\n' "$count"; }

frame() { # frame KEY STATE SOURCE
    count=$((count + 1))
    printf '= %s %s %s\n' "$1" "$2" "$3"
}

bars() { # bars [TEXT]: each line behind a bar; without it what comes on the standard input
    [ $# -gt 0 ] || set -- "$(cat)"
    [ -n "$1" ] || return 0
    # Most frames are short: without a pipe, a probe has a hundred processes fewer.
    if [ -n "$has_awk" ] && [ "${#1}" -gt 600 ]; then
        printf '%s\n' "$1" | awk '{ print "|" $0 }'
        return
    fi
    while IFS= read -r line; do printf '|%s\n' "$line"; done <<GDR_TEXT
$1
GDR_TEXT
}

file() { # file KEY PATH: a copy
    if [ ! -e "$root$2" ]; then frame "$1" absent "$2"
    elif content=$(cat "$root$2" 2>/dev/null); then
        frame "$1" ok "$2"
        bars "$content"
    else frame "$1" denied "$2" # sysfs and lockdown refuse at read, not at open
    fi
}

take() { # take KEY SOURCE FUNCTION...: what one of the functions below gathers
    take_key=$1 take_source=$2
    shift 2
    content=$("$@")
    frame "$take_key" ok "$take_source"
    bars "$content"
}

need() { # need COMMAND KEY...: without COMMAND, say so for each KEY and return false
    tool=$1
    shift
    [ -n "$(locate "$tool")" ] && return
    for key; do frame "$key" absent "$tool"; done
    false
}

locate() { # locate COMMAND: where the node has it
    PATH=$node_path command -v "$1" 2>/dev/null
}

cmd() { # cmd KEY SECONDS COMMAND...
    cmd_key=$1 left=$(($2 * 20)) job=$scratch/$1
    shift 2
    shown=$*
    where=$(locate "$1") status=127
    if [ -z "$where" ]; then frame "$cmd_key" absent "$shown"; return; fi
    if [ -z "$scratch" ]; then frame "$cmd_key" failed:28 "$shown"; return; fi # ENOSPC
    shift
    # Nothing here may hold our own output open, or the connection waits for it.
    {
        "$where" "$@" >"$job" 2>"$job.err" </dev/null &
        echo $! >"$job.pid"
        wait $!
        echo $? >"$job.rc"
    } >/dev/null 2>&1 &
    # A command stuck in the kernel ignores even SIGKILL: abandon it, never wait.
    nap=0.01
    until [ -s "$job.rc" ] || [ "$left" -le 0 ]; do
        sleep "$nap" 2>/dev/null || sleep 1 # a busybox may lack fractions
        case $nap in
            0.01) nap=0.02 ;;
            0.02) nap=0.05 ;;
            *) left=$((left - 1)) ;;
        esac
    done
    status=$(cat "$job.rc" 2>/dev/null)
    case $status in
        '')
            kill -9 "$(cat "$job.pid")" 2>/dev/null
            frame "$cmd_key" timeout "$shown"
            ;;
        0)
            frame "$cmd_key" ok "$shown"
            bars "$(tr -d '\000' <"$job")"
            ;;
        *)
            frame "$cmd_key" "failed:$status" "$shown"
            bars "$(cat "$job" "$job.err" | tr -d '\000')"
            ;;
    esac
}

from() { # from DIR PATTERN...: every line of the files, as "name:line", names below DIR
    dir=$1
    shift
    # shellcheck disable=SC2068 # the patterns are meant to be expanded, in that folder
    (cd "$root$dir" 2>/dev/null && grep -s '' $@ /dev/null)
    return 0
}

names() { # names PATTERN...: the paths that exist, links with what they point at
    for pattern; do
        for found in "$root"$pattern; do
            if [ -L "$found" ]; then echo "${found#"$root"} -> $(readlink "$found")"
            elif [ -e "$found" ]; then echo "${found#"$root"}"; fi
        done
    done
}

info() { # info MODULE...: the lines of modinfo that identify it
    for module; do
        printf '@%s\n' "${module#"$root"}"
        "$(locate modinfo)" -k "$release" "$module" 2>/dev/null |
            grep -E '^(filename|version|license|srcversion|depends|vermagic|signer|sig_key):'
    done
}
