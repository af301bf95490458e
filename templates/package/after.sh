# shellcheck shell=sh
# Part of gdr-toolkit's packages; plain POSIX sh.
# index ROOT KERNEL: make depmod's lists anew, if that kernel is still there. What is removed
# beside the package may have taken depmod with it: then nobody reads the lists.
index() {
    [ -e "$1/lib/modules/$2/modules.order" ] || return 0
    command -v depmod >/dev/null || return 0
    depmod ${1:+-b "$1"} -a "$2"
}

# lacking ROOT KERNEL MODULE...: say which of these is not there for that kernel. No failure:
# what brings them may come later.
lacking() {
    base=$1 release=$2
    shift 2
    for module; do
        modprobe ${base:+-d "$base"} -S "$release" -n "$module" >/dev/null 2>&1 ||
            echo "gdr-modules: note: these modules need $module, which is not there for $release"
    done
}

# early ROOT KERNEL: an initramfs that was made before holds the older modules of these names.
early() {
    [ -z "$1" ] || return 0
    if command -v update-initramfs >/dev/null; then
        [ ! -e "/boot/initrd.img-$2" ] || update-initramfs -u -k "$2"
    elif command -v dracut >/dev/null; then
        [ ! -e "/boot/initramfs-$2.img" ] || dracut -f --kver "$2"
    fi
}
