# shellcheck shell=sh disable=SC2154 # frames.sh sets what is used here
# Part of the probe: which boot loader it is, and whether it can boot an entry once and then
# forget it. GRUB forgets by writing into grubenv, which it can do on plain disks alone.

loader() { # what firmware and system say of it, one line each
    for name in LoaderInfo StubInfo; do # of systemd-boot and of systemd's stub, as UTF-16
        variable=$root/sys/firmware/efi/efivars/$name-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f
        if [ -r "$variable" ]; then echo "$name $(tr -cd ' -~' <"$variable")"; fi
    done
    if [ -e "$root/run/ostree-booted" ]; then echo ostree; fi
    if grep -qsE '^[^ ]+ / btrfs ro[, ]' "$root/proc/mounts"; then echo 'read-only root'; fi
    for folder in /boot/grub /boot/grub2; do
        if [ -e "$root$folder/grub.cfg" ]; then echo "grub $folder"; fi
    done
}

loader_disk() { # where GRUB's environment lies, as GRUB itself would see it
    asker=grub-probe folder=/boot/grub
    if [ -n "$(locate grub2-probe)" ]; then asker=grub2-probe folder=/boot/grub2; fi
    environment=$(readlink -f "$root$folder/grubenv" 2>/dev/null) # on the ESP, with older GRUBs
    if [ -e "$environment" ]; then folder=${environment%/*}; fi
    folder=${folder#"$root"}
    cmd grub-abstraction 5 $asker --target=abstraction "$folder"
    cmd grub-fs 5 $asker --target=fs "$folder"
}

probe_boot() {
    take loader '/sys/firmware/efi/efivars, /run, /boot' loader
    file boot-trials /var/lib/gdr-toolkit/trials
}
