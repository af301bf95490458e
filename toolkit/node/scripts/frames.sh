# shellcheck shell=sh disable=SC2154,SC2317 # who comes after this part sets and calls what is here
# The words of the scripts that read a machine: the first part of the probe, the survey and
# the builds. A frame is "= KEY STATE SOURCE" at column 0, its content stands behind bars.
#
# Each script calls begin_frames first, and end_frames last.

nl='
'
blanks=$IFS

begin_frames() { # begin_frames: root, where its commands are, a scratch folder, the first frame
    root=${GDR_ROOT%/} count=0 ticker='' ticks=0
    case $root in '' | /*) ;; *) root=$PWD/$root ;; esac
    if [ -n "$root" ]; then node_path=$GDR_BIN; else node_path=$PATH:/usr/sbin:/sbin:/usr/bin:/bin; fi
    scratch=''
    [ -n "${writes_nothing-}" ] || scratch=$(mktemp -d 2>/dev/null || TMPDIR=/dev/shm mktemp -d 2>/dev/null)
    trap 'end_ticks; [ -z "$scratch" ] || rm -rf "$scratch"' EXIT
    trap 'exit 129' HUP INT TERM PIPE # dash, killed by it, would leave the folder
    LC_ALL=C
    export LC_ALL
    printf '= begin ok gdr-toolkit/1\n'
}

end_frames() { printf '= end ok %s\n' "$count"; }

frame() { # frame KEY STATE SOURCE
    count=$((count + 1))
    printf '= %s %s %s\n' "$1" "$2" "$3"
}

by_line() { # what is split from here on is split into lines, and no pattern means files
    set -f
    IFS=$nl
}

by_word() {
    set +f
    IFS=$blanks
}

bars() { # bars TEXT: each line behind a bar
    [ -n "$1" ] || return 0
    case $nl$1$nl in
        *"$nl$nl"*) printf '%s\n' "$1" | sed 's/^/|/' ;; # splitting would lose its empty lines
        *)
            by_line
            # shellcheck disable=SC2086 # no process, however long it is
            printf '|%s\n' $1
            by_word
            ;;
    esac
}

file() { # file KEY PATH: a copy
    if [ ! -e "$root$2" ] || no_run "$2"; then frame "$1" absent "$2"
    elif content=$(cat "$root$2" 2>/dev/null); then tell "$1" "$2"
    else frame "$1" denied "$2" # sysfs and lockdown refuse at read, not at open
    fi
}

short() { # short KEY PATH: the same without a process, of a file that may be read byte by byte
    # Numbers below /proc/sys may not: who asks for one byte gets the first digit alone.
    content=''
    if [ -e "$root$2" ] && ! no_run "$2"; then slurp "$root$2"; fi
    if [ -n "$content" ]; then tell "$1" "$2"
    else file "$1" "$2"; fi # empty or refused, and a shell cannot tell which
}

slurp() { # slurp FILE: sets content, as $(cat FILE) would; a process only where it is long
    content='' gap=''
    {
        while IFS= read -r line || [ -n "$line" ]; do
            if [ -n "$line" ]; then content=$content$gap$line gap=''; fi
            gap=$gap$nl line=''
            # A shell reads by single bytes, which in the end costs more than a process.
            [ "${#content}" -lt 1500 ] || break
        done
        if [ "${#content}" -ge 1500 ]; then
            line=$(tr -d '\000')
            [ -z "$line" ] || content=$content$gap$line
        fi
    } 2>/dev/null <"$1"
}

add() { # add TEXT: behind what is in content, where there is any
    [ -z "$1" ] || content=$content$1$nl
}

tell() { # tell KEY SOURCE: the frame of what is in content
    while :; do
        case $content in *"$nl") content=${content%"$nl"} ;; *) break ;; esac
    done
    frame "$1" ok "$2"
    bars "$content"
}

give() { # give KEY SOURCE FUNCTION...: what one of the functions below leaves in content
    give_key=$1 give_source=$2 content=''
    shift 2
    if no_run "$give_source"; then
        frame "$give_key" absent "$give_source"
        return
    fi
    "$@"
    cd / || return
    tell "$give_key" "$give_source"
}

no_run() { # no_run SOURCE: an image is read, and only a machine that runs has it
    [ -n "${GDR_KERNEL-}" ] || return
    case $1 in *,*) false ;; /sys | */proc/cpuinfo | /sys/* | /proc/* | /dev/*) ;; *) false ;; esac
}

take() { # take KEY SOURCE FUNCTION...: what it prints
    take_key=$1 take_source=$2
    shift 2
    if no_run "$take_source"; then
        frame "$take_key" absent "$take_source"
        return
    fi
    content=$("$@")
    tell "$take_key" "$take_source"
}

need() { # need COMMAND KEY...: without COMMAND, say so for each KEY and return false
    tool=$1
    shift
    seek "$tool" && return
    for key; do frame "$key" absent "$tool"; done
    false
}

seek() { # seek COMMAND: sets where to the place at which the node has it, and to nothing
    by_line
    IFS=:
    for where in $node_path ''; do
        [ -n "$where" ] || continue
        where=$where/$1
        if [ -f "$where" ] && [ -x "$where" ]; then break; fi
        where=''
    done
    by_word
    [ -n "$where" ]
}

locate() { seek "$1" && echo "$where"; } # locate COMMAND: the same, printed

begin_ticks() { # a clock, so that a shell that waits for a command wakes up now and then
    [ -z "$ticker" ] || return 0
    {
        trap - EXIT
        trap 'kill $!; exit' HUP INT TERM
        read -r _ _ _ asker _ </proc/self/stat
        while :; do
            sleep 2 &
            : >"$scratch/ticking"
            wait $!
            # Whoever asked may be gone, and its number be another's.
            if read -r _ _ _ parent _ </proc/self/stat && [ "$parent" != "$asker" ]; then exit; fi
            kill -URG $$ || exit # which means nothing to who does not wait for it
        done
    } >/dev/null 2>&1 </dev/null &
    ticker=$!
}

end_ticks() {
    [ -n "$ticker" ] || return 0
    # One that has only just begun may lose a signal that it could catch, and would be waited for without end.
    if [ -e "$scratch/ticking" ]; then kill "$ticker"; else kill -9 "$ticker"; fi
    wait "$ticker"
    ticker=''
} 2>/dev/null

await() { # await PID SECONDS: sets status; to nothing where it took longer, and is abandoned
    due=$((ticks + $2 / 2 + 1))
    begin_ticks
    # Only here: elsewhere a signal might cut a write short.
    trap 'ticks=$((ticks + 1))' URG
    while :; do
        wait "$1"
        status=$?
        if [ "$status" -le 128 ]; then break; fi
        if [ ! -d "/proc/$1" ] && ! kill -0 "$1"; then # died of a signal, or while one came to us
            wait "$1"
            again=$?
            if [ "$again" != 127 ]; then status=$again; fi
            break
        fi
        # A command stuck in the kernel ignores even SIGKILL: abandon it, never wait.
        if [ "$ticks" -ge "$due" ]; then kill -9 "$1"; status=''; break; fi
    done 2>/dev/null
    trap - URG
}

patience=1 # by how much longer than nodes need a command is waited for; set by who sends this

cmd() { sift whole "$@"; } # cmd KEY SECONDS COMMAND...

whole() { # whole FILE [ERRORS]: all that a command said
    if [ $# -gt 1 ] && [ -s "$1" ] && [ -s "$2" ]; then content=$(cat "$@" | tr -d '\000')
    elif [ $# -gt 1 ] && [ -s "$2" ]; then slurp "$2"
    else slurp "$1"; fi
}

sift() { # sift FUNCTION KEY SECONDS COMMAND...: of what it says what the function leaves in content
    sieve=$1 cmd_key=$2 limit=$3 job=$scratch/$2
    shift 3
    shown=$*
    if ! seek "$1"; then status=127; frame "$cmd_key" absent "$shown"; return; fi
    if [ -z "$scratch" ]; then status=127; frame "$cmd_key" failed:28 "$shown"; return; fi # ENOSPC
    shift
    # Nothing here may hold our own output open, or the connection waits for it.
    "$where" "$@" >"$job" 2>"$job.err" </dev/null &
    await $! "$((limit * patience))"
    content=''
    case $status in
        '') frame "$cmd_key" timeout "$shown" ;;
        0)
            "$sieve" "$job"
            tell "$cmd_key" "$shown"
            ;;
        *)
            "$sieve" "$job" "$job.err"
            frame "$cmd_key" "failed:$status" "$shown"
            bars "$content"
            ;;
    esac
}

lines() { # lines DIR REGEX PATTERN...: adds every line that matches, as "name:line", names below DIR
    cd "$root$1" 2>/dev/null || return 0
    regex=$2
    shift 2
    # shellcheck disable=SC2048,SC2086 # the patterns are meant to be expanded, in that folder
    set -- $*
    for name; do
        [ -e "$name" ] || continue
        add "$(grep -sE -e "$regex" -- "$@" /dev/null)"
        return
    done
}

from() { # from DIR PATTERN...: every line of the files, as "name:line", names below DIR
    dir=$1
    shift
    # shellcheck disable=SC2068 # the patterns are meant to be expanded, in that folder
    (cd "$root$dir" 2>/dev/null && grep -s '' $@ /dev/null)
    return 0
}

paths() { # paths PATTERN...: adds those that exist, links with what they point at
    every='' links='' many=0
    for pattern; do
        for found in "$root"$pattern; do
            if [ -L "$found" ]; then every="$every-> $found$nl" links=$links$found$nl many=$((many + 1))
            elif [ -e "$found" ]; then every=$every$found$nl; fi
        done
    done
    by_line
    # shellcheck disable=SC2046,SC2086 # one word a line
    set -- ${links:+$(readlink $links 2>/dev/null)}
    if [ $# -ne "$many" ]; then set --; fi # a busybox reads one at a time
    for found in $every; do
        case $found in
            '-> '*)
                found=${found#-> }
                add "${found#"$root"} -> ${1:-$(readlink "$found")}"
                [ $# -eq 0 ] || shift
                ;;
            *) add "${found#"$root"}" ;;
        esac
    done
    by_word
}

pick() { # pick BEGIN TEXT [LEAD]: adds the lines that begin so, behind LEAD
    by_line
    for line in $2; do
        case $line in "$1"*) add "${3-}$line" ;; esac
    done
    by_word
}

names() { # names PATTERN...: the same, printed
    content=''
    paths "$@"
    printf '%s' "$content"
}
