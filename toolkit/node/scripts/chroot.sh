# shellcheck shell=sh
# Looks into an image: a tree that has its own kernels and does not run. One script runs in it, in
# mount and process namespaces of their own, and can write nothing of it; when its first process
# ends, nothing of it goes on.
#
#   enter_image ROOT KERNEL    the script comes on stdin
#
#   /proc            of the new namespace, for what runs in there; the kernel's arguments are none
#   /dev             a few devices, no disk; /run and /tmp are empty, in memory; no /sys at all
#
# The tree is there once more at /run/gdr/image, with nothing in its /proc, /sys, /dev and /run:
# there the script looks, so that what the builder is doing now is never read as the image's. The
# commands that only read files are in /run/gdr/bin, and no others.
#
# What runs in the new namespaces before the script: $1 ROOT, $2 KERNEL.
# shellcheck disable=SC2016 # expanded there
image_view='
set -eu
mount -n --make-rprivate /
mount -n --rbind "$1" "$1"
cd -P "$1" # now the mount
image=$PWD view=$PWD/run/gdr/image
for each in proc dev run tmp; do
    [ -d "$each" ] || { echo "$1/$each is not there: an image is a whole root" >&2; exit 66; }
done
mount -n -t tmpfs -o mode=755 gdr "$image/run"
mkdir "$image/run/gdr" "$view" "$image/run/gdr/bin"
mount -n --rbind "$1" "$view" # with the parts of it that are mounts
mount -n -o remount,bind,ro "$image"
mount -n -o remount,bind,ro "$view"
for each in proc sys dev run; do
    [ ! -d "$view/$each" ] || mount -n -t tmpfs -o ro,size=4k gdr "$view/$each"
done
mount -n -t tmpfs -o mode=1777 gdr "$image/tmp"
mkdir "$image/run/gdr/dev"
for each in null zero full random urandom; do
    [ -c "/dev/$each" ] || continue
    : >"$image/run/gdr/dev/$each"
    mount -n --bind "/dev/$each" "$image/run/gdr/dev/$each"
done
mkdir -m 1777 "$image/run/gdr/dev/shm"
for each in fd: stdin:/0 stdout:/1 stderr:/2; do
    ln -s "/proc/self/fd${each#*:}" "$image/run/gdr/dev/${each%%:*}"
done
mount -n --rbind "$image/run/gdr/dev" "$image/dev"
mount -n -t proc proc "$image/proc"
: >"$image/run/no-arguments"
mount -n --bind "$image/run/no-arguments" "$image/proc/cmdline"
cd "$image"
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
    SYSTEMD_OFFLINE=1 KERNEL="$2" chroot "$image" sh -s
'

enter_image() {
    if [ "$(id -u)" != 0 ]; then echo 'only root can work in an image' >&2; return 77; fi
    for word in unshare mount chroot; do
        if ! command -v "$word" >/dev/null; then echo "$word is not there (packages util-linux, coreutils)" >&2; return 69; fi
    done
    if [ ! -x "$1/bin/sh" ] && [ ! -L "$1/bin/sh" ]; then echo "$1/bin/sh is not there: no system is in it" >&2; return 66; fi
    unshare --mount --pid --fork --kill-child sh -c "$image_view" gdr "$1" "$2"
}
