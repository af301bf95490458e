# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: modules as they are in their files: sections, symbols and their versions.

probe_elf() {
    :
}
