# shellcheck shell=sh disable=SC2034,SC2154,SC3045 # every sh has ulimit -l; whoever makes a gate adds the table, and the last line
# A gate before a job: is this node still as one that passed? No Python, no network, nothing written
# but the count of failures in a row. Runs under dash, busybox and bash.
#
#   gate.sh              tell what differs; exit 0: as expected, 1: something differs, 2: not known
#   gate.sh prolog       of Slurm: drain this node where something differs, with the reason
#   gate.sh health       HealthCheckProgram of Slurm: the same after $GATE_AFTER runs in a row (3),
#                        and back to work once all is as expected
#   gate.sh npd          a custom plugin of node-problem-detector: one line of at most 80 bytes
#   gate.sh event        a HealthEvent of NVSentinel, as JSON
#
# GATE_COMMENT=1  prolog and health comment the node, and drain nothing.
# GATE_ROOT  a prefix for every path: a simulated node.

found='' first='' open='' many=0
root=${GATE_ROOT%/}

differs() { # differs WHAT SEEN WANTED FIX
    many=$((many + 1))
    found="$found$1: ${2:-nothing}, expected $3${4:+; next: $4}
"
    [ -n "$first" ] || first="$1: ${2:-nothing}, expected $3${4:+; next: $4}"
}

unread() { # unread WHAT WHY
    open="$open$1: not read: $2
"
}

begins() { # begins FILE: sets line; false where the file is not there or not readable
    line=''
    { read -r line || [ -n "$line" ]; } 2>/dev/null <"$root$1"
}

config() { # config FILE OFFSET: sets word, two bytes of the config space as four digits
    word=$(od -An -v -tx1 -j "$2" -N 2 "$root$1" 2>/dev/null) || word=''
    # shellcheck disable=SC2086 # two bytes, the lower one first
    set -- $word
    word=${2-}${1-}
}

limit() { # sets line to what this very process may lock, in bytes
    line=$(ulimit -l)
    case $line in *[!0-9]* | '') ;; *) line=$((line * 1024)) ;; esac
}

one() { # one KIND WHAT PATH WANTED FIX
    case $1 in
        is) if ! begins "$3"; then differs "$2" '' "$4" "$5"; elif [ "$line" != "$4" ]; then differs "$2" "$line" "$4" "$5"; fi ;;
        there) [ -e "$root$3" ] || differs "$2" '' "$4" "$5" ;;
        leads)
            line=$(readlink "$root$3")
            [ "${line##*/}" = "$4" ] || differs "$2" "${line##*/}" "$4" "$5"
            ;;
        least) if ! begins "$3"; then differs "$2" '' "$4 or more" "$5"; elif [ "${line:-0}" -lt "$4" ] 2>/dev/null; then differs "$2" "$line" "$4 or more" "$5"; fi ;;
        has)
            if ! begins "$3"; then unread "$2" "$3"; return; fi
            case " $line " in *" $4 "*) ;; *) differs "$2" "no $4" "$4" "$5" ;; esac
            ;;
        bits)
            config "${3%@*}" "${3#*@}"
            if [ ! -e "$root${3%@*}" ]; then differs "$2" '' "$4" "$5"; elif [ -z "$word" ]; then unread "$2" 'it takes root'; elif [ "$word" != "$4" ]; then differs "$2" "$word" "$4" "$5"; fi
            ;;
        locks) # by hand it is the limit of a login
            limit
            case $mode in prolog | health) [ "$line" = "$4" ] || differs "$2" "$line" "$4" "$5" ;; esac
            ;;
        xids) xids "$2" "$4" "$5" ;;
    esac
}

xids() { # xids WHAT NUMBERS FIX: Xids of these numbers since boot
    if ! log=$(dmesg 2>/dev/null); then unread "$1" 'dmesg: it takes root'; return; fi
    case $log in *'NVRM: Xid '*) ;; *) return ;; esac
    numbers=$(printf '%s' "$2" | tr , '|')
    line=$(printf '%s\n' "$log" | grep -E "NVRM: Xid .*: ($numbers)(,|\$)" | tail -n 1)
    [ -z "$line" ] || differs "$1" "${line#*NVRM: }" none "$3"
}

look() { # all of the table
    while IFS='|' read -r kind what path wanted fix; do
        [ -z "$kind" ] || one "$kind" "$what" "$path" "$wanted" "$fix"
    done <<TABLE
$(table)
TABLE
}

reason() { # sets text: the first that differs, and how many there are beside
    text="gate: $first"
    [ "$many" -le 1 ] || text="gate: $first (and $((many - 1)) more)"
}

slurm() { # slurm WORD...: of this node
    scontrol update "NodeName=${SLURMD_NODENAME:-$(hostname -s)}" "$@"
}

shut() { # this node takes no further job; comment-only where that was said
    reason
    if [ -n "${GATE_COMMENT-}" ]; then slurm "Comment=$text"; else slurm State=DRAIN "Reason=$text"; fi
}

back() { # what we drained goes back to work; what others drained is theirs
    case $(scontrol -o show node "${SLURMD_NODENAME:-$(hostname -s)}" 2>/dev/null) in
        *DRAIN*' Reason=gate: '*) slurm State=RESUME ;;
    esac
}

in_a_row() { # in_a_row: counts this failure; false until there were enough
    file=${GATE_STATE:-/run/gdr-gate}
    times=0
    read -r times 2>/dev/null <"$file" || times=0
    times=$((times + 1))
    printf '%s\n' "$times" >"$file"
    [ "$times" -ge "${GATE_AFTER:-3}" ]
}

quoted() { # quoted TEXT: as JSON has it
    printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' | tr '\n\t' '  '
}

event() { # sets nothing; prints a HealthEvent (NVSentinel data-models/protobufs/health_event.proto)
    reason
    healthy=true fatal=false action=NONE
    if [ "$many" -gt 0 ]; then healthy=false fatal=true action=CONTACT_SUPPORT
    else text="gate: as expected ($digest)"; fi
    printf '{"version":1,"agent":"gdr-gate","componentClass":"NIC","checkName":"GpuDirectRdma",'
    printf '"isFatal":%s,"isHealthy":%s,"message":"%s",' "$fatal" "$healthy" "$(quoted "$text")"
    printf '"recommendedAction":"%s","errorCode":[],"entitiesImpacted":[],' "$action"
    printf '"nodeName":"%s","generatedTimestamp":"%s"}\n' \
        "$(quoted "${NODE_NAME:-$(hostname)}")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

gate() { # gate [MODE] end: without its last word this file was cut off on its way, and says nothing
    for last; do :; done
    if [ "${last-}" != end ]; then exit 0; fi
    mode=${1%end}
    look
    code=0
    if [ "$many" -gt 0 ]; then code=1; elif [ -n "$open" ]; then code=2; fi
    case $mode in
        '')
            printf '%s%s' "$found" "$open"
            [ "$code" != 0 ] || echo "as expected: $digest"
            ;;
        prolog) # Slurm drains a node itself whose prolog fails; one that it finds drained keeps our reason
            if [ "$code" = 1 ]; then shut; fi
            if [ "$code" = 2 ] || [ -n "${GATE_COMMENT-}" ]; then code=0; fi
            ;;
        health)
            if [ "$code" = 1 ]; then
                if in_a_row; then shut; fi
            else
                rm -f "${GATE_STATE:-/run/gdr-gate}"
                if [ "$code" = 0 ] && [ -z "${GATE_COMMENT-}" ]; then back; fi
            fi
            ;;
        npd)
            reason
            case $code in 0) text='as expected' ;; 2) text="not known: ${open%%
*}" ;; esac
            printf '%.80s\n' "$text"
            ;;
        event) event ;;
        *)
            echo "gate.sh: no mode $mode; prolog, health, npd, event or nothing" >&2
            code=64
            ;;
    esac
    exit "$code"
}
