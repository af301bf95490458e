# shellcheck shell=sh disable=SC2154,SC2317 # apply.sh sets what is used here, and calls it
# Packages of exactly these versions, by the node's own package manager, and back: a part of the
# engine on the node. A run's folder holds
#   had     packages and their versions before, as "NAME=VERSION" lines in order
#   got     the same after it
#   dnf     the number of the transaction in dnf's history

install() { # install NAME=VERSION...
    installed >"$run/had" && flush "$run/had" || return
    if [ -n "$(locate apt-get)" ]; then
        apt --no-remove "$@"
    elif [ -n "$(locate dnf)" ]; then
        for each; do set -- "$@" "${each%%=*}-${each#*=}"; shift; done
        run_there dnf -y install "$@"
    else run_there zypper --non-interactive install --oldpackage "$@"; fi
    came=$?
    installed >"$run/got" && flush "$run/got"
    if [ -n "$(locate dnf)" ]; then transaction >"$run/dnf"; fi
    return "$came"
}

uninstall() { # what install brought goes, and what it replaced comes back
    [ -s "$run/got" ] || return 0
    runs=$(cat "$root/proc/sys/kernel/osrelease") || return
    if grep -vxFf "$run/had" "$run/got" | grep -q -e "^linux-image-$runs=" -e "^kernel[a-z-]*=${runs%.*}\$"; then
        echo "the kernel $runs runs: boot the one before it, then take this back"
        return 1
    fi
    if [ -n "$(locate dnf)" ]; then
        [ ! -s "$run/dnf" ] || run_there dnf -y history undo "$(cat "$run/dnf")"
        return
    fi
    set -- '' # what it replaced, in the version from before
    new=''
    while IFS= read -r each; do
        old=$(grep -e "^${each%%=*}=" "$run/had")
        if [ -n "$old" ]; then set -- "$@" "$old"; else new="$new ${each%%=*}"; fi
    done <<EOT
$(grep -vxFf "$run/had" "$run/got")
EOT
    shift
    if [ -n "$(locate apt-get)" ]; then
        for each in $new; do set -- "$@" "$each-"; done
        [ $# = 0 ] || apt --allow-downgrades "$@"
        return
    fi
    # shellcheck disable=SC2086 # names of packages
    if [ -n "$new" ]; then run_there zypper --non-interactive remove $new || return; fi
    [ $# = 0 ] || run_there zypper --non-interactive install --oldpackage "$@"
}

apt() { DEBIAN_FRONTEND=noninteractive run_there apt-get -y -o Dpkg::Options::=--force-confold install "$@"; }

installed() {
    if [ -n "$(locate apt-get)" ]; then
        # shellcheck disable=SC2016 # dpkg-query's own
        run_there dpkg-query -W -f '${db:Status-Abbrev}${binary:Package}=${Version}\n' | sed -n 's/^ii //p' | sort
    else run_there rpm -qa --qf '%{NAME}=%{VERSION}-%{RELEASE}\n' | sort; fi
}

transaction() { # the newest of dnf's history
    run_there dnf -q history list | awk '$1 ~ /^[0-9]+$/ { print $1; exit }'
}
