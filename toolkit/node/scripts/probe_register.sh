# shellcheck shell=sh disable=SC2154,SC2317 # probe.sh sets what is used here, and calls it
# Part of the probe where it was asked for: which HCA takes the memory of which GPU.
#
# collect.py puts register_program before it, which prints register.py, and $verbs_library. That
# allocates 2 MiB of a GPU for a moment, so no probe has it unasked.

probe_register() {
    job=$scratch/registration
    for tool in python3 platform-python; do
        if seek "$tool"; then break; fi
    done
    if [ -z "$where" ] && [ -x "$root/usr/libexec/platform-python" ]; then
        where=$root/usr/libexec/platform-python # of the RHEL family, in no folder of PATH
    fi
    if [ -z "$where" ]; then frame registration absent python3; return; fi
    if [ -z "$scratch" ]; then frame registration failed:28 "$tool"; return; fi # ENOSPC
    register_program | "$where" -ISB - "$verbs_library" >"$job" 2>"$job.err" &
    await $! 240
    content=''
    slurp "$job"
    case $status in
        '') frame registration timeout "$tool register.py" ;;
        0) frame registration ok "$tool register.py" ;;
        *)
            whole "$job" "$job.err"
            frame registration "failed:$status" "$tool register.py"
            ;;
    esac
    bars "$content"
}
