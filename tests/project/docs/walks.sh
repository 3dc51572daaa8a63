#!/usr/bin/env bash
# The walks of docs/inside/walks.md: each section has at most ten files, all of them exist, the functions that a stop names
# are in its files, and a folder is entered once; a walk (a section named so) enters each room once, which is a folder of a
# layer (frontend/record) with all folders in it.
#
#   walks.sh SOURCE
set -uo pipefail
cd "$1" || exit 1
page=docs/inside/walks.md
failed=0
wrong() { echo "$page: $1"; failed=1; }

# One line a stop, "section<TAB>text".
lines=$(awk '
    function put() { if (stop != "") print section "\t" stop; stop = "" }
    /^## / { put(); section = substr($0, 4); next }
    /^[0-9]+\. / { put(); stop = $0; next }
    /^ / && stop != "" { stop = stop " " $0; next }
    { put() }
    END { put() }' "$page")

sections=0 walks=0
while IFS= read -r section; do
    sections=$((sections + 1))
    stops=$(awk -F'\t' -v s="$section" '$1 == s { print $2 }' <<<"$lines")
    files= folders= number=0
    while IFS= read -r stop; do
        number=$((number + 1))
        [[ $stop =~ ^$number\.\ \`([a-z][A-Za-z0-9_/.]*)\`: ]] ||
            { wrong "in '$section' stop $number does not begin with its number and its file: $stop"; continue; }
        folders+=$(dirname "${BASH_REMATCH[1]}")$'\n'
        here=$(grep -oE '`[a-z]+/[A-Za-z0-9_/]*\.[a-z]+`' <<<"$stop" | tr -d '`')
        files+=$here$'\n'
        for file in $here; do
            [ -f "$file" ] || { wrong "in '$section' $file does not exist."; here=; }
        done
        [ -n "$here" ] || continue
        # Not names of environment variables, and not the letters of the program.
        for name in $(grep -oE '`[A-Za-z_]+(::[A-Za-z_]+)*`' <<<"$stop" | tr -d '`' | grep -E '[a-z].*[a-z]'); do
            grep -qwF -- "${name##*::}" $here || wrong "in '$section' stop $number names $name, which $here does not have."
        done
    done <<<"$stops"
    count=$(sort -u <<<"$files" | grep -c .)
    [ "$count" -ge 3 ] && [ "$count" -le 10 ] || wrong "'$section' names $count files; it should be 3 to 10."
    if [[ $section == "Walk: "* ]]; then
        walks=$((walks + 1))
        folders=$(cut -d/ -f1,2 <<<"$folders")
    fi
    again=$(grep . <<<"$folders" | uniq | sort | uniq -d)
    [ -z "$again" ] || wrong "'$section' enters '$(xargs <<<"$again")' twice."
done < <(sed -n 's/^## //p' "$page")
[ $sections -ge 8 ] || wrong "only $sections sections were found."
[ $walks -eq 4 ] || wrong "there are $walks walks; they should be four."
[ $failed -eq 0 ] && echo "$sections sections of walks have at most ten files each."
exit $failed
