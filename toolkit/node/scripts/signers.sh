# shellcheck shell=sh disable=SC2154,SC2317,SC2034 # apply.sh sets what is used here, and calls it
# Which bundles a node carries out: where it has a file of allowed signers, only those that one of
# its keys has signed, as they were signed. A part of the engine on the node.
#
#   SHA256SUMS         in a bundle: the hash of each of its files
#   SHA256SUMS.sig     by ssh-keygen -Y sign, over that list

signers=/etc/gdr-toolkit/allowed_signers

trusted() { # trusted: false, with a frame, where the node does not carry this bundle out
    if [ ! -e "$root$signers" ] && [ ! -L "$root$signers" ]; then return; fi
    key=signature label=$signers
    quietly signed || return
    stage=$run/stage
}

signed() { # signed: else one sentence; what was checked is in the run's own folder
    if [ ! -f "$stage/SHA256SUMS" ] || [ ! -f "$stage/SHA256SUMS.sig" ]; then
        echo "the bundle is not signed, and the node takes only signed ones: $signers"
        return 1
    fi
    if [ "$stage" != "$run/stage" ]; then
        mkdir "$run/stage" || return
        for part in steps files SHA256SUMS SHA256SUMS.sig; do
            if [ -e "$stage/$part" ]; then cp -RP "$stage/$part" "$run/stage/" || return; fi
        done
    fi
    cd "$run/stage" && by_trusted_key && as_signed # in a subshell of quietly
}

by_trusted_key() { # by_trusted_key: the list in this folder is signed by one; else one sentence
    closed "${signers%/*}" && closed "$signers" || return
    odd=$(find . ! -type d ! -type f) # a link may lead to what changes after we have looked
    if [ -n "$odd" ]; then otherwise "$odd" || return; fi
    if ! keygen=$(locate ssh-keygen); then
        echo "the node takes only signed bundles ($signers), and has no ssh-keygen to check one"
        return 1
    fi
    if ! said=$("$keygen" -Y verify -f "$root$signers" -I gdr-toolkit -n gdr-toolkit-bundle \
        -s SHA256SUMS.sig <SHA256SUMS 2>&1); then
        echo "no key of $signers has signed this bundle: $(printf '%s\n' "$said" | tail -n 1)"
        return 1
    fi
}

as_signed() { # as_signed: steps and files are those of the list, none more and none less
    here=$(find steps files -type f -exec sha256sum {} + 2>/dev/null | sort)
    listed=$(grep -E '^[0-9a-f]{64}  (steps$|files/)' SHA256SUMS | sort)
    if [ -f steps ] && [ "$here" = "$listed" ]; then return; fi
    here=$(printf '%s\n' "$here" "$listed" | sort | uniq -u | sed 's/^[^ ]*  //' | sort -u)
    otherwise "${here:-steps}"
}

otherwise() { # otherwise NAMES: false, with the sentence
    echo "the bundle is not as it was signed: $(echo "$1" | sed 's|^\./||' | tr '\n' ' ')"
    return 1
}

closed() { # closed PATH: ours or root's, and no other may write it
    if [ -L "$root$1" ]; then
        echo "$1 is a link, so what it names is not believed"
        return 1
    fi
    if ! attributes=$(stat -c '%u %a' "$root$1" 2>/dev/null); then
        echo "$1 is not there"
        return 1
    fi
    case $attributes in
        *[2367]? | *[2367]) echo "$1 may be written by others than its owner, so it is not believed" ;;
        "0 "* | "$(id -u) "*) return ;;
        *) echo "$1 is not root's, so it is not believed" ;;
    esac
    return 1
}
