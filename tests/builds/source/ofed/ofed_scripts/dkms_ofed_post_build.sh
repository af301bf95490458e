#!/bin/sh
# dkms_ofed_post_build.sh FOLDER: what whoever builds against OFED needs goes to FOLDER, below
# /usr/src/ofa_kernel-dkms; where it is looked for is a link, and one of the kernels' is the default.
set -eu
name=${1#/usr/src/ofa_kernel-dkms/}
seen=/usr/src/ofa_kernel/$name
rm -rf "$1"
mkdir -p "$1" "${seen%/*}"
cp -r include configure configure.mk.kernel compat ofed_scripts Module.symvers "$1"
ln -sfn "$1" "$seen"
if ! update-alternatives --display ofa_kernel_headers 2>/dev/null | grep -qF "$seen"; then
    update-alternatives --install /usr/src/ofa_kernel/default ofa_kernel_headers "$seen" 17
fi
