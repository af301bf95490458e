# shellcheck shell=sh disable=SC2317 # the parts beside it call it, and have what it calls
# A change that was looked at and agreed on, under the lock: a word for each thing to be changed.

run_agreed() { # run_agreed COMMAND SUM WAIT WORD... end: COMMAND SUM WORD..., in frames; ends the script
    changes=$1 last=''
    shift
    for last; do :; done
    if [ "$last" != end ] || [ $# -lt 4 ]; then exit 64; fi # cut off
    agreed_on=$1 wait_for=$2
    shift 2
    words=''
    for each; do
        if [ "$each" != end ]; then words="$words $each"; fi
    done
    begin_frames
    # shellcheck disable=SC2086 # each word is one argument
    under_lock "$wait_for" "$changes" "$agreed_on" $words
    ended=$?
    end_frames
    exit "$ended"
}
