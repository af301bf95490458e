# shellcheck shell=sh disable=SC2154,SC2317 # apply.sh sets what is used here, and calls it
# The boot menu of an image, with other kernel arguments: a part of the engine on the node.
# What derives the menu asks for the disk that it lies on, which an image in a folder has not,
# and an image on a builder's loop device is taken for none: update-grub then ends well, with a
# menu without kernels. So the words that our file adds go into each line that it would add
# them to; the first update-grub on the node writes the same.

menu() { # menu FILE +WORD|-WORD...: of each kernel in it
    file=$root$1
    shift
    if [ ! -f "$file" ]; then echo "$file is not there"; return 1; fi
    made=$(temp_of "$file")
    cp -p "$file" "$made" || return
    printf '%s\n' "$@" | awk '
        NR == FNR { if (sub(/^\+/, "")) add[++adds] = $0; else if (sub(/^-/, "")) gone[$0] = 1; next }
        /^[ \t]*linux(16|efi)?[ \t]/ {
            lead = $0
            sub(/[^ \t].*/, "", lead)
            count = split($0, word)
            line = lead word[1] "\t" word[2]
            split("", has)
            for (i = 3; i <= count; i++) if (!(word[i] in gone)) { line = line " " word[i]; has[word[i]] = 1 }
            for (i = 1; i <= adds; i++) if (!(add[i] in has)) line = line " " add[i]
            $0 = line
            kernels++
        }
        { print }
        END { exit !kernels }' - "$file" >"$made" || { rm -f "$made"; echo "$file names no kernel"; return 1; }
    flush "$made" && mv -f "$made" "$file" && flush_folder "${file%/*}"
}
