#!/bin/sh
# For which kernel features are chosen: as OFED's own, which is told by KVERSION alone.
echo "#define CONFIGURED_FOR \"${KVERSION:-$(uname -r)}\"" >configured.h
