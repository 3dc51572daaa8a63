#!/usr/bin/env bash
# Runs a program of the documents, then the shell blocks that stand beside it, and compares what they print with the page.
#
#   run.sh PROGRAM SOURCE FOLDER     SOURCE.expected and SOURCE.sh may be missing; FOLDER is made anew and entered
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1 source=$2 folder=$3
for variable in $(env | sed -n 's/^\(LAZULI_[A-Z_]*\|CUDA_[A-Z_]*\)=.*/\1/p'); do
    [ "$variable" = LAZULI_CACHE_DIR ] || unset "$variable"
done
rm -rf "$folder" && mkdir -p "$folder" && cd "$folder" || exit 1

"$program" >printed 2>errors
status=$?
if [ $status -eq 0 ] && [ -e "$source.sh" ]; then
    PATH="$(dirname "$program"):$PATH" PROGRAM="$program" bash -e "$source.sh" >>printed 2>>errors
    status=$?
fi
if [ $status -ne 0 ]; then
    echo "$source: ended with status $status, and printed"
    cat printed errors
    exit 1
fi
[ -e "$source.expected" ] || exit 0
if ! awk -f "$here/compare.awk" "$source.expected" printed; then
    echo "--- all that was printed:"
    cat printed
    exit 1
fi
