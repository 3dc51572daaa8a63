#!/usr/bin/env python3
"""The table of bench/compare.sh: each row's time now as a part of what it was, of the best rounds and of the medians.
A row is slower where both say so by more than 3 %; the exit status is then 1.

    python3 bench/compare.py build/compare/results --old OLD --new NEW
    python3 bench/compare.py build/compare/results --slower bench_x --rounds N   # a filter for rows that look slower
"""
import argparse
import collections
import math
import pathlib
import re
import statistics
import sys

import runs

LIMIT = 1.03


def read(folder, rounds):
    """(bench, row) -> side -> seconds, one number a round."""
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(folder.glob("*.json")):
        bench, side, number = path.name.split(".")[:3]
        if rounds and int(number) > rounds:
            continue
        for run in runs.runs_of(path):
            rows[bench, run["name"]][side].append(runs.seconds_of(run))
    return {row: sides for row, sides in rows.items() if sides["old"] and sides["new"]}


def ratios(sides):
    return min(sides["new"]) / min(sides["old"]), statistics.median(sides["new"]) / statistics.median(sides["old"])


def slower(sides):
    return min(ratios(sides)) > LIMIT


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--old", default="old")
    parser.add_argument("--new", default="new")
    parser.add_argument("--command", default="")
    parser.add_argument("--slower", default="")
    parser.add_argument("--rounds", type=int, default=0)
    options = parser.parse_args()
    rows = read(options.folder, options.rounds)
    if options.slower:
        names = {re.sub(r"/(manual_time|real_time|process_time|iterations:\d+|min_warmup_time:[\d.]+|min_time:[\d.]+)",
                        "", name) for (bench, name), sides in rows.items() if bench == options.slower and slower(sides)}
        print("|".join(f"^{re.escape(name)}(/[a-z_]+(:.*)?)*$" for name in sorted(names)))
        return 0
    if not rows:
        print("compare.py: no row was run on both sides.", file=sys.stderr)
        return 2
    model, cores, memory = runs.machine()
    print(f"# {options.new} beside {options.old}: {model}, {cores} cores, {memory} GiB\n\n    {options.command.strip()}\n")
    print("Time now as a part of what it was: under 1, faster. Rounds of both took turns.\n")
    print("| bench | row | was | is | best | median | rounds | |\n|---|---|---|---|---|---|---|---|")
    found = []
    for (bench, name), sides in sorted(rows.items(), key=lambda row: runs.sort_key(*row[0])):
        best, median = ratios(sides)
        if slower(sides):
            found.append(name)
        print(f"| {bench.removeprefix('bench_')} | {runs.row_name(name)} | {runs.text_of(min(sides['old']))} | "
              f"{runs.text_of(min(sides['new']))} | {best:.3f} | {median:.3f} | {len(sides['new'])} | "
              f"{'slower' if slower(sides) else ''} |")
    mean = math.exp(statistics.fmean(math.log(ratios(sides)[0]) for sides in rows.values()))
    print(f"\n{len(rows)} rows, geometric mean of the best rounds {mean:.3f}; "
          f"{len(found)} slower by more than 3 %{': ' + ', '.join(map(runs.row_name, found)) if found else ''}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
