/* panel.js - the panel with details: a task, an edge, kernels, the critical path, the run. */

/* h("button.row", {onclick}, "text", child...) creates an element. Text is never parsed as HTML. */
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

/* A list of names and values. */
function facts(...pairs) {
    return h("dl.facts", null, pairs.map(([name, value]) => [h("dt", null, name),
                                                             h("dd", null, value)]));
}

function edgeTitle(model, e) {
    const {trace} = model, from = trace.from(e);
    const kind = EDGE_NAMES[trace.edgeKind(e)] || "?";
    return `${kind}: ${from === NONE ? "before the trace" : trace.kernelName(from)} → ` +
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
                 `${this.trace.kernelName(i)} `, h("span.mono", null, `${i}`));
    }

    // ---- a task -------------------------------------------------------------------------------

    task(i) {
        if (i === NONE) {
            this.show("side-task", h("p.soft", null, "Click a task, or search for one with /."));
            return;
        }
        const {trace: t, model} = this, kernel = t.kernel(i), lane = t.lane(i);
        const type = kernel === NONE ? NONE : t.KERNELS.u32(kernel, 1), outcome = t.outcome(i);
        this.show("side-task",
            h("h2", null, this.swatch(model.classOf(i)), " ", t.kernelName(i)),
            h("p.soft", null, h("span.mono", null, `task ${i}`), " · submitted at ",
              h("span.mono", null, t.siteName(i))),
            outcome === OUTCOME.DONE ? null
                : h("p.bad", null, OUTCOME_WORDS[outcome] || "ended in an unknown way"),
            t.ranInline(i) ? h("p.soft", null, "ran inline, in its submit") : null,
            this.times(i),
            this.edge(),
            h("h3", null, "Facts"),
            facts(["lane", lane === NONE ? "never ran" : t.laneNames[lane]],
                  ["started at", duration(t.start(i))],
                  ["handle", `${t.id(i)}`],
                  ["type", TYPE_NAMES[type] || "unknown"],
                  ["ring level", `${t.level(i)}`]),
            h("h3", null, `Arguments (${t.args(i)})`),
            Array.from({length: t.args(i)}, (_, a) => this.argument(t.firstArg(i) + a, a)),
            this.edges("Waits for", i, true),
            this.edges("Waited for by", i, false));
    }

    /* The parts of its time, as a bar and a list. */
    times(i) {
        const {model, app: {colours}} = this, s = model.split(i);
        const parts = [
            ["blocked", "waits for room", colours.bad, s.blocked],
            ["submit", "being submitted", colours.faint, s.submit],
            ["waiting", "waits for other tasks", colours.warn, s.waiting],
            ["queued", "ready, no worker free", colours.soft, s.queued],
            ["running", "running", colours.of(model.classOf(i)), s.running],
        ].map(([id, name, background, time]) => ({id, name, background, time}));
        const all = parts.reduce((sum, p) => sum + (p.time || 0), 0) || 1;
        const words = parts.map((p) => `${p.name} ${duration(p.time)}`).join(", ");
        return [
            h("div.split", {role: "img", "aria-label": words}, parts.filter((p) => p.time > 0)
                .map(({background, time}) =>
                    h("i", {style: {width: `${100 * time / all}%`, background}}))),
            h("dl.times", null, parts.map(({id, name, background, time}) => h("dt", null,
                h("i.swatch", {style: {background}}), h("span", null, name),
                h("dd", {"data-part": id}, duration(time))))),
            this.waited(i, s.waiting),
        ];
    }

    /* The task that it waited for: the last of its producers to end. */
    waited(i, time) {
        const {trace: t, model, app} = this, last = model.lastProducer(i);
        if (time > 0 && last !== NONE) {
            return h("div.box", {"data-of": "waited"}, "Waited for ", this.taskLink(t.from(last)),
                     t.edges(i) > 1 ? `, the last of ${t.edges(i)} to end, ` : ", ",
                     h("button.link", {onclick: () => app.selectEdge(last)}, "why?"));
        }
        return h("p.soft", {"data-of": "waited"},
                 t.edges(i) ? "All tasks that it depends on had ended when it was submitted."
                            : "It depends on no task that was still running.");
    }

    argument(a, number) {
        const {ARGS} = this.trace, access = ARGS.u8(a, 23);
        const words = this.access(a) + (access & PTRACE_NODEP ? ", causes no dependencies " : " ");
        const head = [h("b", null, `${number} `), h("span.soft", null, words)];
        if ((access & ~PTRACE_NODEP) === ACCESS.SCALAR) {
            return h("div.tensor", null, head, h("span.mono", null, this.scalar(a)));
        }
        return h("div.tensor", null,
                 h("div", null, head, h("span.mono", null, this.type(a))),
                 h("div.soft.mono", null, `strides ${this.strides(a)} · ${this.where(a)}`));
    }

    access(a) {
        return ACCESS_NAMES[this.trace.ARGS.u8(a, 23) & ~PTRACE_NODEP] || "?";
    }

    /* For example: float32[16, 512]. */
    type(a) {
        const name = DTYPE_NAMES[this.trace.ARGS.u8(a, 21)] || "?";
        return `${name}[${this.dims(a, false).join(", ")}]`;
    }

    scalar(a) {
        const {ARGS} = this.trace, dtype = ARGS.u8(a, 21), bits = ARGS.exact(a, 0);
        if (dtype === DTYPE.FLOAT64) {
            return `${new Float64Array(BigUint64Array.of(bits).buffer)[0]}`;
        }
        return `${dtype === DTYPE.INT64 ? BigInt.asIntN(64, bits) : bits}`;
    }

    dims(a, second) {
        const {ARGS, DIMS} = this.trace, n = ARGS.u8(a, 22), first = ARGS.u32(a, 6);
        return first === NONE ? [] : Array.from({length: n}, (_, i) =>
            BigInt.asIntN(64, DIMS.exact(first + i + (second ? n : 0), 0)));
    }

    strides(a) {
        return `[${this.dims(a, true).join(", ")}]`;
    }

    where(a) {
        const {ARGS} = this.trace, segment = ARGS.u8(a, 20), at = ARGS.exact(a, 0).toString(16);
        return segment === PTRACE_USER ? `at 0x${at}` : `heap ${segment} + 0x${at}`;
    }

    edges(title, i, into) {
        const {trace: t, model, app} = this, most = 100;
        const list = into ? Array.from({length: t.edges(i)}, (_, k) => t.firstEdge(i) + k)
                          : [...model.consumers(i)];
        const last = into ? model.lastProducer(i) : NONE;
        const row = (e) => {
            const other = into ? t.from(e) : t.to(e);
            const more = {"data-edge": e, "aria-pressed": `${e === app.edge}`,
                          onclick: () => app.selectEdge(e)};
            return h("button.row", more,
                     h("span.kind", null, EDGE_NAMES[t.edgeKind(e)] || "?"),
                     h("span", null, other === NONE ? "a task before the trace"
                                                    : `${t.kernelName(other)} ${other}`),
                     h("span", null, e === last ? "last to end" : ""));
        };
        return [h("h3", null, `${title} (${amount(list.length)})`), list.slice(0, most).map(row),
                this.andMore(list.length - most)];
    }

    andMore(count) {
        return count > 0 ? h("p.soft", null, `and ${amount(count)} more`) : null;
    }

    // ---- an edge ------------------------------------------------------------------------------

    edge() {
        const {trace: t, app: {edge: e}} = this;
        if (e === NONE) {
            return null;
        }
        const from = t.from(e), to = t.to(e), verdict = t.verdict(e);
        const kind = EDGE_NAMES[t.edgeKind(e)] || "?";
        const why = EDGE_WORDS[t.edgeKind(e)] || "depends on it";
        const region = (who, a, task) => a === NONE || task === NONE ? null
            : h("div.tensor", null,
                h("div", null, h("span.soft", null, `${who}: argument ${a - t.firstArg(task)}, `),
                  h("span.mono", null, `${this.access(a)} ${this.type(a)}`)),
                h("div.soft.mono", null, `strides ${this.strides(a)} · ${this.where(a)}`),
                h("div.soft.mono", null, this.reach(a)));
        const because = t.edgeKind(e) === EDGE.AFTER
            ? "The program asked for this order (pto_after). Memory is not the reason."
            : verdict === PTRACE_SAME_REGION ? "The two regions are the same."
            : `They overlap: ${STAGE_WORDS[verdict] || "the reason is unknown to this page"}.`;
        return [
            h("h3", null, "Why this edge"),
            h("div.box", {"data-of": "edge"},
              h("div", null, h("span.kind", null, kind), " ", this.taskLink(to), ` ${why}: `,
                from === NONE ? "a task before the trace" : this.taskLink(from)),
              region("later task", t.argTo(e), to),
              region("earlier task", t.argFrom(e), from),
              h("p", null, because)),
        ];
    }

    /* The range from the first to the last byte of a region. */
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
        return `bytes 0x${first.toString(16)} to 0x${(end - 1n).toString(16)} ` +
            `(${bytesText(Number(end - first))} from end to end)`;
    }

    // ---- kernels ------------------------------------------------------------------------------

    kernels() {
        const {model, sort} = this;
        const times = ["total", "mean", "p50", "p99", "max", "waiting", "queued"];
        const columns = ["name", "count", ...times];
        const compare = (a, b) => sort.by === "name" ? a.name.localeCompare(b.name)
                                                     : a[sort.by] - b[sort.by];
        const rows = [...model.kernelTable()]
            .sort((a, b) => (sort.down ? -1 : 1) * compare(a, b) || a.kernel - b.kernel);
        const most = Math.max(...rows.map((r) => r.total), 1);
        this.show("side-kernels",
            h("div.scroll", null, h("table", null,
              h("thead", null, h("tr", null, columns.map((by) => this.column(by)))),
              h("tbody", null, rows.map((r) => h("tr", null,
                  this.kernelCell(r, most),
                  h("td", null, amount(r.count)),
                  times.map((key) => h("td", null, duration(r[key])))))))),
            h("p.soft", null, "waits: mean time from submit to ready. queued: mean time from " +
              "ready to start. Click a name to highlight its tasks."));
    }

    column(by) {
        const {sort} = this, on = sort.by === by;
        const name = {name: "kernel", count: "tasks", waiting: "waits"}[by] || by;
        const click = () => {
            this.sort = {by, down: on ? !sort.down : by !== "name"};
            this.kernels();
            document.querySelector(`[data-by="${by}"]`).focus();
        };
        const way = sort.down ? "descending" : "ascending";
        return h("th", {scope: "col", "aria-sort": on ? way : null},
                 h("button", {"data-by": by, onclick: click},
                   name + (!on ? "" : sort.down ? " ↓" : " ↑")));
    }

    kernelCell(r, most) {
        const {app, model} = this, kind = model.kernelClass[r.kernel];
        const bar = {width: `${100 * r.total / most}%`, background: app.colours.of(kind)};
        return h("td", null,
                 h("button.link", {onclick: () => app.filterKernel(r.kernel)},
                   this.swatch(kind), ` ${r.name}`),
                 h("i.bar", {style: bar}));
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
        const most = 400, {tasks, time} = path;
        const button = {id: "path-button", "aria-pressed": `${app.showPath}`,
                        onclick: () => app.togglePath()};
        this.show("side-path",
            h("h2", null, duration(time)),
            h("p", null,
              `The longest chain of dependent tasks: ${amount(tasks.length)} of ` +
              `${amount(model.tasks)} tasks, ${percent(time, model.makespan)} of the run, which ` +
              `took ${duration(model.makespan)}. No number of workers makes the run shorter than ` +
              `this chain. All tasks together take ${duration(model.busy)}: average parallelism ` +
              `${three(model.busy / Math.max(time, 1))}, more workers would idle.`),
            h("button.button", button,
              app.showPath ? "Hide it in the timeline" : "Show it in the timeline"),
            h("h3", null, "By kernel"),
            [...byKernel].sort((a, b) => b[1].time - a[1].time).map(([name, entry]) =>
                h("div.row", null, this.swatch(model.classOf(entry.task)),
                  h("span", null, `${name} × ${amount(entry.count)}`),
                  h("span", null, `${duration(entry.time)}, ${percent(entry.time, time)}`))),
            h("h3", null, "Tasks, in order"),
            Array.from(tasks.subarray(0, most), (i) =>
                h("button.row", {"data-task": i, onclick: () => app.select(i, true)},
                  this.swatch(model.classOf(i)), h("span", null, `${t.kernelName(i)} `),
                  h("span.mono.soft", null, `${i}`),
                  h("span", null, duration(t.duration(i))))),
            this.andMore(tasks.length - most));
    }

    // ---- the run ------------------------------------------------------------------------------

    run() {
        const {model, trace: t} = this, {EVENTS} = t, waits = new Map();
        for (let i = 0; i < EVENTS.count; i++) {
            const kind = EVENTS.u32(i, 5) & 0xffff, time = EVENTS.time(i, 2) - EVENTS.time(i, 0);
            const entry = waits.get(kind) || {count: 0, time: 0};
            entry.count++;
            entry.time += time > 0 ? time : 0;
            waits.set(kind, entry);
        }
        const when = new Date(t.origin / 1e6), known = t.origin && !isNaN(when);
        const begun = known ? `${when.toISOString().replace("T", " ").slice(0, 19)} UTC`
                            : "at an unknown time";
        this.show("side-run",
            h("h2", null, t.meta.get("program") || "A run"),
            h("p.soft", null, `started ${begun}`),
            facts(["took", duration(model.makespan)],
                  ["tasks", amount(model.tasks)],
                  ["failed", amount(model.failed)],
                  ["skipped", amount(model.skipped)],
                  ["ran inline", amount(model.inlined)],
                  ["edges", amount(t.EDGES.count)],
                  ["kernel time", duration(model.busy)],
                  ["average parallelism", three(model.busy / Math.max(model.makespan, 1))],
                  ["records lost", t.lost ? amount(t.lost) : "none"]),
            h("h3", null, "Waits and sleep"),
            waits.size ? facts(...[...waits].sort((a, b) => a[0] - b[0]).map(([kind, entry]) =>
                [EVENT_WORDS[kind] || `event ${kind}`,
                 `${amount(entry.count)} times, ${duration(entry.time)}`]))
                : h("p.soft", null, "None."),
            h("h3", null, "Program"),
            facts(...t.meta, ...(t.sources ? [["sources in", t.sources]] : [])));
    }

    // ---- the legend ---------------------------------------------------------------------------

    legend() {
        const {model, app, trace: t} = this;
        const most = 40, rest = model.kernelOrder.length - most;
        const entry = (k) => h("button", {
            "data-kernel": k,
            "aria-pressed": `${app.filter?.kernel === k}`,
            onclick: () => app.filterKernel(k),
        }, this.swatch(model.kernelClass[k]), t.kernelNames[k],
           h("small", null, percent(model.kernelTime[k], model.busy)));
        this.show("legend", model.kernelOrder.slice(0, most).map(entry),
                  rest > 0 ? h("small", null, `and ${rest} more`) : null);
    }
}
