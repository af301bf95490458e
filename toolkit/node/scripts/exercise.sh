# shellcheck shell=sh disable=SC2154,SC2317,SC2086 # frames.sh and holding.sh set what is used here
# Moves data, on request: one end of one test of bandwidth or latency, with the counters of every
# RDMA port before and after. The third kind of script: the probe only reads, apply.sh changes.
#
#   gdr_exercise look end                                   what a test would need; moves nothing
#   gdr_exercise serve LIMIT SETTINGS TOOL WORD... end      the end that listens, on a free port
#   gdr_exercise drive LIMIT SETTINGS PORT TOOL WORD... end the end that connects
#   gdr_exercise alone LIMIT SETTINGS TOOL WORD... end      a tool that needs no other end
#
# LIMIT is in seconds: whatever happens, the tool is gone after that, and soon after us or after
# whoever listened to us. SETTINGS are variables of its environment. No tool but those below is ever started, nothing is written.

perftest_tools='ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_read_lat ib_send_lat'
tools="$perftest_tools ucx_perftest all_reduce_perf sendrecv_perf"
runner='' watcher=''

stop_runner() { # on every way out; a tool that is only being started finds that it is over
    [ -n "$scratch" ] || return 0
    : >"$scratch/over"
    runner=''
    read -r runner <"$scratch/tool"
    [ -z "$runner" ] || kill -9 "$runner"
    runner=''
} 2>/dev/null

watch() { # ends the tool where we were killed, or where nobody hears us: a broken connection is silent
    {
        trap - EXIT
        trap 'kill $!; exit' HUP INT TERM
        trap '' PIPE
        while :; do
            sleep 2 >/dev/null &
            : >"$scratch/watching"
            wait $!
            if ! read -r _ _ _ parent _ </proc/self/stat || [ "$parent" != $$ ]; then break; fi
            printf '.\n' || break # no line of a frame: whoever reads those passes it over
        done
        stop_runner
    } 2>/dev/null </dev/null &
    watcher=$!
}

end_watch() { # before anything else is told, for its lines would come amid ours
    [ -n "$watcher" ] || return 0
    if [ -e "$scratch/watching" ]; then kill "$watcher"; else kill -9 "$watcher"; fi
    wait "$watcher"
    watcher=''
} 2>/dev/null

now() { # sets now: seconds since the machine began
    read -r now _ </proc/uptime
    now=${now%.*}
}

counters() { lines /sys/class/infiniband '' '*/ports/*/counters/*' '*/ports/*/hw_counters/*'; }

listens() { # listens PORT: whether a socket here waits for connections on it
    grep -qsE "^ *[0-9]+: [0-9A-F]+:$(printf '%04X' "$1") [0-9A-F]+:0000 0A " \
        "$root/proc/net/tcp" "$root/proc/net/tcp6"
}

free_port() { # sets port; below those that the kernel hands out by itself
    port=$((20000 + $$ % 10000))
    while listens "$port"; do port=$((port + 1)); done
}

tool_list() { # TOOL PATH, each that is here
    for tool in $tools; do
        if ! seek "$tool"; then continue; fi
        path=${where#"$root"}
        add "$tool ${path#"${GDR_BIN-}"}"
    done
}

known() { # known TOOL: one of ours, and here; sets where
    case " $tools " in *" $1 "*) seek "$1" ;; *) false ;; esac
}

begin_run() { # begin_run TOOL: false, with a frame that says why, where it cannot be run
    begin_frames
    trap 'stop_runner; end_watch; end_ticks; [ -z "$scratch" ] || rm -rf "$scratch"' EXIT
    if ! known "$1"; then frame run absent "$1"; return 1; fi
    if [ -z "$scratch" ]; then frame run failed:28 "$1"; return 1; fi # ENOSPC
    take boot-id-run /proc/sys/kernel/random/boot_id cat "$root/proc/sys/kernel/random/boot_id"
    give counters-before '/sys/class/infiniband/*/ports' counters
}

start() { # start SETTINGS WORD...: the tool that was sought, in the background
    settings=$1
    shift
    shown="${settings:+$settings }${where##*/} $*"
    watch # first: we may be killed at any time
    (
        trap - EXIT HUP INT TERM PIPE
        for setting in $settings; do export "${setting?}"; done
        # Whoever ends us reads the one after it made the other; so either stops us, or we stop here.
        read -r own _ </proc/self/stat && printf '%s\n' "$own" >"$scratch/tool" || exit
        read -r _ _ _ parent _ </proc/self/stat
        if [ "$parent" != $$ ] || [ -e "$scratch/over" ]; then exit; fi
        exec "$where" "$@"
    ) >"$scratch/run" 2>&1 </dev/null &
    runner=$!
}

finish() { # finish LIMIT: wait for it, no longer than that; tell what it said, and the counters
    await "$runner" "$1"
    if [ -n "$status" ]; then : >"$scratch/tool"; fi
    stop_runner
    end_watch
    content=''
    slurp "$scratch/run"
    case $status in
        '') frame run timeout "$shown" ;;
        0) frame run ok "$shown" ;;
        *) frame run "failed:$status" "$shown" ;;
    esac
    bars "$content"
    content=''
    give counters-after '/sys/class/infiniband/*/ports' counters
}

serve() { # serve LIMIT SETTINGS TOOL WORD...
    limit=$1 settings=$2 tool=$3
    shift 3
    if begin_run "$tool"; then
        free_port
        start "$settings" "$@" -p "$port"
        now
        end=$((now + limit))
        until listens "$port" || ! kill -0 "$runner" 2>/dev/null || [ "$now" -ge "$end" ]; do
            sleep 0.2 2>/dev/null || sleep 1
            now
        done
        if listens "$port"; then frame listening ok "$port"; else frame listening failed:1 "$port"; fi
        finish $((end > now ? end - now : 0))
    fi
    end_frames
}

drive() { # drive LIMIT SETTINGS PORT TOOL WORD...
    limit=$1 settings=$2 port=$3 tool=$4
    shift 4
    if begin_run "$tool"; then
        start "$settings" "$@" -p "$port"
        finish "$limit"
    fi
    end_frames
}

alone() { # alone LIMIT SETTINGS TOOL WORD...
    limit=$1 settings=$2 tool=$3
    shift 3
    if begin_run "$tool"; then
        start "$settings" "$@"
        finish "$limit"
    fi
    end_frames
}

needs() { # what a test would need, and who is at work
    begin_frames
    take uid 'id -u' id -u
    who
    give exercise-tools 'perftest, ucx_perftest, nccl-tests' tool_list
    cmd exercise-addresses 5 ip -o addr show
    if [ -e "$root/run/lldpd.socket" ] || [ -e "$root/run/lldpd" ]; then cmd exercise-leaves 5 lldpcli -f keyvalue show neighbors
    else frame exercise-leaves absent 'lldpcli: no lldpd runs'; fi
    cmd exercise-gpus 20 nvidia-smi --query-gpu=pci.bus_id,uuid --format=csv,noheader
    end_frames
}

gdr_exercise() {
    last=''
    for last; do :; done
    if [ "$last" != end ]; then exit 64; fi # cut off on its way
    act=$1
    shift
    left=$(($# - 1))
    while [ "$left" -gt 0 ]; do # all but the last
        set -- "$@" "$1"
        shift
        left=$((left - 1))
    done
    shift
    case $act in
        look) needs ;;
        serve | drive | alone) "$act" "$@" ;;
        *) exit 64 ;;
    esac
}
