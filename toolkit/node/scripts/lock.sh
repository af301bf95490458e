# shellcheck shell=sh disable=SC2154,SC2317,SC2034 # what stands beside it sets and reads what is used here
# The state that runs share, below /var/lib/gdr-toolkit, the lock over it, and the reboot that
# keeps it: the first part of the engine on the node.
#
#   owned      the paths that are ours, one a line; folders end with a slash
#   pending    triggers that are owed: each line a quoted call, its first word the name
#   journal    one line a run, newest last: RUN STATE TIME, and who had it done: NAME=WORD ...
#   lock       a symbolic link whose target says who holds it
#   runs/RUN/  what the run replaced; see undo.sh

rewrite() { # rewrite FILE COMMAND...: FILE becomes what the command prints, never half of it
    # By cat, which tells where the disk is full.
    if (shift && text=$("$@") && { [ -z "$text" ] || printf '%s\n' "$text" | cat; }) >"$1.new" && chmod 644 "$1.new" && flush "$1.new" && mv -f "$1.new" "$1"; then
        flush_folder "${1%/*}"
        return 0
    fi
    rm -f "$1.new"
    return 1
}

with() { # with FILE LINE: FILE and one line more
    { [ ! -e "$1" ] || cat "$1"; } && printf '%s\n' "$2"
}

without() { # without FILE LINE
    [ -e "$1" ] || return 0
    grep -vxF -e "$2" "$1"
    [ $? -lt 2 ] # 1 says that no line is left
}

has() { grep -qxF -e "$2" "$1" 2>/dev/null; } # has FILE LINE
add() { has "$1" "$2" || rewrite "$1" with "$1" "$2"; }
drop() { ! has "$1" "$2" || rewrite "$1" without "$1" "$2"; }

record() { # record RUN STATE: the run's one line of the journal, with all who had a hand in it
    by=$(sed -n "s/^$1 [^ ]* [^ ]* //p" "$state/journal" 2>/dev/null)
    case " $by / " in
        *" ${gdr_audit:-$by} / "*) ;;
        *) by=$by${by:+ / }$gdr_audit ;;
    esac
    rewrite "$state/journal" lines_but "$1" "$1 $2 $(date -u +%Y-%m-%dT%H:%M:%SZ)${by:+ $by}" || return
    told_of "run $1 $2"
}
told_of() { # told_of WORDS: one line of the system's own log, with who has it done; best effort
    [ -z "$root" ] || return 0
    timeout 5 logger -t gdr-toolkit -- "$1${gdr_audit:+ $gdr_audit}" </dev/null >/dev/null 2>&1 || :
}
lines_but() {
    if [ -e "$state/journal" ]; then grep -v -e "^$1 " "$state/journal"; fi
    printf '%s\n' "$2"
}

# --- the lock -----------------------------------------------------------------------
# A symbolic link is made in one act together with its content, and its content never
# changes. A dead holder's link is removed only by who holds the link named after it, so
# that two contenders cannot both win.

started() { # started PID: when that process began, which tells it from a later one
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086 # fields
    set -- ${stat##*) }
    [ "$1" != Z ] && echo "${20}"
}

this_boot() { cat "$root/proc/sys/kernel/random/boot_id" 2>/dev/null; }

holder() { # holder PID [WHY]: what the link of that process points at
    echo "$1,$(started "$1"),$boot_id,$(date -u +%Y-%m-%dT%H:%M:%SZ),${2:-}${SUDO_USER:-$(id -un)} ${SSH_CONNECTION%% *}"
}

arrive() { # looked at before each try: a simulated node boots, and its processes live on
    boot_id=$(this_boot)
    me=$(holder $$)
}

alive() { # alive HOLDER
    IFS=, read -r pid began boot _ <<EOT
$1
EOT
    [ "$boot" = "$boot_id" ] && [ "$(started "$pid")" = "$began" ]
}

uptime_s() { # of this boot: no clock step moves it; a simulated node may have its own
    read -r up _ <"$(if [ -r "$root/proc/uptime" ]; then echo "$root"; fi)/proc/uptime" && echo "${up%%.*}"
}

forgotten() { # forgotten HOLDER: a reboot that never came in 20 minutes, and nobody left to say so
    case $1 in
        1,*,'rebooting for '*,*[!0-9]* | 1,*,'rebooting for '*,) false ;;
        1,*,'rebooting for '*,*) [ "$(($(uptime_s) - ${1##*,}))" -gt 1200 ] ;;
        *) false ;;
    esac
}

grab() { # grab LINK: true when we hold it now
    ln -sn "$me" "$1" 2>/dev/null && return
    set -- "$1" "$(readlink "$1")"
    if [ -z "$2" ] || { alive "$2" && ! forgotten "$2"; }; then return 1; fi
    set -- "$1" "$2" "$state/dead-$(printf '%s' "$2" | tr -c 'A-Za-z0-9' '-')"
    grab "$3" || return 1
    if [ "$(readlink "$1")" = "$2" ]; then rm -f "$1"; fi
    rm -f "$3"
    ln -sn "$me" "$1" 2>/dev/null
}

take_lock() { # take_lock SECONDS: else a frame that says who holds it
    waited=0
    until arrive; grab "$state/lock"; do
        waited=$((waited + 1))
        held_by=$(readlink "$state/lock") || continue
        [ "$waited" -le "$1" ] || break
        sleep 1
    done
    if [ "$(readlink "$state/lock")" = "$me" ]; then
        # What is left of those who died as they broke a lock, or handed theirs on: none comes back.
        rm -f "$state"/dead-* "$state"/lock.*
        return
    fi
    told_held
    return 1
}

told_held() { # one frame: who holds the lock, by $held_by
    IFS=, read -r pid _ _ since who _ <<EOT
$held_by
EOT
    frame lock failed:75 "$state/lock"
    case $who in
        'rebooting for '*) printf '|%s\n' "it is rebooting since $since, on behalf of ${who#rebooting for }" ;;
        *) printf '|%s\n' "held since $since by process $pid, started by $who" ;;
    esac
}

under_lock() { # under_lock SECONDS COMMAND...: its status; 5 without a place for the lock, 75 without the lock
    state=$root/var/lib/gdr-toolkit patience=$1 stop=''
    shift
    trap '' HUP PIPE # the controller may vanish: what was begun goes on to its end
    trap 'stop=1' TERM INT
    umask 077
    if ! { [ -d "$state" ] || { mkdir -p "$state" && chmod 755 "$state"; }; } 2>/dev/null; then
        frame state failed:1 "$state"
        return 5
    fi
    take_lock "$patience" || return 75
    "$@"
    set -- "$?"
    if [ "$(readlink "$state/lock")" = "$me" ]; then rm -f "$state/lock"; fi
    return "$1"
}

# --- a reboot -------------------------------------------------------------------------

restart() { # restart BOOT-ID: the node, where that is still its boot
    if [ "$boot_id" != "$1" ]; then
        frame 1.expect failed:65 "expect boot-id $1"
        printf '|%s\n' "the node was booted again since it was looked at"
        return 5
    fi
    # From here on process 1 holds the lock: it lives until the boot that gives the lock back.
    held_by=$(holder 1 'rebooting for '),$(uptime_s)
    if ! { ln -sfn "$held_by" "$state/lock.$$" && mv -f "$state/lock.$$" "$state/lock"; }; then
        frame restart failed:1 "the lock could not be handed on"
        return 5
    fi
    sync
    # Detached and silent, for our own connection must end before the node does. In braces, for
    # dash keeps a copy of what it redirects for a function, and so would hold the connection.
    { going_down; } >/dev/null 2>&1 </dev/null &
    frame restart ok "$boot_id"
}

going_down() { # the node reboots; where it does not, the lock is given back all the same
    sleep 1
    if [ -n "$root" ]; then PATH=$GDR_BIN:$PATH; else PATH=$node_path; fi
    if systemctl reboot || reboot; then
        left=900
        while [ "$(this_boot)" = "$boot_id" ] && [ "$left" -gt 0 ]; do
            sleep 1
            left=$((left - 1))
        done
        if [ "$left" != 0 ]; then return; fi
    fi
    if [ "$(readlink "$state/lock")" = "$held_by" ]; then rm -f "$state/lock"; fi
}
