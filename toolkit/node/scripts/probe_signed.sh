# shellcheck shell=sh
# Part of the probe: whether nvidia-peermem is, byte for byte, what was signed. The kernel says
# "Key was rejected" to one that was changed since, and writes nothing into its log.
# shellcheck disable=SC2154 # root, scratch and plain are set in frames.sh and probe_elf.sh

demanded() { # whether the kernel looks at signatures at all
    enforced='' locked=''
    {
        read -r enforced <"$root/sys/module/module/parameters/sig_enforce"
        read -r locked <"$root/sys/kernel/security/lockdown"
    } 2>/dev/null
    [ "$enforced" = Y ] && return
    case $locked in
        *'[integrity]'* | *'[confidentiality]'*) ;;
        *) false ;;
    esac
}

part() { # part FILE OFFSET BYTES
    tail -c "+$(($2 + 1))" "$1" | head -c "$3"
}

split_signed() { # split_signed FILE: into body and message; false where it carries no signature
    unpack "$1" >/dev/null || return
    case $(tail -c 28 "$plain" | tr -d '\000') in '~Module signature appended~'*) ;; *) return 1 ;; esac
    size=$(($(wc -c <"$plain")))
    [ "$size" -gt 40 ] || return # 28 bytes of that mark, 12 that tell the signature's length
    # shellcheck disable=SC2046 # four numbers, the highest first
    set -- $(od -A n -t u1 -j $((size - 32)) -N 4 "$plain")
    length=$((($1 << 24) + ($2 << 16) + ($3 << 8) + $4))
    [ "$length" -gt 0 ] && [ $((size - 40 - length)) -gt 0 ] || return
    part "$plain" 0 $((size - 40 - length)) >"$scratch/body" &&
        part "$plain" $((size - 40 - length)) "$length" >"$scratch/message"
}

verified() { # verified FILE...: good or bad by the certificate that the signature names
    mkdir "$scratch/mok" || return 0
    seek mokutil
    (cd "$scratch/mok" && "$where" --export) >/dev/null 2>&1 </dev/null
    for ko; do
        split_signed "$ko" || continue
        for found in "$scratch"/mok/*.der "$root"/var/lib/dkms/mok.pub "$root"/etc/dkms/keys/*.der \
            "$root"/var/lib/shim-signed/mok/*.der; do
            openssl x509 -inform DER -in "$found" -out "$scratch/pem" 2>/dev/null || continue
            said=$(openssl cms -verify -binary -inform DER -in "$scratch/message" -noverify -nointern \
                -content "$scratch/body" -certfile "$scratch/pem" -out /dev/null 2>&1)
            # By another certificate's key: OpenSSL does not find the signer's.
            case $said in
                *'signer certificate not found'*) continue ;;
                *uccessful*) echo "good ${ko#"$root"}" ;;
                *'erification failure'* | *'ad signature'*) echo "bad ${ko#"$root"}" ;;
            esac
            break
        done
    done
}

probe_signed() { # probe_signed FILE...
    if ! demanded; then frame peermem-verified absent 'a kernel that demands signatures'
    elif [ -z "$scratch" ] || ! command -v openssl >/dev/null; then frame peermem-verified absent openssl
    else take peermem-verified 'openssl cms -verify' verified "$@"; fi
}
