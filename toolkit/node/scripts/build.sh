# shellcheck shell=sh disable=SC2154 # frames.sh and who composes the script set what is used here
# Builds one DKMS package for one kernel, aside, in a ground that enter.sh has shut off, and
# prints what came of it as frames. frames.sh, hashes.sh and aside.sh stand above these lines,
# and between them and the last line stands what is particular to this build:
#
#   kernel, package, version, limit (seconds), ours (1 for a package that we lay), flags
#   expected_source, expected_headers, expected_compiler   what was surveyed; "" for any
#   left_out    modules of the package that are not wanted, apart by blanks
#   lay_all     a function that calls lay for each file
#
# The steps are prepare, make, gate and pack. KEY.output comes with its lines as they are
# said; KEY follows, with the state. What a build left comes last, each file packed by gzip
# and base64: "= file.NAME ok BYTES SHA256".

silence=100 # ticks of a twentieth of a second after which a dot shows that somebody listens

lay() { # lay PATH MODE: a file, in base64 on stdin
    mkdir -p "${1%/*}" && base64 -d >"$1" && chmod "$2" "$1"
}

step() { # step KEY SHOWN FUNCTION: with its output as it comes
    key=$1 shown=$2 log=$scratch/$1.log part='' part_of_make='' made='' quiet=0
    frame "$key.output" ok "$shown"
    : >"$log"
    "$3" >"$log" 2>&1 </dev/null &
    job=$!
    exec 3<"$log"
    while going "$job"; do
        follow
        if [ "$(seconds)" -ge "$deadline" ]; then
            # As the first process of a namespace: all of it but for us. Elsewhere: far too many.
            if [ $$ = 1 ]; then kill -9 -1 2>/dev/null; else kill -9 "$job" 2>/dev/null; fi
            wait "$job" 2>/dev/null
            finish_output
            frame "$key" timeout "$shown: not done after $limit s, killed"
            return 1
        fi
        sleep 0.05 2>/dev/null || sleep 1
    done
    wait "$job"
    status=$?
    finish_output
    if [ "$status" = 0 ]; then frame "$key" ok "$shown"; else frame "$key" "failed:$status" "$shown"; fi
    return "$status"
}

going() { # going PID: a child that has ended is a zombie until it is waited for
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    case ${stat##*) } in Z*) return 1 ;; esac
}

seconds() { # since the machine was booted; the clock may be set meanwhile
    read -r since _ </proc/uptime && echo "${since%.*}"
}

follow() { # what the log has gained, and that of make
    before=$count_lines
    while IFS= read -r line <&3; do said "$part$line" && part=''; done
    part=$part$line
    if [ -z "$made" ] && [ "$key" = make ] && [ -e "$make_log" ]; then exec 4<"$make_log" && made=1; fi
    if [ -n "$made" ]; then
        while IFS= read -r line <&4; do said "$part_of_make$line" && part_of_make=''; done
        part_of_make=$part_of_make$line
    fi
    if [ "$count_lines" != "$before" ]; then quiet=0; return; fi
    quiet=$((quiet + 1))
    if [ "$quiet" -ge "$silence" ]; then
        quiet=0
        echo . || exit 74 # nobody listens any more
    fi
}

said() { # said LINE
    count_lines=$((count_lines + 1))
    printf '|%s\n' "$1" || exit 74
}

finish_output() {
    follow
    [ -z "$part" ] || said "$part"
    [ -z "$part_of_make" ] || said "$part_of_make"
    exec 3<&-
    if [ -n "$made" ]; then exec 4<&-; fi
}

prepare() {
    for tool in dkms make base64 gzip sha256sum modinfo modprobe; do
        command -v "$tool" >/dev/null || { echo "$tool is not there"; return 127; }
    done
    missing=$(headers_parts "$kernel")
    if [ -n "$missing" ]; then
        echo "Your kernel headers for kernel $kernel cannot be found: no" "$missing"
        return 21 # as DKMS says it
    fi
    same source "$expected_source" "$(if [ -n "$source_folder" ]; then source_digest "$source_folder" "$source_name"; fi)" &&
        same 'headers' "$expected_headers" "$(headers_digest "$kernel")" &&
        same compiler "$expected_compiler" "$(compiler_line "$kernel")" || return 65
    lay_all || return
    if [ -e /mnt/ofed.symvers ]; then lay_ofed || return; fi
    lay_neighbours && lay_own
}

lay_own() { # OFED before 25.10 asks its package in DKMS's own tree for what it configures itself with
    case $package in mlnx-of*) ;; *) return 0 ;; esac # nvidia's Kbuild takes such a folder for OFED
    mkdir -p "/var/lib/dkms/$package/$version" &&
        ln -sfn "/usr/src/$package-$version" "/var/lib/dkms/$package/$version/source"
}

same() { # same WHAT EXPECTED FOUND
    if [ -z "$2" ] || [ "$2" = "$3" ]; then return 0; fi
    echo "this is not the ground that was surveyed: the $1 was '$2' then, and is '$3' here"
    return 1
}

lay_neighbours() { # DKMS from 3.1.4 on wants BUILD_DEPENDS registered; what is linked against was given
    conf=/usr/src/$package-$version/dkms.conf
    [ -r "$conf" ] || return 0
    # shellcheck disable=SC2013 # names of packages are words
    for name in $(sed -n 's/^[[:space:]]*BUILD_DEPENDS[^=]*=[("'\'']*\([A-Za-z0-9._+-]*\).*/\1/p' "$conf"); do
        [ ! -e "/mnt/dkms/$name" ] || continue
        folder=/mnt/dkms/$name/0/$kernel/$(uname -m)/module
        mkdir -p "$folder" && : >"$folder/Module.symvers" || return
    done
}

lay_ofed() { # where the driver's conftest and its Kbuild both look first
    ofed=/usr/src/ofa_kernel
    mkdir -p "$ofed/$(uname -m)/$kernel" && cp /mnt/ofed.symvers "$ofed/$(uname -m)/$kernel/Module.symvers" &&
        ln -s "$(uname -m)/$kernel" "$ofed/$kernel"
}

make_it() {
    ASIDE_PLAIN=1 ASIDE_FLAGS=${jobs:+-j $jobs}
    export ASIDE_PLAIN ASIDE_FLAGS
    if [ -n "$flags" ]; then export MAKEFLAGS="$flags"; fi # words NAME=value, as on make's own line
    KBUILD_EXTRA_SYMBOLS=$symvers
    export KBUILD_EXTRA_SYMBOLS
    aside /mnt "$kernel" "$package" "$version"
}

wanted() { # the modules that were made and are wanted
    for file in /mnt/result/*.ko*; do
        name=${file##*/}
        case " $left_out " in *" ${name%%.ko*} "*) continue ;; esac
        [ ! -f "$file" ] || echo "$file"
    done
}

gate_it() {
    # shellcheck disable=SC2046 # module files have no blanks in their names
    GATE_SYMVERS="$symvers /mnt/result/Module.symvers" gate "$kernel" $(wanted)
}

unpacked() { # unpacked FILE
    case $1 in
        *.xz) xz -dc "$1" ;;
        *.zst) zstd -qdc "$1" ;;
        *.gz) gzip -dc "$1" ;;
        *) cat "$1" ;;
    esac
}

pack_it() { # the rows of the kernel's own Module.symvers that the modules import, for who judges them elsewhere
    mkdir -p /mnt/packed || return
    for file in $(wanted); do
        name=${file##*/}
        unpacked "$file" >"/mnt/packed/${name%%.ko*}.ko" || return
        modprobe --dump-modversions "/mnt/packed/${name%%.ko*}.ko" | awk '{ print $2 }'
    done >/mnt/imports
    awk -F '\t' 'NR == FNR { wanted[$1]; next } $2 in wanted || $2 == "module_layout"' \
        /mnt/imports "/lib/modules/$kernel/build/Module.symvers" >/mnt/packed/kernel.symvers || return
    table=/mnt/result/Module.symvers
    [ ! -s "$table" ] || cp "$table" /mnt/packed/Module.symvers || return
    # OFED leaves what it exports where others look for it.
    for left in "/usr/src/ofa_kernel/$(uname -m)/$kernel" "/usr/src/ofa_kernel-dkms/$(uname -m)/$kernel" "/usr/src/ofa_kernel/$kernel"; do
        if [ -z "$ours" ] && [ ! -e /mnt/ofed.symvers ] && [ -s "$left/Module.symvers" ]; then
            cp "$left/Module.symvers" /mnt/packed/Module.symvers || return
            break
        fi
    done
}

send() { # send FILE
    frame "file.${1##*/}" ok "$(($(wc -c <"$1"))) $(digest <"$1")"
    gzip -nc "$1" | base64 | sed 's/^/|/' || exit 74
}

build() {
    begin_frames
    count_lines=0 make_log=/mnt/dkms/$package/$version/build/make.log
    deadline=$(($(seconds) + limit))
    if step prepare "$package/$version for $kernel" prepare &&
        step make "dkms build $package/$version -k $kernel" make_it &&
        step gate "modules of $package/$version" gate_it &&
        step pack "modules of $package/$version" pack_it; then
        for file in /mnt/packed/*; do send "$file"; done
    fi
    end_frames
}
