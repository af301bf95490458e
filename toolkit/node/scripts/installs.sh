# shellcheck shell=sh disable=SC2154,SC2317 # apply.sh sets what is used here, and calls it
# Packages of exactly these versions, by the node's own package manager, and back: a part of the
# engine on the node. A run's folder holds
#   had     packages and their versions before, as "NAME=VERSION" lines in order
#   epochs  they have the epochs of rpm
#   newest  the newest number of dnf's history before
#   got     the packages after it
#   dnf     the number of its own transaction in dnf's history, where it made one
# and, as it is taken back, what there is now, and lists made of these.

all_kernels=--setopt=installonly_limit=0 # else dnf takes the oldest away
wait_apt=DPkg::Lock::Timeout=300
bare='s/=\([0-9]*:\)*/-/' # NAME-VERSION, as each rpm takes it

install() { # install [--stays=IMAGE] NAME=VERSION...
    case $1 in --stays=*) stays "$@"; return ;; esac
    unlocked && installed had || return
    if [ -n "$(locate apt-get)" ]; then
        apt --no-remove "$@"
    elif [ -n "$(locate dnf)" ]; then
        transaction >"$run/newest" && flush "$run/newest" || return
        for each; do set -- "$@" "${each%%=*}-${each#*=}"; shift; done
        run_there dnf -y "$all_kernels" install "$@"
    else by_zypper "$@"; fi
    came=$?
    brought || return
    return "$came"
}

# A new kernel is the default of the boot as soon as the plugin 20-grub.install of kernel-install
# knows it, long before its initramfs is made. Ours follows that, and is of no effect after a boot.
plugin=/etc/kernel/install.d/21-gdr-toolkit.install

stays() { # stays --stays=IMAGE NAME=VERSION...: the default, whatever comes, and where it is cut off
    image=${1#*=} file=$root$plugin
    shift
    case $image in *\'*) echo "the odd name of a kernel: $image"; return 1 ;; esac
    run_there grubby --set-default "$image" && parents "${file%/*}" && cat >"$run/new" <<EOT || return
#!/bin/sh
# Placed by gdr-toolkit while it installs a kernel that is tried before it becomes the default.
if [ "\$1 \$(cat '$root/proc/sys/kernel/random/boot_id')" = 'add $boot_id' ]; then
    grubby --set-default '$image'
fi
exit 0
EOT
    settle "$run/new" "$file" 755 0 0 || return
    install "$@"
    came=$?
    run_there grubby --set-default "$image" && rm -f "$file" || return
    return "$came"
}

brought() { # notes what there is now; ours of dnf's transactions is told by our words in it
    installed got || return
    [ -s "$run/newest" ] || return 0
    newest=$(transaction)
    [ "$newest" = "$(cat "$run/newest")" ] || ! run_there dnf -q history info "$newest" | grep -qF -e "$all_kernels install" ||
        printf '%s\n' "$newest" >"$run/dnf"
}

unlocked() { # waits for whoever installs now: what is theirs would be taken for ours
    [ -z "$(locate apt-get)" ] || run_there apt-get -o "$wait_apt" check
}

uninstall() { # else what holds the default of the boot stays with the kernel that it is there for
    : >"$run/stays" && bring_back && rm -f "$run/stays"
}

bring_back() { # what install brought goes, and what it replaced comes back
    [ -s "$run/had" ] || return 0 # it had not begun
    if [ ! -s "$run/got" ]; then # it was cut off; what cannot be set up is taken back all the same
        unlocked || { run_there dpkg --configure -a; unlocked; } || return
        brought || return
    fi
    installed now || return
    apart got had >"$run/came" && apart had got >"$run/gone" || return
    apart gone now >"$run/went" && apart now had >"$run/since" || return
    while IFS= read -r each; do # but for what others took away since
        if grep -q -e "^${each%%=*}=" "$run/now" || ! grep -q -e "^${each%%=*}=" "$run/got"; then echo "$each"; fi
    done <"$run/went" >"$run/back" && mv "$run/back" "$run/went" || return
    apart came now | sed 's/=.*/=/; s/^/^/' >"$run/names"
    changed=$(apart since got | grep -f "$run/names")
    # shellcheck disable=SC2086 # in one line
    [ -z "$changed" ] || { echo "changed since by other hands, so left as it is:" $changed; return 73; }
    grep -xFf "$run/got" "$run/since" >"$run/came"
    [ -s "$run/came" ] || [ -s "$run/went" ] || return 0
    runs=$(cat "$root/proc/sys/kernel/osrelease") || return
    if grep -v -e '-devel' -e '-headers' -e '-tools' -e '-doc' -e '-dbg' "$run/came" | grep -q \
        -e "^linux-image-\(unsigned-\)*${runs}[:=-]" -e "^linux-modules-\(extra-\)*${runs}[:=]" \
        -e "^kernel[a-z0-9.-]*=${runs%.*}\$" -e "^kernel-${runs##*-}[a-z-]*=${runs%-*}[.]"; then
        echo "the kernel $runs runs: boot the one before it, then take this back"
        return 1
    fi
    set --
    while IFS= read -r each; do
        grep -q -e "^${each%%=*}=" "$run/gone" || set -- "$@" "$each"
    done <"$run/came"
    if [ -n "$(locate apt-get)" ]; then back_by_apt "$@"; else back_by_rpm "$@"; fi
}

back_by_apt() { # back_by_apt NAME=VERSION...: what goes, of which nothing was there before
    for each; do set -- "$@" "${each%%=*}-"; shift; done
    while IFS= read -r each; do set -- "$@" "$each"; done <"$run/went"
    apt -s --allow-downgrades "$@" >"$run/trial" || return
    others=$(sed -n 's/^Remv \([^ ]*\).*/\1/p' "$run/trial" | while IFS= read -r each; do
        grep -q -e "^${each}[=:]" "$run/came" || echo "$each"
    done)
    kept "$others" && apt --allow-downgrades "$@"
}

back_by_rpm() { # the same
    [ -z "$(locate dnf)" ] || [ -s "$run/dnf" ] || return 0 # what came is another's
    if [ $# != 0 ]; then
        sed "$bare" "$run/came" >"$run/names"
        # shellcheck disable=SC2046 # no name has a space
        kept "$(run_there rpm -e --test $(printf '%s\n' "$@" | sed "$bare") 2>&1 |
            sed -n 's/.* is needed by (installed) \(.*\)[.][^.]*$/\1/p' | sed 's/-[0-9]*:/-/' | sort -u | grep -vxFf "$run/names")" || return
    fi
    if [ -n "$(locate dnf)" ]; then
        run_there dnf -y --setopt=clean_requirements_on_remove=0 history undo "$(cat "$run/dnf")"
        return
    fi
    for each; do set -- "$@" "-$each"; shift; done
    while IFS= read -r each; do set -- "$@" "$each"; done <"$run/went"
    by_zypper -- "$@"
}

by_zypper() { # it waits for another one only where it is told so
    ZYPP_LOCK_TIMEOUT=300
    export ZYPP_LOCK_TIMEOUT
    run_there zypper --non-interactive install --oldpackage "$@" && return
    set -- $?
    case $1 in 102 | 103 | 106) ;; *) return "$1" ;; esac # done; a repository beside was out of reach
}

kept() { # kept NAMES: false, with a sentence, where others' packages would go with ours
    # shellcheck disable=SC2086 # in one line
    [ -z "$1" ] || { echo "others need what would go:" $1 && false; }
}

apart() { grep -vxFf "$run/$2" "$run/$1" || [ $? = 1 ]; } # apart ONE OTHER: what the other has not

apt() {
    export DEBIAN_FRONTEND=noninteractive
    run_there apt-get -y -o "$wait_apt" -o Dpkg::Options::=--force-confold install "$@"
}

installed() { # installed FILE: all of them into that file of the run; false where the node does not tell
    if [ -n "$(locate apt-get)" ]; then
        # shellcheck disable=SC2016 # dpkg-query's own
        run_there dpkg-query -W -f '${db:Status-Abbrev}${binary:Package}=${Version}\n' >"$run/$1.all" || return
    else # zypper finds no version without its epoch; runs begun by an earlier version list none
        [ "$1" != had ] || : >"$run/epochs" || return
        epoch=''
        [ ! -e "$run/epochs" ] || epoch='%|EPOCH?{%{EPOCH}:}:{}|'
        run_there rpm -qa --qf "ii %{NAME}=$epoch%{VERSION}-%{RELEASE}\n" >"$run/$1.all" || return
    fi
    # Of dpkg all that it has of a package, be it held, or not set up for its script failed.
    sed -n -e '/^ii gpg-pubkey=/d' -e 's/^.[^nc]. *//p' "$run/$1.all" | sort >"$run/$1"
    rm -f "$run/$1.all"
    [ -s "$run/$1" ] && flush "$run/$1"
}

transaction() { # the newest of dnf's history, 0 where there is none
    run_there dnf -q history list | awk '$1 ~ /^[0-9]+$/ { print $1; found = 1; exit } END { if (!found) print 0 }'
}
