#!/bin/sh
# Carries out one bundle on one node, takes back what a run did, or reboots the node. Runs
# under dash, busybox and bash. In a bundle, lock.sh, undo.sh, kept.sh, prune.sh, initramfs.sh,
# menu.sh, installs.sh, again.sh and signers.sh stand above.
#
#   apply.sh apply WAIT end                       the bundle that lies beside it
#   apply.sh look WAIT end                        what that would do; nothing is touched
#   apply.sh retract WAIT end                     every run of that bundle, newest first
#   apply.sh rollback RUN|last|all WAIT end
#   apply.sh restart BOOT-ID WAIT end             where that is still the boot the node is in
#
# WAIT is how many seconds to wait for another run's lock; the word "end" shows that the
# call itself arrived whole. Prints frames, as probe.sh does. Ends with 0, with 5 when a
# step failed, with 75 when another run holds the node.
#
# GDR_ROOT and GDR_BIN mean what they mean to probe.sh. What the node remembers of us is
# below /var/lib/gdr-toolkit.

# shellcheck disable=SC2317 # the list of steps calls what stands here
# shellcheck disable=SC2034,SC2154 # lock.sh and undo.sh read what is set here, and set boot_id and me
# shellcheck disable=SC1091 # the list is made with the bundle
# --- vocabulary -------------------------------------------------------------------

frame() { # frame KEY STATE SOURCE
    count=$((count + 1))
    printf '= %s %s %s\n' "$1" "$2" "$3"
}

bars() { while IFS= read -r line || [ -n "$line" ]; do printf '|%s\n' "$line"; done; }

locate() { # locate COMMAND: where the node has it
    PATH=$node_path command -v "$1" 2>/dev/null
}

flush() { # flush FILE...: to the disk, where this sync knows files
    sync -d "$@" 2>/dev/null || sync "$@"
}

flush_folder() { # flush_folder PATH...: what was renamed or removed in it; not every file system does so
    sync -d "$@" 2>/dev/null || sync "$@" 2>/dev/null || :
}

flush_tree() { # flush_tree PATH: every file and folder below
    find "$1" -type f -exec sync -d {} + 2>/dev/null || find "$1" -type f -exec sync {} + || return
    find "$1" -type d -exec sync -d {} + 2>/dev/null || find "$1" -type d -exec sync {} + 2>/dev/null || :
}

hash() { # hash FILE: its SHA-256, or "absent"
    if [ ! -e "$1" ]; then echo absent; return; fi
    sum=$(sha256sum <"$1") && echo "${sum%% *}"
}

# --- the steps of a bundle ------------------------------------------------------------
# The list is read twice. In the first pass nothing is touched: what cannot be done is
# found then, and no step is begun. In the second pass each step has its frame.

next() { # next VERB LABEL: false when this step is not to be done in this pass
    number=$((number + 1)) label=$2
    key=$number.$1
    if [ "$1" != expect ]; then acting=1; fi
    if [ "$pass" = check ]; then [ -z "$refused" ]; return; fi
    if [ -n "$stop" ] && [ -z "$refused" ]; then refused=0; fi
    if [ -z "$refused" ]; then return; fi
    if [ "$number" = "$refused" ]; then
        frame "$key" "failed:$status" "$label"
        printf '%s\n' "$words" | bars
    elif [ "$1" = expect ] && [ "$number" -lt "$refused" ]; then frame "$key" ok "$label"
    else frame "$key" absent "not begun: $label"; fi
    return 1
}

refuse() { refused=$number status=$1 words=$2; } # refuse STATUS SENTENCE

perform() { # perform FUNCTION...: one step, and its frame
    if words=$("$@" 2>&1); then frame "$key" ok "$label"
    else
        frame "$key" failed:1 "$label"
        refused=$number
    fi
    if [ -n "$words" ]; then printf '%s\n' "$words" | bars; fi
}

expect() { # expect kernel RELEASE, expect boot-id ID, expect file PATH SHA256|absent
    next expect "expect $*" || return 0
    if [ "$pass" = act ]; then frame "$key" ok "$label"; return; fi
    case $1 in
        kernel) now=$(cat "$root/proc/sys/kernel/osrelease" 2>&1)
            [ "$now" = "$2" ] || refuse 65 "the plan was made for kernel $2, the node now runs $now" ;;
        boot-id) [ "$boot_id" = "$2" ] || refuse 65 "the node was booted again since the plan was made" ;;
        file) now=$(hash "$root$2" 2>&1)
            [ "$now" = "$3" ] || refuse 65 "$2 is not as it was when the plan was made: $3 then, now $now" ;;
        *) refuse 64 "an expectation that this apply.sh does not know" ;;
    esac
}

keep() { # keep TRIGGER PATTERN...: what it rewrites and is not ours
    next keep "keep $*" || return 0
    if [ "$pass" = check ]; then return; fi
    perform set_aside "$@"
}

temps() { # temps TRIGGER PATTERN...: what its command leaves beside that, where it is cut off
    next temps "temps $*" || return 0
    if [ "$pass" = act ]; then perform note_temps "$@"; fi
}

place() { # place PATH MODE SHA256
    next place "place $1" || return 0
    if [ "$pass" = act ]; then perform put "$@"; return; fi
    if [ -L "$root$1" ] || { [ -e "$root$1" ] && [ ! -f "$root$1" ]; }; then
        refuse 73 "$1 is not an ordinary file, so it is not replaced"
    elif [ "$(hash "$stage/files$1" 2>&1)" != "$3" ]; then refuse 74 "the bundle's own copy of $1 is damaged"; fi
}

remove() { # remove PATH
    next remove "remove $1" || return 0
    if [ "$pass" = act ]; then perform take_away "$1"; fi
}

undo() { # undo first|kept|after CALL: what takes the next trigger back, and when
    next undo "undo $1 $2" || return 0
    if [ "$pass" = act ]; then perform add "$run/unwind" "$1 $2"; fi
}

trigger() { # trigger CALL
    next trigger "$1" || return 0
    if [ "$pass" = check ]; then
        printf '%s\n' "$1" >>"$run/owed"
        eval "set -- $1" # quoted by who made the bundle
        case $2 in
            reload | rebuild | menu | install | uninstall) return ;; # words of ours; the second is placed by the bundle itself
            initramfs) shift 3 ;;       # a word of ours, and what it calls
        esac
        [ -n "$(locate "$2")" ] || refuse 127 "$2: the node has no such command"
        return
    fi
    if ! words=$(going "$(rewrites "${1%% *}")" 2>&1); then
        frame "$key" failed:1 "$label"
        printf '%s\n' "$words" | bars
        refused=$number
        return
    fi
    if call "$1"; then drop "$state/pending" "$1"; else refused=$number; fi
    # Where there is no room to write it down, it stays open, and the next call sees to it.
    if [ -n "$refused" ]; then over failed; else over; fi 2>/dev/null || :
}

prove() { # prove PATH TEXT: what the last trigger made of PATH names TEXT, else PATH is put back
    next prove "prove $*" || return 0
    if [ "$pass" = act ]; then perform names "$@"; fi
}

finish() { # finish STEPS [RUNS]: the list arrived whole; how many runs keep all
    if [ "$pass" = check ] && [ -z "$refused" ]; then whole=$1 keeping=${2:-5}; fi
}

call() { # call CALL: runs it, with its output as it comes, then its frame
    frame "$key.output" ok "$1"
    eval "set -- $1"
    shift
    true >"$run/log" || return
    # Only this script outlives its controller: what it calls sees broken pipes again.
    (trap - PIPE && umask 022 && run_there "$@") >"$run/log" 2>&1 </dev/null &
    job=$! part=''
    exec 3<"$run/log"
    while [ -n "$(started "$job")" ]; do
        stream
        sleep 0.05 2>/dev/null || sleep 1 # a busybox may lack fractions
    done
    wait "$job"
    status=$?
    stream
    exec 3<&-
    [ -z "$part" ] || printf '|%s\n' "$part"
    if [ "$status" = 0 ]; then frame "$key" ok "$label"; else frame "$key" "failed:$status" "$label"; fi
    return "$status"
}

run_there() { # run_there COMMAND...: the node's own, by its full path
    case $1 in reload | initramfs | menu | install | uninstall)
        "$@"
        return
        ;;
    esac
    if [ "$1" = rebuild ] && [ -z "$root" ]; then # a simulated node has one among its commands
        shift
        /usr/lib/gdr-toolkit/rebuild "$@"
        return
    fi
    there=$(locate "$1")
    case "$*" in "dkms "*" -k "*) # OFED's configure asks which kernel runs, unless it is told
        KVERSION="$*" KVERSION=${KVERSION#* -k }
        export KVERSION="${KVERSION%% *}"
        ;;
    esac
    shift
    "$there" "$@"
}

stream() { # what the log has gained
    while IFS= read -r line <&3; do
        printf '|%s\n' "$part$line"
        part=''
    done
    part=$part$line
}

reload() { # reload NAME FILE: loaded, and as it is on disk. rmmod refuses what is in use.
    disk=$(run_there modprobe --show-depends "$2" | sed -n 's/^insmod \([^ ]*\).*/\1/p' | tail -n 1)
    build=$(run_there modinfo -F srcversion "$disk" 2>/dev/null)
    if [ -d "$root/sys/module/$1" ]; then
        if [ -n "$build" ] && [ "$build" = "$(cat "$root/sys/module/$1/srcversion" 2>/dev/null)" ]; then
            echo "$1 is loaded as it is on disk"
            return
        fi
        run_there rmmod "$1" || return
    fi
    run_there modprobe "$2"
}

# --- runs ---------------------------------------------------------------------------

apply() { # apply: the bundle, from the first expectation to the last trigger
    id=$(date -u +%Y%m%dT%H%M%SZ)-$$ whole='' acting=''
    run=$state/runs/$id
    label=$run key=unpack number=0
    if ! quietly unpack; then
        rm -rf "$run"
        return 5
    fi
    if [ -z "$stage" ]; then stage=$run/stage; fi
    if ! trusted; then rm -rf "$run"; return 5; fi
    if [ -n "${again-}" ] && settled; then rm -rf "$run"; return; fi
    mark >"$run/bundle"
    gdr_audit=${gdr_audit:+$gdr_audit bundle=$(cat "$run/bundle")}
    pass=check
    . "$stage/steps"
    key=steps label=$stage/steps
    if [ -n "$refused" ] || quietly begin; then
        pass=act number=0
        if [ -z "$refused" ]; then frame run ok "$id"; fi
        . "$stage/steps"
    fi
    rm -rf "$run/stage"
    if ! grep -q -e "^$id " "$state/journal" 2>/dev/null; then rm -rf "$run"
    elif [ -n "$refused" ]; then record "$id" stopped
    else
        record "$id" "done"
        prune "$keeping"
    fi
    [ -z "$refused" ] || return 5
}

quietly() { # quietly FUNCTION: a frame only where it fails
    words=$("$@" 2>&1) && return
    refused=0
    frame "$key" failed:1 "$label"
    printf '%s\n' "$words" | bars
    return 1
}

unpack() { # a script that was sent without a folder brings its own
    mkdir -p "$state/runs" && mkdir "$run" "$run/kept" && : >"$run/owed" && : >"$run/undo" || return
    if [ -z "$stage" ]; then gdr_unpack "$run/stage"; fi
}

begin() { # from here on the run stands in the journal, and owes its triggers
    if [ "$whole" != "$number" ]; then echo 'the list is cut off'; return 1; fi
    [ -n "$acting" ] || return 0 # nothing to take back
    # Before the journal names the run, all that its rollback reads is on the disk.
    flush "$run/owed" "$run/undo" "$run/bundle" || return
    flush_folder "$run/kept" "$run" "$state/runs" "$state" "${state%/*}"
    record "$id" began || return # first, for what is pending and of no run would stay so
    while IFS= read -r owed; do add "$state/pending" "$owed" || return; done <"$run/owed"
}

ready() { # the state's own folder
    if [ ! -d "$state" ]; then mkdir -p "$state" && chmod 755 "$state" || return; fi
    : >"$state/try.$$" && rm -f "$state/try.$$"
}

gdr_apply() { # gdr_apply VERB [RUN] WAIT end
    last=''
    for last; do :; done
    if [ "$last" != end ]; then exit 64; fi
    root=${GDR_ROOT%/} count=0 number=0 refused='' stop='' pass=act
    if [ -n "$root" ]; then node_path=$GDR_BIN; else node_path=$PATH:/usr/sbin:/sbin:/usr/bin:/bin; fi
    state=$root/var/lib/gdr-toolkit LC_ALL=C
    export LC_ALL
    export GDR_REBUILD=1 # what is built here is in the list; the hooks that we placed keep still
    umask 077
    trap '' HUP PIPE # the controller may vanish: what was begun goes on to its end
    trap 'stop=1' TERM INT
    printf '= begin ok gdr-toolkit/1\n'
    case $1.$# in
        apply.3 | look.3 | retract.3) patience=$2 ;;
        rollback.4 | restart.4) patience=$3 ;;
        *) exit 64 ;;
    esac
    ended=5 key=state label=$state
    if [ "$1" = look ]; then
        look
        ended=$?
    elif quietly ready; then
        ended=75
        if take_lock "$patience"; then
            tidy
            "$1" "$2"
            ended=$?
            if [ "$(readlink "$state/lock")" = "$me" ]; then rm -f "$state/lock"; fi
        fi
    fi
    printf '= end ok %s\n' "$count"
    exit "$ended"
}

# --- called as a file; a script that is sent has its own last lines -------------------

if [ "${0##*/}" = apply.sh ]; then stage=$(dirname "$0"); else stage=''; fi
again=yes # settled, in again.sh, asks for it: whoever has it as a file may bring it twice
gdr_apply "$@"
