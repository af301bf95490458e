# shellcheck shell=sh disable=SC2034,SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe: what the firmware decided, as far as the running system shows it.

setup() { # one grep for all that are files of a line, then the sockets of each NUMA node
    lines /sys '' devices/system/cpu/online devices/system/cpu/smt/control \
        devices/system/cpu/cpuidle/current_driver \
        'devices/system/cpu/cpu0/cpuidle/state*/name' \
        'devices/system/cpu/cpu0/cpuidle/state*/latency' \
        'devices/system/cpu/cpu0/cpuidle/state*/disable' \
        devices/system/cpu/cpu0/cpufreq/scaling_driver \
        devices/system/cpu/cpu0/cpufreq/scaling_governor \
        devices/system/cpu/cpu0/power/energy_perf_bias \
        devices/system/cpu/cpufreq/boost devices/system/cpu/intel_pstate/no_turbo \
        module/pcie_aspm/parameters/policy 'devices/system/node/node*/cpulist'
    by_line
    for line in $content; do
        # Not by the shell: asked for one byte of such a list, the kernel gives none at all.
        case $line in devices/system/node/*/cpulist:*) cpus=${line#*:} packages='' ;; *) continue ;; esac
        for cpu in "${cpus%%[-,]*}" "${cpus##*[-,]}"; do # the last one tells of interleaving
            package=''
            { read -r package <"$root/sys/devices/system/cpu/cpu$cpu/topology/physical_package_id"; } 2>/dev/null
            case " $packages " in *" $package "*) ;; *) packages="$packages${packages:+ }$package" ;; esac
        done
        node=${line%/cpulist:*}
        [ -z "$packages" ] || add "package/${node##*/}:$packages"
    done
    by_word
}

# The outermost lines are the windows of host bridges; on boards where the firmware reserves
# the range above them, they stand one level deeper.
windows() { content=$(grep -sE '^ {0,2}[0-9a-f]+-[0-9a-f]+ : PCI Bus ' "$root/proc/iomem"); }

iommu_bytes() { # the firmware's own table of IOMMUs; its flags stand in the first 64 bytes
    for table in DMAR IVRS; do
        [ -e "$root/sys/firmware/acpi/tables/$table" ] || continue
        add "@$table"
        add "$(od -A x -t x1 -N 4096 "$root/sys/firmware/acpi/tables/$table" 2>/dev/null)"
    done
}

probe_firmware() {
    give setup /sys setup
    if [ ! -e "$root/proc/iomem" ]; then frame iomem absent /proc/iomem
    elif [ ! -r "$root/proc/iomem" ]; then frame iomem denied /proc/iomem # nothing read is no window less
    else give iomem /proc/iomem windows; fi
    if command -v od >/dev/null; then give acpi-bytes '/sys/firmware/acpi/tables/*' iommu_bytes
    else frame acpi-bytes absent od; fi
}
