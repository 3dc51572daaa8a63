#!/usr/bin/env bash
# Runs tests on the GPUs of this machine, from a folder of programs: of a build, or of the bundle of
# bench/gpu_package.sh. Without a GPU it says why and returns 77.
#
#   bash tests/gpu/run.sh build/release/bin            all of them
#   bash tests/gpu/run.sh build/release/bin kernels    one part: kernels, frontend, semantics, devices or calls
set -uo pipefail
bin=${1:?"run.sh: it takes the folder of the tests' programs"}
shift
[ $# -gt 0 ] || set -- kernels frontend semantics devices calls

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

# What needs several GPUs is left out where there is one (semantics), or uses those that there are (devices, calls).
status=0
for part in "$@"; do
    echo "== $part"
    case $part in
    kernels) "$bin/test_gpu" --gtest_brief=1 ;;
    frontend) LAZULI_TEST_DEVICE=cuda:0 "$bin/test_frontend" --gtest_brief=1 ;;
    semantics) "$bin/test_semantics" --gtest_brief=1 --gtest_filter="${LAZULI_GPU_SEMANTICS:-*}" ;;
    devices) LAZULI_FUZZ_PROGRAMS=${LAZULI_FUZZ_PROGRAMS:-300} "$bin/test_devices" --gtest_brief=1 --gtest_filter='DevicesFuzz.*' ;;
    calls) LAZULI_FUZZ_PROGRAMS=${LAZULI_FUZZ_PROGRAMS:-300} "$bin/test_calls" --gtest_brief=1 --gtest_filter='Calls.RandomProgramsOnFourGpus*' ;;
    *)
        echo "run.sh: there is no part '$part'." >&2
        exit 2
        ;;
    esac || status=1
done
exit $status
