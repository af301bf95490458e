# shellcheck shell=sh disable=SC2154 # frames.sh and probe_elf.sh set what is used here
# Reads what an image's passport tells: of each kernel the modules of our path, as modules.dep has
# them, with what identifies each; and what we placed. Changes nothing.
#
# GDR_ROOT and GDR_BIN mean what they mean to probe.sh.

path_names='nvidia([-_](current|tesla([-_][0-9]+)?|legacy[^:/.]*))?([-_]open)?([-_](uvm|modeset|drm|peermem|fs))?|nv_peer_mem|gdrdrv|ib_core|ib_uverbs|ib_umad|ib_cm|iw_cm|rdma_cm|rdma_ucm|mlx5_core|mlx5_ib|mlx_compat'
own_folder='updates/gdr-toolkit/[^:/]*'
resting='nv_peer_mem|[^:]*peermem|mlx5_ib' # whose own needs are part of the path

kernel_parts() { # of each kernel: "image PATH", "module PATH"; sets module_files and image_files
    module_files='' image_files=''
    for dir in "$root"/lib/modules/*/; do
        # Headers alone make a folder here too.
        [ -e "$dir/kernel" ] || [ -e "$dir/modules.dep" ] || continue
        dir=${dir%/} kernel=${dir%/}
        kernel=${kernel##*/}
        add "@$kernel"
        for image in "/boot/vmlinuz-$kernel" "/lib/modules/$kernel/vmlinuz" "/boot/Image-$kernel"; do
            [ -e "$root$image" ] || continue
            add "image $image"
            image_files=$image_files$root$image$nl
            break
        done
        if [ ! -r "$dir/modules.dep" ]; then
            add 'lacks modules.dep'
            continue
        fi
        kernel_modules "$kernel"
    done
}

kernel_modules() { # kernel_modules KERNEL
    deps=$root/lib/modules/$1/modules.dep
    for found in $({
        grep -E "^([^:]*/)?($path_names)\\.ko[^:]*:" "$deps" | sed 's/:.*//'
        grep -E "^$own_folder:" "$deps" | sed 's/:.*//'
        grep -E "^([^:]*/)?($resting)\\.ko[^:]*:" "$deps" | tr -s ': ' '\n'
    } | LC_ALL=C sort -u); do
        case $found in /*) ;; *) found=/lib/modules/$1/$found ;; esac
        if [ ! -e "$root$found" ]; then add "lacks $found"; continue; fi
        add "module $found"
        module_files=$module_files$root$found$nl
    done
}

owned_files() { # sets owned to the files that runs of ours placed and that are there
    owned=''
    while IFS= read -r line; do
        case $line in */) continue ;; esac
        if [ -f "$root$line" ]; then owned=$owned$root$line$nl; fi
    done 2>/dev/null <"$root/var/lib/gdr-toolkit/owned"
}

hashes() { # hashes FILE...: "SHA256 MODE PATH" of each
    [ $# -gt 0 ] || return 0
    by_line
    sums=$(sha256sum -- "$@" 2>/dev/null)
    modes=$(stat -L -c '%a %n' -- "$@" 2>/dev/null)
    for file; do
        sum='' mode=''
        for line in $sums; do case $line in *"  $file") sum=${line%% *} && break ;; esac done
        for line in $modes; do case $line in *" $file") mode=${line%% *} && break ;; esac done
        add "${sum:-unread} ${mode:--} ${file#"$root"}"
    done
    by_word
}

section_blocks() { # section_blocks FILE...
    for ko; do
        echo "@${ko#"$root"}"
        sparse "$ko" notes # of a driver whose symbols nobody has stripped, those are megabytes
    done
}

offering() { # those that may export what others of the path need
    for ko in $module_files; do
        case ${ko##*/} in
            nvidia*[-_]uvm.ko* | nvidia*[-_]modeset.ko* | nvidia*[-_]drm.ko*) ;;
            nvidia*[-_]fs.ko* | nvidia*[-_]peermem.ko*) ;;
            nvidia*.ko* | ib_core.ko* | ib_uverbs.ko* | mlx_compat.ko*) echo "$ko" ;;
        esac
    done
}

begin_frames
give passport-kernels '/lib/modules/*/modules.dep' kernel_parts
owned_files
by_line
# shellcheck disable=SC2086 # one word a line
set -- $image_files $module_files $owned
if ! command -v sha256sum >/dev/null; then frame passport-hashes absent sha256sum
else give passport-hashes 'kernels, modules and what we placed' hashes "$@"; fi
by_line
# shellcheck disable=SC2086
set -- $module_files
by_word
if ! command -v od >/dev/null; then for key in passport-elf passport-exports; do frame $key absent od; done
else
    take passport-elf 'the files of modules' section_blocks "$@"
    # shellcheck disable=SC2046 # the module folders have no blanks
    take passport-exports 'modprobe --show-exports' exports $(offering)
fi
end_frames
