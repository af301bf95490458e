# shellcheck shell=sh disable=SC2154,SC2317,SC2034 # apply.sh sets what is used here, and calls it
# What triggers rewrite and is not ours: kept before, given back byte for byte. A part of the
# engine on the node.
#
# A run's folder holds:
#   keeps     TRIGGER PATTERN, of files that triggers rewrite
#   before    their hashes and modes, taken with the copies in kept/tree, before any trigger begins
#   going     TRIGGER..., written before a command of theirs begins, or "rollback". For as long as
#             it is there, what these rewrite is ours, however it lies there.
#   after     the hashes at the end of that; absent where no trigger has begun
#   foreign   of what others changed since: lines of neither list
#   temps     TRIGGER PATTERN, of what commands leave beside all that where they are cut off
#   there     those of them that were there before
#   spoilt    "cut TRIGGER..." or "failed TRIGGER...": of which temps are left

each_kept() { # each_kept FUNCTION [TRIGGERS]: with every path that a pattern names
    while read -r name pattern; do
        case " ${2:-$name} " in *" $name "*) ;; *) continue ;; esac
        for top in "$root"$pattern; do
            if [ -e "$top" ] || [ -L "$top" ]; then "$1" "$top" || return 1; fi
        done
    done <"$run/keeps"
}

listing() { # the folders, files and links kept: a line for each hash or target, and for each file's mode
    # A heading, so that no list is empty, which not every grep -f bears. Lists begun by an earlier
    # version tell no modes: theirs go on without.
    if ! grep -qsxF '#  heading' "$run/before"; then echo '#  with modes'; else echo '#  heading'; fi
    each_kept listed
}
listed() {
    find "$1" -type d | sed 's/^/dir  /'
    find "$1" -type f ! -name '.*.gdr-toolkit-new' -exec sha256sum {} + || return
    if ! grep -qsxF '#  heading' "$run/before"; then
        find "$1" -type f ! -name '.*.gdr-toolkit-new' -exec stat -c 'mode:%a:%u:%g  %n' {} + || return
    fi
    find "$1" -type l | while IFS= read -r link; do echo "link:$(readlink "$link")  $link"; done
}
listed_in() { sed 's/^[^ ]*  //' "$run/$1" | grep -qxF -e "$2"; } # listed_in LIST PATH

set_aside() { # set_aside TRIGGER PATTERN...: copies of all that it may rewrite, on the disk before it does
    kept_for=$1
    shift
    for pattern; do echo "$kept_for $pattern"; done >>"$run/keeps" && flush "$run/keeps" &&
        set_aside_now "$kept_for"
}
set_aside_now() { # set_aside_now [TRIGGER]: as it lies now
    each_kept copied "$@" && rewrite "$run/before" listing || return
    if [ -d "$run/kept/tree" ]; then flush_tree "$run/kept"; fi
}
copied() { mkdir -p "$run/kept/tree${1%/*}" && cp -a "$1" "$run/kept/tree${1%/*}/"; }

note_temps() { # note_temps TRIGGER PATTERN...: what is there already is none of ours
    temps_of=$1
    shift
    for pattern; do echo "$temps_of $pattern"; done >>"$run/temps" || return
    for pattern; do
        for path in "$root"$pattern; do
            if [ -e "$path" ]; then echo "$path"; fi
        done
    done >>"$run/there" && flush "$run/temps" "$run/there"
}

# --- a command that rewrites them ---------------------------------------------------------

rewrites() { # rewrites TRIGGER: all triggers whose files its command may write. DKMS calls depmod, some the next.
    case $1 in BUILD_DKMS) echo 'BUILD_DKMS DEPMOD REBUILD_INITRAMFS' ;; *) echo "$1" ;; esac
}

going() { # going TRIGGERS|rollback: it begins
    if [ ! -e "$run/keeps" ] && [ ! -e "$run/temps" ]; then return; fi
    rewrite "$run/going" echo "$1"
}

over() { # over [failed]: it has ended; where that cannot be written down, it is still going
    if [ ! -e "$run/going" ]; then return; fi
    if [ -n "${1-}" ]; then add "$run/spoilt" "failed $(cat "$run/going")" || return; fi
    if [ -e "$run/keeps" ]; then each_kept flush_tree && rewrite "$run/after" listing || return; fi
    rm -f "$run/going" && flush_folder "$run"
}

cut_amid() { # it was cut off: what it rewrites is ours as it lies there now, and what others change from now on is theirs
    amid=$(cat "$run/going")
    sweep "$amid"
    add "$run/spoilt" "cut $amid" || return
    if [ -e "$run/keeps" ]; then rewrite "$run/after" as_cut_off || return; fi
    rm -f "$run/going" && flush_folder "$run"
}

as_cut_off() {
    set -- "$run/after"
    if [ ! -e "$1" ]; then set -- "$run/before"; fi
    rewrite "$run/now" listing || return
    while IFS= read -r line; do
        written_amid "${line#*  }" || printf '%s\n' "$line"
    done <"$1"
    while IFS= read -r line; do
        if written_amid "${line#*  }"; then printf '%s\n' "$line"; fi
    done <"$run/now"
}

written_amid() { # written_amid PATH
    case $amid in
        rollback) [ ! -s "$run/foreign" ] || ! listed_in foreign "$1" ;;
        *) written_by "$amid" "$1" ;;
    esac
}

written_by() { # written_by TRIGGERS PATH: whether one of them rewrites it
    while read -r name pattern; do
        case " $1 " in *" $name "*) ;; *) continue ;; esac
        # shellcheck disable=SC2254 # a pattern it is
        case $2 in "$root"$pattern | "$root"$pattern/*) return 0 ;; esac
    done <"$run/keeps"
    return 1
}

sweep() { # sweep TRIGGERS|rollback: temporary files of theirs and of our own, but for those that were there before
    if [ -e "$run/temps" ]; then
        while read -r name pattern; do
            case " $1 " in *" $name "* | ' rollback ') ;; *) continue ;; esac
            for path in "$root"$pattern; do
                if [ -e "$path" ] && ! has "$run/there" "$path"; then rm -rf "$path"; fi
            done
        done <"$run/temps"
    fi
    if [ ! -e "$run/keeps" ]; then return; fi
    each_kept without_temps
    while read -r _ pattern; do
        for path in "$root"$(temp_of "$pattern"); do rm -f "$path"; done
    done <"$run/keeps"
}
without_temps() { find "$1" -name '.*.gdr-toolkit-new' -exec rm -f {} +; }

spoilt() { # spoilt WORD TRIGGER: whether it was cut, or has failed
    grep -qE "^$1 (.* )?$2( |\$)" "$run/spoilt" 2>/dev/null
}

names() { # names PATH TEXT: its command may end well, and have written a file without it
    if grep -qF -e "$2" "$root$1"; then return; fi
    echo "$1 does not name $2"
    set -- "$root$1" "$run/kept/tree$root$1" "$(temp_of "$root$1")"
    if [ -e "$2" ] && cp -a "$2" "$3" && flush "$3" && mv -f "$3" "$1"; then echo "it is as it was before"; fi
    rm -f "$3"
    rewrite "$run/after" listing
    return 1
}

# --- given back -----------------------------------------------------------------------------

touched_since() { # lines of kept files that are neither as they were nor as we left them
    rewrite "$run/now" listing || return
    grep -vxFf "$run/after" "$run/now" | grep -vxFf "$run/before"
    grep -vxFf "$run/now" "$run/after" | grep -vxFf "$run/before" | while IFS= read -r line; do
        # Gone as it was before is well: an earlier try of our own came as far.
        if listed_in before "${line#*  }" && ! listed_in now "${line#*  }"; then echo "$line"; fi
    done
    cat "$run/pruned" 2>/dev/null # whose copies are gone: their triggers run again
    return 0
}

could_not_restore() { # could_not_restore TRIGGER: some file of those that it rewrites
    while IFS= read -r line; do
        if written_by "$1" "${line#*  }"; then return 0; fi
    done <"$run/foreign"
    return 1
}

give_back() { # kept files as they were; what the triggers made anew goes away
    rewrite "$run/now" listing || return
    touched=''
    while IFS= read -r line; do
        path=${line#*  }
        if [ -z "$line" ]; then continue; fi
        if [ -e "$run/pruned" ] && listed_in pruned "$path"; then echo "$path: no copy is kept of so old a run; its trigger is run again"
        elif listed_in foreign "$path"; then echo "$path: changed since by other hands; its trigger is run again"
        elif listed_in before "$path"; then continue # replaced below in one act, so never missing
        elif [ "${line%%  *}" = dir ]; then rmdir "$path" 2>/dev/null
        else rm -f "$path"; fi
        touched="$touched
${path%/*}"
    done <<EOT
$(backwards "$run/now" | grep -vxFf "$run/before")
EOT
    while IFS= read -r line; do
        path=${line#*  }
        if [ -z "$line" ] || listed_in foreign "$path"; then continue; fi
        copy_back "$path" "$run/kept/tree$path" "$(temp_of "$path")"
        touched="$touched
${path%/*}"
    done <<EOT
$(grep -vxFf "$run/now" "$run/before")
EOT
    printf '%s\n' "$touched" | sort -u | while IFS= read -r path; do
        if [ -d "$path" ]; then flush_folder "$path"; fi
    done
    all_given_back
}

copy_back() { # copy_back PATH COPY TEMP: whole or not at all
    if [ -d "$2" ] && [ ! -L "$2" ]; then
        (umask 022 && mkdir -p "$1") && chmod "$(stat -c %a "$2")" "$1"
        return
    fi
    if (umask 022 && mkdir -p "${1%/*}") && cp -a "$2" "$3" && { [ -L "$3" ] || flush "$3"; }; then
        # mv would follow a link to a folder, and end inside it.
        if [ -L "$1" ]; then rm -f "$1"; fi
        if mv -f "$3" "$1"; then return; fi
    fi
    rm -f "$3"
    return 1
}

all_given_back() { # looked at once more, before the copies go
    rewrite "$run/now" listing || return
    grep -vxFf "$run/now" "$run/before" | (
        status=0
        while IFS= read -r line; do
            if listed_in foreign "${line#*  }"; then continue; fi
            echo "${line#*  }: not as it was before; its copy is kept in $run/kept/tree"
            status=1
        done
        exit "$status"
    )
}
