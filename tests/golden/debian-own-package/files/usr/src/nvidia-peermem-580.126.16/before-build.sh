#!/bin/sh
# Placed by gdr-toolkit. DKMS runs it in the build folder: before-build.sh KERNEL DRIVER
# Leaves the driver's source in kernel-open/, and in extra.symvers the symbols of OFED and
# of the driver. Ends with 1 and a sentence where the module could only become a stub.
set -eu
kernel=$1 driver=$2
arch=$(uname -m)
kbuild_arch=$(echo "$arch" | sed 's/aarch64/arm64/') # which the driver's conftest looks for

stop() {
    echo "nvidia-peermem: $*" >&2
    exit 1
}

exports() { # exports FILE SYMBOL
    grep -q "	$2	" "$1" 2>/dev/null
}

first() { # first FILE...: the first that exists
    for file; do
        if [ -e "$file" ]; then echo "$file" && return; fi
    done
}

source=$(first "/usr/src/nvidia-$driver/kernel-open" "/usr/src/nvidia-$driver" /usr/src/nvidia-*-"$driver")
[ -e "$source/nvidia-peermem/nvidia-peermem.c" ] || stop "no source of driver $driver below /usr/src"
rm -rf kernel-open && cp -R "$source" kernel-open

# The driver's conftest and its Kbuild look for OFED in different places. The first decides
# whether the module has a body, the second which symbol versions it gets: they must agree.
ofed=/usr/src/ofa_kernel
own=/lib/modules/$kernel/build/Module.symvers
if exports "$own" ib_register_peer_memory_client; then
    decides=$own gives=$own
else
    decides='' gives=$(first "$ofed/$arch/$kernel" "$ofed/$kernel" "$ofed/default")
    for seen in "$ofed/$kbuild_arch/$kernel" "$ofed/$kernel" "$ofed/default"; do
        if [ -z "$decides" ] && exports "$seen/Module.symvers" ib_register_peer_memory_client; then decides=$seen; fi
    done
    [ -n "$decides" ] || stop "OFED has no symbols for kernel $kernel: build OFED first"
    [ "$(readlink -f "$decides")" = "$(readlink -f "$gives")" ] ||
        stop "conftest would read $decides and Kbuild $gives: link $ofed/$kernel to the right one"
    gives=$gives/Module.symvers
fi
cat "$gives" >extra.symvers

# nvidia_p2p_* : kept by DKMS beside the module since 3.1.3, or told by kmod since 30.
# Never from nm: since kernel 5.19 the values that it shows are wrong.
kept=$(first /var/lib/dkms/nvidia/"$driver/$kernel/$arch"/module/Module.symvers)
if [ -n "$kept" ] && exports "$kept" nvidia_p2p_get_pages; then cat "$kept" >>extra.symvers
else
    module=$(modprobe -S "$kernel" --show-depends nvidia | sed -n 's/^insmod \([^ ]*\).*/\1/p' | tail -n 1)
    [ -n "$module" ] || stop "no module of driver $driver for kernel $kernel"
    modprobe --show-exports "$module" |
        awk '{ print $1 "\t" $2 "\tnvidia\tEXPORT_SYMBOL\t" }' >>extra.symvers
fi
exports extra.symvers nvidia_p2p_get_pages || stop "the driver's symbols for kernel $kernel are not known"
