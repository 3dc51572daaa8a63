#!/usr/bin/env bash
# A block that must not compile does not, and the error is on a line of it.
#
#   wrong.sh SOURCE FILE FIRST LAST compiler arguments...
set -uo pipefail
source=$1 file=$2 first=$3 last=$4
shift 4
if errors=$("$@" -fsyntax-only "$source" 2>&1); then
    echo "$source compiles, and the page says that it does not."
    exit 1
fi
lines=$(sed -n "s/^$file:\([0-9]*\):.* error: .*/\1/p" <<<"$errors")
for line in $lines; do
    [ "$line" -ge "$first" ] && [ "$line" -le "$last" ] && exit 0
done
echo "$source does not compile, but not because of lines $first to $last of $file:"
echo "$errors"
exit 1
