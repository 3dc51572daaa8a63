#!/usr/bin/env python3
"""The table of a run of all benches (bench/run.sh): medians over the rounds, with their range, ratios to peers and
fractions of ceilings. Prints it, and writes it to bench/results/<machine>.md.

    python3 bench/report.py build/bench/results
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess

# Rows of peers that have another name than ours.
SAME = {"torch_eager/gelu": "gelu_erf", "torch_eager/softmax": "softmax_rows", "torch_eager/sum_axis0": "sum_axis/0",
        "torch_eager/sum_axis1": "sum_axis/1", "torch_eager/log_softmax": "log_softmax_rows",
        "torch_eager/layer_norm": "layer_norm_rows"}
PEERS = ("torch_eager/", "torch_", "eigen_")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
FRACTIONS = ("of_ceiling", "of_peak")


def row_name(name):
    return re.sub(r"/(manual_time|real_time|process_time|iterations:\d+|min_warmup_time:[\d.]+)", "", name)


def read(folder):
    """Each row's seconds and counters, one value a round, by bench."""
    benches = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for path in sorted(folder.glob("*.json")):
        text = path.read_text()
        if not text.strip():
            continue
        for run in json.loads(text)["benchmarks"]:
            if run.get("run_type", "iteration") != "iteration" or run.get("error_occurred"):
                continue
            row = benches[path.name.split(".")[0]][row_name(run["name"])]
            row["seconds"].append(run["real_time"] * UNITS[run["time_unit"]])
            for key in ("ratio", "torch_ms", *FRACTIONS):
                if key in run:
                    row[key].append(run[key])
    return benches


def text_of(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def peer_of(name):
    """Which row of ours a row of a peer's is beside, or nothing."""
    for prefix in PEERS:
        if name.startswith(prefix):
            return SAME.get(name, name[len(prefix):]), prefix.strip("_/").split("_")[0]
    return None


def table(rows):
    beside = collections.defaultdict(dict)
    for name, row in rows.items():
        if peer := peer_of(name):
            beside[peer[0]][peer[1]] = statistics.median(row["seconds"])
    lines = ["| what | median | rounds | of its ceiling | peer takes so many times as long |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        if peer_of(name):
            continue
        median = statistics.median(row["seconds"])
        fraction = next((f"{statistics.median(row[f]):.2f}" for f in FRACTIONS if row[f]), "")
        ratios = [f"{peer} {theirs / median:.2f}" for peer, theirs in beside[name].items()]
        if row["ratio"]:
            ratios.append(("torch " if row["torch_ms"] else "") + f"{statistics.median(row['ratio']):.2f}")
        lines.append(f"| {name} | {text_of(median)} | {text_of(min(row['seconds']))} to {text_of(max(row['seconds']))} "
                     f"| {fraction} | {', '.join(ratios)} |")
    return lines


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ""


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.machine())
    memory = next((int(line.split()[1]) >> 20 for line in open("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return model, len(os.sched_getaffinity(0)), memory


def versions():
    found = [f"Lazuli {first_line('git', 'describe', '--always', '--dirty')}", first_line("c++", "--version")]
    for package in ("libopenblas-dev", "libdnnl-dev", "libeigen3-dev", "libtbb-dev"):
        if version := first_line("dpkg-query", "-W", "-f", "${Version}", package):
            found.append(f"{package} {version}")
    try:
        import torch
        found.append(f"LibTorch {torch.__version__}")
    except ImportError:
        pass
    return ", ".join(v for v in found if v)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--name", default="")
    parser.add_argument("--command", default="")
    options = parser.parse_args()
    model, cores, memory = machine()
    benches = read(options.folder)
    rounds = max((len(row["seconds"]) for rows in benches.values() for row in rows.values()), default=0)
    lines = [f"# {datetime.date.today()}, {model}, {cores} cores, {memory} GiB", "", f"{versions()}.", "",
             f"    {options.command.strip()}", "",
             f"Medians of {rounds} rounds in which all benches took turns. A ratio above 1: Lazuli is faster.", ""]
    ceilings = sorted(options.folder.glob("bench_ceilings.*.txt"))
    if ceilings:
        lines += ["## Ceilings", "", *("    " + line for line in ceilings[-1].read_text().splitlines()), ""]
    for bench, rows in benches.items():
        lines += [f"## {bench}", "", *table(rows), ""]
    text = "\n".join(lines)
    print(text)
    name = options.name or f"{re.sub(r'[^a-z0-9]+', '-', model.lower()).strip('-')}-{cores}cores"
    path = pathlib.Path(__file__).parent / "results" / f"{name}.md"
    path.write_text(text)
    print(f"written to {path.relative_to(pathlib.Path(__file__).parent.parent)}")


main()
