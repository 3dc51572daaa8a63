#!/usr/bin/env bash
# What the pages name exists: files and folders, links and their sections, the parts of files that they show, the rooms of
# docs/design.md, and for every promise of docs/semantics.md a test; and every promise and table that the code names exists.
#
#   pages.sh SOURCE
set -uo pipefail
cd "$1" || exit 1
failed=0
wrong() { echo "$1"; failed=1; }

pages=($(find . -maxdepth 1 -name '*.md') $(find docs -name '*.md' | sort))

# A page about what is planned says so in a comment, and may name files that are not there yet.
folders='bench|cmake|codegen|docs|examples|frontend|ir|passes|runtime|tests|\.ci'
for page in "${pages[@]}"; do
    if ! grep -q '^<!-- names planned files -->$' "$page"; then
        while read -r path; do
            [ -e "$path" ] || wrong "$page names $path, which does not exist."
        done < <(grep -oE "\`($folders)/[A-Za-z0-9_./-]*\`" "$page" | tr -d '`' | sort -u)
    fi
    while read -r target; do
        file=${target%%#*}
        section=
        [[ $target == *#* ]] && section=${target#*#}
        path=$page
        if [ -n "$file" ]; then
            path=$(dirname "$page")/$file
            [ -e "$path" ] || { wrong "$page links to $target, which does not exist."; continue; }
        fi
        if [ -n "$section" ]; then # as most sites make the name of a section: small letters, dashes for spaces
            sed -n 's/^#\+ //p' "$path" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g' |
                grep -qxF -- "$section" || wrong "$page links to $target, and $path has no such section."
        fi
    done < <(sed '/^```/,/^```$/d; /^<!--cpp$/,/^-->$/d' "$page" | grep -oE '\]\([^)]+\)' | sed 's/^](//; s/)$//' | grep -vE '^(https?|mailto):' | sort -u)
done

# Parts of files are what the files say.
for page in "${pages[@]}"; do
    wrongs=$(awk -f tests/project/docs/quotes.awk "$page") || wrong "$wrongs"
done

# Shell blocks that no program is run with: the scripts and presets that they name exist, and they are listed.
not_run=
for page in "${pages[@]}"; do
    blocks=$(awk '/^ *```(sh|cmake)$/ { inside = 1; print "block"; next } /^ *```$/ { inside = 0 } inside' "$page")
    count=$(grep -cx block <<<"$blocks")
    [ "$count" -gt 0 ] && not_run+=" ${page#./} ($count)"
    while read -r script; do
        [ -e "$script" ] || wrong "$page runs $script, which does not exist."
    done < <(grep -oE '\bbash [a-z]+/[a-z_/-]+\.sh' <<<"$blocks" | sed 's/^bash //' | sort -u)
    while read -r preset; do
        grep -q "\"name\": \"$preset\"" CMakePresets.json || wrong "$page names the preset $preset, which does not exist."
    done < <(grep -oE -- '--preset [a-z-]+' <<<"$blocks" | sed 's/^--preset //' | sort -u)
done

# The words of a kernel's text are in the grammar.
while read -r word; do
    grep -qF "\"$word\"" docs/ir.md || wrong "ir/kernel/text.h has the word \"$word\", which docs/ir.md does not explain."
done < <(awk '/^inline constexpr std::array/ { inside = 1 } inside { print } /};/ { inside = 0 }' ir/kernel/text.h |
    grep -oE '"[^"]+"' | tr -d '"' | sort -u)

# Rooms: those that docs/design.md lists are the folders of each floor, but for what it says is planned.
for floor in frontend ir passes codegen runtime; do
    listed=$(sed -n "s|^    $floor/ ||p" docs/design.md | sed 's/([^)]*)//g' | grep -oE '(^| )[a-z]+/' | tr -d ' /' | sort -u)
    there=$(for room in "$floor"/*/; do basename "$room"; done | sort -u)
    for room in $(comm -23 <(echo "$there") <(echo "$listed")); do
        wrong "docs/design.md does not list the room $floor/$room/."
    done
    for room in $(comm -13 <(echo "$there") <(echo "$listed")); do
        [ "$room" = distributed ] || wrong "docs/design.md lists the room $floor/$room/, which does not exist."
    done
done

# Tables that comments name by a path exist.
tables=$(find frontend ir passes codegen runtime -name '*.def')
while read -r table; do
    grep -qE "(^|/)$table\$" <<<"$tables" || wrong "Comments name $table, which does not exist."
done < <(grep -rhoE '//.*\.def\b' --include='*.h' --include='*.cpp' --include='*.def' \
    frontend ir passes codegen runtime tests | grep -oE '[a-z_]+(/[a-z_]+)*\.def\b' | sort -u)

# Promises: `| S01 | ...` is a row, and a test is TEST(Semantics, S01_...).
rows=$(grep -oE '^\| S[0-9]+ \|' docs/semantics.md | grep -oE 'S[0-9]+')
[ "$(wc -l <<<"$rows")" -ge 60 ] || wrong "docs/semantics.md has less than 60 rows: the page has another form now."
unbuilt=$(sed -n 's/^Not built yet: //p' docs/semantics.md | grep -oE 'S[0-9]+')
tested=$(grep -rhE '^TEST(_F|_P)?\(' tests --include='*.cpp' | grep -oE '[ _]S[0-9]{2,3}_' | grep -oE 'S[0-9]+' | sort -u)
named=$(grep -rhE '//.*\bS[0-9]{2,3}\b' --include='*.h' --include='*.cpp' --include='*.def' \
    frontend ir passes codegen runtime tests examples bench | sed 's|^.*//||' | grep -oE '\bS[0-9]{2,3}\b' | sort -u)
has() { grep -qx "$2" <<<"$1"; }
for row in $rows; do
    if has "$unbuilt" "$row"; then
        has "$tested" "$row" && wrong "docs/semantics.md says that $row is not built yet, and it has a test."
    else
        has "$tested" "$row" || wrong "$row has no test: TEST(Semantics, ${row}_...)."
    fi
done
for row in $unbuilt; do
    has "$rows" "$row" || wrong "docs/semantics.md says that $row is not built yet, and has no such row."
done
[ "$(sort <<<"$rows" | uniq -d)" = "" ] || wrong "Rows stand twice: $(sort <<<"$rows" | uniq -d | xargs)."
for row in $named; do
    has "$rows" "$row" || wrong "The code names $row, which is no row of docs/semantics.md."
done
[ -z "$not_run" ] || echo "Shell and CMake blocks that are not run:$not_run."
[ $failed -eq 0 ] && echo "${#pages[@]} pages, $(wc -l <<<"$rows") promises, $(wc -l <<<"$tested") of them with tests."
exit $failed
