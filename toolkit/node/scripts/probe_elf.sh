# shellcheck shell=sh
# Part of the probe: modules as they are in their files: symbols, their versions, signatures;
# and what the kernel demands of a signature.
# shellcheck disable=SC2154 # root, release, kernel_list and scratch are set in probe.sh

shared='ib_(un)?register_peer_memory_client|nvidia_p2p_[a-z0-9_]+'

unpack() { # unpack FILE: sets plain to it, or to what it is unpacked; else says what is missing
    if [ ! -r "$1" ]; then echo 'lacks permission to read it'; return 1; fi
    case $1 in
        *.xz) tool=xz ;;
        *.zst) tool=zstd ;;
        *.gz) tool=gzip ;;
        *) plain=$1 && return ;;
    esac
    plain=$scratch/plain.ko
    if [ -z "$scratch" ]; then echo 'lacks room in /tmp'; return 1; fi
    # It only computes, so any machine's will do, as with grep and od.
    if ! command -v "$tool" >/dev/null; then echo "lacks $tool"; return 1; fi
    "$tool" -dc <"$1" >"$plain" 2>/dev/null || { echo "lacks a whole file, says $tool"; return 1; }
}

words() { exec od -A n -v -t u8 -j "$2" -N "$3" "$1"; } # words FILE OFFSET BYTES, in a shell of its own

elf_header() { # elf_header FILE: sets table and sections, of a 64-bit little-endian ELF file
    # shellcheck disable=SC2046 # eight numbers
    set -- $(words "$1" 0 64)
    [ "$(((${1:-0}) & 0xffffffffffff))" -eq "$((0x0102464c457f))" ] || { echo 'lacks an ELF header'; return 1; }
    table=$6 sections=$(($8 >> 32 & 0xffff))
}

bytes() { od -A x -t x1 -j "$2" -N "$3" "$1"; } # bytes FILE OFFSET BYTES: each line with its offset

sparse() { # sparse FILE [notes]: headers, names, read-only data and signature, never the code; symbols, or notes in their place
    unpack "$1" && elf_header "$plain" || return 0
    kind=${2:-symbols} most=65536 index=0 names=''
    if [ "$kind" = notes ]; then most=262144 names=$(words "$plain" 56 8) names=$((names >> 48 & 0xffff)); fi
    size=$(($(wc -c <"$plain"))) signed=''
    case $(tail -c 28 "$plain" | tr -d '\000') in '~Module signature appended~'*) signed=' signed' ;; esac
    echo "size $size$signed"
    bytes "$plain" 0 64
    bytes "$plain" "$table" $((sections * 64))
    # shellcheck disable=SC2046 # eight numbers a section: name and type, flags, -, offset, size
    set -- $(words "$plain" "$table" $((sections * 64)))
    while [ $# -ge 8 ]; do
        case $kind.$index.$(($1 >> 32)):$2 in
            *.1:2 | symbols.*.[23]:* | notes.*.7:2 | "notes.$names".*) [ "$5" -gt 0 ] && [ "$5" -le "$most" ] && bytes "$plain" "$4" "$5" ;;
        esac
        index=$((index + 1))
        shift 8
    done
    [ -z "$signed" ] || [ "$size" -le 2048 ] || bytes "$plain" $((size - 2048)) 2048
}

elf_blocks() { # elf_blocks FILE...
    for ko; do
        echo "@${ko#"$root"}"
        sparse "$ko"
    done
}

exports() { # exports FILE...: "0xCRC<tab>symbol"; then the kernel that each was built against
    seek modprobe
    for ko; do
        [ -e "$ko" ] || continue
        echo "@${ko#"$root"}"
        if found=$("$where" --show-exports "$ko" 2>/dev/null); then shared_of "$found"
        else crc_symbols "$ko"; fi # before kmod 30
        "$where" --dump-modversions "$ko" 2>/dev/null |
            sed -n 's/^\(0x[0-9a-f]*\)[[:space:]]*module_layout$/layout \1/p'
    done
}

shared_of() { # shared_of EXPORTS: those of $shared
    case $1 in *_register_peer_memory_client* | *nvidia_p2p_*) printf '%s\n' "$1" | grep -E "[[:space:]]($shared)\$" ;; esac
}

crc_symbols() { # crc_symbols FILE: the same, read from the symbols __crc_NAME
    unpack "$1" && elf_header "$plain" || return 0
    # shellcheck disable=SC2046
    set -- $(words "$plain" "$table" $((sections * 64)))
    symbols=''
    while [ $# -ge 8 ]; do
        if [ $(($1 >> 32)) -eq 2 ]; then
            symbols=$4 length=$5 strings=$(words "$plain" $((table + 64 * ($6 & 0xffffffff) + 24)) 8)
        fi
        shift 8
    done
    [ -n "$symbols" ] || return 0
    grep -aboE "__crc_($shared)" "$plain" 2>/dev/null | while IFS=: read -r at name; do
        # shellcheck disable=SC2046 # name, section << 16, value, ...
        set -- $(od -A n -v -t u4 -w24 -j "$symbols" -N "$length" "$plain" | grep -E "^ *$((at - strings)) ")
        [ $# -ge 3 ] || continue
        crc=$3
        if [ $(($2 >> 16)) -ne 65521 ]; then # not absolute: at that place of its section
            home=$(words "$plain" $((table + 64 * ($2 >> 16) + 24)) 8)
            crc=$(od -A n -t u4 -j $((home + $3)) -N 4 "$plain")
        fi
        printf '0x%08x\t%s\n' "$((crc))" "${name#__crc_}"
    done
}

# Which file a name stands for is settled in modules.dep: "FILE: FILE-IT-NEEDS..."
module_deps() {
    content=$(grep -E '^([^:]*/)?(ib_core|ib_uverbs|(nvidia([-_](current|tesla([-_][0-9]+)?|legacy[^:/.]*))?([-_]open)?)([-_]peermem)?)\.ko[^:]*:' \
        "$root/lib/modules/$release/modules.dep" 2>/dev/null)
}

list_providers() { # list_providers FILE...: sets providers to what one of them is or needs, once
    providers='' seen=' ' # nvidia-peermem itself aside
    for ko; do
        ko=${ko%:}
        case $ko in *peermem.ko*) continue ;; /*) ;; *) ko=/lib/modules/$release/$ko ;; esac
        case $seen in *" $ko "*) continue ;; esac
        seen="$seen$ko "
        providers=$providers$root$ko$nl
    done
}

next_providers() { # adds the same of the newest other kernel: what is built for it must fit them
    newest_other
    [ -n "$next" ] || return 0
    for ko in $kernel_list; do
        case $ko in
            *peermem.ko*) ;;
            "/lib/modules/$next/"*/ib_core.ko* | "/lib/modules/$next/"*/ib_uverbs.ko* | "/lib/modules/$next/"*/nvidia*.ko*)
                providers=$providers$root$ko$nl
                ;;
        esac
    done
}

p2p_symvers() { # where DKMS 3.1.3 and newer keeps the driver's
    for found in "$root"/var/lib/dkms/nvidia*/*/"$release"/*/module/Module.symvers; do
        [ -r "$found" ] || continue
        add "@${found#"$root"}"
        add "$(grep -E '[[:space:]]nvidia_p2p_[a-z0-9_]+[[:space:]]' "$found")"
    done
}

trusted_keys() { # by keyring where keyctl is there; else all that the kernel holds
    if seek keyctl; then
        for ring in builtin_trusted_keys secondary_trusted_keys machine platform; do
            said=$("$where" list "%:.$ring" 2>/dev/null) || continue
            add "@.$ring"
            add "$(printf '%s\n' "$said" | grep asymmetric)"
        done
    fi
    if [ -d "$root/sys/firmware/efi" ] && seek mokutil; then
        add '@mokutil --list-enrolled' # issuer and serial number, which no keyring tells
        add "$("$where" --list-enrolled 2>/dev/null </dev/null |
            grep -E '^ *(Serial Number:|Issuer:|X509v3 Subject Key Id|[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2})+ *$)' |
            sed '/^ *[0-9A-Fa-f][0-9A-Fa-f]:/s/://g')" # as keyrings show them
    fi
    add @/proc/keys
    add "$(grep -E ' (asymmetri|keyring) ' "$root/proc/keys" 2>/dev/null)"
}

unsupported() { # SUSE's gate
    lines / '^[[:space:]]*allow_unsupported_modules' 'etc/modprobe.d/*.conf' \
        'run/modprobe.d/*.conf' 'usr/lib/modprobe.d/*.conf' 'lib/modprobe.d/*.conf'
    said=$content content=''
    pick '' "$said" /
}

signing_files() { # MODE UID PATH, of where keys usually lie; what is in them is not read
    files=''
    for found in "$root"/var/lib/dkms/mok.* "$root"/var/lib/shim-signed/mok/* \
        "$root"/etc/dkms/keys/* "$root"/etc/pki/*/*; do
        case $found in *.key | *.priv | *.pem | *.pub | *.der | *.crt | *.cer | *.x509) ;; *) continue ;; esac
        if [ -f "$found" ]; then files=$files$found$nl; fi
    done
    [ -n "$files" ] || return 0
    by_line
    # shellcheck disable=SC2086 # one word a line
    for line in $(stat -L -c '%a %u %n' -- $files); do add "${line%%"$root"/*}${line#*"$root"}"; done
    by_word
}

efi_byte() { content=$(exec od -A n -t u1 -j 4 -N 1 "$root$1" 2>/dev/null); }

told_to_sign() { # sets key to what DKMS was told to sign with, else to what it signs with by itself
    key=''
    set -- "$root"/etc/dkms/framework.conf "$root"/etc/dkms/framework.conf.d/*.conf
    if [ -e "$1" ] || [ -e "${2-}" ]; then
        by_line
        # shellcheck disable=SC2013 # by lines they are read
        for line in $(sed -n 's/^[[:space:]]*mok_certificate=["'\'']*\([^"'\''[:space:]]*\).*/\1/p' "$@" 2>/dev/null); do
            key=$line
        done
        by_word
    fi
    for key in $key /var/lib/shim-signed/mok/MOK.der /var/lib/dkms/mok.pub; do
        [ ! -e "$root$key" ] || break
    done
}

probe_elf() {
    give module-deps "/lib/modules/$release/modules.dep" module_deps
    # shellcheck disable=SC2086 # the module folders have no blanks
    list_providers $content
    next_providers
    found=$(peermem_files)
    if ! command -v od >/dev/null; then
        for key in peermem-elf exports; do frame $key absent od; done
    else
        on_files "$found" take peermem-elf "/lib/modules/$release" elf_blocks
        if [ -n "$providers" ]; then on_files "$providers" take exports 'modprobe --show-exports' exports
        else frame exports absent 'a module to export to nvidia-peermem'; fi
    fi
    give p2p-symvers '/var/lib/dkms/nvidia*' p2p_symvers
    give peermem-params /sys/module/nvidia_peermem/parameters lines /sys/module/nvidia_peermem/parameters '' '*'
    short sig-enforce /sys/module/module/parameters/sig_enforce
    file tainted /proc/sys/kernel/tainted
    if [ -r "$root/proc/keys" ]; then give trusted-keys 'keyctl list, /proc/keys' trusted_keys
    else frame trusted-keys absent /proc/keys; fi
    give unsupported-modules modprobe.d unsupported
    secure=/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
    set -- "$root"/sys/firmware/efi/efivars/*
    if [ -e "$root$secure" ]; then give efi-secureboot "$secure" efi_byte "$secure"
    elif [ -d "$root/sys/firmware/efi" ] && [ ! -e "$1" ]; then
        frame efi-secureboot failed:19 "$secure" # ENODEV: booted by EFI, its variables not mounted
    else frame efi-secureboot absent "$secure"; fi
    cmd mokutil 5 mokutil --sb-state
    on_files "$(peermem_files)" probe_signed
    give signing-files 'files of keys' signing_files
    told_to_sign
    if [ -e "$root$key" ]; then cmd mok-key 5 mokutil --test-key "$root$key"
    else frame mok-key absent "$key"; fi
}
