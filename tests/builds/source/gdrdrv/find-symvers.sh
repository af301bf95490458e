#!/bin/sh
# find-symvers.sh DKMS-TREE KERNEL: the driver's symbol versions, for this build to link against:
# those that DKMS kept of its build, else those of the module that is installed.
set -eu
out=driver.symvers
: >"$out"
for kept in "$1"/nvidia*/*/"$2"/*/module/Module.symvers; do
    if [ -f "$kept" ]; then
        grep '	nvidia_p2p_' "$kept" >"$out"
        exit 0
    fi
done
for module in "/lib/modules/$2"/updates/dkms/nvidia*.ko*; do
    if [ -f "$module" ]; then
        modprobe --show-exports "$module" | sed -n 's/$/\tnvidia\tEXPORT_SYMBOL\t/; /nvidia_p2p_/p' >>"$out"
    fi
done
