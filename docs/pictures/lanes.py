#!/usr/bin/env python3
"""lanes.py TRACE.json OUT.svg [--lanes WORD] [--from KERNEL] [--steps N] [--skip N]

Draws the lanes of a trace as an SVG: one row for each thread or block, one box for each task. TRACE.json
comes from `pto trace json run.ptrace`. Only lanes whose name contains WORD are drawn. The picture shows N
steps of the program: a step begins with a task of KERNEL, and so does the next one. The first --skip of
them are left out.

The picture in docs/gpu.md:
    PTO_TRACE=decode.ptrace pto run decode --device nvidia:0 --place gpu --batch 8 --blocks 64 --prompt 2 --tokens 4 \\
        --no-check --no-profile
    pto trace json decode.ptrace
    docs/pictures/lanes.py decode.json docs/pictures/gpu-step.svg --lanes block --from decode_embed --skip 2
"""
import argparse
import collections
import html
import json

COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#ff9da7",
           "#9c755f", "#bab0ac", "#86bcb6", "#d37295"]
WIDTH, LEFT, TOP, ROW = 1160, 16, 26, 4


def read(path, word):
    """The tasks of the lanes, as (lane, begin, duration, kernel), in us; and how many lanes there are."""
    events = json.load(open(path, encoding="utf-8"))["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    lanes = [key for key, name in names.items() if word in name]
    lanes.sort(key=lambda key: (len(names[key]), names[key]))
    place = {key: i for i, key in enumerate(lanes)}
    tasks = [(place[e["pid"], e["tid"]], e["ts"], e["dur"], e["name"]) for e in events
             if e.get("ph") == "X" and e.get("cat") != "submit" and (e["pid"], e["tid"]) in place]
    return sorted(tasks, key=lambda t: t[1]), len(lanes)


def choose(tasks, kernel, skip, steps):
    """The tasks of some steps, and where these begin and end."""
    begins = [t[1] for t in tasks if t[3] == kernel]
    if len(begins) < skip + steps:
        raise SystemExit(f"lanes.py: {len(begins)} tasks of '{kernel}', and {skip} are to be left out")
    begin = begins[skip]
    ends = [t[1] + t[2] for t in tasks]
    end = begins[skip + steps] if len(begins) > skip + steps else max(ends)
    return [t for t in tasks if t[1] + t[2] > begin and t[1] < end], begin, end


def tick(span):
    """A round distance of marks: about eight of them."""
    each = 1.0
    while span / each > 10:
        each *= 2.5 if str(each)[0] == "2" else 2
    return each


def draw(tasks, lanes, begin, end, out):
    totals = collections.Counter()
    for _, _, took, kernel in tasks:
        totals[kernel] += took
    colour = {k: COLOURS[i % len(COLOURS)] for i, (k, _) in enumerate(totals.most_common())}
    scale = (WIDTH - 2 * LEFT) / (end - begin)
    legend = TOP + lanes * ROW + 34
    height = legend + 18 * ((len(colour) + 5) // 6) + 8
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           f'font-family="sans-serif" font-size="11" fill="#555">',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           f'<text x="{LEFT}" y="16">{lanes} blocks, from top to bottom; {end - begin:.0f} µs from left to '
           f'right; {len(tasks)} tasks</text>',
           f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - 2 * LEFT}" height="{lanes * ROW}" fill="#f3f3f3"/>']
    each = tick(end - begin)
    at = 0.0
    while at <= end - begin:
        x = LEFT + at * scale
        svg.append(f'<path d="M{x:.1f} {TOP}v{lanes * ROW + 4}" stroke="#ccc" stroke-width=".5"/>'
                   f'<text x="{x:.1f}" y="{TOP + lanes * ROW + 16}" text-anchor="middle">{at:g}</text>')
        at += each
    for kernel, fill in colour.items(): # a path for each kernel is a third of the bytes of boxes
        path = "".join(
            f"M{LEFT + (max(t, begin) - begin) * scale:.1f} {TOP + lane * ROW}"
            f"h{max((min(t + took, end) - max(t, begin)) * scale, .3):.1f}v{ROW - .6:g}"
            f"H{LEFT + (max(t, begin) - begin) * scale:.1f}z"
            for lane, t, took, name in tasks if name == kernel)
        svg.append(f'<path fill="{fill}" d="{path}"/>')
    for i, (kernel, fill) in enumerate(colour.items()):
        x, y = LEFT + 190 * (i % 6), legend + 18 * (i // 6)
        svg.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{fill}"/>'
                   f'<text x="{x + 15}" y="{y}">{html.escape(kernel)}</text>')
    svg.append("</svg>\n")
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(svg))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--lanes", default="block")
    parser.add_argument("--from", dest="kernel", default="embed")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1)
    a = parser.parse_args()
    tasks, lanes = read(a.trace, a.lanes)
    chosen, begin, end = choose(tasks, a.kernel, a.skip, a.steps)
    draw(chosen, lanes, begin, end, a.out)


if __name__ == "__main__":
    main()
