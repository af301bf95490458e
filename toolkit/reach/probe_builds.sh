# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: DKMS, headers, compilers, what the next boot would find.

probe_builds() {
    :
}
