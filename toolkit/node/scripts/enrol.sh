# shellcheck shell=sh disable=SC2154 # frames.sh sets what is used here
# Where a certificate stands with the firmware's list of owner's keys (MOK), and the request to
# enrol it. A request is one firmware variable, which shim's MokManager asks about at the console
# of the next boot: nothing is enrolled from here, and the request can be revoked until then.
#
# enrol ACTION WHICH BASE64 PASSWORD
#   ACTION    look, import or revoke
#   WHICH     given: the certificate is BASE64; own: the one that DKMS signs with here
#   PASSWORD  for MokManager; "" for root's own. It is in this shell's memory alone.

vendor=605dab50-e046-4300-abb6-3dd810dd8b23 # of shim's variables
global=8be4df61-93ca-11d2-aa0d-00e098032b8c # of the firmware's own
efivars=/sys/firmware/efi/efivars

firmware() {
    if [ -d "$root/sys/firmware/efi" ]; then echo efi; fi
    if [ -n "$(names "$efivars/*")" ]; then echo variables; fi
    # shim leaves copies for the kernel: without them no MokManager was there at this boot.
    if [ -n "$(names "$efivars/MokListRT*-$vendor" "$efivars/SbatLevelRT-$vendor")" ]; then echo shim; fi
}

efi_byte() { od -A n -t u1 -j 4 -N 1 "$root$1" 2>/dev/null; }

configured() { # sets source to the certificate that DKMS signs with: the last word counts, as for its own sh
    told=$(cat "$root"/etc/dkms/framework.conf "$root"/etc/dkms/framework.conf.d/*.conf 2>/dev/null |
        sed -n 's/^[[:space:]]*mok_certificate=["'\'']*\([^"'\''[:space:]]*\).*/\1/p' | tail -n 1)
    # Where that is not there yet DKMS makes it, and signs with no other.
    for source in ${told:-/var/lib/shim-signed/mok/MOK.der /var/lib/dkms/mok.pub}; do
        if [ -f "$root$source" ]; then return; fi
    done
    false
}

lay() { # lay WHICH BASE64: the certificate as a file of our own; false where that cannot be
    [ -n "$scratch" ] || return
    if [ "$1" = own ]; then cat "$root$source" >"$certificate"
    else printf '%s' "$2" | base64 -d >"$certificate"; fi
}

is_certificate() { # is_certificate FILE: by how its DER begins; a private key must not leave
    case $(od -A n -t x1 -N 10 "$1" | tr -d ' \n') in
        3082????3082????[a0][02]* | 3082????3081??[a0][02]* | 3081??3081??[a0][02]*) ;;
        3081??30??[a0][02]* | 30??30??[a0][02]*) ;;
        *) false ;;
    esac
}

hashed() { # the password's hash; mokutil asks twice, and its questions go to standard output too
    printf '%s\n%s\n' "$password" "$password" | "$(locate mokutil)" --generate-hash 2>/dev/null |
        grep '^[$]'
}

import() {
    if [ -z "$password" ]; then
        cmd import 30 mokutil --import "$certificate" --root-pw
        return
    fi
    umask 077
    if ! hashed >"$scratch/hash"; then frame import failed:1 'mokutil --generate-hash'; return; fi
    cmd import 30 mokutil --import "$certificate" --hash-file "$scratch/hash"
}

look() { # look SUFFIX: what can differ before and after
    cmd "test-key$1" 10 mokutil --test-key "$certificate"
    cmd "list-new$1" 10 mokutil --list-new
}

carry_out() {
    look ''
    [ -n "$status" ] || return 0 # nobody knows what waits
    # Counted here, once more: who has asked since we looked keeps request and password.
    case $1$(grep -cs 'SHA1 Fingerprint' "$scratch/list-new") in
        import0) import ;;
        revoke1)
            grep -qs 'enrollment request' "$scratch/test-key" || return 0
            cmd revoke 30 mokutil --revoke-import
            ;;
        *) return 0 ;;
    esac
    look -after
}

enrol() {
    action=$1 which=$2 password=$4
    begin_frames
    take firmware /sys/firmware/efi firmware
    secure=$efivars/SecureBoot-$global
    if [ -e "$root$secure" ]; then take efi-secureboot "$secure" efi_byte "$secure"
    else frame efi-secureboot absent "$secure"; fi
    file lockdown /sys/kernel/security/lockdown
    file sig-enforce /sys/module/module/parameters/sig_enforce
    certificate=$scratch/certificate.der source=given
    if [ "$which" = own ] && ! configured; then frame certificate absent 'the certificate that DKMS signs with'
    elif ! lay "$which" "$3"; then frame certificate failed:28 "$source" # ENOSPC
    elif ! is_certificate "$certificate"; then frame certificate failed:1 "$source"
    else
        take certificate "$source" base64 "$certificate"
        if [ -n "$(names "$efivars/*")" ]; then carry_out "$action"; fi
    fi
    end_frames
}
