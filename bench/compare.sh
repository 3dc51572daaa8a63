#!/usr/bin/env bash
# Every row of the benches before and after: builds both commits in work trees of their own (build/compare/), runs their
# benches in turn, and prints each row's time as a part of what it was. A row that is slower by more than 3 % is run
# again, in turn with its old self; if it still is, it is marked, and the exit status is 1.
#
#   bash bench/compare.sh OLD [NEW]    two commits; NEW is HEAD if it is not said
#   ... --rounds=N                     of each bench, 3 if it is not said, and as many again of rows that look slower
#   ... --only=memory_bound,matmul     of these benches
#   ... --filter=REGEX                 of these rows
#   ... --build-only                   and nothing is run
#   ... --quick                        one short round, to see that everything runs: its numbers mean nothing
#
# OLD is built with NEW's benches where they compile against it, so that a row is the same program on both sides; a bench
# that does not compile there is OLD's own, and rows of equal names are compared. Peers are left out. LAZULI_BUILD_LOCK
# names a file that is locked while something is built.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=3 min_time=0.05 only="" filter="" run=1 commits=()
for option in "$@"; do
    case "$option" in
    --rounds=*) rounds=${option#--rounds=} ;;
    --only=*) only=${option#--only=} ;;
    --filter=*) filter=${option#--filter=} ;;
    --build-only) run=0 ;;
    --quick) rounds=1 min_time=0.01 ;;
    --help)
        sed -n '2,/^set/s/^# \?//p' "$0"
        exit 0
        ;;
    -*)
        echo "compare.sh: unknown option '$option'; it takes --rounds=N, --only=BENCHES, --filter=REGEX, --build-only, --quick and --help." >&2
        exit 2
        ;;
    *) commits+=("$option") ;;
    esac
done
[ ${#commits[@]} -ge 1 ] && [ ${#commits[@]} -le 2 ] || {
    echo "compare.sh: which commits? bash bench/compare.sh OLD [NEW]" >&2
    exit 2
}
old=$(git rev-parse --short=12 "${commits[0]}^{commit}")
new=$(git rev-parse --short=12 "${commits[1]:-HEAD}^{commit}")
folder=$PWD/build/compare
mkdir -p "$folder"
# The first argument is a function that builds: under the lock, if there is one.
locked() {
    if [ -z "${LAZULI_BUILD_LOCK:-}" ]; then
        "$@"
    else
        (flock 9 && "$@" 9>&-) 9>"$LAZULI_BUILD_LOCK"
    fi
}

# --- build: <commit>/bin/same has NEW's benches, <commit>/bin/own the commit's own, in the place of those that failed
# Rows that are neither alike in two commits (a driver of modelled GPUs) nor few (joins), and ratios, are left out.
benches_of() { find "$1/bench" -maxdepth 2 -name '*.cpp' | grep -vE '/(gpu|support|peers|companions)/|/gpu.cpp' | xargs -n1 basename -s .cpp |
    grep -vxE 'ceilings|joins|exercises|devices|cold_start|longest_program|resized' | sort; }
wanted() { [ -z "$only" ] || [[ ",$only," == *",$1,"* ]]; }
configure() { # with the flags of CI's release stage, whose objects ccache may have
    cmake --preset release -S "$1" -B "$1/build/release" -DLAZULI_BUILD_BENCH=ON -DLAZULI_BUILD_TESTS=OFF -DLAZULI_WERROR=ON \
        -DLAZULI_BUILD_EXAMPLES=OFF -DLAZULI_OPENBLAS= -DLAZULI_ONEDNN= -DLAZULI_TORCH_CPU= \
        -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON >"$1/configure.log" || {
        cat "$1/configure.log" >&2
        exit 1
    }
}
# Builds the benches named: one that does not compile keeps no other from it.
build_into() {
    local tree=$1 bin=$2 bench benches=()
    shift 2
    mkdir -p "$bin"
    local there
    there=$(cmake --build "$tree/build/release" --target help) # one that is no target would keep all others from it
    for bench in "$@"; do
        [ -e "$bin/bench_$bench" ] || ! wanted "$bench" || ! grep -q "^bench_$bench:" <<<"$there" || benches+=("bench_$bench")
    done
    [ ${#benches[@]} -gt 0 ] || return 0
    # A program of the other benches' sources may lie there still: where its build fails there is none.
    (cd "$tree/build/release" && mkdir -p bin && cd bin && rm -f "${benches[@]}")
    local status=0
    nice cmake --build "$tree/build/release" --target "${benches[@]}" -- -k 0 >"$bin/build.log" 2>&1 || status=$?
    [ $status -le 1 ] || { # 1: something does not compile; more: it was interrupted
        echo "compare.sh: the build of $tree was interrupted; what is built stays, the same command goes on" >&2
        exit 1
    }
    [ -e "$tree/build/release/lib/liblazuli.so" ] || {
        echo "compare.sh: the library of $tree does not build: $bin/build.log" >&2
        exit 1
    }
    for bench in "${benches[@]}"; do
        [ ! -e "$tree/build/release/bin/$bench" ] || cp "$tree/build/release/bin/$bench" "$bin/"
    done
}
prepare() {
    local commit=$1 tree=$folder/$1
    [ -e "$tree/.git" ] || git worktree add --quiet --detach "$tree" "$commit"
    if [ ! -e "$tree/own-$commit" ]; then # its own benches first, while they lie there
        git -C "$tree" reset --quiet --hard "$commit"
        git -C "$tree" clean -fdq bench
        configure "$tree"
        build_into "$tree" "$tree/bin/own" $(benches_of "$tree")
        [ -n "$only" ] || touch "$tree/own-$commit"
    fi
    if [ "$commit" != "$new" ]; then
        rm -rf "$tree/bench"
        git -C "$tree" checkout --quiet "$new" -- bench examples/gpt2.h
        configure "$tree"
        build_into "$tree" "$tree/bin/same-$new" $(benches_of "$tree")
    fi
}
locked prepare "$new"
locked prepare "$old"
[ $run = 1 ] || exit 0

# --- rounds: a bench of the one, then of the other, and the other way round the next time
out=$folder/results
rm -rf "$out"
mkdir -p "$out"
export LAZULI_CACHE_DIR=off PYTHONDONTWRITEBYTECODE=1
# What takes minutes and says little more than its neighbours.
slow='(cat|stack_columns)/.*(64|128|1000)|matmul_f32/(4096/4096/4096|2048)|matmul_reproducible|matmul_bf16/2048|gpt2_small/4|product/.*/2048|compile_from_disk|peak_memory|/threads|fresh'
pairs=()
for bench in $(benches_of "$folder/$new"); do
    wanted "$bench" || continue
    for theirs in "$folder/$old/bin/same-$new" "$folder/$old/bin/own"; do
        if [ -x "$theirs/bench_$bench" ] && [ -x "$folder/$new/bin/own/bench_$bench" ]; then
            pairs+=("$bench $theirs")
            [ "$theirs" != "$folder/$old/bin/own" ] || echo "compare.sh: bench_$bench of $new does not compile with $old, which runs its own" >&2
            continue 2
        fi
    done
    echo "compare.sh: left out: bench_$bench, which $old has not" >&2
done
[ ${#pairs[@]} -gt 0 ] || {
    echo "compare.sh: there is no bench that both have." >&2
    exit 2
}
one() { # side, program, file, filter
    timeout 300 "$2" --benchmark_min_time="$min_time" --benchmark_filter="$4" --benchmark_out="$3" \
        --benchmark_out_format=json >/dev/null 2>"$3.log" || echo "compare.sh: $1's $(basename "$2") fails: $3.log" >&2
}
turn() { # round, bench, folder of old, filter
    local sides="old new"
    [ $(($1 % 2)) = 0 ] || sides="new old"
    for side in $sides; do
        program=$3/bench_$2
        [ $side = old ] || program=$folder/$new/bin/own/bench_$2
        one $side "$program" "$out/bench_$2.$side.$1.json" "$4"
    done
}
for round in $(seq "$rounds"); do
    for pair in "${pairs[@]}"; do
        echo "round $round of $rounds: bench_${pair%% *}" >&2
        turn "$round" ${pair%% *} "${pair#* }" "${filter:--$slow}"
    done
done
# --- again, those that look slower
for round in $(seq $((rounds + 1)) $((2 * rounds))); do
    for pair in "${pairs[@]}"; do
        rows=$(python3 bench/compare.py "$out" --slower "bench_${pair%% *}" --rounds "$rounds")
        [ -z "$rows" ] || turn "$round" ${pair%% *} "${pair#* }" "$rows"
    done
done
python3 bench/compare.py "$out" --old "$old" --new "$new" --command "bash bench/compare.sh $*"
