# shellcheck shell=sh
# What an initial ram disk holds, one "module PATH" a line beside modprobe.d. Needs lib.sh.
# shellcheck disable=SC2154 # root is set in lib.sh

held_in() { # held_in IMAGE: paths below /lib/modules/RELEASE, without ".ko"
    sed -n 's/^module //p' "$root$1" 2>/dev/null
}

make_image() { # make_image RELEASE IMAGE: the modules of the one before, as depmod chooses them now
    put "$root$2" "$(
        cat "$root"/etc/modprobe.d/*.conf 2>/dev/null
        for path in $(held_in "$2"); do
            file=$("$GDR_BIN/modinfo" -k "$1" -n "${path##*/}")
            file=${file#"/lib/modules/$1/"}
            echo "module ${file%.ko}"
        done
    )"
}
