#!/bin/sh
# Placed by gdr-toolkit. DKMS runs it in the build folder: before-build.sh KERNEL DRIVER DKMS-TREE
# Leaves the driver's source in kernel-open/, and in extra.symvers the symbols of OFED and
# of the driver. Ends with 1 and a sentence where the module could only become a stub.
set -eu
kernel=$1 driver=$2 tree=${3:-/var/lib/dkms}
arch=$(uname -m)
kbuild_arch=$(echo "$arch" | sed 's/aarch64/arm64/') # which the driver's conftest looks for

stop() { # DKMS 3.0 goes on all the same: after-build.sh then repeats this, and does stop it
    echo "nvidia-peermem: $*" | tee refused >&2
    exit 1
}

exports() { # exports FILE SYMBOL
    grep -q "	$2	" "$1" 2>/dev/null
}

first() { # first FILE...: the first that exists
    for file; do
        if [ -e "$file" ]; then echo "$file"; return; fi
    done
}

with_symbols() { # with_symbols FOLDER...: the first whose symbols have the peer-memory interface
    for folder; do
        if exports "$folder/Module.symvers" ib_register_peer_memory_client; then echo "$folder"; return; fi
    done
}

source=$(first "$tree"/nvidia*/"$driver"/source/kernel-open/nvidia-peermem/nvidia-peermem.c \
    "$tree"/nvidia*/"$driver"/source/nvidia-peermem/nvidia-peermem.c \
    /usr/src/nvidia*-"$driver"/kernel-open/nvidia-peermem/nvidia-peermem.c \
    /usr/src/nvidia*-"$driver"/nvidia-peermem/nvidia-peermem.c)
[ -n "$source" ] || stop "no source of driver $driver below /usr/src"
source=${source%/nvidia-peermem/*}
# What the vendor's Makefile and conftest need to build this one module of the driver.
rm -rf kernel-open refused extra.symvers borrowed
mkdir kernel-open.part
for file in "$source"/*; do
    if [ -f "$file" ]; then cp "$file" kernel-open.part/; fi
done
cp -R "$source/common" "$source/nvidia-peermem" kernel-open.part/

# The driver's conftest and its Kbuild look for OFED in different places. The first decides
# whether the module has a body, the second which symbol versions it gets: they must agree.
# OFED's modules for a kernel are taken before the kernel's own, so its symbols are too.
ofed=/usr/src/ofa_kernel
own=/lib/modules/$kernel/build/Module.symvers
decides=$(with_symbols "$ofed/$kbuild_arch/$kernel" "$ofed/$kernel")
if [ -z "$decides" ] && exports "$own" ib_register_peer_memory_client; then
    gives=$own
else
    gives=$(first "$ofed/$arch/$kernel" "$ofed/$kernel" "$ofed/default")
    [ -n "$decides" ] || decides=$(with_symbols "$ofed/default")
    [ -n "$decides" ] || stop "OFED has no symbols for kernel $kernel: build OFED first"
    [ "$(readlink -f "$decides")" = "$(readlink -f "$gives")" ] ||
        stop "conftest would read $decides and Kbuild $gives: link $ofed/$kernel to the right one"
    # That of another kernel may fit, but only what is installed for this one can tell.
    case $(readlink -f "$gives") in */"$kernel") ;; *) : >borrowed ;; esac
    gives=$gives/Module.symvers
fi
cat "$gives" >symvers.part

# nvidia_p2p_* : kept by DKMS beside the module since 3.1.3, else told by the module itself.
# Never by the values that nm shows: since kernel 5.19 those are not the checksums.
kept=$(first "$tree"/nvidia*/"$driver/$kernel/$arch"/module/Module.symvers)
if [ -n "$kept" ] && exports "$kept" nvidia_p2p_get_pages; then
    grep '	nvidia_' "$kept" >>symvers.part # kernels before 5.8 note there those of an older OFED too
else
    module=$(modprobe -S "$kernel" -R symbol:nvidia_p2p_get_pages 2>/dev/null | head -n 1)
    [ -n "$module" ] || stop "no module of driver $driver is installed for kernel $kernel"
    has=$(modinfo -k "$kernel" -F version "$module")
    [ "$has" = "$driver" ] || stop "the driver installed for kernel $kernel is $has, not $driver"
    ./after-build.sh exports "$(modinfo -k "$kernel" -n "$module")" |
        awk '{ print $1 "\t" $2 "\tnvidia\tEXPORT_SYMBOL\t" }' >>symvers.part
fi
exports symvers.part nvidia_p2p_get_pages || stop "the driver's symbols for kernel $kernel are not known"
mv symvers.part extra.symvers
mv kernel-open.part kernel-open
