#!/usr/bin/env bash
# Makes the pictures of the README with the project itself: bash docs/pictures/make.sh (needs Graphviz' dot).
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=build/release/bin
"$bin/lz-opt" docs/pictures/scores.lz --passes=check-devices,simplify,eliminate-common,eliminate-dead,fuse --to=dot |
    dot -Tsvg -o docs/pictures/clusters.svg
work=$(mktemp -d)
"$bin/profile" "$work"
cp "$work/timeline.svg" docs/pictures/timeline.svg
"$bin/overlap" docs/pictures/overlap.svg
rm -r "$work"
