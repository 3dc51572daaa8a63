#!/usr/bin/env python3
"""The table of a run of all benches (bench/run.sh): medians over the rounds with their range, fractions of ceilings, and
how many times as long each peer takes; geometric means by group against the best peer of each row. Prints it, and writes
it to bench/results/<date>-<machine>.md.

    python3 bench/report.py build/bench/results
"""
import argparse
import collections
import datetime
import json
import math
import pathlib
import re
import statistics
import subprocess

import plots
from runs import machine, row_name, runs_of, seconds_of, sort_key, text_of

# Rows of LibTorch that have another name than ours.
SAME = {"gelu": "gelu_erf", "softmax": "softmax_rows", "sum_axis0": "sum_axis/0", "sum_axis1": "sum_axis/1",
        "log_softmax": "log_softmax_rows", "layer_norm": "layer_norm_rows"}
PEER_ROWS = {"torch_eager/": "torch", "torch_": "torch", "eigen_": "eigen"}
# Contenders of one row (bench/support/compete.h): counters in GFLOP/s, beside ours, which is the first that is there.
OURS = ("reproducible", "lazuli")
CONTENDERS = {"openblas": "openblas", "openblas_product": "openblas", "onednn": "onednn", "torch": "torch"}
# Columns, in this order; one for each that was there.
PEERS = ("torch", "torch.compile", "jax", "mlx", "drjit", "onnxruntime", "numpy", "openblas", "onednn", "eigen")
FRACTIONS = ("of_read", "of_ceiling", "of_peak")
# What a row is counted with: the first that matches "bench/row".
GROUPS = (("training", r"training/|optimizers/|compiled/training"),
          ("products", r"matmul/|products/(?!gpt2)"),
          ("programs", r"programs/|program_files/|products/gpt2|overhead/|autograd/|compiled/|cold_start/"),
          ("library", r"library/(?!argmax|amax|flip|group_norm|of_rows|channels_last|pad|power)|files/"),
          ("random", r"random/"),
          ("layout", r"joins/|/cat|/stack|/transpose|/roll|/flip|/channels_last|/pad"),
          ("rows", r"softmax|layer_norm|group_norm|of_rows/var"),
          ("reductions", r"/sum_|library/(argmax|amax|of_rows)"),
          ("elementwise", r"memory_bound/|elementwise/|library/power"))
# What the other way of our own is, by bench, where it stands in `ratio`: a pattern of rows, and what they say.
OTHER_WAYS = (("fast_math", r"/65536$", "without LAZULI_FAST_MATH=1, in cache"),
              ("fast_math", r"/16777216$", "without LAZULI_FAST_MATH=1, in memory"),
              ("resized", r"", "Programs of the passes alone, beside those from templates: runs of 256 lengths"),
              ("cold_start", r"/from_file$", "first calls: kernels from the disk cache, beside lz::load_program"),
              ("cold_start", r"/from_file_by", "first calls: kernels from the disk cache, beside liblazuli-run.so"),
              ("program_files", r"/load_program$", "calls of the compiled function, beside its file by lz::load_program"),
              ("program_files", r"/liblazuli-run$", "calls by lz::load_program, beside liblazuli-run.so"),
              ("matmul", r"^matmul_reproducible", "without LAZULI_REPRODUCIBLE=1"))
NO_PEERS = ("devices", "exercises") # their ratios are of two ways of our own


class Row:
    def __init__(self):
        self.seconds, self.fractions, self.other_way, self.copies = [], [], [], []
        self.peers = collections.defaultdict(list) # how many times as long as ours, one number a round

    def best(self):
        """Of the best peer of this row."""
        return min((statistics.median(ratios) for ratios in self.peers.values()), default=None)


def peer_of(name):
    """Which row of ours a row of a peer's is beside, or nothing."""
    for prefix, peer in PEER_ROWS.items():
        if name.startswith(prefix):
            rest = name[len(prefix):]
            return SAME.get(rest, rest), peer
    return None


def read(folder):
    """(bench, row) -> Row. A peer is compared with ours of the same round, timed as it is: one run after the other."""
    rows, ours, alone, theirs = collections.defaultdict(Row), {}, {}, []
    for path in sorted(folder.glob("*.json")):
        bench, number = path.name.split(".")[:2]
        for run in runs_of(path):
            name, seconds = row_name(run["name"]), seconds_of(run)
            if "peer" in run: # bench/peers/python.py
                theirs.append((run["bench"], name, number, run["peer"], seconds, alone))
                continue
            bench_name = bench.removeprefix("bench_")
            if peer := peer_of(name):
                theirs.append((bench_name, peer[0], number, peer[1], seconds, ours))
                continue
            row = rows[bench_name, name]
            row.seconds.append(seconds)
            ours[bench_name, name, number] = seconds
            alone[bench_name, name, number] = run["alone_ms"] * 1e-3 if "alone_ms" in run else seconds
            row.fractions += [run[key] for key in FRACTIONS if key in run][:1]
            row.copies += [run["copies"]] if "copies" in run else []
            first = next((key for key in OURS if key in run), None)
            for key, peer in CONTENDERS.items():
                if first and key in run:
                    row.peers[peer].append(run[first] / run[key])
            if "torch_ms" in run:
                row.peers["torch"].append(run["ratio"])
            elif "ratio" in run and (not first or first == "reproducible" or bench_name in NO_PEERS):
                row.other_way.append(run["ratio"])
    for bench, name, number, peer, seconds, of_ours in theirs:
        if (bench, name, number) in of_ours:
            rows[bench, name].peers[peer].append(seconds / of_ours[bench, name, number])
    return {key: rows[key] for key in sorted(rows, key=lambda key: sort_key(*key))}


def group_of(bench, name):
    return next((group for group, pattern in GROUPS if re.search(pattern, f"{bench}/{name}")), "")


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def table(rows):
    peers = [peer for peer in PEERS if any(peer in row.peers for row in rows.values())]
    lines = ["| bench | what | median | rounds | of its ceiling | " + "".join(f"{peer} | " for peer in peers)
             + "best peer | other way |", "|---|---|---|---|---|" + "---|" * (len(peers) + 2)]
    for (bench, name), row in rows.items():
        if bench == "joins":
            continue
        cells = [bench, name, text_of(statistics.median(row.seconds)),
                 f"{text_of(min(row.seconds))} to {text_of(max(row.seconds))}",
                 f"{statistics.median(row.fractions):.2f}" if row.fractions else ""]
        cells += [f"{statistics.median(row.peers[peer]):.2f}" if peer in row.peers else "" for peer in peers]
        cells.append("" if row.best() is None else f"{row.best():.2f}")
        cells.append(f"{statistics.median(row.other_way):.2f}" if row.other_way else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def joins(rows):
    """Families of rows that differ in the number of parts only: too many to read one by one."""
    families = collections.defaultdict(list)
    for (bench, name), row in rows.items():
        if bench == "joins":
            families[name.rsplit("/", 1)[0].replace("_", " ")].append(row)
    if not families:
        return []

    def range_of(values):
        values = sorted(values)
        return f"{values[0]:.2f}, {statistics.median(values):.2f}, {values[-1]:.2f}" if values else ""

    lines = ["## Joins, by family: smallest, median, largest of 2 to 1000 parts", "",
             "| what | time, in copies of as many bytes | LibTorch takes so many times as long |", "|---|---|---|"]
    for family, members in families.items():
        copies = [statistics.median(row.copies) for row in members if row.copies]
        ratios = [row.best() for row in members if row.peers]
        lines.append(f"| {family} | {range_of(copies)} | {range_of(ratios)} |")
    return lines + [""]


def means(rows):
    """One number a group, and over all: rows that have a peer. Joins count as one row a family."""
    groups, families = collections.defaultdict(list), collections.defaultdict(list)
    for (bench, name), row in rows.items():
        if row.best() is None or bench in NO_PEERS:
            continue
        if bench == "joins":
            families[name.rsplit("/", 1)[0]].append(row.best())
        else:
            groups[group_of(bench, name)].append((row.best(), name))
    groups["layout"] += [(geometric_mean(ratios), family) for family, ratios in families.items()]
    lines = ["## Beside the best peer of each row", "", "| group | rows | geometric mean | under 1 | lowest |",
             "|---|---|---|---|---|"]
    every = []
    for group in [group for group, _ in reversed(GROUPS)]:
        if not groups[group]:
            continue
        ratios = [ratio for ratio, _ in groups[group]]
        every += ratios
        lowest = min(groups[group])
        lines.append(f"| {group} | {len(ratios)} | {geometric_mean(ratios):.2f} | {sum(r < 1 for r in ratios)} "
                     f"| {lowest[1]} {lowest[0]:.2f} |")
    if every:
        lines.append(f"| **all** | {len(every)} | **{geometric_mean(every):.2f}** | {sum(r < 1 for r in every)} | |")
    return lines + [""]


def other_ways(rows):
    """One line for each way of our own that is beside another."""
    lines = ["## Beside another way of our own", "",
             "How many times as long the other way takes: above 1, the row's own way is faster.", "",
             "| other way | rows | geometric mean | lowest | highest |", "|---|---|---|---|---|"]
    for bench, pattern, what in OTHER_WAYS:
        found = sorted((statistics.median(row.other_way), name) for (at, name), row in rows.items()
                       if at == bench and row.other_way and re.search(pattern, name))
        if found:
            mean = geometric_mean([ratio for ratio, _ in found])
            ends = [f"{name} {ratio:.2f}" for ratio, name in (found[0], found[-1])]
            lines.append(f"| {what} | {len(found)} | {mean:.2f} | {ends[0]} | {ends[1]} |")
    return lines + [""] if len(lines) > 6 else []


def failures(folder):
    lines = (folder / "failed.txt").read_text().splitlines() if (folder / "failed.txt").exists() else []
    for path in sorted(folder.glob("*.json")):
        text = path.read_text()
        for run in json.loads(text)["benchmarks"] if text.strip() else []:
            if run.get("error_occurred"):
                lines.append(f"{path.name.split('.')[0]}: {row_name(run['name'])}: {run['error_message']}")
    lines = list(dict.fromkeys(lines))
    return ["## What failed or was left out", "", *(f"- {line}" for line in lines), ""] if lines else []


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ""


def vectors():
    """What of the instruction sets a reader has to know: a processor's name may not say it."""
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "").split()
    return ", ".join(name for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")
                     if name in flags)


def versions(peers, folder):
    """`peers`: those that have rows; a module may be installed and not load."""
    found = [f"Lazuli {first_line('git', 'describe', '--always', '--dirty')}", first_line("c++", "--version")]
    for package in ("libopenblas-dev", "libeigen3-dev", "libtbb-dev"):
        if version := first_line("dpkg-query", "-W", "-f", "${Version}", package):
            found.append(f"{package} {version}")
    contexts = [json.loads(text)["context"] for path in sorted(folder.glob("bench_matmul.*.json"))
                if (text := path.read_text()).strip()]
    found += sorted({f"oneDNN {context['oneDNN']}" for context in contexts if "oneDNN" in context})
    import importlib.metadata
    for package in [name for name in ("torch", "jax", "mlx", "drjit", "onnxruntime", "numpy") if name in peers]:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(v for v in found if v)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--name", default="")
    parser.add_argument("--command", default="")
    parser.add_argument("--quick", action="store_true", help="print the table, and write no file")
    options = parser.parse_args()
    model, cores, memory = machine()
    rows = read(options.folder)
    rounds = max((len(row.seconds) for row in rows.values()), default=0)
    said = versions({peer for row in rows.values() for peer in row.peers}, options.folder)
    dirty = " (a tree with changes that are not committed)" if "-dirty" in said.split(",")[0] else ""
    lines = [f"# {datetime.date.today()}, {model} ({vectors()}), {cores} cores, {memory} GiB{dirty}", "", f"{said}.", "",
             f"    {options.command.strip()}", "",
             f"Medians of {rounds} rounds in which all benches and peers took turns. A peer's column says how many times "
             "as long it takes as Lazuli: above 1, Lazuli is faster. *Other way*: the same work of our own another way.",
             ""]
    ceilings = sorted(options.folder.glob("bench_ceilings.*.txt"))
    lines += means(rows) + other_ways(rows)
    if ceilings:
        lines += ["## Ceilings", "", *("    " + line for line in ceilings[-1].read_text().splitlines()), ""]
    lines += failures(options.folder) + ["## All rows", "", *table(rows), ""] + joins(rows)
    text = "\n".join(lines)
    print(text)
    if options.quick:
        return
    name = options.name or f"{re.sub(r'[^a-z0-9]+', '-', model.lower()).strip('-')}-{cores}cores"
    path = pathlib.Path(__file__).parent / "results" / f"{datetime.date.today()}-{name}.md"
    if any(bench == "scaling" for bench, _ in rows):
        plots.draw(options.folder, path.with_suffix(".svg"))
        before = "## Ceilings" if ceilings else "## All rows"
        picture = f"![how time grows with size, graph and threads]({path.stem}.svg)"
        text = text.replace(before, f"{picture}\n\n{before}", 1)
    path.write_text(text)
    print(f"written to {path.relative_to(pathlib.Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
