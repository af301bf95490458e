# shellcheck shell=sh
# Reading modules and their configuration: what kmod's library does. Needs lib.sh.
# shellcheck disable=SC2034,SC2154 # what is set in one is read in the other

modprobe_config() { # every directive, names as the kernel spells them
    set --
    IFS=$nl # the names of configuration files have no blanks; what is above them may
    # shellcheck disable=SC2046 # one a line
    set -- $(
        for dir in etc run usr/local/lib usr/lib lib; do
            for file in "$root/$dir"/modprobe.d/*.conf; do
                if [ -f "$file" ]; then echo "$file"; fi
            done
        done | awk -F/ '!seen[$NF]++ { print $NF "\t" $0 }' | sort | cut -f 2
    )
    unset IFS
    awk '
        function emit(text,    word, count, i, rest) {
            sub(/^[ \t]+/, "", text)
            count = split(text, word, /[ \t]+/)
            if (word[1] !~ /^(alias|blacklist|install|remove|options|softdep)$/ || count < 2) return
            gsub(/-/, "_", word[2])
            for (i = 3; i <= count; i++) if (word[i] != "") rest = rest " " word[i]
            kept[word[1]] = kept[word[1]] word[1] " " word[2] rest "\n"
        }
        FILENAME ~ /\/proc\/cmdline$/ {
            for (i = 1; i <= NF; i++) {
                if ($i ~ /^modprobe\.blacklist=/) {
                    sub(/^[^=]*=/, "", $i)
                    listed = split($i, names, ",")
                    for (j = 1; j <= listed; j++) emit("blacklist " names[j])
                } else if ($i ~ /^[a-z0-9_]+\.[a-zA-Z0-9_]+=/) {
                    dot = index($i, ".")
                    emit("options " substr($i, 1, dot - 1) " " substr($i, dot + 1))
                }
            }
            next
        }
        held == "" && /^[ \t]*#/ { next }
        /\\$/ { held = held substr($0, 1, length($0) - 1) " "; next }
        { emit(held $0); held = "" }
        END {
            total = split("blacklist install remove alias options softdep", order, " ")
            for (i = 1; i <= total; i++) printf "%s", kept[order[i]]
        }
    ' "$@" "$root/proc/cmdline" /dev/null
}

directives() { # directives KIND NAME: sets given, the rest of each such line, newline-ended
    given=''
    while read -r kind name rest; do
        if [ "$kind $name" = "$1 $2" ]; then
            given="$given$rest
"
        fi
    done <<EOF
$config
EOF
}

load_tables() { # sets config and table; table has "name file needed-file..." a module
    config=$(modprobe_config)
    table=$(sed -e 's/^\([^:]*\):/\1 \1/' -e 's/^[^ ]*\/\([^/ ]*\)\.ko /\1 /' \
        "$root/lib/modules/$release/modules.dep" 2>/dev/null | awk '{ gsub(/-/, "_", $1); print }')
    for path in ${GDR_EARLY:-}; do # in an initial ram disk there is nothing else to choose
        table="${path##*/} $path.ko
$table"
    done
}

find_module() { # find_module NAME: sets found and needed; NAME as the kernel spells it
    found='' needed=''
    while read -r name file rest; do
        if [ "$name" = "$1" ]; then
            found=$file needed=$rest
            return 0
        fi
    done <<EOF
$table
EOF
    return 1
}

module_name() { # module_name FILE: sets normal
    normal=${1##*/}
    norm "${normal%.ko*}"
}

read_module() { # read_module FILE: sets version srcversion vermagic depends license exports
    version='' srcversion='' vermagic='' depends='' license='' exports=''
    while IFS= read -r entry; do
        case $entry in
            version=*) version=${entry#*=} ;;
            srcversion=*) srcversion=${entry#*=} ;;
            vermagic=*) vermagic=${entry#*=} ;;
            depends=*) depends=${entry#*=} ;;
            license=*) license=${entry#*=} ;;
            ib_* | nvidia_p2p_*) exports="$exports $entry" ;;
        esac
    done <<EOF
$(grep -azE '^((version|srcversion|vermagic|depends|license)=|(ib|nvidia_p2p)_[a-z_]+$)' "$1" | tr '\000' '\n')
EOF
}

take_out() { # take_out NAME: and what its loading made appear
    rm -rf "$root/sys/module/$1" "$inside/live/$1" "$root"/sys/module/*/holders/"$1"
    [ -e "$inside/load/$1.tar" ] || return 0
    tar -tf "$inside/load/$1.tar" | (cd "$root" && xargs rm -f)
    [ "$1" != nvidia ] || rm -rf "$root/proc/driver/nvidia"
}

flush_modules() { # /proc/modules, /proc/kallsyms and the counts, from /sys/module
    rm -f "$root"/sys/module/*/refcnt
    listed='' symbols=''
    first_line "$inside/user"
    address=ffffffffc0a3e5b0
    [ "$line" = root ] || address=0000000000000000
    for at in "$root"/sys/module/*/; do
        [ -d "$at" ] || continue
        name=${at%/} users='' count=0
        name=${name##*/}
        for holder in "$at"holders/*; do
            [ -L "$holder" ] || continue
            users="$users${holder##*/},"
            count=$((count + 1))
        done
        echo "$count" >"${at}refcnt"
        first_line "${at}coresize"
        listed="$listed$name $line $count ${users:--} Live 0x0000000000000000
"
        first_line "$inside/live/$name"
        for symbol in $line; do
            symbols="$symbols$address T $symbol	[$name]
"
        done
    done
    put "$root/proc/modules" "${listed%?}"
    put "$root/proc/kallsyms" "${symbols}$address T dma_buf_attach"
}
