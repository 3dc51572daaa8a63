#!/usr/bin/env bash
# A folder is a room that is seen at a glance: at most 24 entries, and what four files of one room begin with is a folder
# of its own. A file is one idea: at most 600 lines. Data that a program made is left out, and named here.
#
#   rooms.sh SOURCE
set -uo pipefail
cd "$1" || exit 1

most_entries=24
most_lines=600
same_prefix=4
# Folders of data, and single files: what is in them is read by programs.
data='(^|/)(inputs|corpus)/|^bench/results/|^docs/pictures/|^examples/data/'
text='\.(h|cpp|def|cmake|txt|sh|awk|py|md|lz|map|in)$'
folders='bench cmake codegen docs examples frontend ir passes runtime tests'

failed=0
wrong() { echo "$1"; failed=1; }

# What git knows or would take; without git, all files.
files=$(git ls-files --cached --others --exclude-standard -- $folders 2>/dev/null | while read -r f; do
    [ -e "$f" ] && echo "$f"
done)
[ -n "$files" ] || files=$(find $folders -type f)
files=$(sort -u <<<"$files")
[ "$(wc -l <<<"$files")" -ge 1000 ] || wrong "Only $(wc -l <<<"$files") files were found: $folders."

while read -r count folder; do
    [ "$count" -le $most_entries ] || wrong "$folder/ has $count entries; a room has at most $most_entries."
done < <(grep -vE "$data" <<<"$files" | awk -F/ '{
    folder = $1
    for (i = 2; i <= NF; ++i) {
        entry = folder "/" $i
        if (!(entry in seen)) { seen[entry]; ++entries[folder] }
        folder = entry
    }
} END { for (folder in entries) print entries[folder], folder }')

# x.h and x.cpp are one name.
while read -r count folder prefix; do
    wrong "$folder/ has $count names that begin with $prefix: they are a folder, $folder/$prefix/."
done < <(grep -vE "$data" <<<"$files" | awk -F/ -v most=$same_prefix '{
    name = $NF
    sub(/\..*/, "", name)
    folder = substr($0, 1, length($0) - length($NF) - 1)
    if ((folder, name) in seen) next
    seen[folder, name]
    prefix = name
    sub(/_.*/, "", prefix)
    ++names[folder " " prefix]
} END { for (n in names) if (names[n] >= most) print names[n], n }')

sources=0
while read -r lines file; do
    [ "$file" = total ] && continue
    sources=$((sources + 1))
    [ "$lines" -le $most_lines ] || wrong "$file has $lines lines; a file has at most $most_lines."
done < <(grep -vE "$data" <<<"$files" | grep -E "$text" | xargs wc -l)
[ $sources -ge 900 ] || wrong "Only $sources files of text were counted."
[ $failed -eq 0 ] && echo "$sources files of text have at most $most_lines lines, no folder more than $most_entries entries."
exit $failed
