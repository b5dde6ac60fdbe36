/* graph.js - the tasks as a graph. From left to right: the depth, the number of edges on the
 * longest path to a task. More than MOST tasks are drawn as groups, one for each kernel and depth,
 * or for each kernel and several depths.
 *
 * A node shows the number of its task as soon as it is large enough, and below it the label, or the
 * kernel. The colour says the kernel at any size. */

const MOST = 3000, MOST_AROUND = 400;
const NODE_WIDE = 46, NODE_HIGH = 20, PITCH_Y = 42; // at zoom 1
const LETTER = 6, LEAST_LETTERS = 11, MOST_LETTERS = 22; // of a name: its width and its limits
const GAP = 34; // more, between two depths
const NUMBERS_FROM = .4, NAMES_FROM = .75; // zoom from which on nodes carry numbers and names

class Graph {
    constructor(app, canvas) {
        this.app = app;
        this.model = app.model;
        this.canvas = canvas;
        this.context = canvas.getContext("2d");
        this.around = false;
        this.hops = 2;
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
        this.resize(); // the layout suits the proportions of the canvas
        if (!this.nodes || (this.around && this.center !== this.app.selected)) {
            this.build();
        }
    }

    build() {
        const {model, app} = this, depth = model.depths();
        let tasks = null, text;
        this.center = app.selected;
        if (this.around && app.selected !== NONE) {
            const near = this.neighbours(app.selected);
            tasks = near.tasks;
            text = `${model.trace.kernelName(app.selected)} ${app.selected}: ` +
                `${amount(near.before)} before it, ${amount(near.after)} after it` +
                (near.cut ? ` (the first ${MOST_AROUND})` : "");
            document.getElementById("hops").textContent =
                `${this.hops} ${this.hops === 1 ? "hop" : "hops"}`;
        } else if (model.tasks <= MOST) {
            tasks = Uint32Array.from({length: model.tasks}, (_, i) => i);
            text = `${amount(model.tasks)} tasks`;
        }
        if (tasks) {
            this.groupOf = null;
            this.nodes = Array.from(tasks, (i) => ({
                task: i, depth: depth[i], kind: model.classOf(i), count: 1, text: `${i}`,
                name: model.trace.kernelName(i), failed: model.classOf(i) === FAILED,
                skipped: model.isSkipped(i), label: model.trace.label(i),
            }));
            const at = new Map(this.nodes.map((node, i) => [node.task, i]));
            this.links = this.linksOf(tasks, (i) => at.get(i));
        } else {
            text = this.group(depth);
        }
        this.layout();
        document.getElementById("graph-says").textContent =
            `${text}, ${amount(this.links.length)} ${tasks ? "edges" : "bundles of edges"}`;
        this.fit();
        this.approach();
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

    /* The tasks that the given one depends on, and those that depend on it, within `hops` edges.
     * Up to MOST_AROUND tasks, the closest first. */
    neighbours(task) {
        const {model} = this, {trace} = model, seen = new Set([task]);
        const producers = (i) => Array.from({length: trace.edges(i)},
                                            (_, k) => trace.from(trace.firstEdge(i) + k));
        const consumers = (i) => Array.from(model.consumers(i), (e) => trace.to(e));
        const sides = [{next: producers, edge: [task], count: 0},
                       {next: consumers, edge: [task], count: 0}];
        let cut = false;
        for (let hop = 0; hop < this.hops; hop++) {
            for (const side of sides) {
                const found = [];
                for (const j of side.edge.flatMap(side.next)) {
                    if (j !== NONE && !seen.has(j)) {
                        cut ||= seen.size >= MOST_AROUND;
                        if (seen.size < MOST_AROUND) {
                            seen.add(j);
                            found.push(j);
                        }
                    }
                }
                side.edge = found;
                side.count += found.length;
            }
        }
        return {tasks: Uint32Array.from(seen).sort(), cut, before: sides[0].count,
                after: sides[1].count};
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
                    nodes.push({task: NONE, first: i, depth, kind: model.kernelClassOf(i), count: 0,
                                time: 0, name: trace.kernelName(i), label: "", failed: false,
                                skipped: false});
                }
                nodes[n].count++;
                nodes[n].failed ||= trace.outcome(i) === OUTCOME.FAILED;
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
            for (const node of nodes) {
                node.text = `× ${amount(node.count)}`;
            }
            this.nodes = nodes;
            this.groupOf = nodeOf;
            this.links = [...bundles].map(([key, count]) => ({
                from: Math.floor(key / nodes.length), to: key % nodes.length, edge: NONE, count,
            }));
            return `${amount(model.tasks)} tasks in ${amount(nodes.length)} groups ` +
                `(kernel, ${merge > 1 ? `${merge} depths` : "depth"})`;
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
        this.arrange(columns);
    }

    /* Places the columns. One with many nodes is folded into several, so that the graph gets about
     * the proportions of the canvas. */
    arrange(columns) {
        const {nodes} = this, shape = (this.width || 4) / (this.height || 3);
        const folds = (list, rows) => Math.ceil(list.length / rows);
        const longest = nodes.reduce((m, n) => Math.max(m, (n.label || n.name).length), 0);
        this.letters = Math.max(LEAST_LETTERS, Math.min(MOST_LETTERS, longest));
        const pitch = this.letters * LETTER + 8;
        const wide = (rows) => columns.reduce(
            (sum, list) => sum + folds(list, rows) * pitch + GAP, 0);
        let rows = 1;
        const tallest = columns.reduce((m, list) => Math.max(m, list.length), 1);
        while (rows < tallest && wide(rows) > rows * PITCH_Y * shape) {
            rows++;
        }
        let x = 0;
        for (const list of columns) {
            const many = folds(list, rows), high = Math.ceil(list.length / many);
            list.forEach((i, k) => {
                const column = Math.floor(k / high);
                const left = Math.min(high, list.length - column * high);
                nodes[i].x = x + column * pitch;
                nodes[i].y = (k % high - (left - 1) / 2) * PITCH_Y;
            });
            x += many * pitch + GAP;
        }
        // Spread out, within limits, in the direction in which there is room. If only a part of a
        // long graph is shown (see approach), there is little room.
        const limit = this.width / x < NUMBERS_FROM ? 1.5 : 5, high = rows * PITCH_Y;
        const spread = (room, has) => Math.max(1, Math.min(limit, room / has));
        const most = nodes.reduce((m, n) => Math.max(m, n.count), 1);
        for (const node of nodes) {
            node.x *= spread(high * shape, x);
            node.y *= spread(x / shape, high);
            const grown = .8 + .4 * Math.sqrt(node.count / most);
            node.wide = NODE_WIDE * (most > 1 ? grown : 1);
            node.high = NODE_HIGH * (most > 1 ? grown : 1);
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
            Math.min((this.width - 30) / (x1 - x0 + NODE_WIDE),
                     (this.height - 40) / (y1 - y0 + NODE_HIGH + 20));
        this.zoomed = Math.max(.01, Math.min(1.6, zoom));
        this.dx = this.width / 2 - (x0 + x1) / 2 * this.zoomed;
        this.dy = this.height / 2 - (y0 + y1) / 2 * this.zoomed;
        this.fitted = true;
        this.draw();
    }

    /* Whether a node is the selected task, or the group that it is in. */
    isSelected(n) {
        const {selected} = this.app;
        return selected !== NONE &&
            (this.groupOf ? this.nodes[this.groupOf[selected]] === n : n.task === selected);
    }

    /* A long and low graph is too small to read when all of it is visible. Then its beginning is
     * shown, or the selected task. The key 0 shows all. */
    approach() {
        const {nodes} = this;
        const high = 2 * nodes.reduce((m, n) => Math.max(m, Math.abs(n.y) + PITCH_Y), 0);
        const zoom = Math.min(1, this.height / high);
        if (!this.width || this.zoomed > NUMBERS_FROM || zoom < 2 * this.zoomed) {
            return;
        }
        const at = nodes.find((n) => this.isSelected(n));
        const left = nodes.reduce((m, n) => Math.min(m, n.x), Infinity);
        this.zoomed = zoom;
        this.dx = at ? this.width / 2 - at.x * zoom : 30 - left * zoom;
        this.dy = this.height / 2;
        document.getElementById("graph-says").prepend("Only a part is visible: press 0 to see all. ");
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
            const x0 = px(a) + a.wide * z / 2, y0 = py(a), x1 = px(b) - b.wide * z / 2, y1 = py(b);
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
        c.globalAlpha = Math.max(.05, Math.min(.7, 600 / links.length));
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
        const font = getComputedStyle(document.body).fontFamily;
        for (const n of nodes) {
            const x = px(n), y = py(n);
            if (x > -60 && y > -60 && x < this.width + 60 && y < this.height + 60) {
                this.paintNode(c, n, x, y, font, critical);
            }
        }
        c.globalAlpha = 1;
        c.textAlign = "left";
        this.drawn = nodes.length;
    }

    paintNode(c, n, x, y, font, critical) {
        const {zoomed: z, app: {colours, filter}} = this;
        const wide = Math.max(n.wide * z, 3), high = Math.max(n.high * z, 2.5);
        const box = (grow) => {
            c.beginPath();
            c.roundRect(x - wide / 2 - grow, y - high / 2 - grow, wide + 2 * grow, high + 2 * grow,
                        Math.min(high / 2, 5 * z) + grow);
        };
        const dim = filter && !filter.match(n.task === NONE ? n.first : n.task);
        c.globalAlpha = dim ? .18 : 1;
        c.fillStyle = n.skipped ? colours.paper : colours.of(n.kind);
        box(0);
        c.fill();
        if (n.skipped || (n.failed && n.task === NONE)) {
            c.strokeStyle = colours.bad;
            c.lineWidth = Math.min(1.5, high / 4);
            c.setLineDash(n.skipped && z > .3 ? [3, 2] : []);
            c.stroke();
            c.setLineDash([]);
        }
        const on = n.task !== NONE && critical && critical.on[n.task];
        if (this.isSelected(n) || on) {
            c.strokeStyle = this.isSelected(n) ? colours.accent : colours.ink;
            c.lineWidth = Math.min(2.5, high / 4 + .5);
            box(c.lineWidth);
            c.stroke();
        }
        if (z >= NUMBERS_FROM) {
            c.font = `${Math.min(13, Math.max(7.5, 11 * z))}px ${font}`;
            // The box of a dimmed node is almost paper, so its number has the colour of text on it.
            c.globalAlpha = 1;
            c.fillStyle = n.skipped ? colours.bad : dim ? colours.soft : colours.words[n.kind];
            c.fillText(n.text, x, y + .5, wide - 2);
            c.globalAlpha = dim ? .18 : 1;
        }
        if (z >= NAMES_FROM) {
            c.font = `${Math.min(12, 10 * z)}px ${font}`;
            c.fillStyle = n.label ? colours.ink : colours.soft;
            c.fillText(this.shorten(n.label || n.name, this.letters), x, y + high / 2 + 7 * z);
        }
    }

    /* The start and the end of a long name: labels often differ at their ends. */
    shorten(text, most) {
        return text.length <= most ? text
            : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`;
    }

    // ---- mouse --------------------------------------------------------------------------------

    at(x, y) {
        const {zoomed: z} = this;
        let best = null, near = Infinity;
        for (const n of this.nodes || []) {
            const dx = Math.abs(n.x * z + this.dx - x), dy = Math.abs(n.y * z + this.dy - y);
            const within = (away, size) => away < Math.max(5, size * z / 2 + 2);
            if (within(dx, n.wide) && within(dy, n.high) && dx + dy < near) {
                near = dx + dy;
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
            : [n.name, n.label, n.skipped ? "skipped" : duration(trace.duration(n.task)),
               `task ${n.task}, depth ${n.depth}`].filter(Boolean);
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
