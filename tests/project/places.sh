#!/usr/bin/env bash
# Adding an elementwise function touches few files. Of those that have names of their own, each stands in at most four
# of the sources, as a function or as an enumerator: its table, its approximation, its gradient and its public name.
# Whether autocast computes it in f32 is a choice, and not counted; a gradient of another function may call it.
#
#   places.sh SOURCE
set -uo pipefail
cd "$1" || exit 1
most=4
failed=0
for function in asin:Asin acos:Acos atan:Atan; do
    files=$(grep -rlwE "${function%:*}|${function#*:}" ir passes codegen runtime frontend \
        --include='*.h' --include='*.cpp' --include='*.def' | grep -v autocast | sort)
    count=$(wc -l <<<"$files")
    [ "$count" -ge 3 ] || { echo "Only $count files name ${function%:*}: has it got another name?"; failed=1; }
    [ "$count" -le $most ] || { echo "$count files name ${function%:*}; at most $most should:" $files; failed=1; }
done
[ $failed -eq 0 ] && echo "An elementwise function stands in at most $most files."
exit $failed
