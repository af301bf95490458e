# shellcheck shell=sh
# Functions for POSIX sh, to be read after gate.sh: whether modules are signed as this node asks.
# Not in gate.sh, which also judges modules that are yet to be signed, and on other machines.
#
#   signed_wrong FILE...       the first that is not signed, where the kernel takes no such modules
#   signed_otherwise FILE...   the first that has another key than the one that DKMS was told of here
#
# DKMS goes on where it could not sign: no key, or one that the certificate is not of.

signed_sys=/sys
signed_conf=/etc/dkms/framework.conf.d/gdr-toolkit-signing.conf

signed_demanded() { # whether the running kernel takes signed modules alone
    if [ "$(cat "$signed_sys/module/module/parameters/sig_enforce" 2>/dev/null)" = Y ]; then return 0; fi
    grep -Eqs '\[(integrity|confidentiality)\]' "$signed_sys/kernel/security/lockdown"
}

signed_wrong() {
    signed_demanded || return 0
    for file; do
        gate_unpacked "$file" 2>/dev/null | tail -c 28 | grep -q '^~Module signature appended~$' ||
            { echo "${file##*/}: signature: it is not signed, and this kernel takes signed modules alone"; return; }
    done
}

signed_otherwise() {
    own=$(signed_serial)
    if [ -z "$own" ] || ! signed_demanded; then return 0; fi
    for file; do
        key=$(modinfo -F sig_key "$file" 2>/dev/null | signed_plain) # nothing from a kmod without OpenSSL
        if [ -n "$key" ] && [ "$key" != "$own" ]; then echo "${file##*/}: signature: by another key than the site's"; return; fi
    done
}

signed_certificate() { # the site's, as DKMS was told of it
    sed -n 's/^mok_certificate="\(.*\)"$/\1/p' "$signed_conf" 2>/dev/null | tail -n 1
}

signed_serial() { # of that certificate
    openssl x509 -inform DER -in "$(signed_certificate)" -noout -serial 2>/dev/null | sed 's/^serial=//' | signed_plain
}

signed_plain() { tr -d ': \n' | tr A-F a-f | sed 's/^0*//'; }
