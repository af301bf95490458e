# shellcheck shell=sh disable=SC2154,SC2317 # apply.sh sets what is used here, and calls it
# What old runs need not keep any more: a part of the engine on the node, called at the end of
# a run that went well, under its lock. The newest runs that stand keep all that they replaced;
# an older one lets go of its copy of an initramfs that a later one made anew, for its rollback
# would find that changed, and derive it again from the files. Those copies of 100 MB are what
# fills a disk; the files themselves are kept for as long as the run stands.
#
#   pruned     in a run's folder: "HASH  PATH" of each copy that is gone, written before it goes

prune() { # prune COUNT: one frame, where there was something to let go of
    gone=''
    for folder in "$state"/runs/*/; do unclaimed "${folder%/}"; done
    later='' left=$1
    while read -r id what _; do
        if [ -z "$id" ] || [ "$what" = rolled-back ]; then continue; fi
        run=$state/runs/$id left=$((left - 1))
        case $left.$what in -*.done | -*.stopped | -*.interrupted) let_go ;; esac
        if [ -e "$run/keeps" ]; then later="$later
$(cat "$run/keeps")"; fi
    done <<EOT
$(backwards "$state/journal")
EOT
    if [ -z "$gone" ]; then return; fi
    frame pruned ok "$state/runs"
    printf '%s' "$gone" | bars
}

unclaimed() { # unclaimed FOLDER: of a run that was killed before it stood, or amid its own end
    if [ ! -d "$1" ]; then return; fi
    if ! grep -s -e "^${1##*/} " "$state/journal" | grep -qv ' rolled-back '; then
        rm -rf "$1" && gone="$gone${1##*/}: left by a run that is over
"
    fi
}

let_go() { # of the images in this run that a later one keeps as well, or that others removed
    if ! grep -q '^kept REBUILD_INITRAMFS ' "$run/unwind" 2>/dev/null; then return; fi
    while read -r name image; do
        copy=$run/kept/tree$root$image
        if [ "$name" != REBUILD_INITRAMFS ] || [ ! -f "$copy" ]; then continue; fi
        if [ -e "$root$image" ] && ! printf '%s\n' "$later" | grep -qxF -e "$name $image"; then continue; fi
        size=$(stat -c %s "$copy") || continue
        add "$run/pruned" "$(hash "$copy")  $root$image" || continue
        rm -f "$copy" && gone="$gone$id: $image as it was before it, $((size / 1000000)) MB
"
    done <"$run/keeps"
}
