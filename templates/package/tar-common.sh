# shellcheck shell=sh disable=SC2154 # the script that includes it sets what is used here
# Part of gdr-toolkit's tarballs; plain POSIX sh. $kernel, $root and $state are the script's.
PATH=$PATH:/usr/sbin:/sbin # su without a login leaves these out, and depmod is there

refuse() {
    echo "$(basename "$0"): $1" >&2
    echo "  next: $2" >&2
    exit 1
}

root_of() { # root_of [--root DIR]: without a slash at its end; empty for this machine
    case $#,${1-} in
        0,) ;;
        2,--root)
            [ -d "$2" ] || refuse "there is no folder $2" "name the root of a tree"
            (CDPATH='' cd "$2" && pwd) | sed 's|^/$||'
            ;;
        *) refuse "it takes nothing but --root DIR" "leave the rest out" ;;
    esac
}

flush() { sync; }

started() { # started PID: when that process began, and in which boot; nothing where it is gone
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    # shellcheck disable=SC2086 # fields
    set -- ${stat##*) }
    echo "${20}-$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
}

take_lock() { # one at a time; the lock of one that was killed counts for nothing
    mkdir -p "$state"
    # A link is made in one act with what it says. Its number alone would be another's by now.
    me=$$,$(started $$)
    if ! ln -sn "$me" "$state/lock" 2>/dev/null; then
        holder=$(readlink "$state/lock") || holder=''
        other=${holder%%,*}
        if [ -n "$other" ] && kill -0 "$other" 2>/dev/null && [ "$holder" = "$other,$(started "$other")" ]; then
            refuse "process $other is at work here" "wait until it has ended"
        fi
        rm -f "$state/lock"
        ln -sn "$me" "$state/lock" 2>/dev/null || refuse "another one is at work here" "wait until it has ended"
    fi
}

put() { # put FILE TARGET: in one step, so that a reader sees the old one or the new one
    cp "$1" "$2.gdr-new"
    chmod 644 "$2.gdr-new"
    mv "$2.gdr-new" "$2"
}

make_folder() { # make_folder PATH: below the root; remembers those that were not there
    if [ -d "$root/$1" ]; then return; fi
    case $1 in */*) make_folder "${1%/*}" ;; esac
    echo "$1" >>"$state/folders"
    mkdir -p "$root/$1"
}

hash_of() {
    sum=$(sha256sum <"$1") && echo "${sum%% *}"
}

# take_back: put back what was kept, remove what is ours. What others have changed since is
# left as it is, and named.
take_back() {
    left=0
    if [ -e "$state/kept.done" ]; then
        while read -r sum path; do
            rm -f "$root/$path.gdr-new"
            if [ -e "$root/$path" ] && [ "$(hash_of "$root/$path")" != "$sum" ] &&
                ! cmp -s "$root/$path" "$state/kept/$path"; then
                echo "left as it is, changed since: $root/$path" >&2
                left=1
            elif [ -e "$state/kept/$path" ]; then
                mkdir -p "$(dirname "$root/$path")"
                cp -p "$state/kept/$path" "$root/$path.gdr-new"
                mv "$root/$path.gdr-new" "$root/$path"
            else
                rm -f "$root/$path"
            fi
        done <"$state/list"
        if [ -e "$state/folders" ]; then
            # Deepest first; one that others use by now stays.
            sort -r "$state/folders" | while read -r each; do
                rmdir "$root/$each" 2>/dev/null || :
            done
        fi
        flush
    fi
    if [ "$left" = 1 ] && [ -n "$(find "$state/kept" -type f | head -n 1)" ]; then
        mv "$state/kept" "$state/kept.$(date +%s)"
    fi
    rm -rf "$state/kept" "$state/kept.done" "$state/list" "$state/folders" "$state/done" "$state/list.gdr-new"
}
