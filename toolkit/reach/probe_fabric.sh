# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: ports, GIDs, limits of the RDMA devices; what the driver says of its GPUs.

probe_fabric() {
    :
}
