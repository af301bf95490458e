# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: PCI functions, their links, their config space, and the IOMMU.

pci_links() { # one ls for all: where each function hangs, its driver, its IOMMU group
    # shellcheck disable=SC2012,SC2035 # the names there are PCI addresses
    (cd "$root/sys/bus/pci/devices" && ls -ld * */driver */iommu_group */physfn 2>/dev/null) |
        sed 's/^.* \([^ ]* -> \)/\1/'
}

pci_functions() { # sets bridges and endpoints: the functions a peer-to-peer path consists of
    bridges='' endpoints=''
    for device in "$root"/sys/bus/pci/devices/*; do
        class=''
        { read -r class <"$device/class"; } 2>/dev/null
        case $class in
            0x0604*) bridges="$bridges ${device##*/}" ;;
            0x02*) [ -e "$device/physfn" ] || endpoints="$endpoints ${device##*/}" ;; # a VF adds nothing
            0x03* | 0x0108* | 0x0680*) endpoints="$endpoints ${device##*/}" ;;
        esac
    done
}

pci_resources() {
    # shellcheck disable=SC2046 # one word a function
    from /sys/bus/pci/devices $(for device in $endpoints; do echo "$device/resource"; done)
}

pci_config() { # repeated lines as od folds them: mostly zeroes
    for device in $bridges $endpoints; do
        echo "@$device"
        od -A x -t x1 "$root/sys/bus/pci/devices/$device/config" 2>/dev/null
    done
}

acs_units() { # what calls setpci for ACS at boot, by itself or by the script that it starts
    (
        cd "$root/" 2>/dev/null || return 0
        old_units=lib/systemd/system # the same folder, but on systems that keep /lib apart
        if [ -L lib ]; then old_units=none; fi
        grep -s '^ExecStart' etc/systemd/system/*.service usr/lib/systemd/system/*acs*.service \
            "$old_units"/*acs*.service /dev/null |
            while IFS= read -r line; do
                unit=${line%%:*} command=${line#*=}
                script=${command%% *}
                case $line in
                    *[Aa][Cc][Ss]*setpci* | *setpci*[Aa][Cc][Ss]*) ;;
                    *acs[-_]disable* | *disable[-_]acs* | *acs[-_]off*) ;; # DGX: nvidia-acs-disable
                    *=/usr/lib/gdr-toolkit/acs\ *) ;;
                    *=*/usr/local/* | *=*/opt/* | *=*/root/* | *=*/etc/* | *.sh | *.sh\ *)
                        # setpci alone may set anything: the size of read requests, mostly
                        grep -qs setpci "./${script#*/}" || continue
                        grep -qsi acs "./${script#*/}" || continue
                        ;;
                    *) continue ;;
                esac
                state=disabled
                for link in etc/systemd/system/*.wants/"${unit##*/}" etc/systemd/system/*.requires/"${unit##*/}"; do
                    if [ -L "$link" ] || [ -e "$link" ]; then state=enabled; fi
                done
                grep -qs "^Wants=.*${unit##*/}" etc/systemd/system/*.target.d/*.conf && state=enabled
                echo "${unit##*/} $state $command"
            done
        for script in etc/rc.local etc/rc.d/rc.local; do
            state=disabled
            [ -x "$script" ] && state=enabled
            grep -s '^[^#]*setpci.*[Aa][Cc][Ss]' "$script" | sed "s/^/rc.local $state /"
        done
        cat etc/crontab etc/cron.d/* var/spool/cron/crontabs/root var/spool/cron/root 2>/dev/null |
            grep -E '^@reboot.*(setpci.*[Aa][Cc][Ss]|acs[-_]disable|disable[-_]acs|acs[-_]off)' | sed 's/^/cron enabled /'
    )
    return 0
}

pci_errors() { # totals of the AER counters that are not zero
    echo "uptime:$(sed 's/[. ].*//' "$root/proc/uptime" 2>/dev/null)"
    (
        cd "$root/sys/bus/pci/devices" || exit
        set -- */aer_dev_fatal
        echo "functions:$#"
        grep -s TOTAL_ERR ./*/aer_dev_* | sed 's|^\./||' | grep -v ' 0$'
    )
}

probe_pci() {
    if [ -d "$root/sys/bus/pci/devices" ]; then
        take pci /sys/bus/pci/devices from /sys/bus/pci/devices '*/vendor' '*/device' '*/class' '*/numa_node' \
            '*/current_link_speed' '*/max_link_speed' '*/current_link_width' '*/max_link_width'
        take pci-links /sys/bus/pci/devices pci_links
        pci_functions
        take pci-resources '/sys/bus/pci/devices/*/resource' pci_resources
        if command -v od >/dev/null; then take pci-config '/sys/bus/pci/devices/*/config' pci_config
        else frame pci-config absent od; fi
    else
        for key in pci pci-links pci-resources pci-config; do frame $key absent /sys/bus/pci/devices; done
    fi
    take iommu-groups /sys/kernel/iommu_groups from /sys/kernel/iommu_groups '*/type'
    take iommu-units /sys/class/iommu names '/sys/class/iommu/*'
    take acs-units 'units and scripts that call setpci' acs_units
    if [ -n "$(locate setpci)" ]; then take setpci setpci locate setpci; else frame setpci absent setpci; fi
    file numa-nodes /sys/devices/system/node/online
    if ls "$root"/sys/bus/pci/devices/*/aer_dev_fatal >/dev/null 2>&1; then take aer '/sys/bus/pci/devices/*/aer_dev_*' pci_errors
    else frame aer absent '/sys/bus/pci/devices/*/aer_dev_*'; fi
    if [ -e "$root/proc/net/route" ]; then take default-routes /proc/net/route default_routes
    else frame default-routes absent /proc/net/route; fi
    ssh_interface
}
