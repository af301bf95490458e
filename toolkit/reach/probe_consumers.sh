# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: who would use GPUDirect: NCCL, UCX, MPI, and their settings.

probe_consumers() {
    :
}
