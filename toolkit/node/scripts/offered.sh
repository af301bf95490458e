# shellcheck shell=sh disable=SC2034,SC2154,SC2317 # frames.sh sets what is used here, and calls it
# What the node's own repositories have of packages, by the metadata that lies there: nothing is
# fetched, and nothing written. frames.sh stands above these lines.
#
#   offered NAME...     one frame: "asked NAME" for each, then "NAME VERSION" for what there is

offered() {
    begin_frames
    asked=''
    for name; do asked="${asked}asked $name$nl"; done
    if seek apt-cache; then sift by_apt packages 20 apt-cache madison "$@"
    elif seek dnf; then sift by_dnf packages 60 dnf -q -C repoquery --qf '%{name} %{version}-%{release}\n' "$@"
    else sift by_zypper packages 60 zypper -q --non-interactive --no-refresh search -s -x "$@"; fi
    end_frames
}

by_apt() { content=$asked$(awk -F '[|]' 'NF > 2 { gsub(/ /, ""); print $1, $2 }' "$1"); }

by_dnf() { content=$asked$(grep -v '^$' "$1"); }

by_zypper() { content=$asked$(awk -F '[ ]*[|][ ]*' 'NF > 4 && $4 ~ /[0-9]/ { print $2, $4 }' "$1"); }
