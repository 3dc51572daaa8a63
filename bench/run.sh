#!/usr/bin/env bash
# Installs the peers that it can, builds, runs all benches in turn, several rounds of each, and writes one table of times,
# ratios and fractions of ceilings, with versions and the machine, to bench/results/<machine>.md.
#
#   bash bench/run.sh               five rounds
#   bash bench/run.sh --rounds=N    so many
#   bash bench/run.sh --quick       one short round, to see that everything runs: its numbers mean nothing
#   bash bench/run.sh --no-install  with the peers that are there
#   bash bench/run.sh --name=NAME   of the machine, instead of its processor's
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=5 min_time=0.2 install=1 name=""
for option in "$@"; do
    case "$option" in
    --quick) rounds=1 min_time=0.01 ;;
    --no-install) install=0 ;;
    --name=*) name=${option#--name=} ;;
    --rounds=*) rounds=${option#--rounds=} ;;
    *)
        echo "run.sh: unknown argument '$option'; it takes --quick, --rounds=N, --no-install and --name=NAME." >&2
        exit 2
        ;;
    esac
done
skip() { echo "run.sh: skipped: $*" >&2; }

# --- peers
peers=$PWD/build/peers # a Python environment of its own
python=python3
torch_of() { "$1" -c 'import torch, os; print(os.path.dirname(torch.__file__))' 2>/dev/null; }
[ -x "$peers/bin/python" ] && ! torch_of python3 >/dev/null && python=$peers/bin/python
if [ $install = 1 ]; then
    bash cmake/install-deps.sh --peers || skip "OpenBLAS, oneDNN and Eigen could not be installed; those that are there are used"
    if ! torch_of "$python" >/dev/null; then
        if python3 -m venv "$peers" && "$peers/bin/python" -m pip install --quiet torch; then
            python=$peers/bin/python
        else
            skip "LibTorch could not be installed"
        fi
    fi
fi
torch=$(torch_of "$python" || true)
[ -n "$torch" ] || skip "LibTorch is no peer: Python finds no module torch"

# --- build
cmake --preset release -B build/bench -DLAZULI_BUILD_BENCH=ON -DLAZULI_BUILD_TESTS=OFF -DLAZULI_BUILD_EXAMPLES=OFF \
    ${torch:+-DCMAKE_PREFIX_PATH="$torch"} | grep -E "peer|left out" || true
benches=()
for source in bench/rows/*.cpp bench/internals/*.cpp; do
    [ "$source" = bench/gpu.cpp ] && continue # bench/gpu.sh
    benches+=("bench_$(basename "$source" .cpp)")
done
cmake --build build/bench --target "${benches[@]}"

# --- rounds: each bench once, then all again, so that an hour in which the machine is slow meets all of them
out=build/bench/results
rm -rf "$out"
mkdir -p "$out"
export LAZULI_CACHE_DIR=off OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0
for round in $(seq "$rounds"); do
    for bench in "${benches[@]}"; do
        # Its rows are ratios of two programs that take turns, and there are four hundred of them: one round.
        [ "$bench" = bench_joins ] && [ "$round" != 1 ] && continue
        echo "round $round of $rounds: $bench"
        file=$out/$bench.$round.json
        [ "$bench" = bench_ceilings ] && file=$out/$bench.$round.txt
        case "$bench" in
        bench_ceilings) build/bench/bin/$bench >"$file" || skip "two ways of measuring a ceiling disagree, as the table says" ;;
        *) build/bench/bin/$bench --benchmark_min_time="$min_time" --benchmark_enable_random_interleaving=true \
            --benchmark_out="$file" --benchmark_out_format=json >/dev/null ;;
        esac || {
            skip "$bench fails"
            rm -f "$file"
        }
    done
done

# --- the table
"$python" bench/report.py "$out" --name "$name" --command "bash bench/run.sh $*"
