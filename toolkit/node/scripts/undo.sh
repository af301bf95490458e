# shellcheck shell=sh disable=SC2154,SC2317,SC2034 # apply.sh sets what is used here, and calls it
# What a run replaces, and how it comes back: the second part of the
# engine on the node.
#
# A run's folder holds, each line written before the act that it takes back:
#   undo     file PATH NEW OLD OWNED KEPT MODE UID GID   hashes or "absent"; KEPT names the copy
#            dir PATH                                    a folder that we made
#            gone PATH                                   one that we made, and took away
#   unwind   first|kept|after CALL                       commands that take triggers back
#   kept/    the copies; they go once what they are copies of is in place and on the disk
# and what kept.sh tells of files that triggers rewrite.

remember() { # remember PATH NEW: what lies there now, before it becomes NEW
    old=$(hash "$root$1") mine=no attributes='- - -'
    [ -n "$old" ] || return 1
    if has "$state/owned" "$1"; then mine=yes; fi
    if [ "$old" != absent ]; then
        attributes=$(stat -c '%a %u %g' "$root$1") && cp -p "$root$1" "$run/kept/$number" || return 1
        flush "$run/kept/$number"
        flush_folder "$run/kept"
    fi
    echo "file $1 $2 $old $mine $number $attributes" >>"$run/undo" && flush "$run/undo"
}

parents() { # parents DIR: makes what is missing of it
    if [ -d "$1/" ]; then return; fi
    parents "${1%/*}" && echo "dir ${1#"$root"}" >>"$run/undo" && flush "$run/undo" &&
        add "$state/owned" "${1#"$root"}/" || return
    # With its mode at once: power that is lost between the two would leave it shut for good.
    if (umask 022 && mkdir "$1") && chmod 755 "$1"; then
        flush_folder "$1" "${1%/*}/"
        return 0
    fi
    drop "$state/owned" "${1#"$root"}/"
    return 1
}

temp_of() { printf '%s' "${1%/*}/.${1##*/}.gdr-toolkit-new"; }

put() { # put PATH MODE SHA256
    if parents "$(dirname "$root$1")" && remember "$1" "$3" && add "$state/owned" "$1" &&
        cat "$stage/files$1" >"$run/new" && settle "$run/new" "$root$1" "$2" 0 0; then
        if [ -z "$root" ] && [ -n "$(locate restorecon)" ]; then restorecon "$1"; fi # SELinux
        return 0
    fi
    if [ "$mine" != yes ]; then drop "$state/owned" "$1"; fi
    return 1
}

settle() { # settle FILE PATH MODE UID GID: FILE's bytes become PATH, whole or not at all
    temp=$(temp_of "$2")
    # Only root can give files away, and only root's nodes need it.
    if cp -p "$1" "$temp" && { [ "$(id -u)" != 0 ] || chown "$4:$5" "$temp"; } &&
        chmod "$3" "$temp" && flush "$temp" && mv -f "$temp" "$2"; then
        flush_folder "${2%/*}"
        return 0
    fi
    rm -f "$temp"
    return 1
}

take_away() { # take_away PATH
    remember "$1" absent && rm -f "$root$1" || return 1
    set -- "$1" "${1%/*}"
    if [ -d "$root$2" ]; then flush_folder "$root$2/"; fi
    drop "$state/owned" "$1" || return 1
    set -- "$2"
    while has "$state/owned" "$1/" && echo "gone $1" >>"$run/undo" && flush "$run/undo" && rmdir "$root$1" 2>/dev/null; do
        flush_folder "$root${1%/*}/"
        drop "$state/owned" "$1/"
        set -- "${1%/*}"
    done
    return 0
}

tidy() { # what a run that was killed has left half done
    rm -f "$state"/*.new "$state"/try.*
    rm -f "$root$plugin" "$(temp_of "$root$plugin")"
    if [ ! -e "$state/journal" ]; then return; fi
    while read -r dead what _; do
        run=$state/runs/$dead
        if [ -e "$run/going" ]; then cut_amid 2>/dev/null || continue; fi
        case $what in began | rolling-back) ;; *) continue ;; esac
        rm -rf "$run/stage"
        while read -r kind path _; do
            if [ "$kind" = file ]; then rm -f "$(temp_of "$root$path")"; fi
        done <"$run/undo"
        if [ "$what" = began ]; then record "$dead" interrupted; fi
    done <<EOT
$(cat "$state/journal")
EOT
    while IFS= read -r path; do
        [ -e "$root$path" ] || drop "$state/owned" "$path"
    done <<EOT
$(cat "$state/owned" 2>/dev/null)
EOT
}

backwards() { sed '1!G;h;$!d' "$1" 2>/dev/null; }

rollback() { # rollback RUN|last|all: newest first
    runs=$(backwards "$state/journal" | while read -r id what _; do
        case $what.$1 in
            rolled-back.*) ;;
            *.all | *."$id") echo "$id" ;;
            *.last) echo "$id"; break ;;
        esac
    done)
    if [ -z "$runs" ]; then frame nothing ok "no run to take back"; fi
    unmended=0
    for id in $runs; do take_back "$id" || unmended=5; done
    for folder in "$state"/runs/*/; do unclaimed "${folder%/}"; done
    return $unmended
}

take_back() { # take_back RUN
    run=$state/runs/$1 refused=''
    frame "run-$1" ok "$1"
    bars <"$run/owed" # what the run did, beside files
    number=$((number + 1)) label="note what is there"
    key=$number.undo
    quietly begin_back "$1" || return 5
    unwind first "$(backwards "$run/unwind")"
    if [ ! -e "$run/stays" ]; then put_all_back; fi
    while IFS= read -r owed; do drop "$state/pending" "$owed" || refused=$number; done <"$run/owed"
    if [ -n "$refused" ]; then
        if [ -e "$run/going" ]; then cut_amid 2>/dev/null; fi # what there was no room for is still ours
        record "$1" partly-rolled-back
        return 5
    fi
    # A swap that was cut off has nothing to take back any more: all its files are as before.
    if spoilt cut BUILD_DKMS; then rm -rf "$state/swaps"; fi
    record "$1" rolled-back && rm -rf "$run"
}

put_all_back() { # what the triggers of the run rewrote, and its files
    if [ -e "$run/after" ]; then
        numbered "give back what the triggers rewrote" give_back
    fi
    while read -r kind path new old mine kept mode uid gid; do
        case $kind in
            file) numbered "restore $path" put_back ;;
            gone) numbered "restore $path" put_folder_back ;;
            dir) leave "$path" ;;
        esac
    done <<EOT
$(backwards "$run/undo")
EOT
    if [ -s "$run/foreign" ]; then unwind kept "$(cat "$run/unwind" 2>/dev/null)"; fi
    unwind after "$(cat "$run/unwind" 2>/dev/null)"
}

begin_back() { # begin_back RUN: nothing is touched where there is no room to remember it
    if [ -e "$run/going" ]; then
        cut_amid || return
    elif [ -e "$run/keeps" ] && [ ! -e "$run/after" ]; then
        # No trigger has begun. The run may have been cut off as it set aside: what is named as kept
        # and not in that list would be taken for made by us.
        set_aside_now || return
    fi
    while read -r _ amid; do sweep "$amid"; done <<EOT
$(cat "$run/spoilt" 2>/dev/null)
EOT
    if [ -e "$run/after" ]; then rewrite "$run/foreign" touched_since || return; fi
    going rollback && record "$1" rolling-back
}

numbered() { # numbered LABEL FUNCTION: a step of the rollback; those after it go on all the same
    number=$((number + 1)) label=$1
    key=$number.undo
    perform "$2"
}

unwind() { # unwind WHEN LINES: the commands for that moment
    while read -r when unwound; do
        if [ "$when" != "$1" ]; then continue; fi
        if [ "$when" = kept ] && ! could_not_restore "${unwound%% *}"; then continue; fi
        if [ "$when" = first ] && from_copies "${unwound%% *}"; then continue; fi
        number=$((number + 1)) label=$unwound
        key=$number.undo
        if ! call "$unwound"; then
            refused=$number
            sweep "$(rewrites "${unwound%% *}")"
        fi
    done <<EOT
$2
EOT
}

from_copies() { # from_copies TRIGGER: it never began, or was cut off, and a command may refuse half of it, or twice
    grep -qs -e "^$1 " "$run/keeps" && { [ ! -e "$run/after" ] || spoilt cut "($1|rollback)"; }
}

put_back() { # the file of the current undo line, where nobody else has changed it since
    now=$(hash "$root$path")
    if [ "$now" != "$new" ] && [ "$now" != "$old" ]; then
        echo "changed since by other hands, so left as it is"
        return 73
    fi
    if [ "$now" = "$new" ] && [ "$old" = absent ]; then
        rm -f "$root$path" || return
        if [ -d "$root${path%/*}" ]; then flush_folder "$root${path%/*}"; fi
    elif [ "$now" = "$new" ]; then
        (umask 022 && mkdir -p "$root${path%/*}") && settle "$run/kept/$kept" "$root$path" "$mode" "$uid" "$gid" || return
    fi
    if [ "$(hash "$root$path")" != "$old" ]; then echo "not as it was before; its copy is $run/kept/$kept"; return 1; fi
    if [ "$mine" = yes ]; then add "$state/owned" "$path"; else drop "$state/owned" "$path"; fi
}

put_folder_back() {
    (umask 022 && mkdir -p "$root$path") || return
    flush_folder "$root$path" "$root${path%/*}/"
    add "$state/owned" "$path/"
}

leave() { # leave DIR: a folder that we made, where nothing of others is in it
    if rmdir "$root$1" 2>/dev/null; then flush_folder "$root${1%/*}/"; fi
    if [ ! -e "$root$1" ]; then drop "$state/owned" "$1/"; fi
}
