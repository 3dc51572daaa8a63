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
H200 = {"multiprocessors": 132, "clock": 1.755e9, "bandwidth": 4.3e12, "threads": 2048, "bf16": 989e12, "launch": 1.5e-6}
SLOTS = H200["multiprocessors"] * H200["clock"] * 4 * 32  # instructions of threads that the SMs issue in a second
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
    if "fraction" not in row or "bar" not in row:
        return ""
    return "yes" if row["fraction"] >= row["bar"] else "no"


def measured(rows, peers):
    """One line a row: of its ceiling, the bar, how many times as long each peer takes, and whether none takes less."""
    beside = collections.defaultdict(dict)
    for p in peers:
        if "seconds" in p:
            beside[p["row"]][p["peer"]] = p["seconds"]
    names = sorted({p["peer"] for p in peers if "seconds" in p})
    lines = ["| row | seconds | of the ceiling | bar | reached | " + " | ".join(names + ["best peer", "none is faster"]) + " |",
             "|---|---|---|---|---|" + "---|" * (len(names) + 2)]
    for row in rows:
        if "row" not in row:
            continue
        if "error" in row:
            lines.append(f"| {row['row']} | failed: {row['error'][:200]} | | | | " + " | ".join("" for _ in names) + " | | |")
            continue
        theirs = beside.get(row["row"].replace(", fast math", ""), {})  # theirs have one way
        ratios = [f"{theirs[n] / row['seconds']:.2f}" if n in theirs else "" for n in names]
        best = f"{min(theirs.values()) / row['seconds']:.2f}" if theirs else ""
        none_faster = ("yes" if min(theirs.values()) >= row["seconds"] else "no") if theirs else ""
        fraction = f"{row['fraction']:.3f}" if "fraction" in row else ""
        bar = text_of(row["limit"]) if "limit" in row else f"{row['bar']:.2f}" if "fraction" in row and "bar" in row else ""
        lines.append(f"| {row['row']} | {text_of(row['seconds'])} | {fraction} | {bar} | {verdict(row)} | "
                     + " | ".join(ratios + [best, none_faster]) + " |")
    for row in rows:
        if "host" in row:
            recording = f" {text_of(row['record'])} for recording;" if row["record"] else ""
            bar = f" The bar is {text_of(row['host_bar'])}." if "host_bar" in row else ""
            lines += ["", f"The {row['row']}: {text_of(row['host'])} of the host's time for the launch;{recording} by hand "
                      f"{text_of(row['host_ceiling'])}.{bar}"]
    return lines


def needs_of(row):
    """Registers, spilled bytes, threads and KiB in flight of a row's kernels, as cells; and whether they are enough."""
    entries = row.get("entries", [])
    if not entries:
        return ["", "", "", ""], True
    first = entries[0]  # for aligned operands where the kernel may be; of several phases it has the work
    spilled = max(e["spilled"] for e in entries)
    return ([str(first["registers"]), str(spilled), f"{first['resident']} of {H200['threads']}", f"{first['in_flight'] / 1024:.0f}"],
            first["in_flight"] >= BYTES_IN_FLIGHT and spilled == 0)


def counted(rows):
    """Without a device: what can be known, against what the bar needs on an H200."""
    lines = ["| row | instructions an element | issue slots that they take | that the bar leaves | registers | spilled "
             "| threads on an SM | KiB in flight on an SM (40 are needed) | enough |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if "instructions" not in row or "extent" in row:
            continue
        slots = SLOTS / H200["bandwidth"] * (row["bytes"] / row["elements"]) / row["bar"]
        cells, enough = needs_of(row)
        said = "yes" if enough and row["slots"] <= slots else "no"
        lines.append(f"| {row['row']} | {row['instructions']:.1f} | {row['slots']:.1f} | {slots:.0f} | " + " | ".join(cells) + f" | {said} |")
    return lines


def product(row):
    """A product's line: what follows it takes on an H200, and what fraction of cuBLASLt's product alone that leaves."""
    cells, _ = needs_of(row)
    n = row["extent"]
    alone = 2 * n ** 3 / H200["bf16"]
    bar = f"{row['bar']:.2f}" if "bar" in row else ""
    if row["slots"] == 0:  # no kernel of ours: cuBLASLt multiplies, and computes what follows
        return f"| {row['row']} | | | | {text_of(alone)} | 1.00 | | {bar} | yes | " + " | ".join(cells) + " |"
    if "bar" not in row:  # ours multiplies; of f32 a fused multiply-add is a slot
        best = row["counted_extent"] / row["slots"]
        return (f"| {row['row']} | {row['slots']:.0f} for {row['counted_extent']} products | | | {text_of(2 * n ** 3 / (2 * SLOTS))} "
                f"| {best:.2f} | | | | " + " | ".join(cells) + " |")
    # The product is read, in memory or L2, and the result is written: 2 bytes an element each.
    memory, issued = 4 * n * n / H200["bandwidth"], row["slots"] * n * n / SLOTS
    behind = max(memory, issued) + H200["launch"]
    # The product alone takes alone / part at a part of the peak, and reaches the bar where behind <= (1 / bar - 1) of that.
    part = alone / behind * (1 / row["bar"] - 1)
    said = "yes" if part >= 1 else f"only if cuBLASLt reaches {part:.0%} of the peak or less"
    return (f"| {row['row']} | {row['slots']:.1f} | {4 * n * n / 2 ** 20:.0f} MiB, {text_of(memory)} | {text_of(issued)} | {text_of(alone)} "
            f"| {alone / (alone + behind):.2f} | {text_of(behind)} | {bar} | {said} | " + " | ".join(cells) + " |")


def products(rows):
    """Products without a device: cuBLASLt's, and what a kernel behind them leaves of its speed."""
    lines = [product(row) for row in rows if "instructions" in row and "extent" in row]
    if not lines:
        return []
    return ["### Products", "",
            f"cuBLASLt multiplies, on an H200 at {H200['bf16'] / 1e12:.0f} TFLOP/s of bf16 at most. Where bias and gelu keep their bits they are one "
            "kernel behind it, which reads the product and writes the result at the bandwidth above, or issues its slots, whichever takes longer, "
            f"and is a launch more, {text_of(H200['launch'])}: an estimate. `best` is what is left of the product's own speed when that "
            "is at its peak; a slower product leaves more. A product of 1024 takes about as long as the launch behind it, "
            "whatever that does: 0.85 is in reach there only with fast math, where cuBLASLt computes bias and gelu. (L2 holds what a product "
            "of up to 4096 wrote, and may give it faster than memory: what is estimated is the worse case.)", "",
            "| row | issue slots an element | behind the product: of memory | of issue slots | product at the peak | best | behind, with a launch "
            "| bar | in reach | registers | spilled | threads on an SM | KiB in flight on an SM |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|", *lines]


def on_the_host(rows):
    """What the driver without a GPU can time: the host's part. Its kernels are interpreted, and no part of a bar."""
    lines = []
    for row in rows:
        if "limit" in row:
            lines.append(f"| {row['row']} | {text_of(row['seconds'])} | {text_of(row['limit'])} | {verdict(row)} |")
        elif "host" in row:
            bar = f"{text_of(row['host_bar'])} | {'yes' if row['host'] <= row['host_bar'] else 'no'}" if "host_bar" in row else "|"
            lines += [f"| {row['row']}, launch | {text_of(row['host'])} | {bar} |",
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
                  f"whose copies reach {H200['bandwidth'] / 1e12} TB/s at {H200['clock'] / 1e9} GHz.", "", *counted(counts), "", *products(counts), ""]
        host = on_the_host(counts)
        if host:
            lines += ["## Timed on this machine's CPU, on the driver without a GPU", "",
                      "The processor's time, so that it does not matter what else runs here: of compilation from the graph or the "
                      "first use on until the result is there, the median. Of launches, in which a thread of that driver is woken, "
                      "the shortest: of 1000 in a loop that does nothing else, and of 230, ten at a time, between the same graph "
                      "by hand and other code. That driver takes PTX, so only the first row has NVRTC's assembler in it; it reads the "
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
