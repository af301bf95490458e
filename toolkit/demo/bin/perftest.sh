# shellcheck shell=sh disable=SC2154 # lib.sh sets root and inside
# perftest(1), simulated: no byte is moved. It prints the table that the real one would for the
# rate of the port, counts on that port what would have gone over it, and tells as slow what a
# redirecting bridge would make slow. The ends do not talk to one another.

device='' port=1 gpu='' dmabuf='' size=65536 depth=128 seconds=0 turns=1000 listen=18515 other=''
while [ $# -gt 0 ]; do
    case $1 in
        --use_cuda=*) gpu=${1#*=} ;;
        --use_cuda_dmabuf) dmabuf=yes ;;
        -d) device=$2 && shift ;;
        -i) port=$2 && shift ;;
        -s) size=$2 && shift ;;
        -t) depth=$2 && shift ;;
        -D) seconds=$2 && shift ;;
        -n) turns=$2 && shift ;;
        -p) listen=$2 && shift ;;
        -x) shift ;;
        -F) ;;
        *) other=$1 ;;
    esac
    shift
done
at=$root/sys/class/infiniband/$device/ports/$port
if [ ! -d "$at" ]; then
    echo "IB device $device not found"
    echo ' Unable to find the Infiniband/RoCE device'
    exit 1
fi
if [ -z "$other" ]; then # the end that listens
    printf '\n************************************\n* Waiting for client to connect... *\n************************************\n'
    mkdir -p "$root/proc/net" # the line stays: on a busy machine nobody may look in time
    put "$root/proc/net/tcp" "$(printf '   0: 00000000:%04X 00000000:0000 0A 00000000:00000000' "$listen")"
fi
if [ -n "$gpu" ]; then
    if [ ! -d "$root/sys/module/nvidia_peermem" ] && [ -z "$dmabuf" ]; then
        printf 'initializing CUDA\nallocated GPU buffer of a %s address at 0x5581 for type CUDA_MEM_DEVICE\n' "$size"
        printf "Couldn't allocate MR with error=14\nfailed to create mr\n"
        exit 1
    fi
    bus=$(awk -F '\t' -v uuid="${CUDA_VISIBLE_DEVICES:-}" '$5 == uuid { print toupper(substr($2, length($2) - 6, 5)) }' "$inside/gpus")
    printf 'initializing CUDA\nListing all CUDA devices in system:\nCUDA device 0: PCIe address is %s\n\n' "$bus"
    printf 'Picking device No. 0\n[pid = %s, dev = 0] device name = [simulated]\ncreating CUDA Ctx\n' "$$"
    if [ -n "$dmabuf" ]; then printf 'using DMA-BUF for GPU buffer address at 0x7f0 aligned at 0x7f0 with aligned size %s\n' "$size"; fi
    printf 'allocated GPU buffer of a %s address at 0x5581 for type CUDA_MEM_DEVICE\n' "$size"
fi
first_line "$at/rate"
slow=1
# The ends do not talk, but whoever connects sees whether the other node's bridge redirects.
if [ -n "$gpu" ] && { [ -e "$inside/acs" ] || [ -e "${root%/*/tree}/${other:-.}/tree/.node/acs" ]; }; then slow=0.45; fi
first_count() { # first_count NAME: sets line
    first_line "$at/counters/$1"
    line=${line:-0}
}

case ${0##*/} in *_lat) kind=Latency ;; *) kind=BW ;; esac
case ${0##*/} in
    ib_write_*) test=RDMA_Write ;;
    ib_read_*) test=RDMA_Read ;;
    *) test=Send ;;
esac
figures=$(awk -v rate="${line%% *}" -v size="$size" -v depth="$depth" -v slow="$slow" -v gpu="$gpu" \
    -v seconds="$seconds" -v turns="$turns" 'BEGIN {
        line = rate / 8 * 0.968                       # GB/s
        if (depth < 16) line = line < 1 ? line : depth * size / (6.4 + depth * size / line / 1e3) / 1e3 * slow
        if (seconds) turns = int(line * 1e9 * seconds / size)
        printf "%d %.2f %.6f %.2f", turns, line * 1e9 / 1048576, line * 1e3 / size, (gpu == "" ? 1.44 : 1.76) / slow
    }')
# shellcheck disable=SC2086 # four words
set -- $figures

rule='---------------------------------------------------------------------------------------'
echo "$rule"
case $kind in BW) title="$test BW Test" ;; *) title="$test Latency Test" ;; esac
printf '                    %s\n Dual-port       : OFF\t\tDevice         : %s\n' "$title" "$device"
printf ' Number of qps   : 1\t\tTransport type : IB\n Connection type : RC\t\tUsing SRQ      : OFF\n'
if [ -n "$other" ]; then printf ' TX depth        : %s\n' "$depth"; fi
printf ' Mtu             : 4096[B]\n Link type       : IB\n%s\n' "$rule"
if [ "$kind" = BW ]; then
    printf ' #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n'
    printf ' %-10s %-14s 0.00               %-18s   %s\n' "$size" "$1" "$2" "$3"
else
    printf ' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99%% percentile[usec]   99.9%% percentile[usec] \n'
    printf ' %s       %s          %s           9.99         %s             %s             0.05            2.10                   4.20\n' \
        "$size" "$1" "$4" "$4" "$4"
fi
echo "$rule"
# What went over the port: of writes and sends from whoever connects, of reads the other way.
case $test,${other:+connects} in RDMA_Read, | RDMA_Write,connects | Send,connects) counter=port_xmit_data ;; *) counter=port_rcv_data ;; esac
first_count "$counter"
mkdir -p "$at/counters"
put "$at/counters/$counter" "$(awk -v now="$line" -v bytes="$1" -v size="$size" 'BEGIN { printf "%.0f", now + bytes * size / 4 }')"
