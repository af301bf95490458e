# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: what stands beside: GDRCopy, GPUDirect Storage, containers.

probe_companions() {
    :
}
