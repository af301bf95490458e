# shellcheck shell=sh
# What makes an image's tree fit to run scripts in, from inside the namespaces of its own.
#
#   view TREE STAGE   at STAGE/view the tree, with nothing in it of this machine
#
#   /proc            the processes of these namespaces, and nothing else: no modules, no
#                    arguments, no devices, no settings of the kernel that runs here
#   /sys             empty
#   /dev             a few devices that every machine has; no disk but what the image is on
#   /run, /tmp       empty, in memory; /var/tmp empty, on the disk beside the tree
#   /run/gdr-image   first on the path: a dkms that makes no key of its own
#   /var/log, the lists and caches of package managers and of ldconfig: as they are, and what
#                    is written there is forgotten

# Through a link we might mount over something of this machine instead.
real_folder() { # real_folder TREE PATH: it and all folders above it are folders
    looked=$1
    set -f
    IFS=/
    for part in $2; do
        looked=$looked/$part
        if [ -L "$looked" ] || [ ! -d "$looked" ]; then break; fi
    done
    unset IFS
    set +f
    [ "$looked" = "$1/$2" ] && [ -d "$looked" ] && [ ! -L "$looked" ]
}

devices() { # devices FOLDER: what every machine has
    mount -n -t tmpfs -o mode=755 gdr "$1"
    for each in null zero full random urandom tty; do
        [ -c "/dev/$each" ] || continue
        : >"$1/$each"
        mount -n --bind "/dev/$each" "$1/$each"
    done
    mkdir "$1/pts" "$1/shm"
    chmod 1777 "$1/shm"
    mount -n -t devpts -o newinstance,ptmxmode=0666,mode=620 gdr "$1/pts"
    ln -s pts/ptmx "$1/ptmx"
    ln -s /proc/self/fd "$1/fd"
    for each in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${each#*:}" "$1/${each%:*}"; done
}

forget() { # forget TREE PATH LAYERS: what is written there
    real_folder "$1" "$2" || return 0
    layer=$3/$(printf %s "$2" | tr / -)
    mkdir -p "$layer/up" "$layer/work"
    chmod --reference="$1/$2" "$layer/up"
    # By descriptor and from within: a comma in a path would end it among the options.
    (
        cd "$layer"
        exec 3<"$1/$2"
        mount -n -t overlay -o lowerdir=/proc/self/fd/3,upperdir=up,workdir=work gdr "$1/$2"
    )
}

dkms_without_key() { # dkms_without_key FILE: it signs by a key that is there, or not at all
    # Where there is none DKMS makes one: kept in an image, it would be the key of a whole fleet;
    # taken away, it would leave signatures that nobody can check, and differ with each build.
    cat >"$1" <<'DKMS'
#!/bin/sh
PATH=${PATH#/run/gdr-image:}
told() { # told NAME: what DKMS was told of it; the last word counts, as for its own sh
    cat /etc/dkms/framework.conf /etc/dkms/framework.conf.d/*.conf 2>/dev/null |
        sed -n "s/^[[:space:]]*$1=[\"']*\([^\"'[:space:]]*\).*/\1/p" | tail -n 1
}
has_key() { # what was named and is not there, each node may get of its own: DKMS would make it
    key=$(told mok_signing_key) certificate=$(told mok_certificate)
    case $key$certificate in pkcs11:* | *'$'*) return 0 ;; esac # it makes none, or knows alone
    if [ -z "$key" ]; then [ -s /var/lib/dkms/mok.key ] || [ -s /var/lib/shim-signed/mok/MOK.priv ]
    else [ -f "$key" ] && [ -f "${certificate:-/var/lib/dkms/mok.pub}" ]; fi
}
has_key || export sign_file=/dev/null # no program: DKMS asks for nothing more
exec dkms "$@"
DKMS
    chmod 755 "$1"
}

view() {
    set -eu
    seen=$2/view
    for each in proc sys dev run tmp; do
        real_folder "$1" "$each" || { echo "/$each is not a folder there" >&2; return 66; }
    done
    mount -n --rbind "$1" "$seen"
    mount -n -t proc -o subset=pid proc "$seen/proc"
    mount -n -t tmpfs -o ro,mode=555 gdr "$seen/sys"
    devices "$seen/dev"
    if [ -d /dev/shm/gdr-image ]; then # what its own file systems are mounted from
        mkdir "$seen/dev/shm/gdr-image" "$seen/dev/disk"
        mount -n --bind /dev/shm/gdr-image "$seen/dev/shm/gdr-image"
        ln -s ../shm/gdr-image/by-uuid "$seen/dev/disk/by-uuid"
    fi
    mount -n -t tmpfs -o mode=755 gdr "$seen/run"
    mkdir -m 1777 "$seen/run/lock"
    mkdir "$seen/run/gdr-image"
    for each in usr/sbin/dkms usr/bin/dkms sbin/dkms; do
        if [ -f "$seen/$each" ]; then dkms_without_key "$seen/run/gdr-image/dkms"; fi
    done
    mount -n -t tmpfs -o mode=1777 gdr "$seen/tmp"
    if real_folder "$seen" var/tmp; then mount -n --bind "$2/scratch" "$seen/var/tmp"; fi
    mount -n -t tmpfs -o mode=755 gdr "$2/layers"
    for each in var/log var/lib/apt/lists var/cache/apt var/cache/dnf var/cache/yum var/cache/zypp var/cache/ldconfig; do
        forget "$seen" "$each" "$2/layers"
    done
    name=localhost
    if [ -f "$seen/etc/hostname" ] && [ ! -L "$seen/etc/hostname" ]; then read -r name <"$seen/etc/hostname" || :; fi
    printf %s "${name:-localhost}" >/proc/sys/kernel/hostname
}

"$@"
