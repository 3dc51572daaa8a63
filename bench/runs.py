"""Rows of Google Benchmark's files, and what a table of them says: names, times, the machine."""
import json
import os
import platform
import re

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def row_name(name):
    return re.sub(r"/(manual_time|real_time|process_time|iterations:\d+|min_warmup_time:[\d.]+|min_time:[\d.]+)", "",
                  name)


def sort_key(bench, name):
    """Numbers by their size."""
    return bench, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def runs_of(path):
    """The rows of one round of one bench, those that failed left out."""
    text = path.read_text()
    if not text.strip():
        return []
    return [run for run in json.loads(text)["benchmarks"]
            if run.get("run_type", "iteration") == "iteration" and not run.get("error_occurred")]


def seconds_of(run):
    return run["real_time"] * UNITS[run["time_unit"]]


def text_of(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.machine())
    memory = next((int(line.split()[1]) >> 20 for line in open("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return model, len(os.sched_getaffinity(0)), memory
