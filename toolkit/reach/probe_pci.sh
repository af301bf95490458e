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

}
