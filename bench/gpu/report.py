#!/usr/bin/env python3
"""The table of bench/gpu.sh: what bench_gpu and the peers wrote, beside what each row has to reach. Prints it, and writes it
to bench/results/<device>.md.

    python3 report.py FOLDER --out=bench/results/nvidia-h200.md
"""
import argparse
import collections
import datetime
import json
import pathlib

# What an H200 has, for rows that were counted without one (NVIDIA's data sheet; 4.3 of 4.8 TB/s is what copies reach).
H200 = {"multiprocessors": 132, "clock": 1.755e9, "bandwidth": 4.3e12, "threads": 2048}
SLOTS_A_CLOCK = 4 * 32  # instructions of threads that an SM issues
BYTES_IN_FLIGHT = 40 << 10  # of an SM, by Little's law with 700 ns at that bandwidth


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")] if path.exists() else []


def text_of(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def verdict(row):
    if "error" in row:
        return "failed"
    if "limit" in row:
        return "yes" if row["seconds"] <= row["limit"] else "no"
    if "fraction" not in row:
        return ""
    return "yes" if row["fraction"] >= row["bar"] else "no"


def measured(rows, peers):
    """One line a row: of its ceiling, the bar, and how many times as long each peer takes."""
    beside = collections.defaultdict(dict)
    for p in peers:
        if "seconds" in p:
            beside[p["row"]][p["peer"]] = p["seconds"]
    names = sorted({p["peer"] for p in peers if "seconds" in p})
    lines = ["| row | seconds | of the ceiling | bar | reached | " + " | ".join(names + ["best peer"]) + " |",
             "|---|---|---|---|---|" + "---|" * (len(names) + 1)]
    for row in rows:
        if "row" not in row:
            continue
        if "error" in row:
            lines.append(f"| {row['row']} | failed: {row['error'][:200]} | | | | " + " | ".join("" for _ in names) + " | |")
            continue
        theirs = beside.get(row["row"], {})
        ratios = [f"{theirs[n] / row['seconds']:.2f}" if n in theirs else "" for n in names]
        best = f"{min(theirs.values()) / row['seconds']:.2f}" if theirs else ""
        fraction = f"{row['fraction']:.3f}" if "fraction" in row else ""
        bar = text_of(row["limit"]) if "limit" in row else f"{row['bar']:.2f}" if "fraction" in row else ""
        lines.append(f"| {row['row']} | {text_of(row['seconds'])} | {fraction} | {bar} | {verdict(row)} | "
                     + " | ".join(ratios + [best]) + " |")
    for row in rows:
        if "host" in row:
            recording = f" {text_of(row['record'])} for recording;" if row["record"] else ""
            lines += ["", f"The {row['row']}: {text_of(row['host'])} of the host's time for the launch;{recording} by hand "
                      f"{text_of(row['host_ceiling'])}. The bar is {text_of(row['host_bar'])}."]
    return lines


def counted(rows):
    """Without a device: what can be known, against what the bar needs on an H200."""
    lines = ["| row | instructions an element | issue slots that they take | that the bar leaves | registers | spilled "
             "| threads on an SM | KiB in flight on an SM (40 are needed) | enough |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if "instructions" not in row:
            continue
        product = row["row"].startswith("product")
        slots = (H200["multiprocessors"] * H200["clock"] * SLOTS_A_CLOCK * (row["bytes"] / row["elements"])
                 / (H200["bandwidth"] * row["bar"]))
        # The first is for aligned operands where the kernel may be; of several phases the first has the work.
        entries = row.get("entries", [])
        entry = entries[0] if entries else None
        cells = ["", "", "", ""]
        enough = row["slots"] <= slots
        if entry:
            kib = entry["in_flight"] / 1024
            cells = [str(entry["registers"]), str(max(e["spilled"] for e in entries)),
                     f"{entry['resident']} of {H200['threads']}", f"{kib:.0f}"]
            enough = enough and entry["in_flight"] >= BYTES_IN_FLIGHT and not any(e["spilled"] for e in entries)
        limit, said = ("", "cuBLASLt's") if product else (f"{slots:.0f}", "yes" if enough else "no")
        lines.append(f"| {row['row']} | {row['instructions']:.1f} | {row['slots']:.1f} | {limit} | " + " | ".join(cells) + f" | {said} |")
    return lines


def on_the_host(rows):
    """What the driver without a GPU can time: the host's part. Its kernels are interpreted, and no part of a bar."""
    lines = []
    for row in rows:
        if "limit" in row:
            lines.append(f"| {row['row']} | {text_of(row['seconds'])} | {text_of(row['limit'])} | {verdict(row)} |")
        elif "host" in row:
            said = "yes" if row["host"] <= row["host_bar"] else "no"
            lines += [f"| {row['row']}, launch | {text_of(row['host'])} | {text_of(row['host_bar'])} | {said} |",
                      f"| {row['row']}, the same graph by hand | {text_of(row['host_ceiling'])} | | |",
                      f"| {row['row']}, the launch without that | {text_of(max(row['host'] - row['host_ceiling'], 0))} | | |",
                      *([f"| {row['row']}, recording | {text_of(row['record'])} | | |"] if row["record"] else [])]
    return ["| row | time | bar | reached |", "|---|---|---|---|", *lines] if lines else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--version", default="")
    parser.add_argument("--tests", default="")
    options = parser.parse_args()
    rows, peers, counts = (read(options.folder / name) for name in ("rows.json", "peers.json", "counts.json"))
    device = next((r for r in rows + counts if "device" in r), {})
    found = ", ".join(f"{p['peer']} {p['version']}" for p in peers if "version" in p)
    lines = [f"# {datetime.date.today()}, {device.get('device', 'no device')}", "",
             f"Lazuli {options.version}. Peers: {found or 'none'}. Written by `bash bench/gpu.sh`.", ""]
    if options.tests:
        lines += [options.tests, ""]
    if rows:
        scale = device.get("scale", 1)
        if scale != 1:
            lines += [f"**A try: the sizes are divided by {scale}, and the numbers mean nothing.**", ""]
        lines += ["## Measured", "",
                  "Medians; each round measures the ceiling (a copy by the SMs, a read, or cuBLASLt), then the row. Peers: how many "
                  "times as long they take.", "", *measured(rows, peers), ""]
    if counts:
        lines += ["## Counted, without a device", "",
                  "Instructions are those that the interpreter of PTX ran, all threads', divided by the elements, with sizes divided "
                  f"by {device.get('scale', 1)}: what a thread does once weighs more then than on a device. In machine code some are "
                  "none (moves, signs) and some are several (branches 3, divisions 10): tests/support/cuda/ptx/issue_slots.h, by which "
                  "`Emitted.FunctionsAreShort` counts, too. Registers, threads and bytes under way are those of the whole sizes' kernels on sm_90 (`lz-opt --to=stats`). The bar is against an H200 "
                  f"whose copies reach {H200['bandwidth'] / 1e12} TB/s at {H200['clock'] / 1e9} GHz.", "", *counted(counts), ""]
        host = on_the_host(counts)
        if host:
            lines += ["## Timed on this machine's CPU, on the driver without a GPU", "",
                      "The processor's time, so that it does not matter what else runs here: of compilation from the graph or the "
                      "first use on until the result is there, the median. Of launches, in which a thread of that driver is woken, "
                      "the shortest of 230. That driver takes PTX, so only the first row has NVRTC's assembler in it; it reads the "
                      "PTX and interprets the kernels, which a GPU's does not.", "",
                      *host, ""]
        speeds = [r["instructions_a_second"] for r in counts if "instructions_a_second" in r]
        if speeds:
            lines += [f"The interpreter of PTX ran {max(speeds) / 1e6:.0f} million instructions of threads a second here.", ""]
    text = "\n".join(lines)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text)
    print(text)
    print(f"written to {options.out}")


main()
