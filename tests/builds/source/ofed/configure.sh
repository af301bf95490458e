#!/bin/sh
# configure.sh PACKAGE VERSION: for which kernel features are chosen, as OFED's own, which is told by
# KVERSION alone; and by which options, as OFED before 25.10 asks its package in DKMS's tree.
set -eu
cat "/var/lib/dkms/$1/$2/source/Kbuild" >/dev/null
echo "#define CONFIGURED_FOR \"${KVERSION:-$(uname -r)}\"" >configured.h
