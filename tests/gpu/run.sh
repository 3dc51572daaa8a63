#!/usr/bin/env bash
# Runs tests on the GPUs of this machine, from a folder of programs: of a build, or of the bundle of
# bench/gpu_package.sh. Without a GPU it says why and returns 77.
#
#   bash tests/gpu/run.sh build/release/bin            all of them
#   bash tests/gpu/run.sh build/release/bin kernels    some parts, by name (the list below)
#   bash tests/gpu/run.sh build/release/bin --short    some of each, as much as the driver without a GPU does in a minute
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:?"run.sh: it takes the folder of the tests' programs"}
shift
parts='kernels on_cuda semantics no_graphs devices calls training examples sanitizer frontend' # the longest comes last
kernels='*' on_cuda='*' semantics='*' no_graphs='*' frontend='*' devices='DevicesFuzz.*' programs=300 short=''
# As under `ctest -L cuda` (tests/CMakeLists.txt), but on one GPU.
autograd='Backward.Leaves*:Backward.OfGradients:Rows.*:Function.Lets*:Gradients.AreThose*'
beside_the_cpu='Semantics.*:Autocast.LeavesF64*:LibTorchTraining.AVariationalAutoencoder:Optimizers.AModuleThatMovedAfterAStep*'
two_gpus='Init.OrthogonalOnes*:ClipGradNorm.SpansDevices*:Summary.PrintsATable'
nn="*-$beside_the_cpu:$two_gpus:PeakMemory.*:Autocast.GivesEachFunction*:LibTorchTraining.APolicyGradient"
optim="*-$beside_the_cpu:OptimizerFaults*:GradScaler.SkippedSteps*"
memcheck='EmitterTile*:EmitterLoop*:EmitterAccess*:Emitted.Rows*:Emitted.Segments*:EmittedHalves*:*EmittedCorpus*'
racecheck='EmitterTile*:EmitterRow*:Emitted.Rows*:Emitted.LongRows*:Emitted.Products*'
if [ "${1:-}" = --short ]; then
    shift
    short=--short
    kernels='GpuDevice*:EmitterTile.Transposed*:Emitted.RowsOfMore*:Emitted.Segments*:Emitted.Functions*:*EmittedCorpus*/1'
    on_cuda='CudaCalls.AKernel*:CudaCalls.AFunction*:OnCudaPrograms.Numbers*'
    semantics='Semantics.S0*:Semantics.S1*:Semantics.S3*:Semantics.S40*:Semantics.S41*:Semantics.S42*:Semantics.S43_events*'
    no_graphs='Semantics.S42_kernels*:Semantics.S22*'
    frontend='Reductions.Sum*:Joining.Stored*:Semantics.S27*' devices='DevicesFuzz.RandomProgramsOn*' programs=4
    autograd='Backward.Leaves*' nn='ClipGradNorm.Scales*' optim='Optimizers.AStepOfFive*'
    memcheck='Emitted.Segments*' racecheck='Emitted.Segments*'
fi
# shellcheck disable=SC2086 # several words
[ $# -gt 0 ] || set -- $parts
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

patterns() { grep -v '^#' "$here/$1" | grep . | paste -sd: -; }
# PROGRAM FILTER: `a:b`, or `a:b-c:d` without some. A filter that finds nothing is an error.
run_test() {
    if ! "$bin/test_$1" --gtest_filter="$2" --gtest_list_tests | grep -q '^  '; then
        echo "run.sh: test_$1 has no test of '$2'." >&2
        return 1
    fi
    "$bin/test_$1" --gtest_brief=1 --gtest_filter="$2"
}
# The same on cuda:0, with the files of its folder.
run_on_device() { LAZULI_TEST_DATA=$here/../$1 LAZULI_TEST_DEVICE=cuda:0 run_test "$1" "$2"; }
sanitize() { # TOOL FILTER
    compute-sanitizer --tool "$1" --target-processes all --error-exitcode 9 "$bin/test_gpu" --gtest_brief=1 \
        --gtest_filter="$2"
}

# A test that needs more GPUs than there are skips itself (semantics), or uses those that there are (devices, calls).
# GPUs that reach each other's memory cannot be told not to (S12).
not_on_cuda="$(patterns not_on_cuda.txt):*S12_copies_without_peer*"
[ -x "$bin/lazuli_run_file" ] && export LAZULI_TEST_RUN_FILE=$bin/lazuli_run_file
status=0 skipped=0
for part in "$@"; do
    echo "== $part"
    case $part in
    kernels) run_test gpu "$kernels" ;;
    on_cuda) run_test on_cuda "$on_cuda-$(patterns not_on_a_gpu.txt)" ;;
    semantics) run_test semantics "$semantics-$not_on_cuda" ;;
    no_graphs) LAZULI_CUDA_GRAPHS=0 run_test semantics "$no_graphs-$not_on_cuda" ;;
    devices) run_test devices "$devices" ;;
    calls) run_test calls 'Calls.RandomProgramsOnFourGpus*' ;;
    training)
        run_on_device autograd "$autograd" && run_on_device nn "$nn" && run_on_device optim "$optim"
        ;;
    examples) bash "$here/examples.sh" "$bin" "$here/../../examples" $short ;;
    sanitizer)
        if command -v compute-sanitizer >/dev/null; then
            sanitize memcheck "$memcheck" && sanitize racecheck "$racecheck"
        else
            echo "compute-sanitizer is not in the PATH: CUDA's toolkit has it. This part is skipped."
            skipped=$((skipped + 1))
        fi
        ;;
    frontend) run_on_device frontend "$frontend" ;;
    *)
        echo "run.sh: there is no part '$part'; there are $parts." >&2
        exit 2
        ;;
    esac || status=1
done
[ $status = 0 ] && [ $skipped = $# ] && status=77
exit $status
