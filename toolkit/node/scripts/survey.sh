# shellcheck shell=sh disable=SC2154 # frames.sh sets what is used here
# Reads what modules can be built of and for which kernels; changes nothing. The words of it
# are in frames.sh, hashes.sh and probe_elf.sh, which stand above these lines. GDR_ROOT and
# GDR_BIN mean what they mean to probe.sh.
#
#   survey KERNEL... end     none: every kernel that has headers

ground_tools() { # which of what builds need is there
    for tool in dkms make gcc g++ clang cc ld bash patch modprobe modinfo depmod strip gzip xz zstd base64 \
        sha256sum unshare mount flock perl openssl; do
        if [ -n "$(locate "$tool")" ]; then echo "$tool"; fi
    done
}

ground_kernels() { # ground_kernels KERNEL...
    for release; do
        echo "@$release"
        headers_parts "$release" | sed 's/^/missing /'
        if [ -e "$root/lib/modules/$release/build/" ]; then echo "headers $(headers_digest "$release")"; fi
        echo "named $(compiler_named "$release")"
        echo "compiler $(compiler_line "$release")"
    done
}

releases() { # all kernels that have headers, asked for or not
    for build in "$root"/lib/modules/*/build/Makefile; do
        [ -e "$build" ] || continue
        build=${build%/build/Makefile}
        echo "${build##*/}"
    done
}

ground_configs() { # ground_configs KERNEL...
    options='MODVERSIONS|PREEMPT_RT|PREEMPT_RT_FULL|PREEMPT|PREEMPT_BUILD|SMP|MODULE_UNLOAD|MODULE_FORCE_UNLOAD|RANDSTRUCT|CC_VERSION_TEXT|CC_IS_CLANG|MODULE_SIG[A-Z0-9_]*|MODULE_COMPRESS[A-Z0-9_]*|DEBUG_INFO_BTF(_MODULES)?|XEN_DOM0|LTO_CLANG|INFINIBAND|GCC_PLUGIN[A-Z_]*|OBJTOOL_WERROR'
    for release; do
        config=$root/lib/modules/$release/build/.config
        [ -r "$config" ] || config=$root/boot/config-$release
        [ -r "$config" ] || continue
        echo "@$release"
        grep -E "^(# )?CONFIG_($options)[ =]" "$config"
    done
}

symvers_of() { # symvers_of KERNEL...: who exports the peer-memory interface, and the kernels' own layout
    for release; do
        found=$root/lib/modules/$release/build/Module.symvers
        [ -r "$found" ] || continue
        echo "@${found#"$root"}"
        grep -E '[[:space:]](module_layout|ib_(un)?register_peer_memory_client)[[:space:]]' "$found"
    done
    for found in "$root"/usr/src/ofa_kernel/Module.symvers "$root"/usr/src/ofa_kernel/*/Module.symvers \
        "$root"/usr/src/ofa_kernel/*/*/Module.symvers; do
        [ -r "$found" ] || continue
        echo "@${found#"$root"}"
        grep -E '[[:space:]]ib_(un)?register_peer_memory_client[[:space:]]' "$found"
    done
}

source_trees() { # "SHA256 FOLDER": DKMS packages, and what has the source of nvidia-peermem and is none
    for folder in "$root"/usr/src/*/; do
        conf=${folder}dkms.conf
        [ -e "$conf" ] || [ -e "${folder}nvidia-peermem/nvidia-peermem.c" ] ||
            [ -e "${folder}kernel-open/nvidia-peermem/nvidia-peermem.c" ] || continue
        folder=${folder%/}
        folder=${folder##*/}
        name=$(sed -n 's/^PACKAGE_NAME=["'\'']\{0,1\}\([^"'\'' ]*\).*/\1/p' "$conf" 2>/dev/null | tail -n 1)
        echo "$(source_digest "$folder" "${name:-${folder%-*}}") $folder"
    done
}

source_licences() { # of the driver's main module and of nvidia-peermem, as their sources declare them
    (
        cd "$root/usr/src" 2>/dev/null || exit 0
        for folder in nvidia*/nvidia nvidia*/kernel-open/nvidia nvidia*/kernel/nvidia nvidia*/nvidia-peermem \
            nvidia*/kernel-open/nvidia-peermem nvidia*/kernel/nvidia-peermem; do
            grep -s 'MODULE_LICENSE(' "$folder"/*.c /dev/null
        done
    )
    return 0
}

installed() { # installed KERNEL...: files of the driver, the RDMA core and what rests on them
    for release; do
        find "$root/lib/modules/$release" -name '*.ko*' 2>/dev/null |
            grep -E '/(nvidia([-_](current|tesla([-_][0-9]+)?))?([-_]open)?([-_](peermem|fs))?|gdrdrv|ib_core|ib_uverbs|[a-z0-9_]*peer[a-z0-9_]*)\.ko'
    done
    return 0
}

installed_info() { # one modinfo for all of them
    [ $# -gt 0 ] || return 0
    "$(locate modinfo)" "$@" 2>/dev/null |
        grep -E '^(filename|version|license|srcversion|depends|vermagic|signer|sig_key):' | sed "s|^\(filename: *\)$root/|\1/|"
}

dkms_builds() { # as "dkms status" says it, which takes seconds to compare what is installed
    for source in "$root"/var/lib/dkms/*/*/source; do
        [ -L "$source" ] || continue
        version=${source%/source} there=''
        module=${version%/*} version=${version##*/}
        name=${module##*/}
        if [ ! -e "$source/dkms.conf" ]; then echo "$name/$version: broken"; continue; fi
        for built in "$module/$version"/*/*/module; do
            [ -d "$built" ] || continue
            there=1 arch=${built%/module}
            kernel=${arch%/*} arch=${arch##*/} state=built
            kernel=${kernel##*/}
            if [ "$(readlink "$module/kernel-$kernel-$arch")" = "$version/$kernel/$arch" ]; then state=installed; fi
            echo "$name/$version, $kernel, $arch: $state"
        done
        [ -n "$there" ] || echo "$name/$version: added"
    done
}

room() { df -Pk "$root/var/tmp" 2>/dev/null; }

survey() {
    begin_frames
    kernels=''
    for word; do [ "$word" = end ] || kernels="$kernels $word"; done
    # shellcheck disable=SC2046,SC2086 # kernel releases have no blanks
    if [ -n "$kernels" ]; then set -- $kernels; else set -- $(releases); fi
    cmd arch 5 uname -m
    if [ -e "$root/etc/os-release" ]; then file os-release /etc/os-release; else file os-release /usr/lib/os-release; fi
    take ground-tools 'commands in PATH' ground_tools
    cmd dkms-version 5 dkms --version
    take kernels "/lib/modules/*/build" ground_kernels "$@"
    take releases /lib/modules releases
    take kernel-configs '/lib/modules/*/build/.config' ground_configs "$@"
    take symvers '/usr/src/ofa_kernel, /lib/modules/*/build' symvers_of "$@"
    take sources /usr/src names '/usr/src/ofa_kernel' '/usr/src/ofa_kernel/*' '/usr/src/ofa_kernel/*/*'
    take dkms-confs '/usr/src/*/dkms.conf' dkms_confs
    take trees '/usr/src/*/dkms.conf' source_trees
    take licences /usr/src source_licences
    take dkms-tree /var/lib/dkms names /etc/dkms/no-autoinstall '/var/lib/dkms/*'
    # shellcheck disable=SC2046 # the module folders have no blanks
    if need modprobe exports; then take exports 'modprobe --show-exports' exports $(installed "$@"); fi
    # shellcheck disable=SC2046
    if need modinfo installed; then take installed modinfo installed_info $(installed "$@"); fi
    take room /var/tmp room
    take dkms-status /var/lib/dkms dkms_builds
    end_frames
}

dkms_confs() {
    from /usr/src '*/dkms.conf' | grep -E ':(PACKAGE|BUILT_MODULE_NAME|BUILD_DEPENDS|BUILD_EXCLUSIVE|AUTOINSTALL)'
    from /usr/src 'nvidia*/Kbuild nvidia*/kernel-open/Kbuild' | grep NV_VERSION_STRING= # of which release it is
    return 0
}
