#!/usr/bin/env bash
# The kernels of a GPU beside what it gives and beside PyTorch, torch.compile, JAX and CuPy where those can be imported;
# tests on it, under compute-sanitizer too where that is there. Writes bench/results/<device>.md.
# Without a GPU: what can be known, on the driver without a GPU, to bench/results/no-gpu.md.
#
#   bash bench/gpu.sh                builds what is needed, then all of it
#   bash bench/gpu.sh --bin=FOLDER   with programs that are there: of a build, or of the bundle (bench/gpu_package.sh)
#   bash bench/gpu.sh --scale=64     a try with sizes that are 64 times smaller: its numbers mean nothing
#   bash bench/gpu.sh --minutes=9    in so many at most, of which each part gets its share; else 20
#   bash bench/gpu.sh --no-tests     without the tests
#   bash bench/gpu.sh --name=NAME    of the file
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/..
bin='' scale=1 tests=1 name='' seconds=0.5 minutes=20
for option in "$@"; do
    case "$option" in
    --bin=*) bin=$(realpath "${option#--bin=}") ;;
    --scale=*) scale=${option#--scale=} seconds=0.01 ;;
    --minutes=*) minutes=${option#--minutes=} ;;
    --no-tests) tests=0 ;;
    --name=*) name=${option#--name=} ;;
    --help)
        sed -n '2,/^set/s/^# \?//p' "$0"
        exit 0
        ;;
    *)
        echo "gpu.sh: unknown argument '$option'; it takes --bin=, --scale=, --minutes=, --no-tests, --name= and --help." >&2
        exit 2
        ;;
    esac
done
if ! [[ $minutes =~ ^[1-9][0-9]?$ ]]; then
    echo "gpu.sh: --minutes takes a whole number from 1 to 99, not '$minutes'." >&2
    exit 2
fi
if [ -z "$bin" ]; then
    (cd "$root" && cmake --preset release && cmake --build --preset release --target bench_gpu test_gpu test_on_cuda \
        test_frontend test_autograd test_nn test_optim test_semantics test_devices test_calls lazuli_run_file quickstart \
        cuda_call agnostic regression hessian black_scholes digits char_gpt gpt2 lazuli_fake_cuda lazuli_fake_cublaslt) ||
        exit 1
    bin=$root/build/release/bin
fi
export LAZULI_VIRTUAL_GPUS=''
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
begin=$SECONDS
left() { echo $((minutes * 60 - (SECONDS - begin))); }
some() { # at most so many seconds of each 20 minutes, of those that are left but for $2 that come after
    local share=$(($1 * minutes / 20)) most=$(($(left) - 15 - ${2:-0} * minutes / 20))
    [ "$most" -gt 5 ] || most=5
    echo $((most < share ? most : share))
}

export LAZULI_CACHE_DIR=$work/cache
said=''
"$bin/bench_gpu" --rows=none >"$work/device" 2>"$work/why"
case $? in
0) device=$(sed -n 's/.*"device":"\([^"]*\)".*/\1/p' "$work/device") ;;
*) device='' ;;
esac
if [ -n "$device" ]; then
    echo "gpu.sh: on $device"
    timeout "$(some 420)" "$bin/bench_gpu" --scale="$scale" --seconds="$seconds" --out="$work/rows.json"
    LAZULI_FUSE=0 timeout "$(some 60)" "$bin/bench_gpu" --rows=replay --scale="$scale" --out="$work/replay.json" &&
        grep replay "$work/replay.json" >"$work/row" && { grep -v '"replay' "$work/rows.json" >"$work/others"; \
        cat "$work/others" "$work/row" >"$work/rows.json"; }
    LAZULI_FAST_MATH=1 timeout "$(some 60)" "$bin/bench_gpu" --rows='fast math' --scale="$scale" --seconds="$seconds" \
        --out="$work/rows.json"
    python3 "$here/gpu/peers.py" --out="$work/peers.json" --scale="$scale" --until="$(some 300)"
    if [ $tests = 1 ]; then
        limit=$(some 700 120) # test_frontend, the last of them, has a few hundred programs for NVRTC
        LAZULI_FUZZ_PROGRAMS=100 timeout "$limit" bash "$here/../tests/gpu/run.sh" "$bin" kernels on_cuda semantics \
            no_graphs devices calls training examples frontend >"$work/tests" 2>&1
        status=$?
        tail -n 40 "$work/tests"
        part=$(grep '^== ' "$work/tests" | tail -n 1 | cut -c4-)
        case $status in
        0) said='The tests on it passed.' ;;
        124) said="The tests on it were in part '$part' after $limit s, where they were ended$(
            grep -q '^\[  FAILED  \]' "$work/tests" && echo '; some had failed'
        )." ;;
        *) said="The tests on it ended with $status." ;;
        esac
        if command -v compute-sanitizer >/dev/null; then
            timeout "$(some 180)" bash "$here/../tests/gpu/run.sh" "$bin" sanitizer >"$work/sanitizer" 2>&1
            status=$?
            tail -n 5 "$work/sanitizer"
            [ $status = 0 ] && said+=' compute-sanitizer found nothing.' || said+=" compute-sanitizer ended with $status."
        else
            said+=' compute-sanitizer was not there.'
        fi
    fi
else
    echo "gpu.sh: there is no GPU: $(tail -n 1 "$work/why")"
    lib=$(dirname "$bin")/lib
    export LAZULI_CUDA_DRIVER=${LAZULI_CUDA_DRIVER:-$lib/liblazuli_fake_cuda.so}
    export LAZULI_CUBLASLT=${LAZULI_CUBLASLT:-$lib/liblazuli_fake_cublaslt.so}
    name=${name:-no-gpu}
    timeout "$(some 1100)" "$bin/bench_gpu" --count --scale="$([ "$scale" = 1 ] && echo 64 || echo "$scale")" --out="$work/counts.json" ||
        exit 1
    LAZULI_FAST_MATH=1 timeout "$(some 300)" "$bin/bench_gpu" --count --rows='fast math' --scale=256 --out="$work/counts.json"
    LAZULI_FAKE_CUDA_THREADS=1 LAZULI_FUSE=0 timeout "$(some 60)" "$bin/bench_gpu" --count --rows=replay --scale=1024 --out="$work/replay.json" &&
        grep '"replay' "$work/replay.json" >"$work/row" && { grep -v '"replay' "$work/counts.json" >"$work/others"; \
        cat "$work/others" "$work/row" >"$work/counts.json"; }
fi
[ -n "$name" ] || name=$(tr -cs 'a-z0-9\n' - <<<"${device,,}" | sed 's/^-*//; s/-*$//')
version=$(cat "$here/../VERSION" 2>/dev/null || git -C "$root" describe --always --dirty 2>/dev/null)
python3 "$here/gpu/report.py" "$work" --out="$here/results/$name.md" --version="$version" --tests="$said"
echo "gpu.sh: $((SECONDS - begin)) s"
