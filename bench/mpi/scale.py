#!/usr/bin/env python3
"""scale.py [--svg FILE] < OUTPUT: weak scaling, from what bench/mpi/scale.c counted. For docs/scale.md.

Prints a table for each program, and draws the same as a picture. The model, for the rank that takes longest:

    compute     its tasks, spread over its cores
    network     the bytes that it sends or receives, whichever is more, and its messages
    submit      time of the orchestrating thread: measured, not modelled
    path        the longest chain of tasks and messages that any number of ranks must go through

All four overlap, so a run takes as long as the longest of them.
"""
import collections
import math
import sys

CORES = 16              # of a rank, which is a machine
KERNEL = 0.84e-3        # s: 2 * 256^3 flops at 40 GFlop/s; the other kernels of a factorization take less
CELLS = 2.1e-3          # s: a tile of 2048 x 2048 cells of 4 bytes, read and written at 16 GB/s a core
BANDWIDTH = 12.5e9      # bytes/s of a rank
MESSAGE = 1e-6          # s of a rank for each message
LATENCY = 3e-6          # s for one message, one way
SUBMIT_LOCAL = 0.5e-6   # s: submit of a task or a message in the runtime, which counting leaves out
STEPS = 10              # of the stencil


def read(lines):
    """(program, ranks, ranges) -> list of ranks."""
    runs = collections.defaultdict(list)
    for line in lines:
        words = line.split()
        if len(words) < 3 or "=" not in words[1]:
            continue
        row = {k: float(v) for k, v in (w.split("=") for w in words[1:])}
        runs[words[0], int(row["ranks"]), int(row["ranges"])].append(row)
    return runs


def model(program, row):
    kernel = KERNEL if program == "cholesky" else CELLS
    tiles, size = row["tiles"], 8 * 256 * 256 if program == "cholesky" else 4 * 2048
    hop = LATENCY + size / BANDWIDTH
    bytes_moved = max(row["bytes_sent"], row["bytes_received"])
    messages = row["sent"] + row["received"]
    return {
        "compute": row["tasks"] * kernel / CORES,
        "network": bytes_moved / BANDWIDTH + messages * MESSAGE,
        "submit": row["submit_s"] + (row["tasks"] + 2 * messages) * SUBMIT_LOCAL,
        "path": tiles * (3 * kernel + 2 * hop) if program == "cholesky" else STEPS * (kernel + hop),
        "memory": row["own"] + row["cache"] + row["scratch"] + row["tables"],
        "tables": row["tables"],
        "messages": messages,
        "tasks": row["tasks"],
    }


def worst(program, rows):
    all_of = [model(program, r) for r in rows]
    return {k: max(m[k] for m in all_of) for k in all_of[0]}


def table(program, points):
    print(f"\n{program}\n")
    print("| ranks | tiles | tasks of a rank | its messages | its memory | compute | network | path | submit |"
          " submit with ranges | efficiency | with ranges |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for p in points:
        print(f"| {p['ranks']:,} | {p['tiles']:.0f}^2 | {p['tasks']:,.0f} | {p['messages']:,.0f} |"
              f" {p['memory'] / 2**20:,.0f} MiB | {p['compute']:.4f} s | {p['network']:.4f} s |"
              f" {p['path']:.4f} s | {p['submit']:.4f} s | {p['submit_ranges']:.4f} s |"
              f" {p['efficiency']:.0%} | {p['efficiency_ranges']:.0%} |")


SERIES = [("compute", "compute", "#1a7f37"), ("network", "network", "#0969da"),
          ("path", "longest chain", "#8250df"), ("submit", "submit, all tasks", "#cf222e"),
          ("submit_ranges", "submit, pto_mpi_only", "#bc4c00")]


def draw(panels, out):
    width, height, left, top = 460, 300, 60, 40
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * len(panels)} {height + 110}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for number, (program, points) in enumerate(panels):
        x0 = number * width + left
        values = [p[k] for p in points for k, _, _ in SERIES]
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        first, last = math.log2(points[0]["ranks"]), math.log2(points[-1]["ranks"])

        def x(ranks):
            return x0 + (math.log2(ranks) - first) / (last - first) * (width - left - 40)

        def y(v):
            return top + (high - math.log10(v)) / (high - low) * height

        svg.append(f'<text x="{x0}" y="{top - 14}" font-weight="bold">{program}: seconds of the slowest rank'
                   '</text>')
        for e in range(low, high + 1):
            svg.append(f'<line x1="{x0}" x2="{x(points[-1]["ranks"])}" y1="{y(10**e):.1f}" y2="{y(10**e):.1f}" '
                       'stroke="#ddd"/>')
            svg.append(f'<text x="{x0 - 6}" y="{y(10**e) + 4:.1f}" text-anchor="end">1e{e}</text>')
        for p in points:
            svg.append(f'<text x="{x(p["ranks"]):.1f}" y="{top + height + 18}" text-anchor="middle">'
                       f'{p["ranks"]}</text>')
        for key, name, colour in SERIES:
            line = " ".join(f'{x(p["ranks"]):.1f},{y(p[key]):.1f}' for p in points)
            svg.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
            for p in points:
                svg.append(f'<circle cx="{x(p["ranks"]):.1f}" cy="{y(p[key]):.1f}" r="3" fill="{colour}">'
                           f'<title>{name}, {p["ranks"]} ranks: {p[key]:.4g} s</title></circle>')
        svg.append(f'<text x="{x0 + (width - left - 40) / 2}" y="{top + height + 36}" '
                   'text-anchor="middle">ranks</text>')
    for i, (_, name, colour) in enumerate(SERIES):
        at = left + i * 165
        svg.append(f'<rect x="{at}" y="{top + height + 50}" width="14" height="4" fill="{colour}"/>')
        svg.append(f'<text x="{at + 20}" y="{top + height + 57}">{name}</text>')
    svg.append("</svg>")
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(svg) + "\n")


def main():
    runs = read(sys.stdin)
    panels = []
    for program in ("cholesky", "stencil"):
        points = []
        for name, ranks, ranges in sorted(runs):
            if name != program or ranges or (name, ranks, 1) not in runs:
                continue
            p = worst(program, runs[name, ranks, 0])
            p["ranks"], p["tiles"] = ranks, runs[name, ranks, 0][0]["tiles"]
            p["submit_ranges"] = worst(program, runs[name, ranks, 1])["submit"]
            rest = max(p["compute"], p["network"], p["path"])
            p["efficiency"] = p["compute"] / max(rest, p["submit"])
            p["efficiency_ranges"] = p["compute"] / max(rest, p["submit_ranges"])
            points.append(p)
        if points:
            table(program, points)
            panels.append((program, points))
    if "--svg" in sys.argv and panels:
        draw(panels, sys.argv[sys.argv.index("--svg") + 1])


main()
