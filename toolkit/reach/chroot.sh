# shellcheck shell=sh
# Enters an image: a tree that has its own kernels and does not run. One script runs in it, in
# mount and process namespaces of their own; when its first process ends, nothing of it goes on.
#
#   enter_image ROOT read KERNEL    the script comes on stdin, and reads: nothing of the tree can be written
#   enter_image ROOT act            it changes the tree: by the tree's own commands, for the tree's kernels
#
#   /proc            of the new namespace: what runs in there needs it; the kernel's arguments are none
#   /dev             a few devices, no disk; /run and /tmp are empty, in memory; no /sys at all
#
# A reader finds the tree once more at /run/gdr/image, with nothing in its /proc, /sys, /dev and
# /run: there it looks, so that what the builder is doing now is never read as the image's. The
# commands that only read files are in /run/gdr/bin, and no others.
#
# What runs in the new namespaces before the script: $1 ROOT, $2 WAY, $3 KERNEL.
# shellcheck disable=SC2016,SC2034 # expanded there; who joins this with others uses it
image_view='
set -eu
image=$1
mount -n --make-rprivate /
mount -n --rbind "$image" "$image"
cd -P "$image" # now the mount
image=$PWD
for each in proc dev run tmp; do
    [ -d "$image/$each" ] || { echo "$image/$each is not there: an image is a whole root" >&2; exit 66; }
done
view=""
if [ "$2" = read ]; then
    mount -n -t tmpfs -o mode=755 gdr "$image/run"
    mkdir "$image/run/gdr" "$image/run/gdr/image" "$image/run/gdr/bin"
    view=$image/run/gdr/image
    # Without what was just mounted there; with the parts of the image that are mounts.
    mount -n --rbind "$1" "$view"
    mount -n -o remount,bind,ro "$image"
    mount -n -o remount,bind,ro "$view"
    for each in proc sys dev run; do
        [ ! -d "$view/$each" ] || mount -n -t tmpfs -o ro,size=4k gdr "$view/$each"
    done
else mount -n -t tmpfs -o mode=755 gdr "$image/run"; fi
mount -n -t tmpfs -o mode=1777 gdr "$image/tmp"
mount -n -t tmpfs -o mode=755 gdr "$image/dev"
mount -n -t proc proc "$image/proc"
for each in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$image/dev/${each%:*}" c 1 "${each#*:}"
done
mkdir -m 1777 "$image/dev/shm"
for each in fd: stdin:/0 stdout:/1 stderr:/2; do
    ln -s "/proc/self/fd${each#*:}" "$image/dev/${each%%:*}"
done
: >"$image/run/no-arguments"
mount -n --bind "$image/run/no-arguments" "$image/proc/cmdline"
cd "$image"
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
    SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive KERNEL="$3" \
    chroot "$image" sh -s
'

enter_image() {
    if [ "$(id -u)" != 0 ]; then echo 'only root can work in an image' >&2; return 77; fi
    for word in unshare mount chroot mknod; do
        if ! command -v "$word" >/dev/null; then echo "$word is not there (packages util-linux, coreutils)" >&2; return 69; fi
    done
    if [ ! -x "$1/bin/sh" ] && [ ! -L "$1/bin/sh" ]; then echo "$1/bin/sh is not there: no system is in it" >&2; return 66; fi
    unshare --mount --pid --fork --kill-child sh -c "$image_view" gdr "$1" "$2" "${3-}"
}
