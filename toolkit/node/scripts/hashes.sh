# shellcheck shell=sh disable=SC2154,SC2317 # frames.sh sets what is used here; others call it
# Part of the survey and of builds, so that both mean the same: what a build is made of, as
# hashes, and the compiler that will be taken.

digest() { sum=$(sha256sum) && echo "${sum%% *}"; } # digest: of stdin

tree_digest() { # tree_digest FOLDER: of paths, modes, contents and targets of links
    (
        cd "$1" || exit
        find . -type f -exec sha256sum {} + | LC_ALL=C sort
        find . -type f -exec stat -c '%a %n' {} + | LC_ALL=C sort
        # shellcheck disable=SC2016 # the inner shell's
        find . -type l -exec sh -c 'for at; do echo "$at -> $(readlink "$at")"; done' sh {} + | LC_ALL=C sort
    ) | digest
}

source_digest() { # source_digest FOLDER NAME: a DKMS package, with what the site says to it in /etc/dkms
    {
        tree_digest "$root/usr/src/$1"
        # By their names too: those say for which version and kernel a fragment is.
        for fragment in "$root/etc/dkms/$2".conf "$root/etc/dkms/$2"-*.conf; do
            if [ -f "$fragment" ]; then echo "${fragment##*/}" && cat "$fragment"; fi
        done
        # Patches and scripts, from DKMS 3.4 on.
        [ ! -d "$root/etc/dkms/$2" ] || tree_digest "$root/etc/dkms/$2"
        # The name of a file that DKMS sources before it builds, from 3.3 on.
        grep -hs '^[^#]*build_environment=' "$root"/etc/dkms/framework.conf "$root"/etc/dkms/framework.conf.d/*.conf |
            while IFS= read -r line; do
                sourced=$(echo "${line#*=}" | tr -d "\"'" | sed 's/[[:space:]].*//')
                echo "$line" && cat "$root$sourced" 2>/dev/null
            done
    } | digest
}

headers_parts() { # headers_parts KERNEL: those that are missing or empty
    for part in Makefile include/config/auto.conf Module.symvers scripts/mod/modpost; do
        [ -s "$root/lib/modules/$1/build/$part" ] || echo "$part"
    done
}

headers_digest() { # headers_digest KERNEL: symbol versions, configuration, what was generated from it, programs
    (
        cd "$root/lib/modules/$1/build/" 2>/dev/null || exit
        # "build" and what is in it may be links, and a tree moved elsewhere is the same tree.
        find -L . -maxdepth 1 -type f -exec sha256sum {} + | LC_ALL=C sort
        find -L include/generated include/config/auto.conf -type f -exec sha256sum {} + | LC_ALL=C sort
        # Of a package of their own on some systems, which is updated apart from the headers.
        for tool in scripts/mod/modpost scripts/module.lds tools/objtool/objtool scripts/gcc-plugins/*.so; do
            [ ! -f "$tool" ] || sha256sum "$tool"
        done
    ) | digest
}

compiler_named() { # compiler_named KERNEL: the command that its headers ask for
    build=$root/lib/modules/$1/build
    named=$(sed -n 's/^CC = .*)\([a-z0-9._-]*\)$/\1/p' "$build/.kernelvariables" 2>/dev/null) # Debian
    [ -n "$named" ] || named=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ "]*\).*/\1/p' "$build/.config" 2>/dev/null)
    # Ubuntu's and SUSE's clang says "Ubuntu clang version 18": the word that is a command counts.
    case $named in *gcc* | *clang*) echo "$named" ;; '') ;; *) echo clang ;; esac
}

compiler_line() { # compiler_line KERNEL: what the compiler that will be taken says of itself
    for command in "$(compiler_named "$1")" gcc cc; do
        where=$(locate "${command:-none}") || continue
        "$where" --version 2>/dev/null </dev/null | sed 1q
        return
    done
}
