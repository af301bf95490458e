# shellcheck shell=sh disable=SC2030,SC2031,SC2154 # subshells, so that variables are their own
# Functions for POSIX sh, to be read after gate.sh and aside.sh: put what was built aside in place.
#
#   swap SCRATCH KERNEL PACKAGE VERSION   what aside left there becomes DKMS's own build, installed
#   mend                                  takes back each swap that was cut off
#
# Before anything is changed, what is there is copied to a journal. From then on a failure, or the
# next run after a kill, puts all of it back byte for byte. An installed module is exchanged by
# renaming: at any moment the old file lies there or the new one, and each is whole.

swap_journals=/var/lib/gdr-toolkit/swaps

swap() ( # swap SCRATCH KERNEL PACKAGE VERSION; 1 where all is as it was before
    kernel=$2 package=$3 version=$4 arch=$(uname -m)
    new=$1/dkms/$package/$version/$kernel/$arch journal=$swap_journals/$kernel/$package
    tree=$aside_live/$package at=$aside_live/$package/$version/$kernel
    [ -d "$new/module" ] || aside_stop "nothing was built at $new" || exit 1
    mend || exit 1

    # All that needs room comes first: here a full disk or a kill leaves litter, and nothing else.
    rm -rf "$journal" "$at/.gdr-new"
    mkdir -p "$journal/files" "$at" || exit 1
    if [ ! -L "$tree/$version/source" ]; then ln -s "/usr/src/$package-$version" "$tree/$version/source" || exit 1; fi
    { cp -Rp "$new" "$at/.gdr-new" && : >"$at/.gdr-new/.swap"; } || swap_litter || exit 1
    # What is not in the list is removed when all is taken back, so half a list must not count.
    swap_installed "$kernel" "$new" "$tree/kernel-$kernel-$arch/module" >"$journal/list" || swap_litter || exit 1
    while read -r file; do # a link as a link: it may lead nowhere
        mkdir -p "$journal/files${file%/*}" && cp -Pp "$file" "$journal/files$file" || swap_litter || exit 1
    done <"$journal/list"
    originals=''
    [ ! -d "$tree/original_module/$kernel/$arch" ] || originals=1
    printf '%s\n' "$kernel" "$arch" "$package" "$version" "$originals" "$(readlink "$tree/kernel-$kernel-$arch")" \
        >"$journal/about" || swap_litter || exit 1
    swap_flush "$journal" "$at/.gdr-new/module"
    mv "$journal/about" "$journal/ready" || swap_litter || exit 1
    swap_flush "$journal"

    if swap_tree && swap_install && swap_check; then
        rm -f "$journal/ready" # from here on the new build counts
        swap_over
        exit 0
    fi
    swap_back "$journal"
    exit 1
)

swap_over() { # the journal holds nothing to take back any more
    rm -rf "$journal" "$at/.gdr-old" "$at/.gdr-new" "$at/$arch/.swap"
    rmdir "$at" "$swap_journals/$kernel" "$swap_journals" 2>/dev/null || :
}

swap_flush() { # swap_flush PATH...: is on disk. Not all that the machine has to write: that may take minutes
    find "$@" -exec sync {} + 2>/dev/null || sync
}

swap_litter() { # always fails
    rm -rf "$journal" "$at/.gdr-new"
    aside_stop "no room to put $package/$version for $kernel in place; nothing was changed"
}

swap_installed() { # swap_installed KERNEL NEW OLD: files of these modules, wherever they are installed
    for file in "$2"/module/*.ko* "$3"/*.ko*; do
        [ -e "$file" ] || continue
        file=${file##*/}
        find "/lib/modules/$1/" -name "${file%%.ko*}.ko*" \( -type f -o -type l \) 2>/dev/null
    done | sort -u
}

swap_tree() {
    rm -rf "$at/.gdr-old"
    { [ ! -d "$at/$arch" ] || mv "$at/$arch" "$at/.gdr-old"; } && mv "$at/.gdr-new" "$at/$arch"
}

swap_install() { # by renaming where this package is installed already, else by DKMS
    place=$(swap_place) || place=''
    if [ -z "$place" ]; then
        KVERSION=$kernel dkms install -m "$package" -v "$version" -k "$kernel" -a "$arch" \
            --force </dev/null
        return
    fi
    for file in "$at/$arch/module"/*.ko*; do
        name=${file##*/}
        cp -p "$file" "$place/.$name.gdr-new" && chmod 644 "$place/.$name.gdr-new" || return 1
    done
    swap_flush "$place"/.*.gdr-new
    for file in "$at/$arch/module"/*.ko*; do
        name=${file##*/}
        mv -f "$place/.$name.gdr-new" "$place/$name" || return 1
        for other in "$place/${name%%.ko*}.ko" "$place/${name%%.ko*}.ko".*; do # packed in another way
            if [ -e "$other" ] && [ "${other##*/}" != "$name" ]; then rm -f "$other" || return 1; fi
        done
    done
    ln -sfn "$version/$kernel/$arch" "$tree/kernel-$kernel-$arch" && depmod -a "$kernel"
}

swap_place() { # the one folder that all of its modules are installed in now; fails where there is none
    [ -L "$tree/kernel-$kernel-$arch" ] || return 1
    folder=''
    for file in "$at/$arch/module"/*.ko*; do
        name=${file##*/} here=''
        while read -r file; do
            case ${file##*/} in "${name%%.ko*}".ko*) here="$here ${file%/*}" ;; esac
        done <"$journal/list"
        case $here in ' '*' '* | '') return 1 ;; esac
        [ -z "$folder" ] || [ "$folder" = "${here# }" ] || return 1
        folder=${here# }
    done
    case $folder in */weak-updates*) return 1 ;; esac
    echo "$folder"
}

swap_check() { # what is installed is what was built, and modprobe would find it
    for file in "$at/$arch/module"/*.ko*; do
        name=${file##*/}
        found=$(modinfo -k "$kernel" -n "${name%%.ko*}" 2>/dev/null)
        if [ -z "$found" ] || ! cmp -s "$file" "$found"; then
            aside_stop "kernel $kernel would load ${found:-nothing} for ${name%%.ko*}, not what was built" || return 1
        fi
    done
}

mend() ( # takes back what a run left half done
    for journal in "$swap_journals"/*/*; do
        [ -d "$journal" ] || continue
        if [ -e "$journal/ready" ]; then swap_back "$journal" || exit 1; else rm -rf "$journal"; fi
    done
    # A swap that was done leaves at most these.
    rm -rf "$aside_live"/*/*/*/.gdr-old "$aside_live"/*/*/*/.gdr-new
    rm -f "$aside_live"/*/*/*/*/.swap
)

swap_back() ( # swap_back JOURNAL: as before, also where it was done by half, or twice
    journal=$1
    { read -r kernel && read -r arch && read -r package && read -r version && read -r originals && read -r link; } \
        <"$journal/ready" || exit 1
    tree=$aside_live/$package at=$aside_live/$package/$version/$kernel
    find "/lib/modules/$kernel/" -name '.*.gdr-new' -exec rm -f {} + 2>/dev/null
    if ! swap_ours; then
        echo "aside: others have changed $package for $kernel since $version was half in place: what is there stays" >&2
        rm -f "$journal/ready" && swap_over
        exit
    fi
    # The new build's own files first, for their names tell what to look for.
    swap_installed "$kernel" "$at/$arch" "$at/.gdr-new/module" | while read -r file; do
        grep -qxF "$file" "$journal/list" || rm -f "$file"
    done
    while read -r file; do
        if [ ! -L "$journal/files$file" ] && cmp -s "$journal/files$file" "$file"; then continue; fi
        mkdir -p "${file%/*}" && cp -Pp "$journal/files$file" "$file.gdr-old" && mv -f "$file.gdr-old" "$file" || exit 1
    done <"$journal/list"
    # The mark tells the new build from the old one, wherever an earlier attempt got to; so it
    # is the last to go.
    if [ -e "$at/$arch/.swap" ]; then
        rm -rf "$at/.gdr-new"
        mv "$at/$arch" "$at/.gdr-new" || exit 1
    fi
    if [ -d "$at/.gdr-old" ] && [ ! -d "$at/$arch" ]; then mv "$at/.gdr-old" "$at/$arch" || exit 1; fi
    if [ -n "$link" ]; then ln -sfn "$link" "$tree/kernel-$kernel-$arch"; else rm -f "$tree/kernel-$kernel-$arch"; fi
    [ -n "$originals" ] || rm -rf "$tree/original_module/$kernel/$arch"
    depmod -a "$kernel"
    echo "aside: what was installed of $package for $kernel before $version is back" >&2
    rm -f "$journal/ready" && swap_over
)

swap_ours() { # whether DKMS's tree is as the swap left it: it may be days since that was cut off
    [ -e "$at/$arch/.swap" ] || [ -e "$at/.gdr-new/.swap" ] || return 1
    now=$(readlink "$tree/kernel-$kernel-$arch")
    case $now in '' | "$link" | "$version/$kernel/$arch") ;; *) return 1 ;; esac
}
