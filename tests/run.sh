#!/usr/bin/env bash
# All tests, from nothing: installs what is missing, configures, builds, runs.
#
#   bash tests/run.sh                      the preset `release`
#   PRESET=debug bash tests/run.sh         another preset
#   bash tests/run.sh -DLAZULI_WERROR=ON   further arguments go to cmake's configure step
set -euo pipefail
cd "$(dirname "$0")/.."

bash cmake/install-deps.sh
preset=${PRESET:-release}
cmake --preset "$preset" -DLAZULI_BUILD_TESTS=ON "$@"
cmake --build --preset "$preset"
ctest --preset "$preset"
