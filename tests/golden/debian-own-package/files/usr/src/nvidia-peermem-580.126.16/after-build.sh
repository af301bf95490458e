#!/bin/sh
# Placed by gdr-toolkit. DKMS runs it in the build folder. Ends with 1, and so keeps DKMS
# from installing it, where the module depends on nothing: that is the stub which modprobe
# refuses with "Invalid argument" and of which dmesg says nothing.
set -eu
depends=$(modinfo -F depends kernel-open/nvidia-peermem.ko)
case ,$depends, in
    *,nvidia,*) ;;
    *)
        echo "nvidia-peermem: a stub, it depends on '${depends:-nothing}' and not on nvidia" >&2
        exit 1
        ;;
esac
case ,$depends, in
    *,ib_uverbs,* | *,ib_core,*) ;;
    *)
        # Where the kernel itself exports the symbol there is no module to depend on.
        grep -qw ib_register_peer_memory_client /proc/kallsyms || {
            echo "nvidia-peermem: a stub, it depends on '$depends' and not on the RDMA core" >&2
            exit 1
        }
        ;;
esac
