# shellcheck shell=sh disable=SC2154,SC2317 # signers.sh stands above, and sets and uses what is here
# What an account that is not root may have done as root, by sudo. Installed by root as
# /usr/lib/gdr-toolkit/gdr-node; docs/least-privilege.md says how.
#
#   gdr-node probe    the probe that is installed beside it; what comes on stdin has to be the same
#   gdr-node apply    the bundle that comes on stdin as a tar, where a trusted key has signed it
#
# Nothing else of a caller's counts: no word, no variable, no folder, no limit.

PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
umask 077
cd / || exit
# shellcheck disable=SC3045 # dash, busybox and bash have them all
{ ulimit -f unlimited && ulimit -t unlimited && ulimit -d unlimited; } 2>/dev/null # not a caller's
root='' # a copy for tests has the path of a tree here
probe=/usr/lib/gdr-toolkit/probe.sh state=$root/var/lib/gdr-toolkit
most=1073741824 # bytes of a bundle, and of each of its files
empty=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

locate() { command -v "$1"; }

alone() { # alone SCRIPT [WORD...]: with nothing around it that a caller could have set
    env -i PATH="$PATH" HOME=/root LC_ALL=C ${root:+GDR_ROOT="$root" GDR_BIN="$root/bin"} sh "$@" </dev/null
}

refuse() { # refuse SENTENCE: as the engine does
    printf '= begin ok gdr-toolkit/1\n= signature failed:1 %s\n' "$signers"
    printf '%s\n' "$1" | sed 's/^/|/'
    printf '= end ok 1\n'
    exit 5
}

read_node() {
    if ! why=$(closed "${probe%/*}" && closed "$probe"); then
        echo "gdr-node: $why" >&2
        exit 77
    fi
    sum=$(head -c 4194304 | sha256sum)
    case ${sum%% *} in
        "$empty" | "$(sha256sum <"$root$probe" | cut -d ' ' -f 1)")
            echo gdr-begin >&2 # the mark that a controller waits for; sudo's own words come before it
            alone "$root$probe"
            ;;
        *) echo "gdr-node: what came is not the probe that is installed here: $probe" >&2
            exit 77 ;;
    esac
}

member() { # member NAME BYTES: of the tar; nothing but this writes what was sent, and to where we say
    # Without TAR_OPTIONS, which can name a command; a packed tar may hold more than was sent.
    # shellcheck disable=SC2094 # a name in the tar, and a file here
    env -i PATH="$PATH" tar -xOf "$run/tar" -- "$1" 2>/dev/null | head -c "$2" >"$1"
    [ -e "$1" ]
}

take() { # take: the files of the signed list, and no other, into this folder
    while IFS= read -r line; do
        name=${line#*  }
        case /$name/ in *//* | */../* | */./*) otherwise "$name" || return ;; esac
        mkdir -p "$(dirname "./$name")" && member "$name" "$most" || otherwise "$name" || return
        if ! echo "$line" | sha256sum -c >/dev/null 2>&1; then otherwise "$name" || return; fi
    done <SHA256SUMS
    if ! grep -q '  apply\.sh$' SHA256SUMS; then otherwise apply.sh || return; fi
    as_signed
}

carry_out() {
    if [ ! -d "$state" ]; then mkdir -p "$state" && chmod 755 "$state" || exit 5; fi
    find "$state" -maxdepth 1 -name 'sent.*' -mmin +1440 -exec rm -rf {} + # of one that was killed
    run=$(mktemp -d "$state/sent.XXXXXX") || exit 5
    trap 'rm -rf "$run"' EXIT
    trap : HUP INT TERM # the engine hears them itself, and goes on to where it can stop
    mkdir "$run/stage" && cd "$run/stage" && head -c "$most" >"$run/tar" || exit 5
    member SHA256SUMS 1048576 && member SHA256SUMS.sig 65536
    if [ ! -s SHA256SUMS ] || [ ! -s SHA256SUMS.sig ]; then
        refuse "what came is not the tar of a signed bundle"
    fi
    why=$(by_trusted_key) || refuse "$why"
    why=$(take) || refuse "$why"
    rm -f "$run/tar"
    alone "$run/stage/apply.sh" apply 60 end
}

case $#.${1-} in
    1.probe) read_node ;;
    1.apply) carry_out ;;
    *) echo 'gdr-node: probe or apply, and no other word' >&2
        exit 64 ;;
esac
