#!/usr/bin/env bash
# Installs the peers that it can, builds, runs all benches and the peers in turn, several rounds of each, and writes one
# table of times, ratios and fractions of ceilings, with versions and the machine, to bench/results/<date>-<machine>.md,
# and plots beside it. Three rounds take a quarter of an hour on two cores, what is built before not counted.
#
#   bash bench/run.sh               five rounds
#   bash bench/run.sh --rounds=N    so many
#   bash bench/run.sh --quick       one short round, to see that everything runs: its numbers mean nothing; no file is written
#   bash bench/run.sh --no-install  with the peers that are there
#   bash bench/run.sh --name=NAME   of the machine, instead of its processor's
#   bash bench/run.sh --only=A,B    bench_A and bench_B alone, and what Python's peers have for them
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=5 min_time=0.1 install=1 name="" quick="" only=""
arguments=$*
for option in "$@"; do
    case "$option" in
    --quick) rounds=1 min_time=0.01 quick=--quick ;;
    --no-install) install=0 ;;
    --name=*) name=${option#--name=} ;;
    --rounds=*) rounds=${option#--rounds=} ;;
    --only=*) only=${option#--only=} ;;
    --help)
        sed -n '2,/^set/s/^# \?//p' "$0"
        exit 0
        ;;
    *)
        echo "run.sh: unknown argument '$option'; it takes --quick, --rounds=N, --no-install, --name=NAME, --only=A,B and --help." >&2
        exit 2
        ;;
    esac
done
benches=()
for source in bench/rows/*.cpp bench/internals/*.cpp; do
    bench=$(basename "$source" .cpp)
    [[ -n "$only" && ",$only," != *",$bench,"* ]] || benches+=("bench_$bench")
done
[ ${#benches[@]} -gt 0 ] || {
    echo "run.sh: there is no bench of '$only'" >&2
    exit 2
}
out=build/bench/results
rm -rf "$out"
mkdir -p "$out"
skip() { # is a line of the table, too
    echo "run.sh: skipped: $*" >&2
    echo "$*" >>"$out/failed.txt"
}

# --- peers
peers=$PWD/build/peers # a Python environment of its own
python=python3
torch_of() { "$1" -c 'import torch, os; print(os.path.dirname(torch.__file__))' 2>/dev/null; }
[ -x "$peers/bin/python" ] && ! torch_of python3 >/dev/null && python=$peers/bin/python
if [ $install = 1 ]; then
    bash cmake/install-deps.sh --peers || skip "OpenBLAS, oneDNN and Eigen could not be installed; those that are there are used"
    if ! torch_of "$python" >/dev/null; then
        if python3 -m venv "$peers" && "$peers/bin/python" -m pip install --quiet numpy torch; then
            python=$peers/bin/python
        else
            skip "LibTorch could not be installed"
        fi
    fi
fi
if [ $install = 1 ] && [ "$python" = "$peers/bin/python" ]; then # one that fails keeps no other from it
    for module in jax 'mlx[cpu]' drjit onnx onnxruntime; do
        "$python" -m pip install --quiet "$module" || skip "$module could not be installed"
    done
fi
# A newer oneDNN than Debian's, with the libraries that it brings: 2 GB, in a folder of its own.
onednn=$PWD/build/onednn
if [ $install = 1 ] && [ ! -e "$onednn/installed" ]; then
    if python3 -m venv "$onednn" && "$onednn/bin/python" -m pip install --quiet onednn onednn-devel; then
        touch "$onednn/installed"
    else
        skip "a newer oneDNN could not be installed; Debian's is taken"
    fi
fi
torch=$(torch_of "$python" || true)
[ -n "$torch" ] || skip "LibTorch is no peer: Python finds no module torch"

# --- build
configure() {
    cmake --preset release -B build/bench -DLAZULI_BUILD_BENCH=ON -DLAZULI_BUILD_TESTS=OFF -DLAZULI_WERROR=ON -DLAZULI_BUILD_EXAMPLES=OFF \
        ${torch:+-DCMAKE_PREFIX_PATH="$torch"} "$@" | grep -E "peer|left out" || true
}
if [ -e "$onednn/installed" ]; then
    configure -DLAZULI_ONEDNN="$onednn/lib/libdnnl.so"
    if ! cmake --build build/bench --target companion_onednn ||
        ! echo "i8 64" | build/bench/bin/companion_onednn 2>/dev/null | grep -q '^[0-9]'; then
        skip "a newer oneDNN is installed and does not run here; Debian's is taken"
        configure -ULAZULI_ONEDNN
    fi
else
    configure -ULAZULI_ONEDNN
fi
cmake --build build/bench --target "${benches[@]}"

# --- rounds: each bench once, then all again, so that an hour in which the machine is slow meets all of them
export LAZULI_CACHE_DIR=off OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0 PYTHONDONTWRITEBYTECODE=1
# OpenBLAS's threads would spin for 2^26 cycles behind each of its turns, on a core that whoever is next needs.
export OPENBLAS_THREAD_TIMEOUT=4
# Dr.Jit's code is LLVM's, as ours is: of the library that the build found.
llvm=$(sed -n 's|^LLVM_DIR:PATH=\(.*\)/cmake/llvm$|\1|p' build/bench/CMakeCache.txt)
for library in "$llvm"/libLLVM*.so*; do
    [ ! -e "$library" ] || [ -n "${DRJIT_LIBLLVM_PATH:-}" ] || export DRJIT_LIBLLVM_PATH=$library
done
# Python's peers are one process, which is asked for the rows of each bench after our own: what they compile stays.
coproc PYTHON { exec "$python" bench/peers/python.py --min-time="$min_time" 2>"$out/python.log"; }
python_in=${PYTHON[1]} python_out=${PYTHON[0]}
python_pid=$PYTHON_PID
trap 'kill $python_pid 2>/dev/null || true' EXIT
python_turn() { # bench, round
    [ -n "$python_pid" ] || return 0
    if ! echo "$1 $2 $out/python_$1.$2.json" >&"$python_in" 2>/dev/null || ! read -r -t 900 _ <&"$python_out"; then
        skip "Python's peers fail: $(tail -n1 "$out/python.log")"
        python_pid=""
    fi
}
for round in $(seq "$rounds"); do
    for bench in "${benches[@]}"; do
        time=$min_time
        case "$bench" in
        # Its rows are ratios of two programs that take turns, and there are four hundred of them: one round.
        bench_joins) [ "$round" = 1 ] && time=0.01 || continue ;;
        # Plots, what is the same every time (virtual clocks), and what is a ratio of many runs that take turns.
        bench_scaling | bench_devices | bench_exercises | bench_longest_program | bench_resized) [ "$round" = 1 ] || continue ;;
        esac
        echo "round $round of $rounds: $bench"
        if [ "$bench" = bench_ceilings ]; then
            build/bench/bin/$bench >"$out/$bench.$round.txt" ||
                skip "bench_ceilings: two ways of measuring a ceiling disagree in round $round"
            continue
        fi
        file=$out/$bench.$round.json
        timeout 900 build/bench/bin/$bench --benchmark_min_time="$time" --benchmark_enable_random_interleaving=true \
            --benchmark_out="$file" --benchmark_out_format=json >/dev/null 2>"$file.log" || {
            skip "$bench fails: $(tail -n1 "$file.log")"
            rm -f "$file"
        }
        python_turn "${bench#bench_}" "$round"
    done
done
grep -h '^left out: ' "$out"/*.log | sort -u >>"$out/failed.txt" || true
if [ -s "$out/python.log" ]; then
    grep '^python.py: ' "$out/python.log" | sort -u >>"$out/failed.txt" || true
fi

# --- the table and the plots
"$python" bench/report.py "$out" --name "$name" --command "bash bench/run.sh $arguments" $quick
