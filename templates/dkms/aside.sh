# shellcheck shell=sh disable=SC2030,SC2031,SC2154 # subshells, so that variables are their own
# Functions for POSIX sh, to be read after gate.sh: build a DKMS package aside.
#
#   aside SCRATCH KERNEL PACKAGE VERSION   its status is DKMS's; writes nothing outside SCRATCH
#
# "dkms build --force" deletes the last good build before it begins a new one, and a rebuild by
# BUILD_DEPENDS_REBUILD uninstalls it first: where that fails, the node is left with nothing.
#
# After it:   SCRATCH/result/*.ko*, SCRATCH/result/Module.symvers; SCRATCH/make.log in any case.
# Before it, a caller may lay into SCRATCH
#   src/PACKAGE-VERSION/                     a source that is not below /usr/src
#   dkms/OTHER/VERSION/KERNEL/ARCH/module/   what another package was built to: *.ko*, Module.symvers
# ASIDE_PLAIN=1 leaves modules unpacked and unsigned, however that kernel's modules are packed.
# ASIDE_FLAGS are further words for "dkms build", such as "-j 2".

aside_live=/var/lib/dkms

aside_stop() { # aside_stop SENTENCE
    echo "aside: $*" >&2
    return 1
}

aside_packing() { # aside_packing KERNEL: how its modules are packed: ".xz", ".zst", ".gz" or nothing
    found=$(find "/lib/modules/$1/" -type f -name '*.ko.[gxz]*' 2>/dev/null | head -n 1)
    case $found in *.ko.*) echo ".${found##*.}" ;; esac
}

aside() ( # aside SCRATCH KERNEL PACKAGE VERSION; its status is DKMS's
    kernel=$2 package=$3 version=$4 arch=$(uname -m)
    mkdir -p "$1/dkms" "$1/src" "$1/modules/$kernel" || exit 1
    scratch=$(cd "$1" && pwd -P) || exit 1 # DKMS compares a path with what readlink -f gives
    tree=$scratch/dkms/$package/$version
    rm -rf "$tree" "$scratch/result" "$scratch/make.log"

    source=$scratch/src/$package-$version
    if [ ! -e "$source" ]; then
        found=$(readlink -f "$aside_live/$package/$version/source" || :)
        [ -d "$found" ] || found=/usr/src/$package-$version
        [ -f "$found/dkms.conf" ] || aside_stop "no source of $package/$version at $found" || exit 2
        ln -s "$found" "$source" || exit 1
    fi
    mkdir -p "$tree" && ln -s "$source" "$tree/source" || exit 1 # all that "dkms add" does

    # The headers; and one name by which DKMS learns how this kernel's modules are packed.
    for link in build source; do
        [ ! -e "/lib/modules/$kernel/$link" ] || ln -sfn "/lib/modules/$kernel/$link" "$scratch/modules/$kernel/$link"
    done
    rm -f "$scratch/modules/$kernel"/packing.ko*
    packing=$(aside_packing "$kernel")
    [ -n "${ASIDE_PLAIN:-}" ] || [ -z "$packing" ] || : >"$scratch/modules/$kernel/packing.ko$packing"

    aside_neighbours "$scratch" "$kernel" "$arch" "$package" || exit 1

    # DKMS would make a key where there is none, and that outside SCRATCH: sign with one that
    # is there, or not at all. /dev/null is no program, and DKMS asks for nothing more.
    if [ -n "${ASIDE_PLAIN:-}" ] || ! aside_key; then export sign_file=/dev/null; fi

    # OFED's configure chooses for the kernel that runs here, unless KVERSION names another.
    export TMPDIR="$scratch" KVERSION="$kernel"
    # shellcheck disable=SC2086 # flags are words
    dkms build -m "$package" -v "$version" -k "$kernel" -a "$arch" ${ASIDE_FLAGS:-} \
        --dkmstree "$scratch/dkms" --sourcetree "$scratch/src" --installtree "$scratch/modules" </dev/null
    status=$?
    for log in "$tree/$kernel/$arch/log/make.log" "$tree/build/make.log"; do
        if [ -f "$log" ]; then cp "$log" "$scratch/make.log" && break; fi
    done
    [ "$status" = 0 ] || exit "$status"
    # DKMS 3.0 passes over what PRE_BUILD and POST_BUILD end with, and over a full disk.
    aside_whole "$tree/$kernel/$arch/module" || exit 7
    mkdir "$scratch/result" && ln -s "$tree/$kernel/$arch/module"/* "$scratch/result/" || exit 1
    aside_symvers "$scratch/result"
)

aside_neighbours() ( # aside_neighbours SCRATCH KERNEL ARCH PACKAGE: what is installed beside it
    # DKMS from 3.1.4 on builds only where each of BUILD_DEPENDS is installed for that kernel.
    # Links to folders would not do: it compares resolved paths.
    for link in "$aside_live"/*/"kernel-$2-$3" "$1/dkms"/*/*/"$2/$3/module"; do
        case $link in
            */module) version=${link%"/$2/$3/module"} other=${version%/*} version=${version##*/} ;;
            *) [ -L "$link" ] || continue && other=${link%/*} version=$(readlink "$link") version=${version%%/*} ;;
        esac
        other=${other##*/}
        if [ "$other" = "$4" ] || [ "$other" = '*' ]; then continue; fi
        at=$1/dkms/$other
        if [ ! -e "$at/$version/$2/$3/module" ]; then
            [ ! -e "$at" ] || continue # laid here by the caller, in another version
            mkdir -p "$at/$version/$2/$3" || exit 1
            ln -s "$aside_live/$other/$version/$2/$3/module" "$at/$version/$2/$3/module" || exit 1
        fi
        if [ ! -e "$at/$version/source" ]; then
            found=$(readlink -f "$aside_live/$other/$version/source" || :)
            if [ ! -d "$found" ]; then found=$1/src/$other-$version && mkdir -p "$found"; fi
            ln -sfn "$found" "$at/$version/source" || exit 1
        fi
        ln -sfn "$version/$2/$3" "$at/kernel-$2-$3" || exit 1
    done
)

aside_key() { # whether DKMS has a key to sign with
    key=$(aside_told mok_signing_key) certificate=$(aside_told mok_certificate)
    case $key$certificate in pkcs11:* | *'$'*) return 0 ;; esac # it makes none, or knows alone
    if [ -n "$key" ]; then # where either is gone it makes both anew, in their places
        [ -f "$key" ] && [ -f "${certificate:-/var/lib/dkms/mok.pub}" ]
        return
    fi
    for key in /var/lib/dkms/mok.key /var/lib/shim-signed/mok/MOK.priv; do
        if [ -s "$key" ]; then return 0; fi
    done
    false
}

aside_told() { # aside_told NAME: what DKMS was told of it; the last word counts, as for its own sh
    cat /etc/dkms/framework.conf /etc/dkms/framework.conf.d/*.conf 2>/dev/null |
        sed -n "s/^[[:space:]]*$1=[\"']*\([^\"'[:space:]]*\).*/\1/p" | tail -n 1
}

aside_whole() { # aside_whole FOLDER: there are modules, and each can be read to its end
    count=0
    for file in "$1"/*.ko*; do
        [ -f "$file" ] || continue
        { gate_unpacked "$file" >/dev/null 2>&1 && [ -n "$(modinfo -F vermagic "$file" 2>/dev/null)" ]; } ||
            aside_stop "${file##*/} is no whole module" || return 1
        count=$((count + 1))
    done
    [ "$count" -gt 0 ] || aside_stop "DKMS reports success and left no module"
}

aside_symvers() { # aside_symvers FOLDER: Module.symvers there, of what these modules export themselves
    names=' ' rows=''
    [ ! -e "$1/Module.symvers" ] || rows=$1/Module.symvers # DKMS keeps one only from 3.1.3 on
    for file in "$1"/*.ko*; do
        name=$(modinfo -F name "$file" 2>/dev/null)
        name=${name:-$(basename "${file%%.ko*}")} names="$names$name "
        [ -n "$rows" ] || gate_exports "$file" | awk -v name="$name" '{ print $1 "\t" $2 "\t" name "\tEXPORT_SYMBOL\t" }'
    done >"$1/symvers.part"
    # Kernels before 5.8 note there what was linked against too, and who was is no witness to it.
    [ -z "$rows" ] || awk -F '\t' -v names="$(echo "$names" | tr - _)" '
        { n = split($3, part, "/"); gsub("-", "_", part[n]) } index(names, " " part[n] " ")' "$rows" >"$1/symvers.part"
    mv -f "$1/symvers.part" "$1/Module.symvers"
}
