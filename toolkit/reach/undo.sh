# shellcheck shell=sh disable=SC2154,SC2317,SC2034 # apply.sh sets what is used here, and calls it
# What a run replaces, and how it comes back: the second part of the
# engine on the node.
#
# A run's folder holds, each line written before the act that it takes back:
#   undo     file PATH NEW OLD OWNED KEPT MODE UID GID   hashes or "absent"; KEPT names the copy
#            dir PATH                                    a folder that we made
#            gone PATH                                   one that we made, and took away
#   unwind   first|kept|after CALL                       commands that take triggers back
#   keeps    TRIGGER PATTERN, of files that triggers rewrite
#   before, after   their hashes then, and after the latest trigger
#   kept/    the copies

remember() { # remember PATH NEW: what lies there now, before it becomes NEW
    old=$(hash "$root$1") mine=no attributes='- - -'
    [ -n "$old" ] || return 1
    if has "$state/owned" "$1"; then mine=yes; fi
    if [ "$old" != absent ]; then
        attributes=$(stat -c '%a %u %g' "$root$1") && cp -p "$root$1" "$run/kept/$number" || return 1
        flush "$run/kept/$number"
    fi
    echo "file $1 $2 $old $mine $number $attributes" >>"$run/undo" && flush "$run/undo"
}

parents() { # parents DIR: makes what is missing of it
    if [ -d "$1/" ]; then return; fi
    parents "${1%/*}" && echo "dir ${1#"$root"}" >>"$run/undo" && add "$state/owned" "${1#"$root"}/" || return
    mkdir "$1" && chmod 755 "$1" && return
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
        flush "${2%/*}"
        return 0
    fi
    rm -f "$temp"
    return 1
}

take_away() { # take_away PATH
    remember "$1" absent && rm -f "$root$1" && drop "$state/owned" "$1" || return 1
    set -- "${1%/*}"
    while has "$state/owned" "$1/" && echo "gone $1" >>"$run/undo" && rmdir "$root$1" 2>/dev/null; do
        drop "$state/owned" "$1/"
        set -- "${1%/*}"
    done
    return 0
}

each_kept() { # each_kept FUNCTION [TRIGGER]: with every path that a pattern names
    while read -r name pattern; do
        if [ "${2:-$name}" != "$name" ]; then continue; fi
        for top in "$root"$pattern; do
            if [ -e "$top" ] || [ -L "$top" ]; then "$1" "$top" || return 1; fi
        done
    done <"$run/keeps"
}

listing() { # the folders, files and links kept, with the hash or target of each
    echo '#  heading' # so that no list is empty, which not every grep -f bears
    each_kept listed
}
listed() {
    find "$1" -type d | sed 's/^/dir  /'
    find "$1" -type f ! -name '.*.gdr-toolkit-new' -exec sha256sum {} +
    find "$1" -type l | while IFS= read -r link; do echo "link:$(readlink "$link")  $link"; done
}

set_aside() { # set_aside TRIGGER: copies of all that it may rewrite
    each_kept copied "$1" && rewrite "$run/before" listing && rewrite "$run/after" cat "$run/before"
}
copied() { mkdir -p "$run/kept/tree${1%/*}" && cp -a "$1" "$run/kept/tree${1%/*}/"; }

names() { # names PATH TEXT: its command may end well, and have written a file without it
    if grep -qF -e "$2" "$root$1"; then return; fi
    echo "$1 does not name $2"
    set -- "$root$1" "$run/kept/tree$root$1" "$(temp_of "$root$1")"
    if [ -e "$2" ] && cp -a "$2" "$3" && flush "$3" && mv -f "$3" "$1"; then echo "it is as it was before"; fi
    rewrite "$run/after" listing
    return 1
}

tidy() { # what a run that was killed has left half done
    if [ ! -e "$state/journal" ]; then return; fi
    while read -r dead what _; do
        case $what in began | rolling-back) ;; *) continue ;; esac
        while read -r kind path _; do
            if [ "$kind" = file ]; then rm -f "$(temp_of "$root$path")"; fi
        done <"$state/runs/$dead/undo"
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
    return $unmended
}

take_back() { # take_back RUN
    run=$state/runs/$1 refused=''
    frame "run-$1" ok "$1"
    bars <"$run/owed" # what the run did, beside files
    record "$1" rolling-back
    if [ -e "$run/keeps" ]; then rewrite "$run/foreign" touched_since; fi
    unwind first "$(backwards "$run/unwind")"
    if [ -e "$run/keeps" ]; then
        numbered "give back what the triggers rewrote" give_back
    fi
    while read -r kind path new old mine kept mode uid gid; do
        case $kind in
            file) numbered "restore $path" put_back ;;
            gone) numbered "restore $path" put_folder_back ;;
            dir) if rmdir "$root$path" 2>/dev/null || [ ! -e "$root$path" ]; then drop "$state/owned" "$path/"; fi ;;
        esac
    done <<EOT
$(backwards "$run/undo")
EOT
    if [ -s "$run/foreign" ]; then unwind kept "$(cat "$run/unwind" 2>/dev/null)"; fi
    unwind after "$(cat "$run/unwind" 2>/dev/null)"
    while IFS= read -r owed; do drop "$state/pending" "$owed"; done <"$run/owed"
    if [ -n "$refused" ]; then
        record "$1" partly-rolled-back
        return 5
    fi
    record "$1" rolled-back && rm -rf "$run"
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
        number=$((number + 1)) label=$unwound
        key=$number.undo
        call "$unwound" || refused=$number
    done <<EOT
$2
EOT
}

could_not_restore() { # could_not_restore TRIGGER: some file of those that it rewrites
    while read -r name pattern; do
        # shellcheck disable=SC2254 # a pattern it is
        while IFS= read -r line; do
            case $1:${line#*  } in "$name:$root"$pattern | "$name:$root"$pattern/*) return 0 ;; esac
        done <"$run/foreign"
    done <"$run/keeps"
    return 1
}

put_back() { # the file of the current undo line, where nobody else has changed it since
    now=$(hash "$root$path")
    if [ "$now" != "$new" ] && [ "$now" != "$old" ]; then
        echo "changed since by other hands, so left as it is"
        return 73
    fi
    if [ "$now" = "$new" ] && [ "$old" = absent ]; then rm -f "$root$path" || return
    elif [ "$now" = "$new" ]; then
        (umask 022 && mkdir -p "$root${path%/*}") && settle "$run/kept/$kept" "$root$path" "$mode" "$uid" "$gid" || return
    fi
    if [ "$mine" = yes ]; then add "$state/owned" "$path"; else drop "$state/owned" "$path"; fi
}

put_folder_back() { (umask 022 && mkdir -p "$root$path") && add "$state/owned" "$path/"; }

touched_since() { # lines of kept files that are neither as they were nor as we left them
    rewrite "$run/now" listing
    grep -vxFf "$run/after" "$run/now" | grep -vxFf "$run/before"
    grep -vxFf "$run/now" "$run/after" | grep -vxFf "$run/before" | while IFS= read -r line; do
        # Gone as it was before is well: an earlier try of our own came as far.
        if listed_in before "${line#*  }" && ! listed_in now "${line#*  }"; then echo "$line"; fi
    done
    cat "$run/pruned" 2>/dev/null # whose copies are gone: their triggers run again
    return 0
}

give_back() { # kept files as they were; what the triggers made anew goes away
    rewrite "$run/now" listing || return
    status=0
    while IFS= read -r line; do
        path=${line#*  }
        if [ -z "$line" ]; then continue; fi
        if [ -e "$run/pruned" ] && listed_in pruned "$path"; then echo "$path: no copy is kept of so old a run; its trigger is run again"
        elif listed_in foreign "$path"; then echo "$path: changed since by other hands; its trigger is run again"
        elif listed_in before "$path"; then : # replaced below in one act, so never missing
        elif [ "${line%%  *}" = dir ]; then rmdir "$path" 2>/dev/null
        else rm -f "$path"; fi
    done <<EOT
$(backwards "$run/now" | grep -vxFf "$run/before")
EOT
    while IFS= read -r line; do
        path=${line#*  }
        if [ -z "$line" ] || listed_in foreign "$path"; then continue; fi
        case $line in
            dir*) (umask 022 && mkdir -p "$path") ;;
            *) (umask 022 && mkdir -p "${path%/*}") && cp -a "$run/kept/tree$path" "$(temp_of "$path")" &&
                # mv would follow a link to a folder, and end inside it.
                { [ ! -L "$path" ] || rm -f "$path"; } &&
                flush "$(temp_of "$path")" && mv -f "$(temp_of "$path")" "$path" ;;
        esac || status=1
    done <<EOT
$(grep -vxFf "$run/now" "$run/before")
EOT
    return $status
}
listed_in() { sed 's/^[^ ]*  //' "$run/$1" | grep -qxF -e "$2"; } # listed_in LIST PATH
