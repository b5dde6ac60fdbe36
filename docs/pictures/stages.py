#!/usr/bin/env python3
"""stages.py TRACE.json [--from KERNEL] [--skip N]

Prints where the time of a step is that a GPU scheduled for itself: a row for each kernel of a program whose tasks come in
stages. TRACE.json comes from `pto trace json run.ptrace`. A step begins with a task of KERNEL; the first --skip steps and
the last one are left out. A stage is a run of tasks of one kernel, in the order of their starts.

    tasks    of a stage
    gap      from the last end of the stage before to the first start
    starts   from the first start to the last one
    kernel   the mean time of a task
    all      from the first start to the last end
    step     gaps and stages of this kernel, in a step
All times are means, in microseconds.

The tables in docs/gpu.md:
    PTO_TRACE=decode.ptrace pto run decode --device nvidia:0 --place gpu --batch 8 --no-check --no-profile
    pto trace json decode.ptrace
    docs/pictures/stages.py decode.json --from decode_embed --skip 60
"""
import argparse
import collections
import json


def read(path):
    """The tasks of all blocks, as (begin, end, kernel), in us."""
    events = json.load(open(path, encoding="utf-8"))["traceEvents"]
    blocks = {(e["pid"], e["tid"]) for e in events
              if e.get("name") == "thread_name" and " block " in e["args"]["name"]}
    return sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in events
                  if e.get("ph") == "X" and e.get("cat") != "submit" and (e["pid"], e["tid"]) in blocks)


def stages_of(tasks):
    """Runs of tasks of one kernel, as (kernel, [(begin, end)])."""
    stages = []
    for begin, end, kernel in tasks:
        if not stages or stages[-1][0] != kernel:
            stages.append((kernel, []))
        stages[-1][1].append((begin, end))
    return stages


class Row:
    """Sums over all stages of a kernel."""

    def __init__(self):
        self.stages = self.tasks = 0
        self.gap = self.starts = self.kernel = self.all = 0.0

    def add(self, tasks, before):
        begins, ends = [t[0] for t in tasks], [t[1] for t in tasks]
        self.stages += 1
        self.tasks += len(tasks)
        self.gap += min(begins) - before
        self.starts += max(begins) - min(begins)
        self.kernel += sum(end - begin for begin, end in tasks) / len(tasks)
        self.all += max(ends) - min(begins)


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s TRACE.json [--from KERNEL] [--skip N]")
    parser.add_argument("trace")
    parser.add_argument("--from", dest="kernel", default="decode_embed")
    parser.add_argument("--skip", type=int, default=60)
    options = parser.parse_args()
    stages = stages_of(read(options.trace))
    first = [i for i, (kernel, _) in enumerate(stages) if kernel == options.kernel][options.skip:]
    if len(first) < 2:
        parser.error(f"{options.trace} has no whole step that begins with {options.kernel}")
    rows = collections.OrderedDict()
    for i in range(max(first[0], 1), first[-1]):
        before = max(end for _, end in stages[i - 1][1])
        rows.setdefault(stages[i][0], Row()).add(stages[i][1], before)
    steps = len(first) - 1
    took = stages[first[-1]][1][0][0] - stages[first[0]][1][0][0]
    print(f"{'stage':20} {'tasks':>5} {'gap':>6} {'starts':>6} {'kernel':>6} {'all':>6} {'step':>6}")
    for name, row in rows.items():
        n = row.stages
        print(f"{name:20} {row.tasks / n:5.0f} {row.gap / n:6.1f} {row.starts / n:6.1f} {row.kernel / n:6.1f} "
              f"{row.all / n:6.1f} {(row.gap + row.all) / steps:6.0f}")
    print(f"a step takes {took / steps:.0f} us, of which gaps {sum(r.gap for r in rows.values()) / steps:.0f} "
          f"(mean of {steps} steps)")


if __name__ == "__main__":
    main()
