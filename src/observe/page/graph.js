/* graph.js - the tasks as a graph. A column is a depth: the number of edges on the longest path to
 * a task. More than MOST tasks are drawn as groups, one for each kernel and depth, or for each
 * kernel and several depths. */

const MOST = 3000;

class Graph {
    constructor(app, canvas) {
        this.app = app;
        this.model = app.model;
        this.canvas = canvas;
        this.context = canvas.getContext("2d");
        this.around = false;
        this.listen();
        new ResizeObserver(() => this.resize()).observe(canvas);
    }

    resize() {
        const box = this.canvas.getBoundingClientRect();
        if (!box.width) {
            return;
        }
        this.ratio = window.devicePixelRatio || 1;
        this.width = box.width;
        this.height = box.height;
        this.canvas.width = Math.floor(box.width * this.ratio);
        this.canvas.height = Math.floor(box.height * this.ratio);
        if (this.nodes && !this.fitted) {
            this.fit();
        }
        this.draw();
    }

    // ---- nodes and links ----------------------------------------------------------------------

    open() {
        if (!this.nodes || (this.around && this.center !== this.app.selected)) {
            this.build();
        }
        this.resize();
    }

    build() {
        const {model, app} = this, depth = model.depths();
        let tasks = null, text;
        this.center = app.selected;
        if (this.around && app.selected !== NONE) {
            tasks = this.neighbours(app.selected, 300);
            text = `${amount(tasks.length)} tasks closest to ${
                model.trace.kernelName(app.selected)} ${app.selected}`;
        } else if (model.tasks <= MOST) {
            tasks = Uint32Array.from({length: model.tasks}, (_, i) => i);
            text = `${amount(model.tasks)} tasks`;
        }
        if (tasks) {
            this.nodes = Array.from(tasks, (i) => ({
                task: i, depth: depth[i], kind: model.classOf(i), count: 1,
                name: model.trace.kernelName(i),
            }));
            const at = new Map(this.nodes.map((node, i) => [node.task, i]));
            this.links = this.linksOf(tasks, (i) => at.get(i));
        } else {
            text = this.group(depth);
        }
        this.layout();
        document.getElementById("graph-says").textContent =
            `${text}, ${amount(this.links.length)} ${tasks ? "edges" : "bundles of edges"}, ${
                amount(this.columns)} columns by depth`;
        this.fit();
    }

    linksOf(tasks, index) {
        const {trace} = this.model, links = [];
        for (const i of tasks) {
            for (let e = trace.firstEdge(i), stop = e + trace.edges(i); e < stop; e++) {
                const from = trace.from(e) === NONE ? undefined : index(trace.from(e));
                if (from !== undefined) {
                    links.push({from, to: index(i), edge: e, count: 1});
                }
            }
        }
        return links;
    }

    /* Breadth-first from a task, along edges in both directions, up to `most` tasks. */
    neighbours(task, most) {
        const {model} = this, {trace} = model, seen = new Set([task]);
        let edge = [task];
        while (edge.length && seen.size < most) {
            const next = [];
            for (const i of edge) {
                const near = Array.from({length: trace.edges(i)},
                                        (_, k) => trace.from(trace.firstEdge(i) + k));
                for (const e of model.consumers(i)) {
                    near.push(trace.to(e));
                }
                for (const j of near) {
                    if (j !== NONE && !seen.has(j) && seen.size < most) {
                        seen.add(j);
                        next.push(j);
                    }
                }
            }
            edge = next;
        }
        return Uint32Array.from(seen).sort();
    }

    /* One node for each kernel and depth. Depths are merged until there are few enough nodes. */
    group(depths) {
        const {model} = this, {trace} = model, kernels = trace.KERNELS.count + 1;
        let deepest = 0;
        for (let i = 0; i < depths.length; i++) {
            deepest = depths[i] > deepest ? depths[i] : deepest;
        }
        for (let merge = 1; ; merge *= 2) {
            const at = new Map(), nodes = [], nodeOf = new Uint32Array(model.tasks);
            for (let i = 0; i < model.tasks && nodes.length <= 1200; i++) {
                const kernel = trace.kernel(i) === NONE ? kernels - 1 : trace.kernel(i);
                const depth = Math.floor(depths[i] / merge), key = depth * kernels + kernel;
                let n = at.get(key);
                if (n === undefined) {
                    n = nodes.length;
                    at.set(key, n);
                    nodes.push({task: NONE, first: i, depth, kind: model.classOf(i), count: 0,
                                time: 0, name: trace.kernelName(i)});
                }
                nodes[n].count++;
                nodes[n].time += trace.duration(i);
                nodeOf[i] = n;
            }
            if (nodes.length > 1200 || deepest / merge > 120) {
                continue;
            }
            const bundles = new Map();
            for (let e = 0; e < trace.EDGES.count; e++) {
                if (trace.from(e) === NONE) {
                    continue;
                }
                const from = nodeOf[trace.from(e)], to = nodeOf[trace.to(e)];
                if (from !== to) {
                    const key = from * nodes.length + to;
                    bundles.set(key, (bundles.get(key) || 0) + 1);
                }
            }
            this.nodes = nodes;
            this.links = [...bundles].map(([key, count]) => ({
                from: Math.floor(key / nodes.length), to: key % nodes.length, edge: NONE, count,
            }));
            return `${amount(model.tasks)} tasks in ${amount(nodes.length)} groups ` +
                `of one kernel and ${merge > 1 ? `${merge} depths` : "depth"}`;
        }
    }

    /* Columns by depth. Within a column, nodes are sorted by the mean row of their neighbours, in
     * several passes. */
    layout() {
        const {nodes, links} = this;
        const depths = [...new Set(nodes.map((n) => n.depth))].sort((a, b) => a - b);
        const column = new Map(depths.map((depth, i) => [depth, i]));
        const columns = depths.map(() => []);
        nodes.forEach((node, i) => {
            node.near = [];
            node.column = column.get(node.depth);
            columns[node.column].push(i);
        });
        for (const {from, to} of links) {
            nodes[from].near.push(to);
            nodes[to].near.push(from);
        }
        const setRows = (list) => list.forEach((i, row) => {
            nodes[i].row = row - (list.length - 1) / 2;
        });
        columns.forEach(setRows);
        const sweep = (list) => {
            for (const i of list) {
                const {near} = nodes[i];
                nodes[i].pull = near.length
                                    ? near.reduce((sum, j) => sum + nodes[j].row, 0) / near.length
                                    : nodes[i].row;
            }
            list.sort((a, b) => nodes[a].pull - nodes[b].pull || a - b);
            setRows(list);
        };
        for (let pass = 0; pass < 6; pass++) {
            columns.forEach(sweep);
            columns.slice().reverse().forEach(sweep);
        }
        this.columns = columns.length;
        const most = nodes.reduce((m, n) => Math.max(m, n.count), 1);
        // The distances give the graph the proportions of the canvas, within limits.
        const tallest = Math.max(...columns.map((list) => list.length), 1), groups = most > 1;
        const shape = (this.width || 4) / (this.height || 3), sides = tallest / columns.length;
        const high = Math.max(groups ? 44 : 26, Math.min(600, 40 / shape / sides));
        const wide = Math.max(40, Math.min(320, high * sides * shape));
        for (const node of nodes) {
            node.x = node.column * wide;
            node.y = node.row * high;
            node.r = groups ? 6 + 12 * Math.sqrt(node.count / most) : 7;
        }
    }

    fit() {
        if (!this.width || !this.nodes.length) {
            return;
        }
        let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
        for (const {x, y} of this.nodes) {
            x0 = Math.min(x0, x), x1 = Math.max(x1, x), y0 = Math.min(y0, y), y1 = Math.max(y1, y);
        }
        const zoom =
            Math.min((this.width - 80) / (x1 - x0 + 40), (this.height - 80) / (y1 - y0 + 40));
        this.zoomed = Math.max(.01, Math.min(2, zoom));
        this.dx = this.width / 2 - (x0 + x1) / 2 * this.zoomed;
        this.dy = this.height / 2 - (y0 + y1) / 2 * this.zoomed;
        this.fitted = true;
        this.draw();
    }

    // ---- drawing ------------------------------------------------------------------------------

    draw() {
        if (!this.asked && this.nodes && this.width) {
            this.asked = true;
            requestAnimationFrame(() => {
                this.asked = false;
                this.paint();
            });
        }
    }

    paint() {
        const {context: c, nodes, links, zoomed: z, ratio, model} = this;
        const {colours, selected, showPath} = this.app;
        c.setTransform(ratio, 0, 0, ratio, 0, 0);
        c.fillStyle = colours.paper;
        c.fillRect(0, 0, this.width, this.height);
        const px = (n) => n.x * z + this.dx, py = (n) => n.y * z + this.dy;
        const critical = showPath ? model.criticalPath() : null;
        const hot = critical ? new Set(critical.edges) : new Set();
        const mine = (l) => selected !== NONE &&
            (nodes[l.from].task === selected || nodes[l.to].task === selected);
        const most = links.reduce((m, l) => Math.max(m, l.count), 1);
        const curve = (l) => {
            const a = nodes[l.from], b = nodes[l.to];
            const x0 = px(a), y0 = py(a), x1 = px(b), y1 = py(b);
            if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > this.width || Math.max(y0, y1) < 0 ||
                Math.min(y0, y1) > this.height) {
                return;
            }
            c.moveTo(x0, y0);
            if (links.length > 6000) {
                c.lineTo(x1, y1);
            } else {
                const bend = (x1 - x0) * .45;
                c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
            }
        };
        c.lineWidth = Math.min(1.2, .4 + z * .5);
        c.strokeStyle = colours.faint;
        c.globalAlpha = links.length > 2000 ? .35 : .7;
        // Bundles are drawn in three widths, with one stroke for each width.
        for (const [low, high, wide] of most > 1 ? [[0, .02, .6], [.02, .2, 1.4], [.2, 2, 3]]
                                                 : [[0, 2, c.lineWidth]]) {
            c.lineWidth = wide;
            c.beginPath();
            for (const l of links) {
                if (l.count / most > low && l.count / most <= high) {
                    curve(l);
                }
            }
            c.stroke();
        }
        c.globalAlpha = 1;
        for (const [wanted, style] of [[(l) => hot.has(l.edge), colours.ink],
                                       [mine, colours.accent]]) {
            c.strokeStyle = style;
            c.lineWidth = 2.2;
            c.beginPath();
            links.filter(wanted).forEach(curve);
            c.stroke();
        }
        c.textBaseline = "middle";
        c.textAlign = "center";
        for (const n of nodes) {
            const x = px(n), y = py(n),
                  r = Math.max(n.r * Math.min(z, 1.6), nodes.length < 1500 ? 2.6 : 1.2);
            if (x < -60 || y < -60 || x > this.width + 60 || y > this.height + 60) {
                continue;
            }
            const dim =
                this.app.filter && !this.app.filter.match(n.task === NONE ? n.first : n.task);
            c.globalAlpha = dim ? .18 : 1;
            c.fillStyle = colours.of(n.kind);
            c.beginPath();
            if (r < 2.5) {
                c.rect(x - r, y - r, 2 * r, 2 * r);
            } else {
                c.arc(x, y, r, 0, 7);
            }
            c.fill();
            const on = n.task !== NONE && critical && critical.on[n.task];
            if ((n.task === selected && selected !== NONE) || on) {
                c.strokeStyle = n.task === selected ? colours.accent : colours.ink;
                c.lineWidth = Math.min(2.5, r / 2 + .5);
                c.beginPath();
                c.arc(x, y, r + c.lineWidth, 0, 7);
                c.stroke();
            }
            if (z > .75) {
                c.fillStyle = colours.ink;
                c.font = "10px " + getComputedStyle(document.body).fontFamily;
                c.fillText(n.count > 1 ? `${n.name} × ${amount(n.count)}` : n.name, x, y + r + 8);
            }
            c.globalAlpha = 1;
        }
        c.textAlign = "left";
        this.drawn = nodes.length;
    }

    // ---- mouse --------------------------------------------------------------------------------

    at(x, y) {
        let best = null, near = Infinity;
        for (const n of this.nodes || []) {
            const away =
                Math.hypot(n.x * this.zoomed + this.dx - x, n.y * this.zoomed + this.dy - y);
            if (away < near && away < Math.max(6, n.r * this.zoomed + 3)) {
                near = away;
                best = n;
            }
        }
        return best;
    }

    pan(x, y) {
        this.dx += x;
        this.dy += y;
        this.draw();
    }

    zoom(factor, x = this.width / 2, y = this.height / 2) {
        const z = Math.max(.005, Math.min(6, this.zoomed / factor)), by = z / this.zoomed;
        this.dx = x - (x - this.dx) * by;
        this.dy = y - (y - this.dy) * by;
        this.zoomed = z;
        this.draw();
    }

    words(n) {
        const {trace} = this.model;
        return n.task === NONE
            ? [n.name, `${amount(n.count)} tasks, ${duration(n.time)}`, `depth ${n.depth}`]
            : [n.name, duration(trace.duration(n.task)),
               `task ${n.task}, depth ${n.depth}`];
    }

    listen() {
        const canvas = this.canvas;
        let grab = null;
        const where = (event) => {
            const box = canvas.getBoundingClientRect();
            return [event.clientX - box.left, event.clientY - box.top];
        };
        canvas.addEventListener("wheel", (event) => {
            event.preventDefault();
            this.zoom(1.0015 ** (event.deltaY * (event.deltaMode === 1 ? 16 : 1)), ...where(event));
        }, {passive: false});
        canvas.addEventListener("pointerdown", (event) => {
            canvas.setPointerCapture(event.pointerId);
            canvas.focus({preventScroll: true});
            const [x, y] = where(event);
            grab = {x, y, dx: this.dx, dy: this.dy, moved: false};
        });
        canvas.addEventListener("pointermove", (event) => {
            const [x, y] = where(event);
            if (!grab) {
                const n = this.at(x, y);
                canvas.classList.toggle("over", Boolean(n));
                this.app.tip(n && this.words(n), event);
                return;
            }
            grab.moved ||= Math.abs(x - grab.x) + Math.abs(y - grab.y) > 4;
            if (grab.moved) {
                this.dx = grab.dx + x - grab.x;
                this.dy = grab.dy + y - grab.y;
                this.draw();
            }
        });
        canvas.addEventListener("pointerup", (event) => {
            const was = grab;
            grab = null;
            if (was && !was.moved) {
                const n = this.at(...where(event));
                this.app.select(n ? (n.task === NONE ? n.first : n.task) : NONE);
            }
        });
        canvas.addEventListener("pointerleave", () => this.app.tip(null));
    }
}
