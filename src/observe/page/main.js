/* main.js - the page: reads the embedded trace, creates its parts; keys, search and theme. */

const $ = (id) => document.getElementById(id);

class App {
    constructor(trace) {
        this.model = new Model(trace);
        this.selected = this.hovered = this.edge = NONE;
        this.filter = null;
        this.showPath = false;
        this.colours = new Colours(document.documentElement.dataset.theme === "dark");
        this.panel = new Panel(this);
        this.timeline = new Timeline(this, $("lanes"), $("overview"));
        this.graph = new Graph(this, $("graph"));
        this.head();
        this.panel.legend();
        this.tabs();
        this.keys();
        this.searching();
        // Draw the lanes first, and the more expensive parts after that.
        if (!trace.late.length) {
            requestAnimationFrame(() => setTimeout(() => this.complete()));
        }
    }

    /* The whole trace has been loaded. */
    complete() {
        const {trace} = this.model;
        if (trace.late.length) {
            trace.complete();
            const {last} = this.model;
            this.model.addLate();
            this.timeline.place();
            if (this.model.last > last) {
                this.timeline.whole();
                this.timeline.drawOverview();
            }
        }
        this.countFailures();
        this.warnOfCrowding();
        this.panel.legend();
        this.panel.kernels();
        this.panel.run();
        this.panel.failures();
        this.panel.task(NONE);
        this.timeline.draw();
        this.ready = true;
    }

    head() {
        const {model} = this, t = model.trace, program = t.meta.get("program") || "a run";
        const name = program.split("/").pop();
        document.title = `${name}: ${amount(model.tasks)} tasks in ${duration(model.makespan)}`;
        $("title").textContent = name;
        $("title").title = program;
        const workers = model.lanes.filter((lane) => lane.kind === LANE.WORKER).length;
        const facts = [
            [amount(model.tasks), "tasks"], [duration(model.makespan), ""],
            [workers, workers === 1 ? "worker" : "workers"],
            [three(model.busy / Math.max(model.makespan, 1)), "busy on average"]
        ];
        $("facts").replaceChildren(...facts.map(
            ([a, b]) => h("span", null, h("b", null, `${a}`), b ? ` ${b}` : "")));
        this.countFailures();
        if (t.lost) {
            const lanes = model.lanes.filter((lane) => lane.lost)
                              .map((lane) => `${lane.name}: ${amount(lane.lost)}`);
            const where = lanes.length ? ` (${lanes.join(", ")})` : "";
            $("lost").textContent =
                `${amount(t.lost)} records found no room and are missing${where}, so this page ` +
                "does not show everything. Raise PTO_TRACE_LIMIT.";
            $("lost").hidden = false;
        }
        $("spoken").textContent =
            `${amount(model.tasks)} tasks on ${workers} workers in ${duration(model.makespan)}`;
    }

    countFailures() {
        const {model} = this, damaged = model.failures().length - model.failed;
        const bad = [[model.failed, "failed"], [model.skipped, "skipped"],
                     [Math.max(0, damaged), "overwritten"]]
            .filter(([count]) => count).map(([count, what]) => `${amount(count)} ${what}`);
        $("failed").hidden = !bad.length;
        $("failed").textContent = bad.join(", ") || "Failures";
    }

    warnOfCrowding() {
        const {model} = this, crowding = model.crowding();
        $("crowded").hidden = !crowding;
        if (crowding) {
            const {cores, most, share} = crowding, fewer = Math.max(1, cores - 1);
            $("crowded").textContent =
                `Up to ${most} threads ran on ${cores} ${cores === 1 ? "core" : "cores"} ` +
                `(${percent(share, 1)} of the time), so kernels waited for a core in their ` +
                `measured time. Try PTO_WORKERS=${fewer}.`;
        }
    }

    // ---- selection ----------------------------------------------------------------------------

    select(task, reveal) {
        if (this.model.trace.late.length) {
            return; // its edges are not loaded yet
        }
        this.selected = task;
        this.edge = NONE;
        this.panel.task(task);
        if (task !== NONE) {
            const t = this.model.trace;
            this.side("task");
            $("spoken").textContent =
                `${t.kernelName(task)}, task ${task}, ran ${duration(t.duration(task))}`;
            if (reveal) {
                this.timeline.reveal(task);
            }
        }
        this.timeline.draw();
        if (this.graph.around && !$("view-graph").hidden) {
            this.graph.open();
        }
        this.graph.draw();
    }

    selectEdge(edge) {
        const {trace} = this.model;
        if (this.selected !== trace.to(edge) && this.selected !== trace.from(edge)) {
            this.selected = trace.to(edge);
        }
        this.edge = edge;
        this.panel.task(this.selected);
        this.side("task");
        $("spoken").textContent = edgeTitle(this.model, edge);
        document.querySelector("[data-of=edge]")?.scrollIntoView({block: "nearest"});
        this.timeline.draw();
    }

    selectRange(range, reveal) {
        this.select(NONE);
        this.panel.range(range);
        this.side("task");
        $("spoken").textContent = `range ${this.model.trace.rangeName(range)}`;
        if (reveal) {
            this.timeline.revealRange(range);
        }
    }

    /* The next failed task after the selected one. Without any, the list of what was skipped. */
    nextFailure(by = 1) {
        const list = this.model.failures(), {selected} = this;
        this.side("failures");
        if (!list.length) {
            return;
        }
        const next = by > 0 ? list.find((i) => selected === NONE || i > selected) ?? list[0]
            : list.findLast((i) => i < selected) ?? list[list.length - 1];
        this.select(next, true);
        this.timeline.reveal(next, true);
    }

    /* Highlights a failed task and the tasks that were skipped because of it. */
    filterCause(task) {
        const t = this.model.trace;
        this.setFilter({
            kind: "cause",
            name: `task ${task} and the tasks skipped because of it`,
            match: (i) => i === task || t.failure(i)?.cause === task
        });
    }

    hover(task) {
        if (task !== this.hovered) {
            this.hovered = task;
            this.timeline.draw();
        }
    }

    tip(lines, event) {
        const tip = $("tip");
        tip.hidden = !lines;
        if (lines) {
            tip.replaceChildren(h("b", null, lines[0]),
                                ...lines.slice(1).map((line) => h("div.soft", null, line)));
            const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
            const below = event.clientY + 16 + tip.offsetHeight < innerHeight;
            tip.style.left = `${x}px`;
            tip.style.top =
                `${below ? event.clientY + 16 : event.clientY - tip.offsetHeight - 10}px`;
        }
    }

    setFilter(filter) {
        this.filter = filter;
        this.model.classify(filter && filter.match);
        this.hit = NONE;
        this.panel.legend();
        this.timeline.drawOverview();
        this.timeline.draw();
        this.graph.draw();
    }

    filterKernel(kernel) {
        const t = this.model.trace;
        this.setFilter(this.filter?.kernel === kernel ? null : {
            kind: "kernel",
            kernel,
            name: t.kernelNames[kernel],
            match: (i) => t.kernel(i) === kernel
        });
    }

    /* The next hit in order of submission; after the last one, the first. */
    nextHit(by = 1) {
        const n = this.model.tasks, {match} = this.filter;
        let i = this.selected === NONE ? (by > 0 ? n - 1 : 0) : this.selected;
        for (let k = 0; k < n; k++) {
            i = (i + by + n) % n;
            if (match(i)) {
                this.select(i, true);
                return;
            }
        }
    }

    togglePath() {
        this.showPath = !this.showPath;
        this.panel.path();
        this.timeline.draw();
        this.graph.draw();
    }

    // ---- tabs ---------------------------------------------------------------------------------

    tabs() {
        for (const list of document.querySelectorAll("[role=tablist]")) {
            const tabs = [...list.querySelectorAll("[role=tab]")];
            tabs.forEach((tab, i) => {
                tab.tabIndex = tab.getAttribute("aria-selected") === "true" ? 0 : -1;
                tab.addEventListener("click", () => this.openTab(tab));
                tab.addEventListener("keydown", (event) => {
                    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
                    if (by) {
                        const next = tabs[(i + by + tabs.length) % tabs.length];
                        event.stopPropagation();
                        event.preventDefault();
                        this.openTab(next);
                        next.focus();
                    }
                });
            });
        }
        $("graph-whole").addEventListener("click", () => this.showAround(false));
        $("graph-near").addEventListener("click", () => this.showAround(true));
        $("fewer-hops").addEventListener("click", () => this.changeHops(-1));
        $("more-hops").addEventListener("click", () => this.changeHops(1));
        $("failed").addEventListener("click", () => this.nextFailure(1));
    }

    /* The graph around the selected task, or the whole graph. */
    showAround(around) {
        this.openTab($("tab-graph"));
        if (around && this.selected === NONE) {
            $("graph-says").textContent = "Select a task first: click one, or search with /.";
            return;
        }
        this.graph.around = around;
        $("graph-whole").setAttribute("aria-pressed", `${!around}`);
        $("graph-near").setAttribute("aria-pressed", `${around}`);
        $("hops-group").hidden = !around;
        this.graph.build();
    }

    changeHops(by) {
        if (this.graph.around && !$("view-graph").hidden) {
            this.graph.hops = Math.max(1, Math.min(99, this.graph.hops + by));
            this.graph.build();
        }
    }

    openTab(tab) {
        for (const other of tab.parentElement.querySelectorAll("[role=tab]")) {
            const on = other === tab;
            other.setAttribute("aria-selected", `${on}`);
            other.tabIndex = on ? 0 : -1;
            $(other.getAttribute("aria-controls")).hidden = !on;
        }
        this.tip(null);
        if (tab.id === "tab-graph") {
            this.graph.open();
        } else if (tab.id === "tab-path") {
            this.panel.path();
        }
    }

    side(name) {
        this.openTab($("tab-" + name));
    }

    // ---- keys ---------------------------------------------------------------------------------

    keys() {
        $("help").addEventListener("click", () => $("keys").showModal());
        $("theme").addEventListener("click", () => this.turnTheme());
        document.addEventListener("keydown", (event) => {
            const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
            if (typing || event.ctrlKey || event.metaKey || event.altKey || $("keys").open) {
                return;
            }
            const graph = !$("view-graph").hidden;
            const action =
                (graph ? this.graphKeys(event) : this.timeKeys(event)) || this.commonKeys(event);
            if (action) {
                event.preventDefault();
                action();
            }
        });
    }

    timeKeys({key, shiftKey}) {
        const {timeline} = this, far = shiftKey ? .9 : .15;
        return {
            ArrowLeft: () => timeline.pan(-far),
            ArrowRight: () => timeline.pan(far),
            ArrowUp: () => timeline.scrollBy(-40),
            ArrowDown: () => timeline.scrollBy(40),
            PageUp: () => timeline.scrollBy(-300),
            PageDown: () => timeline.scrollBy(300),
            "+": () => timeline.zoom(.6, undefined, true),
            "=": () => timeline.zoom(.6, undefined, true),
            "-": () => timeline.zoom(1 / .6, undefined, true),
            "0": () => timeline.fit(),
            Home: () => timeline.fit(),
            s: () => this.selected !== NONE && timeline.reveal(this.selected, true),
        }[key];
    }

    graphKeys({key}) {
        const {graph} = this;
        return {
            ArrowLeft: () => graph.pan(80, 0),
            ArrowRight: () => graph.pan(-80, 0),
            ArrowUp: () => graph.pan(0, 80),
            ArrowDown: () => graph.pan(0, -80),
            "+": () => graph.zoom(.7),
            "=": () => graph.zoom(.7),
            "-": () => graph.zoom(1 / .7),
            "0": () => graph.fit(),
            Home: () => graph.fit(),
        }[key];
    }

    commonKeys({key}) {
        return {
            "/": () => { $("search").focus(); $("search").select(); },
            "?": () => $("keys").showModal(),
            n: () => this.neighbour(1),
            p: () => this.neighbour(-1),
            w: () => this.follow(true),
            r: () => this.follow(false),
            c: () => { this.side("path"); this.togglePath(); },
            f: () => this.nextFailure(1),
            F: () => this.nextFailure(-1),
            a: () => this.showAround(!this.graph.around),
            "[": () => this.changeHops(-1),
            "]": () => this.changeHops(1),
            g: () => this.openTab($("tab-graph")),
            t: () => this.openTab($("tab-time")),
            d: () => this.turnTheme(),
            Escape: () => {
                this.select(NONE);
                this.timeline.span = null;
                $("search").value = "";
                if (this.filter) {
                    this.setFilter(null);
                }
            },
        }[key];
    }

    /* The next or previous task on the same lane. If none is selected, the first visible task. */
    neighbour(by) {
        const {model, timeline} = this, {trace} = model;
        if (this.selected === NONE || trace.lane(this.selected) === NONE) {
            for (const {rows} of timeline.places) {
                for (const {row} of rows) {
                    const i = row.after(timeline.from);
                    if (i < row.items.length) {
                        this.select(row.items[i], true);
                        return;
                    }
                }
            }
            return;
        }
        const start = trace.start(this.selected);
        for (const row of model.lanes[trace.lane(this.selected)].rows) {
            let i = Math.max(0, row.after(start) - 1);
            while (i < row.items.length && row.start[i] <= start &&
                   row.items[i] !== this.selected) {
                i++;
            }
            if (row.items[i] === this.selected && row.items[i + by] !== undefined) {
                this.select(row.items[i + by], true);
                return;
            }
        }
    }

    follow(back) {
        const {model} = this, {trace} = model;
        if (this.selected === NONE) {
            return;
        }
        const edge = back ? model.lastProducer(this.selected)
            : model.consumers(this.selected).find((e) => model.lastProducer(trace.to(e)) === e)
              ?? model.consumers(this.selected)[0] ?? NONE;
        if (edge !== NONE) {
            this.select(back ? trace.from(edge) : trace.to(edge), true);
        }
    }

    turnTheme() {
        const dark = document.documentElement.dataset.theme !== "dark";
        setTheme(dark ? "dark" : "light");
        try {
            localStorage.setItem("pto-theme", dark ? "dark" : "light");
        } catch {
            // A page from disk may not be allowed to store anything.
        }
        this.repaint();
    }

    /* After a change of theme. */
    repaint() {
        this.colours = new Colours(document.documentElement.dataset.theme === "dark");
        this.panel.legend();
        this.panel.kernels();
        this.panel.failures();
        this.panel.task(this.selected);
        if (!$("side-path").hidden) {
            this.panel.path();
        }
        this.timeline.drawOverview();
        this.timeline.draw();
        this.graph.draw();
    }

    // ---- search -------------------------------------------------------------------------------

    searching() {
        const input = $("search"), list = $("found");
        let found = [], at = 0;
        const close = () => {
            list.hidden = true;
            input.setAttribute("aria-expanded", "false");
        };
        const take = (entry) => {
            close();
            input.value = entry.name;
            if (entry.kind === "task" || entry.kind === "label") {
                this.select(entry.task, true);
                this.timeline.reveal(entry.task, true);
            } else {
                this.setFilter(entry);
                if (entry.kind === "range") {
                    this.selectRange(entry.range, true);
                } else {
                    this.nextHit();
                }
            }
        };
        const option = (entry, i) => {
            const press = (event) => {
                event.preventDefault();
                take(entry);
            };
            return h("div", {role: "option", id: `found-${i}`, "aria-selected": `${i === at}`,
                             onpointerdown: press},
                     entry.kind === "kernel"
                         ? this.panel.swatch(this.model.kernelClass[entry.kernel]) : null,
                     h("span", null, entry.name),
                     h("small", null,
                       ["kernel", "outcome", "labels"].includes(entry.kind)
                           ? `${amount(entry.count)} tasks` : entry.kind));
        };
        const show = () => {
            list.replaceChildren(...(found.length ? found.map(option)
                : [h("p", null, "No kernel, place, label, range or task has this name.")]));
            list.hidden = !input.value.trim();
            input.setAttribute("aria-expanded", `${!list.hidden}`);
            input.setAttribute("aria-activedescendant", found.length ? `found-${at}` : "");
        };
        input.addEventListener("input", () => {
            found = this.model.search(input.value);
            at = 0;
            show();
            if (!input.value && this.filter) {
                this.setFilter(null);
            }
        });
        input.addEventListener("blur", close);
        input.addEventListener("keydown", (event) => {
            if (event.key === "Enter") {
                if (!list.hidden && found[at]) {
                    take(found[at]);
                } else if (this.filter) {
                    this.nextHit(event.shiftKey ? -1 : 1);
                }
            } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
                at = Math.max(
                    0, Math.min(found.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)));
                show();
                $(`found-${at}`)?.scrollIntoView({block: "nearest"});
                event.preventDefault();
            } else if (event.key === "Escape") {
                if (list.hidden) {
                    input.value = "";
                    this.setFilter(null);
                    $("lanes").focus();
                }
                close();
            }
        });
    }
}

// ---- theme and start ----------------------------------------------------------------------------

function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
}

const wantsDark = matchMedia("(prefers-color-scheme: dark)");

function chosenTheme() {
    try {
        return localStorage.getItem("pto-theme");
    } catch {
        return null;
    }
}

setTheme(chosenTheme() || (wantsDark.matches ? "dark" : "light"));
wantsDark.addEventListener("change", () => {
    if (!chosenTheme()) {
        setTheme(wantsDark.matches ? "dark" : "light");
        window.pto?.repaint();
    }
});

/* Shows a text instead of the picture, for example an error. */
function notice(title, text, bad) {
    $("notice").hidden = false;
    $("notice").classList.toggle("bad", Boolean(bad));
    $("notice-title").textContent = title;
    $("notice-text").textContent = text;
    $("notice-file").hidden = !bad;
}

function openTrace(bytes, here = bytes.length) {
    try {
        const trace = new Trace(bytes, here);
        if (!trace.drawable) {
            return;
        }
        if (!trace.TASKS.count) {
            notice("Nothing to show",
                   "The trace has no tasks: none was submitted, or no record found room." +
                       (trace.lost ? `\n${amount(trace.lost)} records were lost.` : ""),
                   true);
            return;
        }
        window.pto = new App(trace);
        $("notice").hidden = true;
    } catch (error) {
        refuse(error);
    }
}

function refuse(error) {
    if (error instanceof TraceError) {
        notice("This trace cannot be shown", error.message, true);
    } else if (error instanceof RangeError) {
        notice("This trace cannot be shown", "The browser has too little memory for this trace.",
               true);
    } else {
        notice("This trace cannot be shown",
               `There was an unexpected error: ${error.message}`, true);
        throw error;
    }
}

const incoming = new Incoming();

/* Takes the parts of the trace that have been parsed so far. The last one may still grow, so it is
 * left out unless `all` is set. */
function takeParts(all) {
    const parts = document.querySelectorAll("script[type='application/octet-stream']");
    for (let i = 0; i < parts.length - (all ? 0 : 1); i++) {
        incoming.add(parts[i].textContent);
        parts[i].remove();
    }
}

/* Draws as soon as there is enough of the trace. Errors are shown when all of it has been
 * loaded. */
const watcher = new MutationObserver(() => {
    try {
        takeParts(false);
        const {bytes, count} = incoming;
        if (!window.pto && count < bytes.length && new Trace(bytes, count).drawable) {
            openTrace(bytes, count);
        }
    } catch {
        watcher.disconnect();
    }
});
watcher.observe(document.body, {childList: true});

$("file").addEventListener("change", async () => {
    openTrace(new Uint8Array(await $("file").files[0].arrayBuffer()));
});

document.addEventListener("DOMContentLoaded", () => {
    const mark = ["@PTRACE", "BASE64@"].join("_");
    if ($("ptrace")?.textContent.trim() === mark) {
        notice("No trace inside",
               "Run a program with PTO_TRACE=run.html, or open a .ptrace file here.", true);
        $("notice").classList.remove("bad");
        return;
    }
    try {
        watcher.disconnect();
        takeParts(true);
        if (window.pto) {
            window.pto.complete();
        } else {
            openTrace(incoming.all());
        }
    } catch (error) {
        refuse(error);
    }
});
