#!/usr/bin/env bash
# Runs the RUN lines of one textual test:  run_filecheck.sh test.lz
#
#   // RUN: lz-opt %s --passes=fuse | FileCheck %s
#   // RUN: not lz-opt %S/inputs/bad.lz 2>&1 | FileCheck %s --check-prefix=BAD
#
# %s is the test, %S its folder, %t a file name of its own for output; `not` expects failure (a crash is none); a line
# that ends in a backslash goes on in the next RUN line. Each line is a bash command with pipefail.
# A line `// REQUIRES: jit` skips the test in builds without the JIT (LZ_JIT=0).
# A line `// REQUIRES: nvrtc` skips it where lz-opt finds no NVRTC.
# LZ_OPT, FILECHECK, LZ_JIT and TEST_OUTPUT come from ctest. Exit status 77: skipped, a tool is missing.
set -u

test=$(realpath "$1")
folder=$(dirname "$test")
: "${TEST_OUTPUT:=${TMPDIR:-/tmp}/lazuli-filecheck}"
output="$TEST_OUTPUT/$(basename "$folder")-$(basename "$test").out"
mkdir -p "$TEST_OUTPUT"

for tool in LZ_OPT FILECHECK; do
    if [ -z "${!tool:-}" ]; then
        echo "SKIPPED: $test needs the program in \$$tool, which was not found when the build was configured."
        exit 77
    fi
    if [ ! -x "${!tool}" ]; then
        echo "FAILED: \$$tool is ${!tool}, which is not there; is it built?"
        exit 1
    fi
done
export LZ_OPT FILECHECK
if [ "${LZ_JIT:-1}" = 0 ] && grep -q '^// REQUIRES: jit$' "$test"; then
    echo "SKIPPED: $test runs compiled code, and this build has no JIT (LAZULI_CPU_JIT=OFF)."
    exit 77
fi

lz-opt() { "$LZ_OPT" "$@"; }
FileCheck() { "$FILECHECK" --dump-input-filter=all "$@"; }
not() {
    "$@"
    local status=$?
    if [ $status -ge 126 ]; then
        echo "not: '$*' ended with status $status; a refusal is expected, not a crash." >&2
        return 1
    fi
    [ $status -ne 0 ]
}
export -f lz-opt FileCheck not

# What a developer has set in the shell is not part of the test.
for variable in $(compgen -e | grep '^LAZULI_'); do
    [ "$variable" = LAZULI_CACHE_DIR ] || unset "$variable"
done

if grep -q '^// REQUIRES: nvrtc$' "$test" && "$LZ_OPT" "$test" --to=ptx 2>&1 | grep 'NVRTC' >&2; then
    echo "SKIPPED: $test needs NVRTC."
    exit 77
fi

runs=0
command=""
while IFS= read -r line; do
    command+="$line"
    if [[ $command == *\\ ]]; then
        command="${command%\\} "
        continue
    fi
    command=${command//%s/\"$test\"}
    command=${command//%S/\"$folder\"}
    command=${command//%t/\"$output\"}
    runs=$((runs + 1))
    echo "RUN: $command"
    if ! bash -o pipefail -c "$command"; then
        echo "FAILED: RUN line $runs of $test"
        exit 1
    fi
    command=""
done < <(sed -n 's/^[[:space:]]*\(\/\/\|#\)[[:space:]]*RUN:[[:space:]]*//p' "$test")

if [ -n "$command" ]; then
    echo "FAILED: the last RUN line of $test ends in a backslash."
    exit 1
fi
if [ $runs -eq 0 ]; then
    echo "FAILED: $test has no RUN line, so it tests nothing."
    exit 1
fi
echo "$runs RUN lines passed."
