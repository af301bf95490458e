# shellcheck shell=sh disable=SC2030,SC2031,SC2154 # subshells, so that variables are their own
# Functions for POSIX sh: whether built modules would do their work on a kernel.
#
#   gate KERNEL FILE...   0 where each would; else a line "gate: FILE: WORD: SENTENCE" for each
#                         that would not (missing, damaged, other-arch, other-kernel, stub,
#                         other-driver, no-provider, crc, no-depends, licence, unknown)
#
# A stub compiles and installs well, and modprobe says no more of it than "Invalid argument".
# Whose symbol versions a module must have: those in the files of GATE_SYMVERS (paths apart by
# spaces), else those of the modules installed for that kernel, else those in GATE_LINKED.

gate_unpacked() { # gate_unpacked FILE: its bytes
    case $1 in
        *.xz) xz -dc "$1" ;;
        *.zst) zstd -qdc "$1" ;;
        *.gz) gzip -dc "$1" ;;
        *) cat "$1" ;;
    esac
}

gate_says() { # gate_says WORD SENTENCE: one line of the module in hand; always fails
    echo "gate: $name: $1: $2"
    return 1
}

gate_exports() { # gate_exports FILE: "CRC<tab>SYMBOL" lines
    modprobe --show-exports "$1" 2>/dev/null || gate_checksums "$1" # kmod tells since its version 30
}

gate_checksums() ( # gate_checksums FILE: the same, from the symbols __crc_SYMBOL of the file itself
    plain=$(mktemp) || exit 1
    trap 'rm -f "$plain"' EXIT
    gate_unpacked "$1" >"$plain" 2>/dev/null || exit 1
    # Of each: the number of its section, and its value: the checksum itself (ABS), or since
    # kernel 5.19 where in the section the checksum stands.
    readelf -sW "$plain" 2>/dev/null | awk '$NF ~ /^__crc_/ { print $(NF - 1), $2, substr($NF, 7) }' |
        while read -r section value symbol; do
            crc=$value
            if [ "$section" != ABS ]; then
                from=$(readelf -SW "$plain" | sed -n "s/^ *\[ *$section\] *[^ ]* *[^ ]* *[^ ]* *\([0-9a-f]*\) .*/\1/p")
                crc=$(od -An -tx4 -j $((0x$from + 0x$value)) -N 4 "$plain" | tr -d ' ')
            fi
            printf '0x%08x\t%s\n' "$((0x$crc & 0xffffffff))" "$symbol"
        done
)

gate_listed() { # gate_listed SYMBOL FILE...: "CRC MODULE ORIGIN" by the first that has a row of it
    symbol=$1
    shift
    for file; do
        awk -F '\t' -v symbol="$symbol" -v from="$file" '
            $2 == symbol { n = split($3, part, "/"); print $1, part[n], from; found = 1; exit }
            END { exit !found }' "$file" && return
    done
    return 1
}

# shellcheck disable=SC2086 # the lists are words
gate_provider() { # gate_provider KERNEL SYMBOL DEPENDS: "CRC MODULE ORIGIN" of who exports it there
    gate_listed "$2" ${GATE_SYMVERS:-} && return
    first=''
    # depmod noted which module exports what: a file need not be named as its module is.
    for each in $(modprobe -S "$1" -R "symbol:$2" 2>/dev/null); do
        path=$(modinfo -k "$1" -n "$each" 2>/dev/null) || continue
        inner=$(modinfo -F name "$path" 2>/dev/null)
        crc=$(gate_exports "$path" | awk -v symbol="$2" '$2 == symbol { print $1 }')
        row="${crc:-unknown} ${inner:-$each} $path"
        case ,$3, in *",${inner:-$each},"*) echo "$row"; return ;; esac
        first=${first:-$row}
    done
    if [ -n "$first" ]; then echo "$first"; return; fi
    gate_listed "$2" ${GATE_LINKED:-} && return
    # Some kernels export the peer-memory interface themselves.
    awk -F '\t' -v symbol="$2" -v from="/lib/modules/$1/build/Module.symvers" '
        $2 == symbol && $3 == "vmlinux" { print $1, "vmlinux", from; exit }' "/lib/modules/$1/build/Module.symvers" 2>/dev/null
}

# shellcheck disable=SC2030,SC2031 # what gate sets is for those that it calls
gate() ( # gate KERNEL FILE...: a line "gate: FILE: WORD: SENTENCE" for each that would not work
    kernel=$1 status=0
    shift
    if ! work=$(mktemp -d); then
        for file; do name=${file##*/} && gate_says unknown 'there is no room to look into it'; done
        exit 1
    fi
    trap 'rm -rf "$work"' EXIT
    for file; do
        gate_one "$kernel" "$file" || status=1
    done
    exit "$status"
)

gate_one() { # gate_one KERNEL FILE
    name=${2##*/} plain=$work/module.ko
    [ -e "$2" ] || gate_says missing 'there is no such file' || return
    if ! gate_unpacked "$2" >"$plain" 2>/dev/null || [ ! -s "$plain" ]; then
        gate_says damaged 'it cannot be unpacked' || return
    fi
    magic=$(modinfo -F vermagic "$plain" 2>/dev/null)
    [ -n "$magic" ] || gate_says damaged 'it cannot be read as a module' || return
    machine=$(od -An -tx1 -j18 -N2 "$plain" | tr -d ' \n')
    case $machine.$(uname -m) in
        3e00.x86_64 | b700.aarch64) ;;
        *.x86_64 | *.aarch64) gate_says other-arch "it is for another machine (ELF type 0x$machine), this is $(uname -m)" || return ;;
    esac
    [ "${magic%% *}" = "$1" ] || gate_says other-kernel "it is for kernel ${magic%% *}, not for $1" || return
    depends=$(modinfo -F depends "$plain") licence=$(modinfo -F license "$plain" | head -n 1)
    case " $magic " in *' modversions '*) versions=1 ;; *) versions='' ;; esac
    if [ -n "$versions" ]; then
        modprobe --dump-modversions "$plain" >"$work/imports" 2>/dev/null
        [ -s "$work/imports" ] || gate_says unknown 'the symbol versions of its imports cannot be read' || return
        # KBUILD_MODPOST_WARN leaves imports without a version: the symbol table alone has those.
        nm -u "$plain" 2>/dev/null |
            awk 'NR == FNR { seen[$2]; next } !($NF in seen) { print "0x0\t" $NF }' "$work/imports" - >"$work/bare"
        cat "$work/bare" >>"$work/imports"
    else # then the names alone are known, from the symbol table
        nm -u "$plain" 2>/dev/null | awk '{ print "0x0\t" $NF }' >"$work/imports"
    fi
    gate_headers "$1" || return
    case $name in
        *peermem*) gate_needs ib_register_peer_memory_client 'the RDMA core' && gate_needs nvidia_p2p_ 'the driver' || return ;;
        # nvidia-fs 2.13 imports none of them: it looks them up by name once it is loaded.
        nvidia-fs.ko* | nvidia_fs.ko*) gate_needs __symbol_get 'the driver' >/dev/null || gate_needs nvidia_p2p_ 'the driver' || return ;;
        gdrdrv.ko*) gate_needs nvidia_p2p_ 'the driver' || return ;;
    esac
    gate_release "$1" || return
    # shellcheck disable=SC2013 # symbols are words
    for symbol in $(awk '$2 ~ /^(nvidia_p2p_|ib_(un)?register_peer_memory_client$)/ { print $2 }' "$work/imports"); do
        gate_symbol "$1" "$symbol" || return
    done
}

gate_headers() { # gate_headers KERNEL: built against this kernel's own headers, with a fit licence
    table=/lib/modules/$1/build/Module.symvers
    [ -s "$table" ] || return 0 # nothing to compare with
    layout=$(awk '$2 == "module_layout" { print $1 }' "$work/imports")
    theirs=$(awk -F '\t' '$2 == "module_layout" { print $1; exit }' "$table")
    if [ -n "$versions" ] && [ -n "$theirs" ] && ! gate_same "${layout:-0}" "$theirs"; then
        gate_says other-kernel "it was built against other headers than those of kernel $1" || return
    fi
    case $licence in # kernel/module: license_is_gpl_compatible
        GPL | 'GPL v2' | 'GPL and additional rights' | 'Dual BSD/GPL' | 'Dual MIT/GPL' | 'Dual MPL/GPL') return ;;
    esac
    barred=$(awk -F '\t' 'NR == FNR { wanted[$2]; next } $4 ~ /GPL/ && $2 in wanted { print $2; exit }' "$work/imports" "$table")
    [ -z "$barred" ] || gate_says licence "it is under '$licence', and the kernel gives $barred to GPL modules only"
}

gate_needs() { # gate_needs SYMBOL WHOSE: imported, by its name or the beginning of it
    awk -v want="$1" 'index($2, want) == 1 { found = 1 } END { exit !found }' "$work/imports" ||
        gate_says stub "it takes nothing from $2 (no $1 among its imports), and modprobe would refuse it"
}

gate_release() { # gate_release KERNEL: nvidia-peermem calls nvidia as the same release of it expects
    case $name in *peermem*) ;; *) return 0 ;; esac
    [ -z "${GATE_SYMVERS:-}" ] || return 0 # the driver that it goes with is yet to be installed
    driver=$(modprobe -S "$1" -R symbol:nvidia_p2p_get_pages 2>/dev/null | head -n 1)
    driver=$(modinfo -k "$1" -F version "$driver" 2>/dev/null) own=$(modinfo -F version "$plain" 2>/dev/null)
    [ -z "$driver" ] || [ -z "$own" ] || [ "$driver" = "$own" ] ||
        gate_says other-driver "it is of driver $own, and the driver installed for kernel $1 is $driver"
}

gate_symbol() { # gate_symbol KERNEL SYMBOL: exported, in that version, by a module that is recorded
    gate_provider "$1" "$2" "$depends" >"$work/provider"
    read -r crc provider origin <"$work/provider" ||
        gate_says no-provider "nothing exports $2 for kernel $1" || return
    has=$(awk -v symbol="$2" '$2 == symbol { print $1 }' "$work/imports")
    if [ -n "$versions" ]; then
        [ "$crc" != unknown ] || gate_says unknown "the symbol versions of $origin cannot be read" || return
        gate_same "$has" "$crc" ||
            gate_says crc "it has $has for $2, which $origin exports as $crc: it was built against another $provider" || return
    fi
    case ,$depends,vmlinux, in
        *",$provider,"*) ;;
        *) gate_says no-depends "it does not record that it depends on $provider, which exports $2" ;;
    esac
}

gate_same() { # gate_same CRC CRC: leading zeroes and the case of letters do not count
    [ "$(printf '%s' "${1#0x}" | sed 's/^0*//' | tr A-F a-f)" = "$(printf '%s' "${2#0x}" | sed 's/^0*//' | tr A-F a-f)" ]
}
