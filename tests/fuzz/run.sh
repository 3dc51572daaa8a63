#!/usr/bin/env bash
# One libFuzzer target over its seeds for a moment. A target whose code is not instrumented finds nothing, keeps
# one input and passes all the same: so what it found is looked at.
#
#   run.sh BINARY SECONDS WORK SEEDS    WORK: a folder for inputs that are new, and for those that fail
#
# LAZULI_FUZZ_RUNS=1000000: so many inputs instead, however long they take (CONTRIBUTING.md).
set -euo pipefail
binary=$1 seconds=$2 work=$3 seeds=$4
name=$(basename "$binary")
mkdir -p "$work"
log=$work.log
limit=(-max_total_time="$seconds")
[ -z "${LAZULI_FUZZ_RUNS:-}" ] || limit=(-runs="$LAZULI_FUZZ_RUNS")
if ! "$binary" "${limit[@]}" -seed=1 -print_final_stats=0 -timeout=20 -rss_limit_mb=2048 \
    -artifact_prefix="$work-" "$work" "$seeds" >"$log" 2>&1; then
    tail -n 60 "$log"
    exit 1
fi
last=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -n 1)
echo "$name: $last"
coverage=$(sed -E 's/.* cov: ([0-9]+).*/\1/' <<<"$last")
kept=$(sed -E 's/.* corp: ([0-9]+).*/\1/' <<<"$last")
count=$(find "$seeds" -type f | wc -l)
if ((count == 0 || coverage < 50 || kept <= count / 2)); then
    echo "$name is blind: of $count seeds it kept $kept inputs, and it saw $coverage places of the code." >&2
    exit 1
fi
