#!/usr/bin/env python3
"""Draws what bench_scaling measured as one SVG file of three plots: time an element over size, time over operations of a
graph, and speed over threads.

    python3 bench/plots.py build/bench/results bench/results/scaling.svg
"""
import argparse
import collections
import html
import math
import pathlib
import re
import statistics

from runs import row_name, runs_of, seconds_of

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 440, 320, 64, 48, 36, 90
COLORS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8f5aa8")
FONT = 'font-family="sans-serif" font-size="12"'


def short(value):
    """1000 is 1k; numbers from 0.001 on have three digits."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:.3g}"


def decades(low, high):
    """Ends of an axis of powers of ten, and its marks."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    return first, last, [10.0 ** k for k in range(first, last + 1)]


def panel(x0, title, x_label, y_label, series, logarithmic=True):
    """One plot at x0: series is {name: [(x, y)]}. Without logarithms both axes begin at 0."""
    points = [point for line in series.values() for point in line]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if logarithmic:
        (x_low, x_high, x_marks), (y_low, y_high, y_marks) = decades(min(xs), max(xs)), decades(min(ys), max(ys))
        place = math.log10
    else:
        x_low = y_low = 0
        x_high, y_high = max(xs) * 1.1, max(max(xs), max(ys)) * 1.1
        step = max(1, math.ceil(max(xs) / 8))
        x_marks = y_marks = [float(k) for k in range(0, math.floor(x_high) + 1, step)]
        place = float

    def at(x, y):
        return (x0 + LEFT + (place(x) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (place(y) - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM))

    base = (10.0 ** x_low, 10.0 ** y_low) if logarithmic else (0, 0)
    end_x, end_y = x0 + WIDTH - RIGHT, TOP
    out = [f'<text x="{x0 + LEFT}" y="20" {FONT} font-weight="bold">{html.escape(title)}</text>']
    for mark in x_marks:
        x, y = at(mark, base[1])
        out.append(f'<path d="M{x:.1f} {y:.1f}V{end_y}" stroke="#ddd"/>'
                   f'<text x="{x:.1f}" y="{y + 16:.1f}" {FONT} text-anchor="middle">{short(mark)}</text>')
    for mark in y_marks:
        x, y = at(base[0], mark)
        out.append(f'<path d="M{x:.1f} {y:.1f}H{end_x}" stroke="#ddd"/>'
                   f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" {FONT} text-anchor="end">{short(mark)}</text>')
    middle = x0 + (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle:.0f}" y="{HEIGHT - 12}" {FONT} text-anchor="middle">{html.escape(x_label)}</text>'
               f'<text transform="translate({x0 + 14} {(HEIGHT - BOTTOM + TOP) / 2:.0f}) rotate(-90)" {FONT} '
               f'text-anchor="middle">{html.escape(y_label)}</text>')
    taken = []
    for color, (name, line) in zip(COLORS, series.items()):
        places = [at(x, y) for x, y in sorted(line)]
        out.append(f'<path d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in places)}" fill="none" stroke="{color}" '
                   'stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in places]
        y = places[-1][1]
        while any(abs(y - other) < 14 for other in taken): # names do not cover each other
            y += 14
        taken.append(y)
        out.append(f'<text x="{end_x + 6}" y="{y + 4:.1f}" {FONT} fill="{color}">{html.escape(name)}</text>')
    return out


def read(folder):
    """name -> {number: median seconds of the rounds}."""
    seconds = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(folder.glob("bench_scaling.*.json")):
        for run in runs_of(path):
            if match := re.fullmatch(r"(\w+)/(?:threads:)?(\d+)", row_name(run["name"])):
                seconds[match[1]][int(match[2])].append(seconds_of(run))
    return {name: {n: statistics.median(values) for n, values in rows.items()} for name, rows in seconds.items()}


def draw(folder, file):
    times = read(folder)
    if not times:
        raise SystemExit(f"plots.py: {folder} has no rounds of bench_scaling")
    panels = [("Time an element", "elements", "ns an element",
               {name: [(n, t / n * 1e9) for n, t in times[name].items()] for name in ("chain", "softmax")
                if name in times}, True),
              ("Time of a graph on 8 elements", "operations", "µs",
               {"recorded": [(n, t * 1e6) for n, t in times["graph"].items()]} if "graph" in times else {}, True),
              ("Threads", "threads", "times as fast as one",
               {name.removesuffix("_on"): [(n, times[name][1] / t) for n, t in times[name].items()]
                for name in ("chain_on", "softmax_on", "product_on") if 1 in times.get(name, {})}, False)]
    panels = [one for one in panels if any(one[3].values())]
    drawn = [line for k, one in enumerate(panels) for line in panel(k * WIDTH, *one)]
    width = len(panels) * WIDTH
    file.write_text("\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" '
         f'viewBox="0 0 {width} {HEIGHT}">', f'<rect width="{width}" height="{HEIGHT}" fill="white"/>', *drawn,
         "</svg>", ""]))
    print(f"written to {file}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    draw(options.folder, options.file)


if __name__ == "__main__":
    main()
