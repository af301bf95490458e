#!/bin/sh
# keep-symvers.sh ARCH KERNEL: where whoever builds against OFED looks, as its own script does it.
set -eu
folder=/usr/src/ofa_kernel/$1/$2
mkdir -p "$folder"
cp Module.symvers "$folder/Module.symvers"
