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
    files=''
    for device in $endpoints; do files="$files $device/resource"; done
    lines /sys/bus/pci/devices '' "$files"
}

pci_config() { # repeated lines as od folds them: mostly zeroes
    cd "$root/sys/bus/pci/devices" || return
    config_at_once || config_by_one
}

config_by_one() {
    for device in $bridges $endpoints; do
        add "@$device"
        add "$(exec od -A x -t x1 "$device/config" 2>/dev/null)"
    done
}

config_at_once() { # one od for all, with a mark behind each; false where what it says is not plain
    if [ -z "$scratch" ] || ! command -v awk >/dev/null; then return 1; fi
    printf 'gdr-toolkit:next' >"$scratch/mark" || return
    files='' devices=''
    for device in $bridges $endpoints; do
        [ -r "$device/config" ] || return
        files="$files $device/config $scratch/mark" devices="$devices $device"
    done
    [ -n "$files" ] || return 0
    # shellcheck disable=SC2086 # one word a file
    found=$(od -A x -t x1 $files 2>/dev/null | awk -v devices="$devices" '
        function number(hex,   i, n) {
            for (i = 1; i <= length(hex); i++) n = n * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1
            return n
        }
        { last = $1 }
        BEGIN { many = split(devices, name, " "); at = 1; print "@" name[1] }
        /^[*]/ { print; next }
        $0 ~ / 67 64 72 2d 74 6f 6f 6c 6b 69 74 3a 6e 65 78 74$/ {
            printf "%06x\n", number($1) - begun
            begun = number($1) + 16
            if (at++ < many) print "@" name[at]
            next
        }
        NF > 1 { printf "%06x%s\n", number($1) - begun, substr($0, length($1) + 1) }
        END { if (at != many + 1 || number(last) != begun) print "lost" }')
    case $found in *lost) return 1 ;; esac
    add "$found"
}

acs_units() { # what calls setpci for ACS at boot, by itself or by the script that it starts
    cd "$root/" 2>/dev/null || return 0
    old_units=lib/systemd/system # the same folder, but on systems that keep /lib apart
    if [ -L lib ]; then old_units=none; fi
    lines / '^ExecStart' 'etc/systemd/system/*.service' 'usr/lib/systemd/system/*acs*.service' "$old_units/*acs*.service"
    said=$content content=''
    by_line
    for line in $said; do acs_unit "$line"; done
    by_word
    for script in etc/rc.local etc/rc.d/rc.local; do
        state=disabled
        if [ -x "$script" ]; then state=enabled; fi
        [ ! -e "$script" ] || add "$(sed -n "/^[^#]*setpci.*[Aa][Cc][Ss]/s/^/rc.local $state /p" "$script" 2>/dev/null)"
    done
    set -- etc/crontab etc/cron.d/* var/spool/cron/crontabs/root var/spool/cron/root
    for script; do
        [ -e "$script" ] || continue
        add "$(sed -nE '/^@reboot.*(setpci.*[Aa][Cc][Ss]|acs[-_]disable|disable[-_]acs|acs[-_]off)/s/^/cron enabled /p' "$@" 2>/dev/null)"
        break
    done
}

acs_unit() { # acs_unit LINE: adds the unit of this ExecStart, where it is about ACS
    unit=${1%%:*} command=${1#*=}
    script=${command%% *}
    case $1 in
        *[Aa][Cc][Ss]*setpci* | *setpci*[Aa][Cc][Ss]*) ;;
        *acs[-_]disable* | *disable[-_]acs* | *acs[-_]off*) ;; # DGX: nvidia-acs-disable
        *=/usr/lib/gdr-toolkit/acs\ *) ;;
        *=*/usr/local/* | *=*/opt/* | *=*/root/* | *=*/etc/* | *.sh | *.sh\ *)
            # setpci alone may set anything: the size of read requests, mostly
            [ -r "./${script#*/}" ] || return 0
            grep -qs setpci "./${script#*/}" || return 0
            grep -qsi acs "./${script#*/}" || return 0
            ;;
        *) return 0 ;;
    esac
    by_word
    state=disabled
    for link in etc/systemd/system/*.wants/"${unit##*/}" etc/systemd/system/*.requires/"${unit##*/}"; do
        if [ -L "$link" ] || [ -e "$link" ]; then state=enabled; fi
    done
    grep -qs "^Wants=.*${unit##*/}" etc/systemd/system/*.target.d/*.conf && state=enabled
    add "${unit##*/} $state $command"
    by_line
}

pci_errors() { # totals of the AER counters that are not zero
    now=''
    { read -r now <"$root/proc/uptime"; } 2>/dev/null
    add "uptime:${now%%[. ]*}"
    cd "$root/sys/bus/pci/devices" || return
    set -- */aer_dev_fatal
    add "functions:$#"
    lines /sys/bus/pci/devices 'TOTAL_ERR.*([^ ]0|[^0])$' '*/aer_dev_*'
}

probe_pci() {
    if [ -d "$root/sys/bus/pci/devices" ]; then
        give pci /sys/bus/pci/devices lines /sys/bus/pci/devices '' '*/vendor' '*/device' '*/class' '*/numa_node' \
            '*/current_link_speed' '*/max_link_speed' '*/current_link_width' '*/max_link_width'
        take pci-links /sys/bus/pci/devices pci_links
        pci_functions
        give pci-resources '/sys/bus/pci/devices/*/resource' pci_resources
        if command -v od >/dev/null; then give pci-config '/sys/bus/pci/devices/*/config' pci_config
        else frame pci-config absent od; fi
    else
        for key in pci pci-links pci-resources pci-config; do frame $key absent /sys/bus/pci/devices; done
    fi
    give iommu-groups /sys/kernel/iommu_groups lines /sys/kernel/iommu_groups '' '*/type'
    give iommu-units /sys/class/iommu paths '/sys/class/iommu/*'
    give acs-units 'units and scripts that call setpci' acs_units
    if seek setpci; then give setpci setpci add "$where"; else frame setpci absent setpci; fi
    short numa-nodes /sys/devices/system/node/online
    set -- "$root"/sys/bus/pci/devices/*/aer_dev_fatal
    if [ -e "$1" ]; then give aer '/sys/bus/pci/devices/*/aer_dev_*' pci_errors
    else frame aer absent '/sys/bus/pci/devices/*/aer_dev_*'; fi
    if [ -e "$root/proc/net/route" ]; then take default-routes /proc/net/route default_routes
    else frame default-routes absent /proc/net/route; fi
    ssh_interface
}
