#!/usr/bin/env python3
"""test_page.py PAGE MAKE_PTRACE PTO FOLDER [NAME]

Opens the timeline page in a real browser and does what a person does: looks, zooms, clicks, types.
What it shows is compared with what another reader finds in the same file. Pictures are left in
FOLDER. Ends with a line that counts, and with status 1 if anything was wrong."""
import os
import re
import struct
import subprocess
import sys
import time
import traceback

from browser import Browser
from trace import (ARGS, EDGES, EVENTS, FAILURES, KERNELS, LABELS, NONE, RANGES, RINGS, STRINGS,
                   TASKS, UNKNOWN, Trace, embed, from_the_future, patched, wrong_files)

page_path, make_ptrace, pto, folder = sys.argv[1:5]
wanted = sys.argv[5] if len(sys.argv) > 5 else ""
with open(page_path) as source:
    page_text = source.read()
os.makedirs(folder, exist_ok=True)
tests = []


def test(function):
    tests.append(function)
    return function


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def equal(a, b, what=""):
    check(a == b, what, repr(a), "is not", repr(b))


def path(name):
    return os.path.join(folder, name)


made = {}


def trace_of(kind, size, workers=6):
    """A generated trace and its page; made once."""
    name = f"{kind}-{size}"
    if name not in made:
        subprocess.run([make_ptrace, kind, str(size), str(workers), path(name + ".ptrace")],
                       check=True)
        if size > 100:
            with open(path(name + ".ptrace"), "rb") as file:
                embed(page_text, file.read(), path(name + ".html"))
            made[name] = None
        else:
            made[name] = Trace(path(name + ".ptrace"))
            embed(page_text, made[name].data, path(name + ".html"))
    return made[name], path(name + ".html")


def show(b, where, wait=60):
    b.open(where, wait)
    b.until("window.pto && pto.ready && pto.timeline.frames > 0", wait)
    b.run("localStorage.clear()")


def show_data(b, data, name):
    embed(page_text, data, path(name + ".html"))
    b.open(path(name + ".html"))


def clean(b):
    equal(b.problems, [], "errors on the console:")


def text(b, selector):
    return b.run(f"document.querySelector({selector!r})?.innerText ?? null")


def still(b):
    """Waits until nothing glides any more."""
    b.until("new Promise((done) => { const a = pto.timeline.from; setTimeout(() => "
            "done(a === pto.timeline.from), 220); })")


def view(b):
    still(b)
    return b.run("[pto.timeline.from, pto.timeline.to]")


def spot(b, task):
    """The middle of a task on the screen."""
    return b.run(f"""(() => {{
        const box = pto.timeline.boxOf({task}), c = pto.timeline.canvas.getBoundingClientRect();
        return [c.left + (box.x0 + box.x1) / 2, c.top + box.y + box.high / 2];
    }})()""")


def words_for(ns):
    """The same rounding as the page's."""
    def three(x):
        return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"
    return f"{ns} ns" if ns < 999.5 else f"{three(ns / 1e3)} µs" if ns < 999.5e3 \
        else f"{three(ns / 1e6)} ms" if ns < 999.5e6 else f"{three(ns / 1e9)} s"


# ---- what is to be seen -------------------------------------------------------------------------

@test
def it_loads_and_asks_nobody(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    clean(b)
    equal([u for u in b.requests if not u.startswith("file://" + where)], [], "it loaded:")
    check(b.run("document.title").startswith(f"cholesky: {len(trace.tasks):,} tasks in "))
    equal(text(b, "#title"), "cholesky")
    check(f"{len(trace.tasks):,} tasks" in text(b, "#facts").replace("\n", " "))
    equal(b.run("document.getElementById('lost').hidden"), True)
    equal(b.run("document.getElementById('notice').hidden"), True)
    b.picture(path("light.png"))


@test
def every_lane_and_ring_is_there(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    equal(b.run("pto.timeline.places.map((p) => p.lane.name)"),
          ["orchestrator"] + [f"worker {i}" for i in range(1, 7)])
    equal(b.run("pto.timeline.ringPlaces.map((p) => p.ring.name)"),
          ["slots, level 0", "heap, level 0", "edges, level 0"])
    # Every lane of a worker has pixels of kernels, about as many as it was busy.
    shares = b.run("""pto.timeline.places.slice(1).map((p) => {
        const t = pto.timeline, y = Math.round(p.y + 8 - t.scroll + 26), known = new Set(pto.colours.bits);
        const line = new Uint32Array(t.context.getImageData(132, y, t.width - 132, 1).data.buffer);
        return line.filter((v) => known.has(v)).length / line.length;
    })""")
    check(all(s > .8 for s in shares), "lanes are painted to", shares)
    tasks = sum(1 for i in range(len(trace.tasks)) if trace.ran(i))
    equal(b.run("pto.model.lanes.reduce((n, l) => n + l.rows.reduce((m, r) => m + r.items.length, 0), 0)"),
          tasks)


@test
def rings_go_on_to_the_end(b):
    trace, _ = trace_of("cholesky", 24)
    # As a file whose last samples are missing: the last value is known, and nothing after it.
    item, at, n = trace.sections[RINGS]
    data = patched(trace.data, 64 + 24 * (RINGS - 1) + 16, "<Q", n // 2)
    show_data(b, data, "rings")
    b.until("window.pto && pto.ready && pto.timeline.frames > 0")
    for part in (.7, .99):
        filled = b.run(f"""(() => {{
            const t = pto.timeline, p = t.ringPlaces[0], full = pto.model.last - pto.model.first;
            const x = Math.round(t.x(pto.model.first + full * {part}));
            const y = Math.round(p.y + p.high - 2 - t.scroll + 26);
            const at = (dx, dy) => t.context.getImageData(x + dx, y + dy, 1, 1).data.join();
            return [at(0, 0) !== at(0, 8), p.ring.at[p.ring.at.length - 1] < pto.model.first + full * {part}];
        }})()""")
        equal(filled, [True, True], f"at {part} of the run:")
    beyond = b.run("""(() => {
        const t = pto.timeline, p = t.ringPlaces[0], x = Math.round(t.x(pto.model.last)) + 4;
        const y = Math.round(p.y + p.high - 2 - t.scroll + 26);
        return x < t.width && t.context.getImageData(x, y, 1, 1).data.join() ===
            t.context.getImageData(x, y + 8, 1, 1).data.join();
    })()""")
    equal(beyond, True, "nothing behind the end:")
    b.picture(path("rings.png"))
    clean(b)


@test
def events_inside_of_others_hide_nothing(b):
    trace, _ = trace_of("layers", 12)
    item, at, n = trace.sections[EVENTS]
    events = [struct.unpack_from("<QQIHHQ", trace.data, at + i * item) for i in range(n)]
    end = max(t[5] for t in trace.tasks if t[5] != UNKNOWN)
    begin, length = end // 10, end * 8 // 10
    # The first is a wait; the next three sleep early in it, so that it goes on behind them.
    data = patched(trace.data, at, "<QQIHHQ", begin, begin + length, 0, 5, 0, 0)
    for i in range(1, n):
        first = begin + int(length * .1 * i)
        event = (first, first + length // 20, 0, 6, 0, 0) if i < 4 else (*events[i][:2], 1, 6, 0, 0)
        data = patched(data, at + i * item, "<QQIHHQ", *event)
    show_data(b, data, "nested")
    b.until("window.pto && pto.ready && pto.timeline.frames > 0")
    kinds = b.run("[...pto.model.lanes[0].eventKind]")
    equal(kinds, [5, 6, 5, 6, 5, 6, 5], "pieces:")
    check(b.run("pto.model.lanes[0].eventStart.every((t, i, all) => !i || t >= pto.model.lanes[0].eventEnd[i - 1])"))
    # Far behind the sleep the wait is still there, to see and to point at.
    b.run(f"pto.timeline.see({begin + length * .7}, {begin + length * .8})")
    still(b)
    painted, told = b.run("""(() => {
        const t = pto.timeline, p = t.places[0], y = Math.round((p.y + p.end) / 2 - t.scroll + 26);
        const line = new Uint32Array(t.context.getImageData(300, y, 200, 1).data.buffer);
        const hit = t.at(400, y);
        return [new Set(line).size, hit.event === undefined ? null : hit.lane.eventWhole[hit.event]];
    })()""")
    check(painted > 1, "no hatching")
    equal(told, length, "what is pointed at:")
    clean(b)


@test
def columns_of_many_spans_sum_up_to_the_truth(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    # What the sums say of any stretch of time is what adding up spans says.
    for low, high in ((0, 10 ** 9), (123456, 4567890), (3000000, 3000777), (5001, 9999999)):
        for lane in (1, 4):
            want = sum(max(0, min(t[5], high) - max(t[4], low)) for t in trace.tasks if t[10] == lane)
            got = b.run(f"""(() => {{
                const row = pto.model.lanes[{lane}].rows[0], times = new Float64Array(row.classes.length);
                row.measure({low}, {high}, row.after({low}), times);
                return times.reduce((a, x) => a + x, 0);
            }})()""")
            equal(got, want, f"lane {lane} from {low} to {high}:")


def share_of_capacity(b, name):
    """Of a ring's chart: how high its peak is drawn, as a part of the height of its capacity."""
    return b.run(f"""(() => {{
        const t = pto.timeline, p = t.ringPlaces.find((p) => p.ring.name === {name!r});
        const bottom = Math.round(p.y + p.high - t.scroll + 26), high = p.high - 3, {{width}} = t;
        const image = t.context.getImageData(132, bottom - p.high, width - 140, p.high + 1);
        const data = new Uint32Array(image.data.buffer), bottomLine = (p.high - 1) * (width - 140);
        let top = p.high;
        for (let x = 0; x < width - 140; x++) {{
            // The fill is under the line: from the bottom up as far as the colour does not change.
            const colour = data[bottomLine + x - (width - 140)];
            let y = p.high - 2;
            while (y > 0 && data[y * (width - 140) + x] === colour) y--;
            const paper = data[8 * (width - 140) + x];
            top = Math.min(top, colour === paper && y < 4 ? p.high : y);
        }}
        return [(p.high - top) / high, p.ring.most / p.ring.capacity];
    }})()""")


@test
def rings_are_on_the_scale_of_their_capacity(b):
    _, where = trace_of("layers", 12)
    show(b, where)
    for name in ("slots, level 1", "heap, level 1", "edges, level 1"):
        drawn, used = share_of_capacity(b, name)
        check(abs(drawn - used) < .12, name, "is drawn to", drawn, "and is used to", used)
    clean(b)


@test
def the_axis_has_sensible_units(b):
    _, where = trace_of("cholesky", 24)
    show(b, where)
    labels = lambda low, high: b.run(f"""(() => {{
        const step = tickStep(({high} - {low}) / 6), {{base, label}} = axisLabels({low}, {high}, step);
        const first = Math.ceil({low} / step) * step;
        return [base, label(first), label(first + step)];
    }})()""")
    equal(labels(0, 10e6), ["", "0 ms", "2 ms"])
    equal(labels(0, 1.3e6), ["", "0.0 ms", "0.5 ms"])
    equal(labels(0, 900), ["", "0 ns", "200 ns"])
    equal(labels(79e6, 82e6), ["", "79.0 ms", "79.5 ms"])
    equal(labels(80.0123e6, 80.0126e6), ["80.012 ms", "+300 ns", "+350 ns"])
    equal(labels(12.0000405e9, 12.0000435e9), ["12.00004 s", "+0.5 µs", "+1.0 µs"])
    equal(labels(0, 4.1e9), ["", "0 s", "1 s"])
    equal(labels(0, 600e9), ["", "0:00", "2:00"])
    equal(labels(3600e9, 3690e9), ["", "1:00:00", "1:00:15"])
    for low in (0, 1e6):
        for span in (1e3, 3.7e4, 5e6):
            b.run(f"pto.timeline.see({low}, {low + span})")
            check(len(labels(low, low + span)[1]) < 12)
    clean(b)


@test
def kernels_fit_the_panel(b):
    trace, _ = trace_of("layers", 12)
    # One kernel has a name as compilers of templates make them.
    long = b"cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4_with_a_tail" + b"\0"
    item, at, n = trace.sections[STRINGS]
    moved = trace.data + trace.data[at:at + item * n] + long
    moved += b"\0" * (-len(moved) % 8)
    entry = 64 + 24 * (STRINGS - 1)
    data = patched(moved, entry + 8, "<QQ", len(trace.data), n + len(long))
    data = patched(data, 24, "<Q", len(moved))
    data = patched(data, trace.sections[KERNELS][1], "<I", n)
    for wide in (1280, 1920):
        b.size(wide, 800)
        show_data(b, data, "long")
        b.until("window.pto && pto.ready && pto.timeline.frames > 0")
        inside = b.run("""[...document.querySelectorAll('#side-kernels, #side-kernels td, #side-kernels th, aside > nav')]
            .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)""")
        equal(inside, [], f"cut off at {wide} pixels:")
        right = b.run("document.querySelector('aside').getBoundingClientRect().right")
        check(right <= wide, "the panel ends at", right)
    b.size(1280, 800)
    b.picture(path("kernels-1280.png"))
    b.size(1440, 900)
    clean(b)


@test
def every_hatching_is_in_the_legend(b):
    signs = "[...document.querySelectorAll('[data-sign]')].map((e) => e.dataset.sign)"
    _, where = trace_of("layers", 12)
    show(b, where)
    equal(b.run(signs), ["submit", "room", "wait", "sleep", "failed", "skipped", "range"])
    check(all(w in text(b, "#signs") for w in ("waits for room", "waits for tasks", "asleep")))
    hidden = b.run("""[...document.querySelectorAll('[data-sign]')].filter((e) => {
        const r = e.getBoundingClientRect();
        return document.elementFromPoint(r.x + 4, r.y + r.height / 2)?.closest('[data-sign]') !== e;
    }).map((e) => e.dataset.sign)""")
    equal(hidden, [], "not to be seen:")
    _, where = trace_of("cholesky", 24)
    show(b, where)
    equal(b.run(signs), ["submit", "wait"], "only what occurs:")
    clean(b)


@test
def more_threads_than_cores_are_warned_of(b):
    _, where = trace_of("cholesky", 24)  # 7 threads on 8 cores
    show(b, where)
    equal(b.run("document.getElementById('crowded').hidden"), True)
    trace, where = trace_of("layers", 12)  # 7 threads on 4 cores
    show(b, where)
    said = text(b, "#crowded")
    check("on 4 cores" in said and "PTO_WORKERS=3" in said, said)
    most = int(re.search(r"Up to (\d+) threads", said)[1])
    spans = sorted([(t[4], 1) for t in trace.tasks if t[10] != NONE]
                   + [(t[5], -1) for t in trace.tasks if t[10] != NONE])
    at_once, now = 0, 0
    for _, step in spans:
        now += step
        at_once = max(at_once, now)
    check(4 < most <= at_once + 1, "it says", most, "and", at_once, "tasks ran at once")
    clean(b)


# ---- moving -------------------------------------------------------------------------------------

@test
def wheel_keys_and_mouse_move_the_view(b):
    _, where = trace_of("cholesky", 24)
    show(b, where)
    x, y = 700, 300
    begin = view(b)
    under = b.run(f"pto.timeline.time({x})")
    for _ in range(5):
        b.wheel(x, y, 0, -240)
    zoomed = view(b)
    check(zoomed[1] - zoomed[0] < (begin[1] - begin[0]) / 4, "the wheel did not zoom:", zoomed)
    check(abs(b.run(f"pto.timeline.time({x})") - under) < (zoomed[1] - zoomed[0]) / 500,
          "what is under the pointer must stay there")
    b.run("document.getElementById('lanes').focus()")
    b.key("Right")
    later = view(b)
    check(later[0] > zoomed[0] and abs((later[1] - later[0]) / (zoomed[1] - zoomed[0]) - 1) < 1e-6)
    b.key("Left")
    check(abs(view(b)[0] - zoomed[0]) < 1)
    b.key("+")
    nearer = view(b)
    check(nearer[1] - nearer[0] < .7 * (zoomed[1] - zoomed[0]), "+ did not zoom")
    b.key("-")
    check(abs(view(b)[0] - zoomed[0]) < 1, "- is not the reverse of +")
    b.drag(600, 300, 750, 300)
    moved = view(b)
    width = b.run("pto.timeline.width") - 132
    check(abs(zoomed[0] - moved[0] - 150 / width * (zoomed[1] - zoomed[0])) < (zoomed[1] - zoomed[0]) / 200,
          "dragged by 150 pixels:", zoomed, moved)
    b.key("0")
    whole = view(b)
    check(whole[0] <= 0 and whole[1] >= b.run("pto.model.last"), "0 shows all")
    for _ in range(200):
        b.run("pto.timeline.zoom(.5)")
    near = view(b)
    check(near[1] - near[0] >= 19, "there is an end to zooming in")
    clean(b)


# ---- clicking -----------------------------------------------------------------------------------

def close_to(b, task):
    b.run(f"pto.timeline.reveal({task}, true)")
    still(b)


@test
def a_click_on_a_task_tells_all_about_it(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    waited = [i for i in range(len(trace.tasks)) if trace.tasks[i][3] > trace.tasks[i][2] + 1000]
    for task in (0, waited[5], waited[len(waited) // 2], len(trace.tasks) - 1):
        close_to(b, task)
        b.click(*spot(b, task))
        equal(b.run("pto.selected"), task)
        record, said = trace.tasks[task], text(b, "#side-task")
        check(f"task {task} " in said and f"{record[0]}" in said and trace.kernel(task) in said, said)
        check("examples/workloads/cholesky.c:" in said and f"worker {record[10]}" in said, said)
        parts = b.run("Object.fromEntries([...document.querySelectorAll('[data-part]')]"
                      ".map((e) => [e.dataset.part, e.innerText]))")
        equal(parts["running"], words_for(record[5] - record[4]), "running:")
        equal(parts["waiting"], words_for(record[3] - record[2]), "waiting:")
        equal(parts["queued"], words_for(record[4] - max(record[3], record[2])), "queued:")
        equal(parts["blocked"], words_for(record[7]), "blocked:")
        check("float64[64, 64]" in said and "strides [1536, 1]" in said, said)
        check("of 1536x1536 float64" in said and "0x" not in said, said)
        if record[3] > record[2]:
            last = trace.last_producer(task)
            whom = text(b, "[data-of=waited]")
            check(trace.kernel(last) in whom and str(last) in whom, whom)
            b.click_on("[data-of=waited] .link")
            equal(b.run("pto.selected"), last, "the one it waited for:")
    clean(b)


@test
def a_click_on_an_edge_says_why(b):
    trace, where = trace_of("layers", 12)
    show(b, where)
    seen = set()
    for number, edge in enumerate(trace.edges):
        if (edge[2], edge[3]) in seen:
            continue
        seen.add((edge[2], edge[3]))
        b.run(f"pto.select({edge[1]}, true)")
        b.click_on(f"[data-edge='{number}']")
        equal(b.run("pto.edge"), number)
        said = text(b, "[data-of=edge]")
        check(["RAW", "WAR", "WAW", "after"][edge[2]] in said, said)
        check(str(edge[0]) in said and str(edge[1]) in said, said)
        if edge[2] == 3:
            check("pto_after" in said, said)
        else:
            check("float32[16, " in said and re.search(r"bytes [\d,]+ to [\d,]+ of ", said), said)
    check(len(seen) > 4, "too few kinds of edges to learn anything:", seen)
    # On the canvas: somewhere along a curve.
    task = next(i for i in range(100, len(trace.tasks)) if trace.ran(i) and len(trace.edges_into(i)) == 1
                and trace.tasks[trace.edges_into(i)[0][0]][10] not in (NONE, trace.tasks[i][10]))
    b.run(f"pto.select({task}, true)")
    close_to(b, task)
    b.run("pto.timeline.zoom(3)")
    still(b)
    edge = trace.tasks[task][11]
    where = b.run(f"""(() => {{
        const l = pto.timeline.curves.find((c) => c.e === {edge}), box = pto.timeline.canvas.getBoundingClientRect();
        const at = (p, a, b, c, d) => (1 - p) ** 3 * a + 3 * (1 - p) ** 2 * p * b + 3 * (1 - p) * p * p * c + p ** 3 * d;
        return [box.left + at(.5, l.x0, l.x0 + l.bend, l.x1 - l.bend, l.x1), box.top + at(.5, l.y0, l.y0, l.y1, l.y1)];
    }})()""")
    b.click(*where)
    equal(b.run("pto.edge"), edge, "the edge that was clicked:")
    b.picture(path("edge.png"))
    clean(b)


@test
def search_finds_kernels_places_and_tasks(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    b.key("/")
    equal(b.run("document.activeElement.id"), "search")
    b.type("SYR")
    equal(b.run("document.querySelectorAll('#found [role=option]').length"), 1)
    b.key("Enter")
    syrk = [i for i in range(len(trace.tasks)) if trace.kernel(i) == "syrk"]
    equal(b.run("pto.selected"), syrk[0])
    b.key("Enter")
    equal(b.run("pto.selected"), syrk[1], "the next hit:")
    left = b.run("[...new Set(pto.model.lanes.flatMap((l) => l.rows.flatMap((r) => r.classes)))].sort()")
    equal(len(left), 2, "one class and the dimmed:")
    b.key("Escape")
    b.run("document.getElementById('lanes').focus()")
    b.key("Escape")
    equal(b.run("pto.filter"), None)
    wanted_task = 1234
    # By its number, as the command line counts, too; a handle that is no number of a task; both.
    handle = trace.tasks[wanted_task][0]
    check(handle > len(trace.tasks), handle)
    for words in (str(wanted_task), f"#{wanted_task}", str(handle), hex(handle)):
        b.run("pto.select(4294967295)")
        b.key("/")
        b.type(words)
        b.key("Enter")
        equal(b.run("pto.selected"), wanted_task, words)
        b.run("document.getElementById('lanes').focus()")
    b.key("/")
    b.type("cholesky.c:214")
    b.key("Enter")
    equal(b.run("pto.filter.name"), "examples/workloads/cholesky.c:214")
    b.run("document.getElementById('search').select()")
    b.type("nosuch")
    check("No kernel" in text(b, "#found"))
    clean(b)


# ---- tables -------------------------------------------------------------------------------------

@test
def kernels_add_up_and_sort(b):
    trace, where = trace_of("layers", 12)
    show(b, where)
    table = {r["name"]: r for r in b.run("pto.model.kernelTable()")}
    for name, row in table.items():
        mine = sorted(trace.duration(i) for i in range(len(trace.tasks))
                      if trace.kernel(i) == name and trace.ran(i))
        equal(row["ran"], len(mine), name)
        equal(row["skipped"], sum(1 for i, t in enumerate(trace.tasks)
                                  if trace.kernel(i) == name and t[16] == 2), name)
        equal(row["mean"], sum(mine) / max(1, len(mine)), name)
        equal(row["total"], sum(mine), name)
        if mine:
            equal(row["max"], mine[-1], name)
            equal(row["p50"], mine[len(mine) // 2], name)
    names = "[...document.querySelectorAll('#side-kernels tbody .link')].map((r) => r.innerText.trim())"
    equal(b.run(names), sorted(table, key=lambda n: -table[n]["total"]))
    said = text(b, "#side-kernels")
    skipped = {r["skipped"] for r in table.values()} - {0}
    check(skipped, "no task was skipped")
    for n in skipped:
        check(f"{n} skipped" in said, n, "skipped in:", said)
    b.click_on("[data-by=ran]")
    counts = [table[n]["ran"] for n in b.run(names)]
    equal(counts, sorted(counts, reverse=True))
    b.click_on("[data-by=name]")
    equal(b.run(names), sorted(table))
    equal(b.run("document.querySelector('th[aria-sort]').innerText").split()[0], "kernel")
    clean(b)


@test
def a_long_graph_says_that_a_part_is_visible(b):
    _, where = trace_of("layers", 12)
    show(b, where)
    b.key("g")
    b.until("pto.graph.drawn")
    check("Only a part is visible: press 0 to see all." in text(b, "#graph-says"), text(b, "#graph-says"))
    clean(b)


@test
def numbers_of_dimmed_nodes_are_readable(b):
    _, where = trace_of("cholesky", 24)
    show(b, where)
    b.run("pto.select(0, true)")
    b.key("g")
    b.click_on("#graph-near")
    b.run("pto.filterKernel(pto.model.trace.kernel(0))")
    b.run("pto.graph.zoomed = 1; pto.graph.draw()")
    for theme in ("light", "dark"):
        if b.run("document.documentElement.dataset.theme === 'dark'") != (theme == "dark"):
            b.run("pto.turnTheme()")
        still(b)
        # The most common colour of each box against the one that differs most from it.
        contrasts = b.run("""(() => {
            const g = pto.graph, r = g.ratio, light = (v) => {
                const part = (c) => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
                return .2126 * part(v & 255) + .7152 * part(v >> 8 & 255) + .0722 * part(v >> 16 & 255);
            };
            const {canvas} = g.context, picture = new OffscreenCanvas(canvas.width, canvas.height)
                .getContext("2d", {willReadFrequently: true});
            picture.drawImage(canvas, 0, 0);
            return g.nodes.filter((n) => !pto.filter.match(n.task)).map((n) => {
                const x = n.x * g.zoomed + g.dx, y = n.y * g.zoomed + g.dy;
                if (x < 40 || y < 40 || x > g.width - 40 || y > g.height - 40) {
                    return null;
                }
                const high = n.high * g.zoomed - 4, wide = n.wide * g.zoomed - 4;
                const all = new Uint32Array(picture.getImageData((x - wide / 2) * r,
                    (y - high / 2) * r, wide * r, high * r).data.buffer);
                const count = new Map();
                all.forEach((v) => count.set(v, (count.get(v) || 0) + 1));
                const ground = light([...count].sort((a, b) => b[1] - a[1])[0][0]);
                return Math.max(...[...count.keys()].map(light).map((l) =>
                    (Math.max(l, ground) + .05) / (Math.min(l, ground) + .05)));
            }).filter((c) => c);
        })()""")
        check(len(contrasts) > 2, "no dimmed nodes")
        check(min(contrasts) > 3.5, theme, "contrast", min(contrasts))
    clean(b)


@test
def the_critical_path_is_the_longest_chain(b):
    for kind, size in (("cholesky", 24), ("layers", 12)):
        trace, where = trace_of(kind, size)
        show(b, where)
        b.key("c")
        path_tasks = b.run("[...pto.model.criticalPath().tasks]")
        equal(b.run("pto.model.criticalPath().time"), trace.longest_chain())
        equal(sum(trace.duration(i) for i in path_tasks), trace.longest_chain(), "its tasks:")
        for a, c in zip(path_tasks, path_tasks[1:]):
            check(a in [e[0] for e in trace.edges_into(c)], "no edge from", a, "to", c)
        check(words_for(trace.longest_chain()) in text(b, "#side-path"))
        equal(b.run("pto.showPath"), True)
        b.click_on(f"#side-path [data-task='{path_tasks[1]}']")
        equal(b.run("pto.selected"), path_tasks[1])
        clean(b)


@test
def the_critical_path_says_what_it_leaves_out(b):
    trace, where = trace_of("layers", 12)  # waits at its end alone
    show(b, where)
    b.key("c")
    equal(text(b, "[data-of=waits]"), None)
    item, at, _ = trace.sections[EVENTS]
    begin = trace.tasks[40][1]
    data = patched(trace.data, at, "<QQIHHQ", begin, begin + 5000, 0, 5, 0, 0)
    show_data(b, data, "reads")
    b.until("window.pto && pto.ready && pto.timeline.frames > 0")
    b.key("c")
    said = text(b, "[data-of=waits]")
    check("waited once for results (5.00 µs)" in said, said)
    clean(b)


@test
def lost_records_and_failures_are_said(b):
    trace, where = trace_of("layers", 12)
    show(b, where)
    check("17 records" in text(b, "#lost") and "worker 2: 17" in text(b, "#lost"), text(b, "#lost"))
    failed = [i for i, t in enumerate(trace.tasks) if t[16] == 1]
    skipped = [i for i, t in enumerate(trace.tasks) if t[16] == 2]
    equal(text(b, "#failed"), f"{len(failed)} failed, {len(skipped)} skipped")
    b.run(f"pto.select({skipped[0]}, true)")
    check("skipped" in text(b, "#side-task") and "never ran" in text(b, "#side-task"))
    b.run(f"pto.select({failed[0]}, true)")
    check("failed" in text(b, "#side-task"))
    b.picture(path("layers.png"))
    clean(b)


@test
def tasks_that_ran_inline_are_told_apart(b):
    trace, where = trace_of("layers", 12)
    show(b, where)
    inline = [i for i, t in enumerate(trace.tasks) if t[17] & 1]
    other = next(i for i, t in enumerate(trace.tasks) if not t[17])
    check(inline, "no task ran inline")
    equal(b.run("pto.model.inlined"), len(inline))
    b.run(f"pto.select({inline[0]}, true)")
    check("ran inline" in text(b, "#side-task"), text(b, "#side-task"))
    b.run(f"pto.select({other}, true)")
    check("ran inline" not in text(b, "#side-task"), text(b, "#side-task"))
    clean(b)


# ---- arguments ----------------------------------------------------------------------------------

@test
def arguments_are_rows_and_columns(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    item, at, _ = trace.sections[ARGS]
    base = 0x7f3a40000000
    for task in (0, 1, 700, len(trace.tasks) - 1):
        b.run(f"pto.select({task}, true)")
        said = text(b, "#side-task")
        for a in range(trace.tasks[task][13], trace.tasks[task][13] + trace.tasks[task][14]):
            place, = struct.unpack_from("<Q", trace.data, at + a * item)
            row, column = divmod((place - base) // 8, 1536)
            want = f"A[{row}:{row + 64}, {column}:{column + 64}] of 1536x1536 float64"
            check(want in said, want, "is not in", said)
    # Heads are columns of a managed buffer.
    trace, where = trace_of("layers", 12)
    show(b, where)
    rope = [i for i in range(len(trace.tasks)) if trace.kernel(i) == "rope"]
    b.run(f"pto.select({rope[2]}, true)")
    check("buffer 2 [0:16, 128:192] of 16x512 float32" in text(b, "#side-task"), text(b, "#side-task"))
    clean(b)


@test
def devices_have_lanes_and_arguments_say_where_they_are(b):
    """A real run: copies to sim:0, products and additions there, a copy back."""
    file = path("devices.ptrace")
    subprocess.run([pto, "run", "bgemm", "--device", "sim:0", "--small", "--no-profile", "--quiet"],
                   check=True, env={**os.environ, "PTO_TRACE": file})
    trace, where = Trace(file), path("devices.html")
    embed(page_text, trace.data, where)
    show(b, where)
    lanes = b.run("pto.timeline.places.map((p) => p.lane.name)")
    equal([l for l in lanes if l.startswith("sim:")], [f"sim:0 worker {i}" for i in range(3)])
    # All that ran did so on the device, each kind of kernel on a thread of its own.
    ran = b.run("""Object.fromEntries(pto.model.lanes.map((l) => [l.name,
        [...new Set(l.rows.flatMap((r) => Array.from(r.items, (i) => pto.model.trace.kernelName(i))))]]))""")
    equal({name: kernels for name, kernels in ran.items() if kernels},
          {"sim:0 worker 0": ["gemm"], "sim:0 worker 1": ["add"], "sim:0 worker 2": ["work"]})
    first = {name: next(i for i in range(len(trace.tasks)) if trace.kernel(i) == name)
             for name in ("work", "gemm")}
    b.run(f"pto.select({first['gemm']}, true)")
    rows = b.run("[...document.querySelectorAll('#side-task .tensor')].map((e) => e.innerText)")
    equal(len(rows), 3)
    check(all("· on sim:0" in row for row in rows), rows)
    check("sim:0 worker 0" in text(b, "#side-task"), text(b, "#side-task"))
    # A copy has twenty scalars, which share a line, and tensors on two devices.
    b.run(f"pto.select({first['work']}, true)")
    rows = b.run("[...document.querySelectorAll('#side-task .tensor')].map((e) => e.innerText)")
    equal(len(rows), 3)
    check(rows[0].startswith("0 to 19 scalars 2, ") and rows[0].count(",") == 19, rows[0])
    check(rows[1].startswith("20 input") and "sim:0" not in rows[1], rows[1])
    check(rows[2].startswith("21 output") and "· on sim:0" in rows[2], rows[2])
    b.picture(path("devices.png"))
    clean(b)


@test
def a_matrix_is_only_named_if_it_is_certain(b):
    trace, _ = trace_of("cholesky", 24)
    item, at, n = trace.sections[ARGS]
    base = 0x7f3a40000000
    places = [struct.unpack_from("<Q", trace.data, at + a * item)[0] for a in range(n)]
    # The last tile is never used: where the matrix begins is a guess now.
    data = trace.data
    for a in range(n):
        if places[a] == max(places):
            data = patched(data, at + a * item, "<Q", base)
    show_data(b, data, "guess")
    b.until("window.pto && pto.ready")
    b.run("pto.select(1, true)")
    said = text(b, "#side-task")
    check("A[" not in said and "a view of 18.0 MiB at 0x7f3a4" in said and "[1536, 1]" in said, said)
    # The same, but the file says where each view lies.
    for a in range(n):
        place, = struct.unpack_from("<Q", data, at + a * item)
        data = patched(data, at + a * item + 28, "<I", 1 + (place - base) // 8)
    show_data(b, data, "told")
    b.until("window.pto && pto.ready")
    b.run("pto.select(1, true)")
    said = text(b, "#side-task")
    check("A[64:128, 0:64] of 1536x1536 float64" in said, said)
    clean(b)


@test
def views_of_any_shape_are_placed(b):
    _, where = trace_of("cholesky", 24)
    show(b, where)
    shape = lambda *args: b.run(f"Views.shape({', '.join(map(str, args))})?.map((d) => d.count) ?? null")
    equal(shape(4 * 6 * 20, 4, [80, 4]), [6, 20])
    equal(shape(4 * 150 * 6 * 20, 4, [480, 80, 4, 80]), [150, 6, 20])
    equal(shape(4 * 150, 4, [4]), [150])
    equal(shape(4 * 30, 4, [24, 40]), None, "strides that do not divide each other:")
    place = lambda bytes, strides, offset, dims: b.run(f"""(() => {{
        const shape = Views.shape({bytes}, 4, {strides});
        return Views.place(shape, {offset}, {{dims: {dims}}})?.map((d) => [d.from, d.to, d.step]) ?? null;
    }})()""")
    rows = "[{count: 3, stride: 80}, {count: 5, stride: 4}]"
    equal(place(480, "[80, 4]", 80 + 8, rows), [[1, 4, 1], [2, 7, 1]])
    turned = "[{count: 5, stride: 4}, {count: 3, stride: 80}]"
    equal(place(480, "[80, 4]", 80 + 8, turned), [[1, 4, 1], [2, 7, 1]], "transposed:")
    equal(place(480, "[80, 4]", 84, "[{count: 5, stride: 8}]"), [[1, 2, 1], [1, 10, 2]], "every other:")
    equal(place(480, "[80, 4]", 240, "[{count: 3, stride: -80}]"), [[3, 2, -1], [0, 1, 1]], "backwards:")
    equal(place(480, "[80, 4]", 88, "[{count: 7, stride: 0}]"), [[1, 2, 1], [2, 3, 1]], "repeated:")
    equal(place(480, "[80, 4]", 64, rows), None, "out of its row:")
    equal(b.run("[0, 25, 26, 27, 701, 702].map(letters)"), ["A", "Z", "AA", "AB", "ZZ", "AAA"])
    clean(b)


# ---- failures, labels, ranges -------------------------------------------------------------------

@test
def failures_are_told_shown_and_jumped_to(b):
    trace, where = trace_of("layers", 12)
    show(b, where)
    failures = trace.failures()
    failed = next(i for i, t in enumerate(trace.tasks) if t[16] == 1)
    skipped = [i for i, t in enumerate(trace.tasks) if t[16] == 2]
    status, words, _, _ = failures[failed]
    b.click_on("#failed")
    equal(b.run("pto.selected"), failed)
    still(b)
    low, high = view(b)
    check(low < trace.tasks[failed][4] and trace.tasks[failed][5] < high, "it is not in the view")
    said = text(b, "[data-of=outcome]")
    check(status in said and words in said, said)  # words with <b> in them are text
    check(f"{len(skipped)} tasks were skipped" in said, said)
    # Red in the timeline, at this zoom and when all is seen.
    red = """(() => {
        const t = pto.timeline, p = t.places[%d], bits = pto.colours.bits[FAILED];
        const y = Math.round(p.rows[0].y + p.rows[0].high / 2 - t.scroll + 26);
        return new Uint32Array(t.context.getImageData(132, y, t.width - 132, 1).data.buffer)
            .filter((v) => v === bits).length;
    })()""" % trace.tasks[failed][10]
    b.run("pto.select(NONE)")
    still(b)
    check(b.run(red) > 20, "no red in the timeline")
    b.key("0")
    still(b)
    check(b.run(red) > 0, "no red when all is seen")
    # The list of failures, and what was skipped because of one.
    b.click_on("#tab-failures")
    check(words in text(b, f"[data-failed='{failed}']"))
    b.click_on(f"[data-failed='{failed}'] .link:last-child")
    bad = b.run("[...Array(pto.model.tasks).keys()].filter((i) => pto.filter.match(i))")
    equal(bad, [failed] + skipped)
    b.run("pto.setFilter(null)")
    # Skipped tasks have a strip of their own, where one can be clicked.
    b.run(f"pto.select({skipped[0]}, true)")
    said = text(b, "[data-of=outcome]")
    check("skipped" in said and f"{trace.kernel(failed)} {failed}" in said and words in said, said)
    b.click_on("[data-of=outcome] .link:last-of-type")
    equal(b.run("pto.edge"), failures[skipped[0]][3], "the edge that poisoned it:")
    b.run("pto.select(NONE)")
    b.run(f"pto.timeline.reveal({skipped[0]}, true)")
    still(b)
    b.click(*spot(b, skipped[0]))
    check(b.run("pto.selected") in skipped)
    b.key("0")
    b.key("f")
    equal(b.run("pto.selected"), failed, "by key:")
    b.key("g")
    b.until("pto.graph.drawn")
    looks = b.run("pto.graph.nodes.map((n) => [n.failed, n.skipped])")
    equal([i for i, l in enumerate(looks) if l[0]], [failed])
    equal([i for i, l in enumerate(looks) if l[1]], skipped)
    b.picture(path("failed-graph.png"))
    clean(b)


@test
def memory_that_was_overwritten_is_told(b):
    trace, _ = trace_of("layers", 12)
    failed = next(i for i, t in enumerate(trace.tasks) if t[16] == 1)
    # The task was done, but a guard of its memory was not.
    data = patched(trace.data, trace.sections[TASKS][1] + 96 * failed + 91, "<B", 0)
    show_data(b, data, "damaged")
    b.until("window.pto && pto.ready")
    check("1 overwritten" in text(b, "#failed"), text(b, "#failed"))
    b.click_on("#failed")
    equal(b.run("pto.selected"), failed)
    check("its memory was overwritten" in text(b, "[data-of=outcome]"))
    b.click_on("#tab-failures")
    check("The memory of 1 more was overwritten." in text(b, "#side-failures"))
    clean(b)


@test
def a_run_without_failures_does_not_speak_of_them(b):
    _, where = trace_of("cholesky", 24)
    show(b, where)
    equal(b.run("['failed', 'tab-failures', 'crowded'].map((id) => document.getElementById(id).hidden)"),
          [True] * 3)
    equal(b.run("[pto.timeline.skippedPlace, pto.timeline.rangePlaces.length]"), [None, 0])
    b.key("f")
    equal(b.run("pto.selected"), NONE)
    clean(b)


@test
def labels_are_everywhere(b):
    trace, where = trace_of("layers", 12)
    show(b, where)
    task, label = list(trace.labels().items())[20]
    close_to(b, task)
    b.click(*spot(b, task))
    check(label in text(b, "#side-task h2"), text(b, "#side-task h2"))
    other = trace.edges_into(task)[0][0]
    b.run(f"pto.select({other}, true)")
    check(label in text(b, "#side-task"), "among those that wait for", other, text(b, "#side-task"))
    # In the timeline: the text drawn into the task.
    drawn = b.run(f"""new Promise((done) => {{
        const c = pto.timeline.context, was = c.fillText, texts = [];
        c.fillText = function (text, ...more) {{ texts.push(text); was.call(this, text, ...more); }};
        pto.timeline.reveal({task}, true);
        setTimeout(() => {{ c.fillText = was; done(texts); }}, 500);
    }})""")
    check(label in drawn, label, "is not drawn, but", set(drawn))
    b.run(f"pto.select({task}); pto.showAround(true)")
    equal(b.run(f"pto.graph.nodes.find((n) => n.task === {task}).label"), label)
    drawn = b.run("""new Promise((done) => {
        const c = pto.graph.context, was = c.fillText, texts = [];
        c.fillText = function (text, ...more) { texts.push(text); was.call(this, text, ...more); };
        pto.graph.draw();
        setTimeout(() => { c.fillText = was; done(texts); }, 300);
    })""")
    check(label in drawn and str(task) in drawn, "the graph draws", drawn)
    b.key("t")
    b.run("pto.select(NONE)")
    b.key("/")
    b.type(label)
    b.key("Enter")
    equal(b.run("pto.selected"), task, "found by its label:")
    clean(b)


@test
def ranges_lie_over_the_lanes(b):
    trace, where = trace_of("layers", 12)
    show(b, where)
    ranges = trace.ranges()
    equal(b.run("pto.timeline.rangePlaces.map((p) => p.row.items.length)"), [12, 12])
    begin, end, name, _, first, tasks = ranges[6]
    equal(name, "layer 3")
    where = b.run(f"""(() => {{
        const t = pto.timeline, p = t.rangePlaces[0], c = t.canvas.getBoundingClientRect();
        return [c.left + t.x({(begin + end) / 2}), c.top + p.y + p.high / 2 - t.scroll + 26];
    }})()""")
    b.click(*where)
    said = text(b, "#side-task")
    check("layer 3" in said and words_for(end - begin) in said and str(tasks) in said, said)
    done = max(t[5] for t in trace.tasks[first:first + tasks])
    check(words_for(done - begin) in said, "the last of its tasks ended after", done - begin, said)
    equal(b.run("document.querySelectorAll('#side-task [data-task]').length"), tasks)
    b.click_on("#side-task .button")
    low, high = view(b)
    check(low <= begin and end <= high and high - low < 1.2 * (end - begin), "not zoomed to it")
    b.click_on("#tab-run")
    equal(b.run("document.querySelectorAll('[data-range]').length"), len(ranges))
    b.click_on("[data-range='7']")
    check(text(b, "#side-task h2") == "experts", "a click in the list of ranges")
    inner = next(r for r in ranges if r[3] == 6)
    b.run(f"pto.select({inner[4]}, true)")
    equal(text(b, "[data-of=ranges]"), "in layer 3 › experts")
    b.run(f"pto.select({len(trace.tasks) - 1}, true)")
    equal(text(b, "[data-of=ranges]"), None, "the last task is in no range:")
    b.key("/")
    b.type("layer 3")
    b.key("Enter")
    hits = b.run("[...Array(pto.model.tasks).keys()].filter((i) => pto.filter.match(i))")
    equal(hits, list(range(first, first + tasks)))
    clean(b)


# ---- the graph ----------------------------------------------------------------------------------

@test
def the_graph_draws_and_collapses(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    b.click_on("#tab-graph")
    b.until("pto.graph.drawn")
    equal(b.run("pto.graph.nodes.length"), len(trace.tasks))
    check(b.run("pto.graph.links.every((l) => pto.graph.nodes[l.from].depth < pto.graph.nodes[l.to].depth)"))
    at = b.run("""(() => { const n = pto.graph.nodes[0], c = pto.graph.canvas.getBoundingClientRect();
        return [c.left + n.x * pto.graph.zoomed + pto.graph.dx, c.top + n.y * pto.graph.zoomed + pto.graph.dy]; })()""")
    b.click(*at)
    equal(b.run("pto.selected"), 0)
    before = b.run("pto.graph.zoomed")
    b.wheel(500, 400, 0, -300)
    check(b.run("pto.graph.zoomed") > before)
    trace, where = trace_of("cholesky", 40)
    check(len(trace.tasks) > 3000)
    show(b, where)
    b.key("g")
    b.until("pto.graph.drawn")
    check(b.run("pto.graph.nodes.length") <= 1200)
    equal(b.run("pto.graph.nodes.reduce((n, x) => n + x.count, 0)"), len(trace.tasks))
    b.run("pto.select(2000)")
    equal(b.run("pto.graph.nodes.filter((n) => pto.graph.isSelected(n)).map((n) => n.name)"),
          [trace.kernel(2000)], "the group of the selected task:")
    heights = b.run("[...document.querySelectorAll('#graph-bar button')].filter((e) => e.offsetHeight)"
                    ".map((e) => e.offsetHeight)")
    check(max(heights) < 36, "a button of the bar is broken into lines:", heights)
    clean(b)


@test
def around_a_task_by_hops(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    task = 60
    into = {i: [e[0] for e in trace.edges_into(i)] for i in range(len(trace.tasks))}
    out = {i: [] for i in into}
    for i, producers in into.items():
        for p in producers:
            out[p].append(i)

    def within(hops):
        seen = {task}
        for near in (into, out):
            edge = {task}
            for _ in range(hops):
                edge = {j for i in edge for j in near[i]} - seen
                seen |= edge
        return sorted(seen)

    b.run(f"pto.select({task}, true)")
    b.key("g")
    b.click_on("#graph-near")
    equal(b.run("document.getElementById('hops').textContent"), "2 hops")
    equal(b.run("pto.graph.nodes.map((n) => n.task)"), within(2))
    b.click_on("#fewer-hops")
    equal(b.run("document.getElementById('hops').textContent"), "1 hop")
    equal(b.run("pto.graph.nodes.map((n) => n.task)"), within(1))
    b.run("document.getElementById('graph').focus()")
    b.key("]")
    b.key("]")
    near = within(3)
    check(len(near) <= 400, len(near), "tasks are too many for this test")
    equal(b.run("pto.graph.nodes.map((n) => n.task)"), near, "3 hops:")
    b.picture(path("graph.png"))
    b.run("pto.select(0)")
    for _ in range(9):
        b.key("]")
    equal(b.run("pto.graph.nodes.length"), 400)
    check("the first 400" in text(b, "#graph-says"), text(b, "#graph-says"))
    b.key("a")
    equal(b.run("pto.graph.around"), False)
    equal(b.run("document.getElementById('hops-group').hidden"), True)
    clean(b)


@test
def nodes_carry_numbers(b):
    trace, where = trace_of("layers", 2)
    show(b, where)
    b.run("pto.select(3); pto.graph.hops = 1")
    b.run("pto.showAround(true)")
    drawn = b.run("""new Promise((done) => {
        const c = pto.graph.context, was = c.fillText, texts = [];
        c.fillText = function (text, ...more) { texts.push(text); was.call(this, text, ...more); };
        pto.graph.draw();
        setTimeout(() => { c.fillText = was; done(texts); }, 300);
    })""")
    for task in b.run("pto.graph.nodes.map((n) => n.task)"):
        check(str(task) in drawn, task, "has no number, but there are", drawn)
        check((trace.labels().get(task) or trace.kernel(task)) in drawn, "no name of", task, drawn)
    clean(b)


# ---- people -------------------------------------------------------------------------------------

@test
def light_and_dark(b):
    _, where = trace_of("cholesky", 24)
    paper = "getComputedStyle(document.body).backgroundColor"
    corner = "[...pto.timeline.context.getImageData(140, 30, 1, 1).data].slice(0, 3)"
    show(b, where)
    light = b.run(paper)
    check(sum(b.run(corner)) > 600)
    b.key("d")
    b.until("document.documentElement.dataset.theme === 'dark'")
    check(b.run(paper) != light)
    b.until(corner + ".reduce((a, x) => a + x) < 200")
    b.run("localStorage.clear()")
    b.scheme(True)
    b.open(where)
    b.until("window.pto && pto.ready")
    equal(b.run("document.documentElement.dataset.theme"), "dark")
    b.picture(path("dark.png"))
    b.scheme(False)
    b.until("document.documentElement.dataset.theme === 'light'")
    clean(b)


@test
def all_of_it_by_keyboard(b):
    trace, where = trace_of("cholesky", 24)
    show(b, where)
    seen = []
    for _ in range(12):
        b.key("Tab")
        seen.append(b.run("document.activeElement.id"))
        check(b.run("document.activeElement === document.body || "
                    "getComputedStyle(document.activeElement).outlineStyle !== 'none'"),
              "no outline on", seen[-1])
    for must in ("tab-time", "search", "theme", "help", "lanes", "tab-kernels"):
        check(must in seen, must, "cannot be reached; there are", seen)
    b.run("document.getElementById('lanes').focus()")
    b.key("?")
    equal(b.run("document.getElementById('keys').open"), True)
    b.key("Escape")
    b.until("!document.getElementById('keys').open")
    b.key("n")
    first = b.run("pto.selected")
    lane = sorted((t[4], i) for i, t in enumerate(trace.tasks) if t[10] == trace.tasks[first][10])
    equal(first, lane[0][1])
    b.key("n")
    equal(b.run("pto.selected"), lane[1][1])
    b.key("p")
    equal(b.run("pto.selected"), first)
    late = len(trace.tasks) - 1
    b.run(f"pto.select({late}, true)")
    b.key("w")
    equal(b.run("pto.selected"), trace.last_producer(late))
    b.key("g")
    equal(b.run("document.getElementById('view-graph').hidden"), False)
    b.key("t")
    equal(b.run("document.getElementById('view-time').hidden"), False)
    unnamed = b.run("""[...document.querySelectorAll('button, input, canvas, [role=tabpanel]')].filter((e) =>
        !(e.innerText || '').trim() && !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby') &&
        !e.closest('label') && e.getAttribute('aria-hidden') !== 'true').map((e) => e.id)""")
    equal(unnamed, [], "without a name:")
    clean(b)


# ---- files --------------------------------------------------------------------------------------

@test
def wrong_files_are_explained(b):
    trace, _ = trace_of("layers", 2)
    for name, data, words in wrong_files(trace):
        show_data(b, data, "wrong")
        equal(b.run("document.getElementById('notice').hidden"), False, f"{name}: no message;")
        said = text(b, "#notice")
        check(words in said, f"{name}: it said: {said}")
        equal(b.problems, [], name)
    with open(path("wrong.html"), "w") as file:
        file.write(page_text.replace("@PTRACE_BASE64@", "%%% this is not base64 %%%"))
    b.open(path("wrong.html"))
    check("not base64" in text(b, "#notice"))
    with open(path("wrong.html"), "w") as file:
        file.write(page_text)
    b.open(path("wrong.html"))
    check("No trace inside" in text(b, "#notice"))
    b.picture(path("notice.png"))
    none = patched(trace.data, 64 + 24 * (TASKS - 1) + 16, "<Q", 0)
    for section in (EDGES, FAILURES, LABELS, RANGES):
        none = patched(none, 64 + 24 * (section - 1) + 16, "<Q", 0)
    show_data(b, none, "wrong")
    check("no tasks" in text(b, "#notice"))
    clean(b)


@test
def files_of_later_writers_are_read(b):
    trace, _ = trace_of("layers", 2)
    show_data(b, from_the_future(trace), "future")
    b.until("window.pto && pto.ready")
    equal(b.run("pto.model.tasks"), len(trace.tasks))
    equal(b.run("pto.model.criticalPath().time"), trace.longest_chain())
    b.run("pto.select(20, true)")
    check("float32[16" in text(b, "#side-task"))
    clean(b)


@test
def a_trace_in_parts_is_the_same(b):
    trace, _ = trace_of("cholesky", 24)
    embed(page_text, trace.data, path("parts.html"), 3 * 1024)
    show(b, path("parts.html"))
    equal(b.run("pto.model.tasks"), len(trace.tasks))
    equal(b.run("pto.model.rings.length"), 3)
    equal(b.run("pto.timeline.ringPlaces.length"), 3)
    equal(b.run("pto.model.criticalPath().time"), trace.longest_chain())
    clean(b)


@test
def pending_tasks_lie_beside_others_and_the_unended_go_to_the_end(b):
    trace, _ = trace_of("layers", 2)
    lane = sorted((t[4], i) for i, t in enumerate(trace.tasks) if t[10] == 1)
    long, open_end = lane[2][1], lane[-1][1]
    at = trace.sections[TASKS][1]
    data = patched(trace.data, at + 96 * long + 40, "<Q", trace.tasks[lane[6][1]][5])
    data = patched(data, at + 96 * open_end + 40, "<Q", UNKNOWN)
    data = patched(data, at + 96 * open_end + 91, "<B", 3)
    show_data(b, data, "pending")
    b.until("window.pto && pto.ready")
    check(b.run("pto.model.lanes[1].rows.length") >= 2)
    b.run(f"pto.timeline.reveal({long}, true)")
    still(b)
    b.click(*spot(b, long))
    equal(b.run("pto.selected"), long)
    b.run(f"pto.select({open_end})")
    check("had not ended" in text(b, "#side-task"))
    clean(b)


# ---- a million ----------------------------------------------------------------------------------

@test
def a_million_tasks(b):
    _, where = trace_of("cholesky", 182, 8)
    b.open(where, 300)
    b.until("window.pto && pto.ready", 120)
    check(b.run("pto.model.tasks") > 1000000)
    first = b.run("pto.timeline.firstSeen") / 1000
    b.picture(path("million.png"))
    rates = []
    for share in (1, .1, .001):
        rates.append(b.run(f"""new Promise((done) => {{
            const t = pto.timeline, span = pto.model.last * {share}, from = pto.model.last * (1 - {share}) / 2;
            const begin = performance.now();
            let n = 0;
            const step = () => {{
                t.see(from + span * n / 500, from + span * (1 + n / 500));
                n++ < 90 ? requestAnimationFrame(step) : done(90e3 / (performance.now() - begin));
            }};
            requestAnimationFrame(step);
        }})"""))
    b.run("pto.select(500000, true)")
    check("task" in text(b, "#side-task"))
    b.key("c")
    b.until("pto.showPath")
    b.key("g")
    b.until("pto.graph.drawn", 60)
    b.picture(path("million-graph.png"))
    clean(b)
    slowest = min(rates)
    print(f"  first picture after {first:.2f} s; panning at "
          f"{', '.join(f'{r:.0f}' for r in rates)} frames/s (all, a tenth, a thousandth)")
    print(f"BAR page first picture of a million tasks: {first:.2f} s (want <= 3 s) "
          f"{'ok' if first <= 3 else 'short'}")
    print(f"BAR page panning: {slowest:.0f} frames/s (want >= 30) {'ok' if slowest >= 30 else 'short'}")
    check(first <= 3 and slowest >= 30, "a bar is short")
    os.unlink(where) # hundreds of megabytes
    os.unlink(path("cholesky-182.ptrace"))


failed = 0
run = [t for t in tests if wanted in t.__name__]
for function in run:
    begin = time.monotonic()
    with Browser() as browser:
        try:
            function(browser)
            print(f"ok      {function.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {function.__name__}: {error}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            if browser.problems:
                print("  console:", *browser.problems[:5], sep="\n    ")
            try:
                browser.picture(path(f"failed-{function.__name__}.png"))
            except Exception:
                pass
print(f"{len(run) - failed} of {len(run)} tests of the page passed; pictures are in {folder}")
sys.exit(failed != 0 or not run)
