#!/usr/bin/env bash
# Runs tests on the GPUs of this machine, from a folder of programs: of a build, or of the bundle of
# bench/gpu_package.sh. Without a GPU it says why and returns 77.
#
#   bash tests/gpu/run.sh build/release/bin            all of them
#   bash tests/gpu/run.sh build/release/bin kernels    one part: kernels, semantics, devices, calls or frontend
#   bash tests/gpu/run.sh build/release/bin --short    some of each, as much as the driver without a GPU does in a minute
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:?"run.sh: it takes the folder of the tests' programs"}
shift
kernels='*' semantics='*' frontend='*' devices='DevicesFuzz.*' programs=300
if [ "${1:-}" = --short ]; then
    shift
    kernels='GpuDevice*:EmitterTile*:Emitted.Rows*:Emitted.Segments*:Emitted.Functions*'
    semantics='Semantics.S0*:Semantics.S1*:Semantics.S3*:Semantics.S4*'
    frontend='Reductions.Sum*:Joining.Stored*:Semantics.S27*' devices='DevicesFuzz.RandomProgramsOn*' programs=4
fi
[ $# -gt 0 ] || set -- kernels semantics devices calls frontend # the longest comes last
export LAZULI_FUZZ_PROGRAMS=${LAZULI_FUZZ_PROGRAMS:-$programs}

export LAZULI_VIRTUAL_GPUS='' LAZULI_TEST_CUDA=1 LAZULI_VERIFY=1 # tests ask for virtual GPUs; these have none
found=$("$bin/test_gpu" --gtest_filter=GpuDevice.IsThere 2>&1) || {
    echo "$found"
    echo "run.sh: test_gpu does not run here." >&2
    exit 1
}
if grep -q SKIPPED <<<"$found"; then
    grep -m 1 -A 1 'device_test.cpp.*Skipped' <<<"$found" | tail -n 1
    echo "Tests on a GPU are skipped."
    exit 77
fi
grep '^The device is' <<<"$found"

# A test that needs more GPUs than there are skips itself (semantics), or uses those that there are (devices, calls).
not_on_cuda=$(grep -v '^#' "$here/not_on_cuda.txt" | grep . | paste -sd: -)
status=0
for part in "$@"; do
    echo "== $part"
    case $part in
    kernels) "$bin/test_gpu" --gtest_brief=1 --gtest_filter="$kernels" ;;
    semantics) "$bin/test_semantics" --gtest_brief=1 --gtest_filter="$semantics-$not_on_cuda" ;;
    devices) "$bin/test_devices" --gtest_brief=1 --gtest_filter="$devices" ;;
    calls) "$bin/test_calls" --gtest_brief=1 --gtest_filter='Calls.RandomProgramsOnFourGpus*' ;;
    frontend)
        LAZULI_TEST_DATA=$here/../frontend LAZULI_TEST_DEVICE=cuda:0 "$bin/test_frontend" --gtest_brief=1 \
            --gtest_filter="$frontend"
        ;;
    *)
        echo "run.sh: there is no part '$part'." >&2
        exit 2
        ;;
    esac || status=1
done
exit $status
