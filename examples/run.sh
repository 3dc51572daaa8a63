#!/usr/bin/env bash
# The main job, from nothing: installs what is missing, builds, and trains on the digits in examples/data/.
#
#   bash examples/run.sh               examples/digits
#   bash examples/run.sh quickstart    another example, with its arguments
set -euo pipefail
cd "$(dirname "$0")/.."

bash cmake/install-deps.sh
name=${1:-digits}
[ $# -eq 0 ] || shift
cmake --preset release -DLAZULI_BUILD_EXAMPLES=ON
cmake --build --preset release --target "$name"
if [ "$name" = digits ] && [ $# -eq 0 ]; then
    set -- examples/data/digits.csv.gz
fi
"build/release/bin/$name" "$@"
