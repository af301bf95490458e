#!/bin/sh
# ground.sh FOLDER: libvirt for one test, in namespaces of its own, until stdin ends.
#
# To be started by: unshare --mount --net --pid --fork --kill-child ground.sh FOLDER
# When it ends, however it ends, the kernel ends all that runs inside and takes down mounts,
# bridges and rules; what it kept is below FOLDER. It says "ready" once libvirt answers.
set -eu

lab=$1
ip link set lo up
mount -t proc proc /proc
mount -t sysfs sysfs /sys # so that the bridges of this network are seen
mount -t tmpfs tmpfs /run
for place in etc/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt; do
    mkdir -p "$lab/$place"
    [ -d "/$place" ] || { echo "no /$place: is libvirt installed?" >&2; exit 1; }
    mount --bind "$lab/$place" "/$place"
done
mkdir -p /var/lib/libvirt/images

cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
stdio_handler = "file"
CONF
cat >/etc/libvirt/libvirtd.conf <<'CONF'
auth_unix_ro = "none"
auth_unix_rw = "none"
CONF

libvirtd --config /etc/libvirt/libvirtd.conf --pid-file /run/libvirtd.pid \
    >"$lab/libvirtd.log" 2>&1 &
libvirtd=$!
until virsh --connect qemu:///system uri >/dev/null 2>&1; do
    kill -0 "$libvirtd" 2>/dev/null || { cat "$lab/libvirtd.log" >&2; exit 1; }
    sleep 0.1
done
echo ready
cat >/dev/null
