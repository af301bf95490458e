# shellcheck shell=sh disable=SC2154 # frames.sh sets what is used here
# Part of the probe: which boot loader it is, and whether it can boot an entry once and then
# forget it. GRUB forgets by writing into grubenv, which it can do on plain disks alone.

loader() { # what firmware and system say of it, one line each
    for name in LoaderInfo StubInfo; do # of systemd-boot and of systemd's stub, as UTF-16
        variable=$root/sys/firmware/efi/efivars/$name-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f
        if [ -r "$variable" ]; then add "$name $(tr -cd ' -~' <"$variable")"; fi
    done
    if [ -e "$root/run/ostree-booted" ]; then add ostree; fi
    if grep -qsE '^[^ ]+ / btrfs ro[, ]' "$root/proc/mounts"; then add 'read-only root'; fi
    for folder in /boot/grub /boot/grub2; do
        if [ -e "$root$folder/grub.cfg" ]; then add "grub $folder"; fi
    done
}

mount_of() { # mount_of PATH: sets mount_device, "MAJOR:MINOR", and mount_fs; false without a list
    mount_at='' mount_device='' mount_fs=''
    [ -r "$root/proc/self/mountinfo" ] || return
    while read -r _ _ device _ at rest; do
        below=${at%/} # bash takes it for another pattern where it is used
        case $1/ in "$below"/*) ;; *) continue ;; esac
        # A later one of the same length lies over the one before.
        if [ "${#at}" -lt "${#mount_at}" ]; then continue; fi
        rest=${rest#*- }
        mount_at=$at mount_device=$device mount_fs=${rest%% *}
    done <"$root/proc/self/mountinfo"
    [ -n "$mount_fs" ]
}

plain_disk() { # plain_disk FOLDER: the two frames where no layers are; false where there may be some
    # grub-probe asks the device mapper, for which the kernel would load it: a probe changes nothing.
    if [ -e "$root/sys/module/dm_mod" ] || ! mount_of "$1"; then return 1; fi
    # btrfs, zfs and overlays have no device of their own, and GRUB writes to none of them.
    disk=sda
    case $mount_device in 0:*) ;; *) disk=$(readlink "$root/sys/dev/block/$mount_device") ;; esac
    case ${disk##*/} in sd* | vd* | xvd* | hd* | nvme* | mmcblk* | pmem*) ;; *) return 1 ;; esac
    case $mount_fs in
        ext3 | ext4) mount_fs=ext2 ;; # as GRUB calls them
        vfat) mount_fs=fat ;;
    esac
    frame grub-abstraction ok "/sys/dev/block/$mount_device"
    bars ''
    frame grub-fs ok /proc/self/mountinfo
    bars "$mount_fs"
}

loader_disk() { # where GRUB's environment lies, as GRUB itself would see it
    asker=grub-probe folder=/boot/grub
    if seek grub2-probe; then asker=grub2-probe folder=/boot/grub2; fi
    environment=$root$folder/grubenv
    if [ -L "$environment" ]; then environment=$(readlink -f "$environment"); fi # on the ESP, with older GRUBs
    if [ -e "$environment" ] && cd -P "${environment%/*}" 2>/dev/null; then folder=$PWD; fi
    cd / || return
    folder=${folder#"$root"}
    if plain_disk "$folder"; then return; fi
    cmd grub-abstraction 5 $asker --target=abstraction "$folder"
    cmd grub-fs 5 $asker --target=fs "$folder"
}

probe_boot() {
    give loader '/sys/firmware/efi/efivars, /run, /boot' loader
    short boot-trials /var/lib/gdr-toolkit/trials
}
