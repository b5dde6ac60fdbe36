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

const FEW_SCALARS = 3; /* more of them in a row share a line */

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

    /* Built when it is first needed: it reads all arguments. */
    get views() {
        return this.allViews ||= new Views(this.trace);
    }

    show(id, ...inside) {
        document.getElementById(id).replaceChildren(...inside.flat(9).filter(Boolean));
    }

    swatch(kind) {
        return h("i.swatch", {style: {background: this.app.colours.swatch(kind)}});
    }

    taskLink(i) {
        return h("button.link", {onclick: () => this.app.select(i, true)},
                 `${this.trace.kernelName(i)} `, h("span.mono", null, `${i}`), this.label(i));
    }

    label(i) {
        const label = this.trace.label(i);
        return label ? h("span.tag", null, label) : null;
    }

    // ---- a task -------------------------------------------------------------------------------

    task(i) {
        if (i === NONE) {
            this.show("side-task", h("p.soft", null, "Click a task, or search for one with /."));
            return;
        }
        const {trace: t, model} = this, kernel = t.kernel(i), lane = t.lane(i);
        const type = kernel === NONE ? NONE : t.KERNELS.u32(kernel, 1);
        this.show("side-task",
            h("h2", null, this.swatch(model.classOf(i)), " ", t.kernelName(i), this.label(i)),
            h("p.soft", null, h("span.mono", null, `task ${i}`), " · submitted at ",
              h("span.mono", null, t.siteName(i))),
            this.outcome(i),
            this.rangesOf(i),
            t.ranInline(i) ? h("p.soft", null, "ran inline, in its submit") : null,
            this.times(i),
            this.edge(),
            h("h3", null, "Facts"),
            facts(["lane", lane === NONE ? "never ran" : t.laneNames[lane]],
                  ["started at", lane === NONE ? "never" : this.when(t.start(i))],
                  ["handle", `${t.id(i)}`],
                  ["type", TYPE_NAMES[type] || "unknown"],
                  ["ring level", `${t.level(i)}`]),
            h("h3", null, `Arguments (${t.args(i)})`),
            this.argumentRows(i),
            this.lettersNote(i),
            this.edges("Waits for", i, true),
            this.edges("Waited for by", i, false));
    }

    when(time) {
        return moment(time, time < 1e6 ? 10 : 1e3);
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

    /* One row for each, but many scalars in a row share one: a copy begins with twenty. */
    argumentRows(i) {
        const t = this.trace, first = t.firstArg(i), rows = [];
        const isScalar = (a) => a < t.args(i) && 
            (t.ARGS.u8(first + a, 23) & ~PTRACE_NODEP) === ACCESS.SCALAR;
        for (let a = 0; a < t.args(i); a++) {
            let end = a;
            while (isScalar(end)) {
                end++;
            }
            if (end - a > FEW_SCALARS) {
                const values = Array.from({length: end - a}, (_, k) => this.scalar(first + a + k));
                rows.push(h("div.tensor", null, h("b", null, `${a} to ${end - 1} `),
                            h("span.soft", null, "scalars "),
                            h("span.mono", null, values.join(", "))));
                a = end - 1;
            } else {
                rows.push(this.argument(first + a, a));
            }
        }
        return rows;
    }

    argument(a, number) {
        const {ARGS} = this.trace, access = ARGS.u8(a, 23);
        const words = this.access(a) + (access & PTRACE_NODEP ? ", causes no dependencies " : " ");
        const head = [h("b", null, `${number} `), h("span.soft", null, words)];
        if ((access & ~PTRACE_NODEP) === ACCESS.SCALAR) {
            return h("div.tensor", null, head, h("span.mono", null, this.scalar(a)));
        }
        return h("div.tensor", {title: this.where(a)}, h("div", null, head, this.view(a)),
                 h("div.soft.mono", null, this.shape(a)));
    }

    /* For example: A[128:192, 0:64] of 1024x1024 float32. If the matrix is not known, the address
     * tells views apart. */
    view(a) {
        const text = this.views.text(a);
        return text ? [h("b.mono", null, text[0]), ` of ${text[1]}`]
                    : `a view of ${bytesText(this.trace.ARGS.u64(a, 2))} ${this.where(a)}`;
    }

    lettersNote(i) {
        const t = this.trace;
        const args = Array.from({length: t.args(i)}, (_, a) => t.firstArg(i) + a);
        return args.some((a) => /^[A-Z]/.test(this.views.text(a)?.[0]))
            ? h("p.soft.small", null, "Letters name the memory of the program in the order of " +
                "its use, not its variables.") : null;
    }

    shape(a) {
        const device = this.trace.deviceOf(a);
        return `${this.type(a)} · strides ${this.strides(a)}` +
            (device === "cpu:0" ? "" : ` · on ${device}`);
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
                     other === NONE ? null : this.label(other),
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
                h("div", null, h("span.soft", null, `${who}: argument ${a - t.firstArg(task)}, ` +
                                 `${this.access(a)} `), this.view(a)),
                h("div.soft.mono", null, this.shape(a)),
                h("div.soft.mono", {title: this.where(a)}, this.reach(a)));
        const because = t.edgeKind(e) === EDGE.AFTER
            ? "The program asked for this order (pto_after). Memory is not the reason."
            : t.edgeKind(e) === EDGE.MESSAGE ? "A message between two ranks."
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
        const storage = this.views.storageOf(a), base = BigInt(storage ? storage.base : 0);
        const number = (x) => storage ? (x - base).toLocaleString("en") : `0x${x.toString(16)}`;
        return `bytes ${number(first)} to ${number(end - 1n)}` +
            `${storage ? ` of ${storage.name}` : ""} ` +
            `(${bytesText(Number(end - first))} from end to end)`;
    }

    // ---- failures and ranges ------------------------------------------------------------------

    /* How a task ended, if it did not end well, with the words of its kernel. */
    outcome(i) {
        const {trace: t, model, app} = this, outcome = t.outcome(i), why = t.failure(i);
        const words = why?.words ? h("pre.words", null, why.words) : null;
        if (outcome === OUTCOME.FAILED || (why && outcome === OUTCOME.DONE)) {
            const hit = model.skippedBecauseOf(i);
            return h("div.box.failed", {"data-of": "outcome"},
                     h("b.bad", null, outcome === OUTCOME.FAILED ? "failed"
                                                               : "its memory was overwritten"),
                     why?.status ? h("span.mono", null, ` ${why.status}`) : null, words,
                     hit ? h("button.link", {onclick: () => app.filterCause(i)},
                             `${amount(hit)} ${hit === 1 ? "task was" : "tasks were"} skipped ` +
                             "because of it") : null);
        }
        if (outcome === OUTCOME.SKIPPED && why && why.cause !== NONE) {
            const {words: said} = t.failure(why.cause) || {words: ""};
            return h("div.box.failed", {"data-of": "outcome"}, h("b.bad", null, "skipped"),
                     " because ", this.taskLink(why.cause), " failed",
                     why.edge === NONE ? null : [", ", h("button.link", {
                         onclick: () => app.selectEdge(why.edge)}, "through this edge")],
                     said ? h("pre.words", null, said) : null);
        }
        return outcome === OUTCOME.DONE ? null
            : h("p.bad", {"data-of": "outcome"},
                OUTCOME_WORDS[outcome] || "ended in an unknown way");
    }

    /* The ranges that a task was submitted in, the outermost first. */
    rangesOf(i) {
        const t = this.trace, list = [];
        for (let r = this.model.rangeOf(i); r !== NONE; r = t.rangeParent(r)) {
            list.unshift(h("button.link", {onclick: () => this.app.selectRange(r, true)},
                           t.rangeName(r)));
        }
        return list.length
            ? h("p", {"data-of": "ranges"}, h("span.soft", null, "in "),
                list.flatMap((link, k) => k ? [" › ", link] : [link])) : null;
    }

    range(r) {
        const {trace: t, model, app} = this, begin = t.rangeBegin(r), end = t.rangeEnd(r);
        const first = t.rangeFirst(r), count = t.rangeTasks(r), most = 200;
        let busy = 0, done = 0;
        for (let i = first; i < first + count; i++) {
            busy += t.lane(i) === NONE ? 0 : t.duration(i);
            done = Math.max(done, model.endOf(i));
        }
        const open = !(end === end), inside = {name: t.rangeName(r), kind: "range", range: r,
                                               match: (i) => t.inRange(r, i)};
        this.show("side-task",
            h("h2", null, t.rangeName(r)),
            h("p.soft", null, open ? "a range that was still open when the trace ended"
                                   : "a range of the program"),
            facts(["began at", this.when(begin)],
                  ["was open", duration((open ? model.last : end) - begin)],
                  ["tasks submitted", amount(count)],
                  ...(count ? [["last of them ended after", duration(done - begin)],
                               ["their kernel time", duration(busy)]] : [])),
            h("p", null,
              h("button.button", {onclick: () => app.timeline.revealRange(r)}, "Zoom to it"), " ",
              count ? h("button.button", {onclick: () => app.setFilter(inside)},
                        "Highlight its tasks") : null),
            h("h3", null, "Tasks, in order"),
            Array.from({length: Math.min(count, most)}, (_, k) => this.taskRow(first + k)),
            this.andMore(count - most));
    }

    /* All ranges, as the program nests them. */
    rangeList() {
        const {trace: t, model, app} = this, most = 300, depths = [];
        const rows = Array.from({length: Math.min(t.RANGES.count, most)}, (_, r) => {
            const parent = t.rangeParent(r), depth = parent === NONE ? 0 : depths[parent] + 1;
            depths.push(depth);
            return h("button.row", {"data-range": r, style: {paddingLeft: `${6 + 16 * depth}px`},
                                    onclick: () => app.selectRange(r, true)},
                     h("span", null, t.rangeName(r)),
                     h("span", null, `${amount(t.rangeTasks(r))} tasks, ` +
                       duration((t.rangeEnd(r) || model.last) - t.rangeBegin(r))));
        });
        return rows.length ? [h("h3", null, `Ranges (${amount(t.RANGES.count)})`), rows,
                              this.andMore(t.RANGES.count - most)] : null;
    }

    taskRow(i) {
        const {trace: t, model} = this;
        return h("button.row", {"data-task": i, onclick: () => this.app.select(i, true)},
                 this.swatch(model.classOf(i)), h("span", null, `${t.kernelName(i)} `),
                 h("span.mono.soft", null, `${i}`), this.label(i),
                 h("span", null, model.isSkipped(i) ? "skipped" : duration(t.duration(i))));
    }

    /* All tasks that failed, with the words of their kernels. */
    failures() {
        const {trace: t, model, app} = this, list = model.failures(), most = 200;
        document.getElementById("tab-failures").hidden = !list.length && !model.skipped;
        const damaged = list.length - model.failed;
        this.show("side-failures",
            h("h2", null, `${amount(model.failed)} failed, ${amount(model.skipped)} skipped`),
            damaged ? h("p", null, `The memory of ${amount(damaged)} more was overwritten.`) : null,
            list.slice(0, most).map((i) => {
                const why = t.failure(i), hit = model.skippedBecauseOf(i);
                return h("div.box.failed", {"data-failed": i},
                         h("div", null, this.taskLink(i),
                           h("span.soft", null, ` ${t.siteName(i)}`)),
                         why?.status ? h("div.mono", null, why.status) : null,
                         why?.words ? h("pre.words", null, why.words) : null,
                         hit ? h("button.link", {onclick: () => app.filterCause(i)},
                                 `${amount(hit)} skipped because of it`) : null);
            }),
            this.andMore(list.length - most),
            list.length ? null
                : h("p.soft", null, "No task failed. The run was cancelled, or a task that is " +
                    "not in the trace failed."));
    }

    // ---- kernels ------------------------------------------------------------------------------

    /* Two rows for each kernel: its name, which may be long, and below it the numbers. */
    kernels() {
        const {model, sort} = this;
        const times = ["total", "mean", "p50", "p99", "max", "waiting", "queued"];
        const compare = (a, b) => sort.by === "name" ? a.name.localeCompare(b.name)
                                                     : a[sort.by] - b[sort.by];
        const rows = [...model.kernelTable()]
            .sort((a, b) => (sort.down ? -1 : 1) * compare(a, b) || a.kernel - b.kernel);
        const most = Math.max(...rows.map((r) => r.total), 1), wide = times.length + 1;
        this.show("side-kernels",
            h("table", null,
              h("thead", null, h("tr", null, this.column("name", wide)),
                h("tr", null, ["ran", ...times].map((by) => this.column(by, 1)))),
              rows.map((r) => h("tbody", {"data-kernel": r.kernel},
                  h("tr", null, this.kernelCell(r, most, wide)),
                  h("tr", null, h("td", null, amount(r.ran)),
                    times.map((key) => h("td", null, duration(r[key]))))))),
            h("p.soft", null, "ran: number of its tasks that ran; the times are theirs. waits: " +
              "mean time from submit to ready. queued: mean time from ready to start. Click a name to highlight its tasks."));
    }

    column(by, wide) {
        const {sort} = this, on = sort.by === by;
        const name = {name: "kernel", waiting: "waits"}[by] || by;
        const click = () => {
            this.sort = {by, down: on ? !sort.down : by !== "name"};
            this.kernels();
            document.querySelector(`[data-by="${by}"]`).focus();
        };
        const way = sort.down ? "descending" : "ascending";
        return h("th", {scope: "col", colspan: wide, "aria-sort": on ? way : null},
                 h("button", {"data-by": by, onclick: click},
                   name + (!on ? "" : sort.down ? " ↓" : " ↑")));
    }

    kernelCell(r, most, wide) {
        const {app, model} = this, kind = model.kernelClass[r.kernel];
        const bar = {width: `${100 * r.total / most}%`, background: app.colours.swatch(kind)};
        return h("th", {scope: "rowgroup", colspan: wide},
                 h("div.kernel", null,
                   h("button.link", {title: r.name, onclick: () => app.filterKernel(r.kernel)},
                     r.name),
                   h("span.soft", null, (r.skipped ? `${amount(r.skipped)} skipped, ` : "") +
                     percent(r.total, model.spent))),
                 h("div.bar", null, h("i", {style: bar})));
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
            this.readsBack(),
            h("button.button", button,
              app.showPath ? "Hide it in the timeline" : "Show it in the timeline"),
            h("h3", null, "By kernel"),
            [...byKernel].sort((a, b) => b[1].time - a[1].time).map(([name, entry]) =>
                h("div.row", null, this.swatch(model.kernelClassOf(entry.task)),
                  h("span", null, `${name} × ${amount(entry.count)}`),
                  h("span", null, `${duration(entry.time)}, ${percent(entry.time, time)}`))),
            h("h3", null, "Tasks, in order"),
            Array.from(tasks.subarray(0, most), (i) => this.taskRow(i)),
            this.andMore(tasks.length - most));
    }

    /* A program that waits for results before it submits more has an order that no edge shows. */
    readsBack() {
        const {trace: t, model} = this, {EVENTS} = t, last = t.called(model.tasks - 1);
        let count = 0, time = 0;
        for (let i = 0; i < EVENTS.count; i++) {
            if ((EVENTS.u32(i, 5) & 0xffff) === EVENT.WAIT && EVENTS.time(i, 2) <= last) {
                count++;
                time += EVENTS.time(i, 2) - EVENTS.time(i, 0);
            }
        }
        return count ? h("p", {"data-of": "waits"},
            `The program waited ${count === 1 ? "once" : `${amount(count)} times`} for results ` +
            `(${duration(time)}) before it submitted more. The chain leaves that order out, so ` +
            "the run may need longer than the chain with any number of workers.") : null;
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
                 `${entry.count === 1 ? "once" : `${amount(entry.count)} times`}, ` +
                     duration(entry.time)]))
                : h("p.soft", null, "None."),
            this.rangeList(),
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
           h("small", null, percent(model.kernelTime[k], model.spent)));
        this.show("signs", this.signs());
        this.show("legend", model.kernelOrder.slice(0, most).map(entry),
                  rest > 0 ? h("small", null, `and ${rest} more`) : null);
    }

    /* The signs that occur in this trace: hatching, marks and lines. */
    signs() {
        const {model, app: {colours}} = this, seen = model.eventKinds;
        const sign = (name, background, text, more) =>
            h("span.sign", {"data-sign": name},
              h("i.swatch", {style: {background, ...more}}), text);
        const hatch = (line, step, paper) =>
            `repeating-linear-gradient(-45deg, ${line} 0 1px, transparent 1px ${step}px), ${paper}`;
        return [
            model.lanes.some((lane) => lane.calls?.items.length)
                ? sign("submit", colours.of(CALL), "submits") : null,
            [...seen].some((kind) => IS_ROOM[kind])
                ? sign("room", hatch(colours.roomLine, 5, colours.room), "waits for room") : null,
            seen.has(EVENT.WAIT) ? sign("wait", hatch(colours.faint, 4, colours.lane),
                                        EVENT_WORDS[EVENT.WAIT]) : null,
            seen.has(EVENT.PARKED) ? sign("sleep", hatch(colours.line, 3, colours.lane),
                                          EVENT_WORDS[EVENT.PARKED]) : null,
            model.failed ? sign("failed", colours.of(FAILED), "failed") : null,
            model.skipped ? sign("skipped", `linear-gradient(90deg, transparent 5px, ` +
                                 `${colours.bad} 5px 7px, transparent 7px)`, "skipped") : null,
            model.ranges.length ? sign("range", colours.of(RANGE), "range") : null,
        ].filter(Boolean);
    }
}
