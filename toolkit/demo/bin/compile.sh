# shellcheck shell=sh
# What make and modpost do for the simulated dkms: a module file from its source. Needs
# lib.sh.
# shellcheck disable=SC2154 # set by those who source this

peer_symbols_for() { # peer_symbols_for KERNEL: sets provider, "" where no symvers has both
    # conftest.sh of the driver, test ib_peer_memory_symbols, looks here in this order.
    provider=''
    for found in "$root/lib/modules/$1/build/Module.symvers" \
        "$root/usr/src/ofa_kernel/x86_64/$1/Module.symvers" \
        "$root/usr/src/ofa_kernel/$1/Module.symvers" \
        "$root/usr/src/ofa_kernel/default/Module.symvers"; do
        [ -r "$found" ] || continue
        provider=$(awk -F '\t' '
            $2 == "ib_register_peer_memory_client" { file = $3; both++ }
            $2 == "ib_unregister_peer_memory_client" { both++ }
            END { if (both == 2) { sub(/.*\//, "", file); print file } }
        ' "$found")
        if [ -n "$provider" ]; then return; fi
    done
}

source_of() { # source_of MODULE PACKAGE VERSION: sets source; nvidia-peermem may borrow
    for source in "$root/usr/src/$2-$3/$1/$1.c" "$root/usr/src/$2-$3/$1.c" \
        "$root"/usr/src/nvidia*-"$3/$1/$1.c"; do
        if [ -r "$source" ]; then return 0; fi
    done
    return 1
}

checksum() { # checksum NAME: sets sum, the version of a symbol on every simulated node
    sum=$(printf '%s' "$1" | cksum)
    sum=${sum%% *}
}

version_entries() { # version_entries NAME...: what stands in __versions, 64 bytes each
    for name; do
        checksum "$name"
        for shift in 0 8 16 24; do
            # shellcheck disable=SC2059 # one byte
            printf "\\$(printf '%03o' $((sum >> shift & 255)))"
        done
        printf '\000\000\000\000%s' "$name"
        head -c $((56 - ${#name})) /dev/zero
    done
}

compile() { # compile SOURCE MODULE KERNEL TARGET
    license='' version='' alias='' needs='' exports='' imports=''
    while IFS= read -r text; do
        inner=${text#*\"}
        inner=${inner%%\"*}
        case $text in
            '#include "'*) needs="$needs,${inner%.h}" ;;
            'MODULE_LICENSE('*) license=$inner ;;
            'MODULE_VERSION('*) version=$inner ;;
            'MODULE_ALIAS('*) alias=$inner ;;
            'EXPORT_SYMBOL('*)
                text=${text#*\(}
                exports="$exports${text%%\)*}\\000"
                ;;
        esac
    done <"$1"
    needs=${needs#,}
    if [ "$2" = nvidia-peermem ]; then
        peer_symbols_for "$3"
        needs=''
        if [ -n "$provider" ]; then
            needs="nvidia,$provider"
            imports='nvidia_p2p_get_pages nvidia_p2p_put_pages nvidia_p2p_get_pages_persistent
                ib_register_peer_memory_client ib_unregister_peer_memory_client'
        fi
    fi
    hash=$({
        cat "$1"
        printf '%s\n' "$needs"
    } | md5sum | cut -c 1-23 | tr a-f A-F)
    norm "$2"
    first_line "$inside/vermagic"
    # shellcheck disable=SC2059 # the format holds the zero bytes between the strings
    {
        printf "license=$license\\000${version:+version=$version\\000}${alias:+alias=$alias\\000}"
        printf "srcversion=$hash\\000depends=$needs\\000retpoline=Y\\000name=$normal\\000"
        printf "vermagic=$3 $line \\000"
    } >"$4.modinfo"
    # shellcheck disable=SC2059 # likewise
    printf "$exports" >"$4.ksymtab"
    truncate -s 1024 "$4.modinfo"
    truncate -s 256 "$4.ksymtab"
    # shellcheck disable=SC2086 # one word a name
    version_entries module_layout $imports >"$4.versions"
    truncate -s 1024 "$4.versions"
    cat "$inside/elf-head" "$4.modinfo" "$4.ksymtab" "$4.versions" >"$4"
    rm -f "$4.modinfo" "$4.ksymtab" "$4.versions"
}
