/* panel.js - the details at the side, in words: a task, an edge, kernels, the critical path, the run.
 */

/* h("button.row", {onclick}, "text", child...): an element. Text is never read as HTML. */
function h(what, more, ...inside) {
    const [tag, ...names] = what.split(".");
    const element = document.createElement(tag || "div");
    element.className = names.join(" ");
    for (const [key, value] of Object.entries(more || {})) {
        if (key.startsWith("on")) {
            element.addEventListener(key.slice(2), value);
        } else if (key === "style") {
            Object.assign(element.style, value);
        } else if (value !== null && value !== undefined) {
            element.setAttribute(key, value);
        }
    }
    element.append(...inside.flat(9).filter((x) => x !== null && x !== undefined && x !== ""));
    return element;
}

const EDGE_KINDS = [
    ["RAW", "reads what the other wrote"],
    ["WAR", "overwrites what the other still had to read"],
    ["WAW", "overwrites what the other wrote"],
    ["after", "was told to come after it"],
];
const VERDICTS = [ // by the stage of the overlap test that decided
    "a region without elements cannot meet another",
    "the two lie in different memory",
    "seen from where the two begin and end",
    "both are gapless, and their byte ranges meet",
    "the two are the very same bytes",
    "one is gapless, and the other's rows reach into it",
    "both are boxes in one grid of strides, and the boxes meet",
    "as two arithmetic progressions they have bytes in common",
    "a search over all their dims found a byte in common",
    "not proved: the search ran out of its budget, and the safe answer is that they meet",
];
const DTYPES = ["?", "float32", "float16", "int32", "int16", "int8", "uint8", "bfloat16", "int64",
                "uint64", "float64", "bool"];
const DTYPE_BYTES = [1, 4, 2, 4, 2, 1, 1, 2, 8, 8, 8, 1];
const ACCESS = ["?", "input", "output", "in/out", "scalar"];
const TYPES = ["cube", "vector", "ai_cpu", "accelerator"];
const OUTCOMES = ["", "failed", "skipped: something it reads from had failed",
                  "had not ended when the trace did"];

function edgeTitle(model, e) {
    const {trace} = model, from = trace.from(e);
    const kind = EDGE_KINDS[trace.edgeKind(e)] || ["?"];
    return `${kind[0]}: ${from === NONE ? "before the trace" : trace.kernelName(from)} → ` +
        trace.kernelName(trace.to(e));
}

class Panel {
    constructor(app) {
        this.app = app;
        this.model = app.model;
        this.trace = app.model.trace;
        this.sort = {by: "total", down: true};
    }

    show(id, ...inside) {
        document.getElementById(id).replaceChildren(...inside.flat(9).filter(Boolean));
    }

    swatch(kind) {
        return h("i.swatch", {style: {background: this.app.colours.swatch(kind)}});
    }

    taskLink(i) {
        return h("button.link", {onclick: () => this.app.select(i, true)},
                 `${this.trace.kernelName(i)} `, h("span.mono", null, `${this.trace.id(i)}`));
    }

    // ---- a task -------------------------------------------------------------------------------

    task(i) {
        if (i === NONE) {
            this.show("side-task", h("p.soft", null, "Click a task, or search for one with /."));
            return;
        }
        const {trace: t, model} = this, kernel = t.kernel(i);
        const lane = t.lane(i), type = kernel === NONE ? 4 : t.KERNELS.u32(kernel, 1);
        this.show("side-task",
            h("h2", null, this.swatch(model.classOf(i)), " ", t.kernelName(i)),
            h("p.soft", null, h("span.mono", null, `task ${t.id(i)}`), ` · submitted at `,
              h("span.mono", null, t.siteName(i))),
            t.outcome(i) ? h("p.bad", null, OUTCOMES[t.outcome(i)] || "ended in an unknown way") : null,
            this.times(i),
            this.edge(),
            h("h3", null, "Facts"),
            h("dl.facts", null,
              h("dt", null, "lane"), h("dd", null, lane === NONE ? "never ran" : t.laneNames[lane]),
              h("dt", null, "started at"), h("dd", null, duration(t.start(i))),
              h("dt", null, "order"), h("dd", null, `number ${amount(i)} of ${amount(model.tasks)}`),
              h("dt", null, "type"), h("dd", null, TYPES[type] || "unknown"),
              h("dt", null, "ring level"), h("dd", null, `${t.level(i)}`)),
            h("h3", null, `Arguments (${t.args(i)})`),
            Array.from({length: t.args(i)}, (_, a) => this.argument(t.firstArg(i) + a, a)),
            this.edges("Waits for", i, true), this.edges("Waited for by", i, false));
    }

    /* Where its time went. */
    times(i) {
        const {trace: t, model, app} = this, s = model.split(i);
        const last = model.lastProducer(i), producer = last === NONE ? NONE : t.from(last);
        const c = app.colours;
        const parts = [
            ["blocked", "no room in a ring", c.bad, s.blocked],
            ["submit", "being submitted", c.faint, s.submit],
            ["waiting", "waiting for others", c.warn, s.waiting],
            ["queued", "ready, no worker free", c.soft, s.queued],
            ["running", "running", c.of(model.classOf(i)), s.running],
        ];
        const all = parts.reduce((sum, p) => sum + (p[3] || 0), 0) || 1;
        const waited = s.waiting > 0 && producer !== NONE;
        return [
            h("div.split", {role: "img", "aria-label": parts.map((p) => `${p[1]} ${duration(p[3])}`).join(", ")},
              parts.map((p) => p[3] > 0
                  ? h("i", {style: {width: `${100 * p[3] / all}%`, background: p[2]}, title: `${p[1]}: ${duration(p[3])}`})
                  : null)),
            h("dl.times", {"data-of": "times"}, parts.map((p) => h("dt", null,
                h("i.swatch", {style: {background: p[2]}}), h("span", null, p[1]),
                h("dd", {"data-part": p[0]}, duration(p[3]))))),
            waited
                ? h("div.box", {"data-of": "waited"}, "Waited for ", this.taskLink(producer),
                    `, the last of ${t.edges(i)} to end, `,
                    h("button.link", {onclick: () => app.selectEdge(last)}, "why?"))
                : h("p.soft", {"data-of": "waited"}, t.edges(i)
                    ? "All that it depends on had ended when it was submitted."
                    : "It depends on nothing that was still under way."),
        ];
    }

    argument(a, number) {
        const {trace: t} = this, A = t.ARGS, access = A.u8(a, 23), dtype = A.u8(a, 21);
        const words = `${ACCESS[access & 127] || "?"}${access & 128 ? ", takes no part in ordering" : ""}`;
        if ((access & 127) === 4) {
            return h("div.tensor", null, h("b", null, `${number} `), h("span.soft", null, words + " "),
                     h("span.mono", null, this.scalar(a, dtype)));
        }
        return h("div.tensor", null,
            h("div", null, h("b", null, `${number} `), h("span.soft", null, words + " "),
              h("span.mono", null, `${DTYPES[dtype] || "?"}${this.shape(a)}`)),
            h("div.soft.mono", null, `strides ${this.strides(a)} · ${this.where(a)}`));
    }

    scalar(a, dtype) {
        const view = new DataView(this.trace.ARGS.bytes.buffer, this.trace.ARGS.bytes.byteOffset + a * this.trace.ARGS.item, 8);
        return `${dtype === 10 ? view.getFloat64(0, true) : dtype === 8 ? view.getBigInt64(0, true) : view.getBigUint64(0, true)}`;
    }

    dims(a, second) {
        const {ARGS, DIMS} = this.trace, n = ARGS.u8(a, 22), first = ARGS.u32(a, 6);
        return first === NONE ? [] : Array.from({length: n}, (_, i) =>
            BigInt.asIntN(64, DIMS.exact(first + i + (second ? n : 0), 0)));
    }

    shape(a) {
        return `[${this.dims(a, false).join(", ")}]`;
    }

    strides(a) {
        return `[${this.dims(a, true).join(", ")}]`;
    }

    where(a) {
        const {ARGS} = this.trace, segment = ARGS.u8(a, 20), at = ARGS.exact(a, 0).toString(16);
        return segment === 255 ? `at 0x${at}` : `heap ${segment} + 0x${at}`;
    }

    edges(title, i, into) {
        const {trace: t, model, app} = this;
        const list = into ? Array.from({length: t.edges(i)}, (_, k) => t.firstEdge(i) + k)
            : [...model.consumers(i)];
        const last = into ? model.lastProducer(i) : NONE, shown = list.slice(0, 100);
        return [h("h3", null, `${title} (${amount(list.length)})`), shown.map((e) => {
            const other = into ? t.from(e) : t.to(e);
            const name = other === NONE ? "a task before the trace" : `${t.kernelName(other)} ${t.id(other)}`;
            return h("button.row", {"data-edge": e, "aria-pressed": `${e === app.edge}`,
                                    onclick: () => app.selectEdge(e)},
                     h("span.kind", null, (EDGE_KINDS[t.edgeKind(e)] || ["?"])[0]),
                     h("span", null, name), h("span", null, e === last ? "last to end" : ""));
        }), list.length > shown.length ? h("p.soft", null, `and ${amount(list.length - shown.length)} more`) : null];
    }

    // ---- an edge ------------------------------------------------------------------------------

    edge() {
        const {trace: t, app: {edge: e}} = this;
        if (e === NONE) {
            return null;
        }
        const from = t.from(e), to = t.to(e), [kind, why] = EDGE_KINDS[t.edgeKind(e)] || ["?", "depends on it"];
        const regions = [["it", t.argTo(e), to], ["the other", t.argFrom(e), from]];
        const verdict = t.verdict(e);
        return [
            h("h3", null, "Why this edge"),
            h("div.box", {"data-of": "edge"},
              h("div", null, h("span.kind", null, kind), " ", this.taskLink(to), ` ${why}: `,
                from === NONE ? "a task before the trace" : this.taskLink(from)),
              regions.map(([who, a, task]) => a === NONE || task === NONE ? null : h("div.tensor", null,
                  h("div", null, h("span.soft", null, `${who}: argument ${a - t.firstArg(task)}, `),
                    h("span.mono", null, `${ACCESS[t.ARGS.u8(a, 23) & 127] || "?"} ${DTYPES[t.ARGS.u8(a, 21)] || "?"}${this.shape(a)}`)),
                  h("div.soft.mono", null, `strides ${this.strides(a)} · ${this.where(a)}`),
                  h("div.soft.mono", null, this.reach(a)))),
              h("p", null, t.edgeKind(e) === 3 ? "Memory plays no part: the program asked for this order (pto_after)."
                  : verdict === 255 ? "The two regions are the same." : `They share bytes: ${VERDICTS[verdict] || "decided in a way this page does not know"}.`)),
        ];
    }

    /* The bytes from the first to the last that a region touches. */
    reach(a) {
        const {ARGS} = this.trace, size = BigInt(DTYPE_BYTES[ARGS.u8(a, 21)] || 1);
        const shape = this.dims(a, false), strides = this.dims(a, true);
        let low = 0n, high = 0n;
        for (let d = 0; d < shape.length; d++) {
            if (shape[d] < 1n) {
                return "no bytes";
            }
            const far = (shape[d] - 1n) * strides[d];
            far < 0n ? low += far : high += far;
        }
        const at = ARGS.exact(a, 0), first = at + low * size, end = at + (high + 1n) * size;
        return `bytes 0x${first.toString(16)} to 0x${(end - 1n).toString(16)} (${bytesText(Number(end - first))} from end to end)`;
    }

    // ---- kernels ------------------------------------------------------------------------------

    kernels() {
        const {model, app, sort} = this;
        const columns = [["name", "kernel"], ["count", "tasks"], ["total", "total"], ["mean", "mean"], ["p50", "p50"],
                         ["p99", "p99"], ["max", "max"], ["waiting", "waits"], ["queued", "queued"]];
        const rows = [...model.kernelTable()].sort((a, b) => (sort.down ? -1 : 1) *
            (sort.by === "name" ? a.name.localeCompare(b.name) : a[sort.by] - b[sort.by]) || a.kernel - b.kernel);
        const most = Math.max(...rows.map((r) => r.total), 1);
        this.show("side-kernels",
            h("div.scroll", null, h("table", null,
              h("thead", null, h("tr", null, columns.map(([by, name]) =>
                  h("th", {scope: "col", "aria-sort": sort.by === by ? (sort.down ? "descending" : "ascending") : null},
                    h("button", {"data-by": by, onclick: () => {
                        this.sort = {by, down: sort.by === by ? !sort.down : by !== "name"};
                        this.kernels();
                        document.querySelector(`[data-by="${by}"]`).focus();
                    }}, name, sort.by === by ? (sort.down ? " ↓" : " ↑") : ""))))),
              h("tbody", null, rows.map((r) => h("tr", null,
                  h("td", null, h("button.link", {onclick: () => app.filterKernel(r.kernel)},
                                  this.swatch(model.kernelClass[r.kernel]), " ", r.name),
                    h("i.bar", {style: {width: `${100 * r.total / most}%`, background: app.colours.of(model.kernelClass[r.kernel])}})),
                  h("td", null, amount(r.count)),
                  ["total", "mean", "p50", "p99", "max", "waiting", "queued"].map((key) => h("td", null, duration(r[key])))))))),
            h("p.soft", null, "waits: mean time from submit to ready; queued: from ready to start. " +
              "A click on a name shows its tasks alone."));
    }

    // ---- the critical path --------------------------------------------------------------------

    path() {
        const {model, trace: t, app} = this, path = model.criticalPath();
        const byKernel = new Map();
        for (const i of path.tasks) {
            const entry = byKernel.get(t.kernelName(i)) || {time: 0, count: 0, task: i};
            entry.time += t.duration(i);
            entry.count++;
            byKernel.set(t.kernelName(i), entry);
        }
        const most = 400, tasks = path.tasks.subarray(0, most);
        this.show("side-path",
            h("h2", null, duration(path.time)),
            h("p", null, `The longest chain of tasks that wait for each other: ${amount(path.tasks.length)} of ` +
              `${amount(model.tasks)} tasks, ${percent(path.time, model.makespan)} of the ${duration(model.makespan)} that the run took. ` +
              `However many workers there are, it cannot be done faster; all tasks together take ${duration(model.busy)}, ` +
              `so more than ${three(model.busy / Math.max(path.time, 1))} workers find no work.`),
            h("button.button", {onclick: () => app.togglePath(), "aria-pressed": `${app.showPath}`, id: "path-button"},
              app.showPath ? "Hide it in the timeline" : "Show it in the timeline"),
            h("h3", null, "By kernel"),
            [...byKernel].sort((a, b) => b[1].time - a[1].time).map(([name, entry]) =>
                h("div.row", null, this.swatch(model.classOf(entry.task)), h("span", null, `${name} × ${amount(entry.count)}`),
                  h("span", null, `${duration(entry.time)}, ${percent(entry.time, path.time)}`))),
            h("h3", null, "Its tasks, in order"),
            Array.from(tasks, (i) => h("button.row", {"data-task": i, onclick: () => app.select(i, true)},
                this.swatch(model.classOf(i)), h("span", null, `${t.kernelName(i)} `),
                h("span.mono.soft", null, `${t.id(i)}`), h("span", null, duration(t.duration(i))))),
            path.tasks.length > most ? h("p.soft", null, `and ${amount(path.tasks.length - most)} more`) : null);
    }

    // ---- the run ------------------------------------------------------------------------------

    run() {
        const {model, trace: t} = this, stalls = new Map();
        for (let i = 0; i < t.EVENTS.count; i++) {
            const kind = t.EVENTS.u32(i, 5) & 0xffff, time = t.EVENTS.time(i, 2) - t.EVENTS.time(i, 0);
            const entry = stalls.get(kind) || {count: 0, time: 0};
            entry.count++;
            entry.time += time > 0 ? time : 0;
            stalls.set(kind, entry);
        }
        const when = t.origin ? new Date(t.origin / 1e6).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "unknown";
        this.show("side-run",
            h("h2", null, t.meta.get("program") || "A run"),
            h("p.soft", null, when),
            h("dl.facts", null,
              [["took", duration(model.makespan)], ["tasks", amount(model.tasks)], ["failed", amount(model.failed)],
               ["skipped", amount(model.skipped)], ["edges", amount(t.EDGES.count)],
               ["kernel time", duration(model.busy)],
               ["at once, on average", three(model.busy / Math.max(model.makespan, 1))],
               ["records lost", t.lost ? amount(t.lost) : "none"]]
                  .map(([a, b]) => [h("dt", null, a), h("dd", null, b)])),
            h("h3", null, "Stalls, waits and sleep"),
            stalls.size ? h("dl.facts", null, [...stalls].sort((a, b) => a[0] - b[0]).map(([kind, entry]) =>
                [h("dt", null, EVENT_WORDS[kind] || `event ${kind}`),
                 h("dd", null, `${amount(entry.count)} times, ${duration(entry.time)}`)]))
                : h("p.soft", null, "None."),
            h("h3", null, "Said by the program"),
            h("dl.facts", null, [...t.meta].map(([key, value]) => [h("dt", null, key), h("dd", null, value)])));
    }

    // ---- the legend ---------------------------------------------------------------------------

    legend() {
        const {model, app, trace: t} = this;
        const shown = model.kernelOrder.slice(0, 40);
        this.show("legend", shown.map((k) => h("button", {
            "aria-pressed": `${app.filter?.kernel === k}`, "data-kernel": k, onclick: () => app.filterKernel(k),
        }, this.swatch(model.kernelClass[k]), t.kernelNames[k], h("small", null, percent(model.kernelTime[k], model.busy)))),
        model.kernelOrder.length > shown.length ? h("small", null, `and ${model.kernelOrder.length - shown.length} more`) : null);
    }
}
