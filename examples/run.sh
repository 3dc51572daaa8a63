#!/usr/bin/env bash
# The main job, from nothing: installs what is missing, builds, and trains on the digits in examples/data/.
#
#   bash examples/run.sh               examples/digits
#   bash examples/run.sh quickstart    another example, with its arguments
#   bash examples/run.sh devices       those on devices: device_walk, streams, use_gpu, agnostic and overlap
set -euo pipefail
cd "$(dirname "$0")/.."

bash cmake/install-deps.sh
name=${1:-digits}
[ $# -eq 0 ] || shift
names=$name
if [ "$name" = devices ]; then
    names="device_walk streams use_gpu agnostic overlap"
fi
cmake --preset release -DLAZULI_BUILD_EXAMPLES=ON
# shellcheck disable=SC2086 # several names
cmake --build --preset release --target $names
if [ "$name" = digits ] && [ $# -eq 0 ]; then
    set -- examples/data/digits.csv.gz
fi
for name in $names; do
    "build/release/bin/$name" "$@"
done
