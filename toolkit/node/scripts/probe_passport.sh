# shellcheck shell=sh disable=SC2154,SC2317,SC2034 # frames.sh sets what is used here; others call it
# Part of the probe: the passport that the node's image was born with, and what is needed to lay
# the node beside it. A node without one costs no process.

passport=/usr/lib/gdr-toolkit/passport.json
passport_frames='passport-sig passport-files passport-loaded passport-since'

passport_names() { # sets named, paths, and called, modules, from the lines of the passport
    named='' called=' '
    by_line
    for line in $content; do # as Passport.json writes them
        case $line in
            *'"path": "/'*)
                line=${line#*'"path": "'}
                named=$named${line%%\"*}$nl
                ;;
            *'"module": "'*)
                line=${line#*'"module": "'} line=${line%%\"*}
                case $called in *" $line "*) ;; *) called="$called$line " ;; esac
                ;;
        esac
    done
    by_word
}

passport_hashes() { # "SHA256 PATH", "absent PATH" or "denied PATH" of each file named
    files=''
    by_line
    for path in $named; do
        if [ ! -e "$root$path" ]; then add "absent $path"
        elif [ ! -r "$root$path" ]; then add "denied $path"
        # What is no plain file may never end, and is no match either.
        elif [ -f "$root$path" ]; then files=$files$root$path$nl; fi
    done
    # shellcheck disable=SC2086 # one word a line
    if [ -n "$files" ]; then
        for line in $(sha256sum -- $files 2>/dev/null); do add "${line%% *} ${line#*"  $root"}"; done
    fi
    by_word
}

passport_loaded() { # "NAME SRCVERSION" of each module named that is loaded, then their build ids
    notes='' having=''
    for module in $called; do
        at=$root/sys/module/$module
        [ -e "$at/initstate" ] || continue
        built=''
        if [ -e "$at/srcversion" ]; then read -r built <"$at/srcversion"; fi
        add "$module ${built:--}"
        note=$at/notes/.note.gnu.build-id
        if [ -r "$note" ]; then notes="$notes $note" having="$having $module"; fi
    done 2>/dev/null
    [ -n "$notes" ] || return 0
    add "ids$having"
    # shellcheck disable=SC2086 # the kernel's own names
    add "$(od -A n -v -t x1 $notes 2>/dev/null)"
}

passport_since() { # "RUN SHA256 PATH": what our latest run that touched a file named left there, and the latest rebuild
    state=$root/var/lib/gdr-toolkit files=''
    while read -r run _; do
        for list in undo after; do
            if [ -f "$state/runs/$run/$list" ]; then files="$files $state/runs/$run/$list"; fi
        done
    done 2>/dev/null <"$state/journal"
    if [ -f "$state/rebuild/made" ]; then files="$files $state/rebuild/made"; fi
    [ -z "$files" ] || add "$(passport_runs)"
}

passport_runs() { # of $files, in the order of the runs
    # shellcheck disable=SC2086 # one word a file
    printf '%s' "$named" | awk -v root="$root" '
        FILENAME == "-" { named[$1]; next }
        FNR == 1 { run = FILENAME; sub("/[a-z]*$", "", run); sub(".*/", "", run) }
        $1 == "file" { path = $2; sum = $3 }
        $1 != "file" { path = substr($0, 67); sum = $1; if (index(path, root) == 1) path = substr(path, length(root) + 1) }
        path in named { left[(run == "rebuild") path] = run " " sum " " path }
        END { for (each in left) print left[each] }' - $files | LC_ALL=C sort
}

probe_passport() {
    file passport $passport
    if [ ! -e "$root$passport" ]; then
        for key in $passport_frames; do frame "$key" absent $passport; done
        return
    fi
    passport_names
    short passport-sig $passport.sig
    if command -v sha256sum >/dev/null; then give passport-files 'the files of the passport' passport_hashes
    else frame passport-files absent sha256sum; fi
    give passport-loaded /sys/module passport_loaded
    if [ -e "$root/var/lib/gdr-toolkit/journal" ] || [ -e "$root/var/lib/gdr-toolkit/rebuild/made" ]; then
        give passport-since '/var/lib/gdr-toolkit/runs' passport_since
    else frame passport-since absent /var/lib/gdr-toolkit/journal; fi
}
