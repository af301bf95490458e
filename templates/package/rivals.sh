# shellcheck shell=sh
# Part of gdr-toolkit's packages; plain POSIX sh.
# rivals FOLDER STEM...: files below a kernel's FOLDER, not ours, that hold a module of one of
# these names. Two owners of one module undo each other's work at every update.
rivals() {
    folder=$1
    shift
    for stem; do
        # Inbox modules below kernel/ are meant to be passed by: updates/ comes before them.
        for place in updates extra weak-updates; do
            [ -d "$folder/$place" ] || continue
            find "$folder/$place" -name "$stem.ko*" ! -path "$folder/updates/gdr-toolkit/*"
        done
    done
}
