# shellcheck shell=sh disable=SC2154,SC2317,SC2034,SC1091 # apply.sh sets what is used here, and calls it
# For those who bring a bundle more than once, as Ansible, Slurm and Kubernetes do: what it would
# do here, whether it was carried out already, and how it is taken back. A part of the engine on
# the node.
#
#   bundle     in a run's folder: the hash of the list of steps that the run carried out

mark() { hash "$stage/steps"; } # two bundles of one mark are one bundle: files are named there by hash

runs_of() { # runs_of MARK: the runs of that bundle which were not taken back, newest first
    [ -n "$1" ] || return 0
    backwards "$state/journal" | while read -r one what _; do
        if [ "$(cat "$state/runs/$one/bundle" 2>/dev/null)" = "$1" ]; then echo "$one $what"; fi
    done
}

settled() { # one frame, where this very bundle was carried out and all is as it left it
    found=$(runs_of "$(mark)")
    read -r one what <<EOT
$found
EOT
    if [ "$what" != "done" ]; then return 1; fi
    placed=''
    while read -r kind path new _; do
        if [ "$kind" != file ]; then continue; fi
        if [ "$(hash "$root$path" 2>&1)" != "$new" ]; then return 1; fi
        placed=$path
    done <"$state/runs/$one/undo" || return 1
    # What triggers alone bring about leaves nothing that tells whether it still holds: a module
    # that was loaded may have been unloaded since, and the plan that asks for it again is the same.
    if [ -z "$placed" ]; then return 1; fi
    while IFS= read -r owed; do
        if has "$state/pending" "$owed"; then return 1; fi
    done <"$state/runs/$one/owed" || return 1
    frame settled ok "$one"
}

aside() { # a folder that is gone when we are, with the bundle in it
    mkdir "$run" && : >"$run/owed" || return
    if [ -z "$stage" ]; then gdr_unpack "$run/stage"; fi
}

laid() { # laid FUNCTION [WORD...]: with the bundle in a folder aside
    run=${TMPDIR:-/tmp}/gdr-aside.$$
    key=unpack label=$run
    if quietly aside; then
        if [ -z "$stage" ]; then stage=$run/stage; fi
        aside=$run
        "$@"
        set -- "$?"
        rm -rf "$aside"
        return "$1"
    fi
    rm -rf "$run"
    return 5
}

look() { # look: what apply would do; nothing is touched
    arrive
    if held_by=$(readlink "$state/lock") && alive "$held_by"; then told_held; return 75; fi
    laid foresee
}

foresee() {
    standing=$(runs_of "$(mark)" | while read -r one _; do printf '%s ' "$one"; done)
    if [ -n "$standing" ]; then frame standing ok "${standing% }"; fi
    trusted || return 5
    if settled; then return; fi
    id='' whole='' acting='' pass=check number=0 key=steps label=$stage/steps
    . "$stage/steps"
    if [ -z "$refused" ] && [ "$whole" != "$number" ]; then quietly cut_off; return 5; fi
    ended=0
    if [ -n "$refused" ]; then ended=5; fi
    pass=act number=0 stop=1 # a run that was told to stop before its first step
    . "$stage/steps"
    return "$ended"
}

cut_off() { echo 'the list is cut off'; return 1; }

retract() { # retract: every run of this bundle, newest first
    laid take_all_back
}

take_all_back() {
    standing=$(runs_of "$(mark)") worst=0
    if [ -z "$standing" ]; then frame nothing ok "no run of this bundle stands"; fi
    while read -r one _; do
        if [ -z "$one" ]; then continue; fi
        rollback "$one" || worst=5
    done <<EOT
$standing
EOT
    return "$worst"
}
