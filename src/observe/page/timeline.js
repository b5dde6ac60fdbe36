/* timeline.js - what is drawn over the lanes: the selected task and its edges, the critical path
 * and the measured span; and the mouse. */

class Timeline extends Lanes {
    /* Failed tasks are marked at any zoom. */
    paintOutcomes(c, colours) {
        c.fillStyle = c.strokeStyle = colours.bad;
        for (const i of this.model.failures().slice(0, 2000)) {
            const box = this.boxOf(i);
            if (box && box.x1 >= GUTTER && box.x0 <= this.width) {
                c.lineWidth = 1.5;
                c.strokeRect(box.x0, box.y, Math.max(2, box.x1 - box.x0), box.high);
                c.beginPath();
                c.moveTo(box.x0, box.y - 6);
                c.lineTo(box.x0 + 8, box.y - 6);
                c.lineTo(box.x0 + 4, box.y + 1);
                c.fill();
            }
        }
    }

    paintPath(c, colours) {
        if (!this.app.showPath) {
            return;
        }
        const {tasks} = this.model.criticalPath(), {trace} = this.model;
        // The path is sorted by time. If it has more tasks than can be drawn, some are left out.
        let low = 0, high = tasks.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            this.model.endOf(tasks[middle]) < this.from ? low = middle + 1 : high = middle;
        }
        low = Math.max(0, low - 1);
        let last = low;
        while (last < tasks.length - 1 && !(trace.start(tasks[last]) > this.to)) {
            last++;
        }
        const stride = Math.ceil((last - low + 1) / 3000), points = [];
        for (let j = low; j <= last; j += stride) {
            const box = this.boxOf(tasks[j]);
            if (box) {
                points.push(box);
            }
        }
        for (const [style, wide] of [[colours.paper, 5], [colours.ink, 2]]) {
            c.strokeStyle = style;
            c.lineWidth = wide;
            c.lineJoin = "round";
            c.beginPath();
            points.forEach((box, j) => {
                const y = box.y + box.high / 2;
                j ? c.lineTo(box.x0, y) : c.moveTo(box.x0, y);
                c.lineTo(box.x1, y);
            });
            c.stroke();
        }
        c.lineWidth = 1.5;
        for (const box of points) {
            if (box.x1 - box.x0 > 3) {
                c.strokeRect(box.x0 + .5, box.y - .5, box.x1 - box.x0 - 1, box.high + 1);
            }
        }
    }

    /* Messages between ranks, from the begin of the send to the end of the receive. If more are in sight than
     * can be told apart, only those of the selected task are drawn. */
    paintMessages(c, colours) {
        const {model, app} = this, {trace} = model, most = 500, lines = [];
        this.curves = [];
        if (!trace.meta.has("ranks") || trace.late.length) {
            return;
        }
        for (const e of model.messages()) {
            const from = trace.from(e), to = trace.to(e);
            if (!(trace.start(from) <= this.to && trace.end(to) >= this.from)) {
                continue;
            }
            const a = this.boxOf(from), b = this.boxOf(to);
            if (!a || !b) {
                continue;
            }
            lines.push({e, x0: a.x0, y0: a.y + a.high / 2, x1: b.x1, y1: b.y + b.high / 2, bend: 0});
            if (lines.length > most) {
                return;
            }
        }
        c.lineWidth = 1;
        for (const line of lines) {
            const {x0, y0, x1, y1, e} = line, turn = Math.atan2(y1 - y0, x1 - x0);
            line.bend = (x1 - x0) / 3; // a straight line, as a curve
            this.curves.push(line);
            c.strokeStyle = c.fillStyle = e === app.edge ? colours.accent : colours.soft;
            c.beginPath();
            c.moveTo(x0, y0);
            c.lineTo(x1, y1);
            c.stroke();
            c.beginPath();
            c.moveTo(x1, y1);
            c.lineTo(x1 - 7 * Math.cos(turn - .4), y1 - 7 * Math.sin(turn - .4));
            c.lineTo(x1 - 7 * Math.cos(turn + .4), y1 - 7 * Math.sin(turn + .4));
            c.fill();
        }
    }

    paintSelected(c, colours) {
        const {selected, hovered, edge} = this.app;
        if (hovered !== NONE && hovered !== selected) {
            const box = this.boxOf(hovered);
            if (box) {
                c.strokeStyle = colours.ink;
                c.lineWidth = 1;
                c.strokeRect(box.x0 - .5, box.y - .5, Math.max(2, box.x1 - box.x0) + 1,
                             box.high + 1);
            }
        }
        if (selected === NONE) {
            return;
        }
        const {trace} = this.model, box = this.boxOf(selected),
              last = this.model.lastProducer(selected);
        const curve = (e, other, into) => {
            const far = this.boxOf(other);
            if (!far || !box) {
                return;
            }
            const [a, b] = into ? [far, box] : [box, far];
            const message = trace.edgeKind(e) === EDGE.MESSAGE;
            const line = {e, x0: message ? a.x0 : a.x1, y0: a.y + a.high / 2,
                          x1: message ? b.x1 : b.x0, y1: b.y + b.high / 2};
            const bend = Math.max(14, Math.min(90, Math.abs(line.x1 - line.x0) / 2));
            line.bend = bend;
            this.curves.push(line);
            c.beginPath();
            c.moveTo(line.x0, line.y0);
            c.bezierCurveTo(line.x0 + bend, line.y0, line.x1 - bend, line.y1, line.x1, line.y1);
            c.strokeStyle = colours.paper;
            c.lineWidth = e === edge || e === last ? 5 : 3.5;
            c.stroke();
            c.strokeStyle = e === edge ? colours.accent : into ? colours.ink : colours.soft;
            c.lineWidth = e === edge ? 3 : e === last ? 2.2 : 1.2;
            c.setLineDash(into ? [] : [5, 3]);
            c.stroke();
            c.setLineDash([]);
            c.fillStyle = c.strokeStyle;
            c.beginPath();
            c.moveTo(line.x1 + 1, line.y1);
            c.lineTo(line.x1 - 6, line.y1 - 3.5);
            c.lineTo(line.x1 - 6, line.y1 + 3.5);
            c.fill();
        };
        const outs = this.model.consumers(selected).subarray(0, 200);
        for (const e of outs) {
            curve(e, trace.to(e), false);
        }
        for (let e = trace.firstEdge(selected), n = Math.min(trace.edges(selected), 200); n--;
             e++) {
            if (trace.from(e) !== NONE) {
                curve(e, trace.from(e), true);
            }
        }
        if (!box) {
            return;
        }
        // Two lines: waiting (from submitted to ready) and queued (from ready to start).
        const submitted = this.x(trace.submitted(selected)), ready = this.x(trace.ready(selected));
        const y = box.y + box.high + 1.5;
        c.lineWidth = 3;
        for (const [a, b, style] of [[submitted, ready, colours.warn],
                                     [Math.max(ready, submitted), box.x0, colours.soft]]) {
            if (b > a) {
                c.strokeStyle = style;
                c.beginPath();
                c.moveTo(Math.max(GUTTER, a), y);
                c.lineTo(b, y);
                c.stroke();
            }
        }
        c.strokeStyle = colours.paper;
        c.lineWidth = 5;
        c.strokeRect(box.x0, box.y, Math.max(2, box.x1 - box.x0), box.high);
        c.strokeStyle = colours.accent;
        c.lineWidth = 2.5;
        c.strokeRect(box.x0, box.y, Math.max(2, box.x1 - box.x0), box.high);
    }

    /* The span that the user measures with Shift and drag. */
    paintSpan(c, colours) {
        if (!this.span) {
            return;
        }
        const [a, b] = [Math.min(...this.span), Math.max(...this.span)];
        const x0 = this.x(a), x1 = this.x(b);
        c.globalAlpha = .14;
        c.fillStyle = colours.accent;
        c.fillRect(x0, AXIS, x1 - x0, this.height);
        c.globalAlpha = 1;
        c.fillRect(x0, AXIS, 1, this.height);
        c.fillRect(x1, AXIS, 1, this.height);
        let busy = 0, lanes = 0;
        for (const {lane} of this.places) {
            lanes += lane.kind === LANE.WORKER;
            for (const row of lane.rows) {
                const times = new Float64Array(row.classes.length);
                row.measure(a, b, row.after(a), times);
                busy += times.reduce((s, x) => s + x, 0);
            }
        }
        this.label(
            c, colours,
            `${duration(b - a)}, workers ${percent(busy, (b - a) * Math.max(lanes, 1))} busy`,
            (x0 + x1) / 2, AXIS + 14);
    }

    label(c, colours, text, x, y) {
        c.font = "600 12px " + getComputedStyle(document.body).fontFamily;
        const wide = c.measureText(text).width + 16;
        x = Math.max(GUTTER + wide / 2, Math.min(x, this.width - wide / 2));
        c.fillStyle = colours.accent;
        c.beginPath();
        c.roundRect(x - wide / 2, y - 10, wide, 20, 5);
        c.fill();
        c.fillStyle = colours.dark ? "#101413" : "#ffffff";
        c.textAlign = "center";
        c.textBaseline = "middle";
        c.fillText(text, x, y + .5);
        c.textAlign = "left";
    }

    /* What is at a point: {task}, {edge}, {event, lane}, {range}, {ring} or {}. */
    at(x, y) {
        for (const line of this.curves || []) {
            for (let k = 0; k <= 24; k++) {
                const p = k / 24, q = 1 - p;
                const cx = q ** 3 * line.x0 + 3 * q * q * p * (line.x0 + line.bend) +
                    3 * q * p * p * (line.x1 - line.bend) + p ** 3 * line.x1;
                const cy = q ** 3 * line.y0 + 3 * q * q * p * line.y0 + 3 * q * p * p * line.y1 +
                           p ** 3 * line.y1;
                const near = (x - cx) ** 2 + (y - cy) ** 2 < 20;
                if (near && p > .08 && p < .92) {
                    return {edge: line.e};
                }
            }
        }
        const line = y - AXIS + this.scroll, t = this.time(x);
        if (x < GUTTER || y < AXIS) {
            return {};
        }
        const strip = this.atStrip(line, t);
        if (strip) {
            return strip;
        }
        for (const place of this.places) {
            if (line < place.y || line >= place.end) {
                continue;
            }
            const rows = place.calls && line < place.y + CALLS
                             ? [{row: place.lane.calls, y: place.y, high: CALLS}]
                             : place.rows;
            for (const {row, y: top, high} of rows) {
                if (line >= top && line < top + high) {
                    let best = NONE, gap = 3 / this.scale;
                    for (let i = Math.max(0, row.after(t) - 1), n = i + 3;
                         i < n && i < row.items.length; i++) {
                        const away = Math.max(row.start[i] - t, t - row.end[i], 0);
                        if (away < gap) {
                            gap = away || -1;
                            best = row.items[i];
                        }
                    }
                    if (best !== NONE) {
                        return {task: best, call: row === place.lane.calls};
                    }
                }
            }
            const {lane} = place;
            let low = 0, end = lane.eventStart.length;
            while (low < end) {
                const middle = (low + end) >> 1;
                lane.eventStart[middle] <= t ? low = middle + 1 : end = middle;
            }
            return low && lane.eventEnd[low - 1] >= t ? {event: low - 1, lane} : {};
        }
        const ring = this.ringPlaces.find((p) => line >= p.y && line < p.y + p.high);
        return ring ? {ring: ring.ring, t} : {};
    }

    /* The range or skipped task at a point, if there is one. */
    atStrip(line, t) {
        for (const {row, y, high} of this.rangePlaces) {
            const i = row.after(t);
            if (line >= y && line < y + high && row.start[i] <= t) {
                return {range: row.items[i]};
            }
        }
        const place = this.skippedPlace, {skippedAt, skippedTasks} = this.model;
        if (place && line >= place.y && line < place.end) {
            const away = (i) => Math.abs(skippedAt[i] - t), i = this.skippedAfter(t);
            const near = i && !(away(i) < away(i - 1)) ? i - 1 : i;
            return away(near) < 4 / this.scale ? {task: skippedTasks[near]} : {};
        }
        return null;
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
            this.run = null;
            const [x] = where(event), unit = event.deltaMode === 1 ? 16 : 1;
            if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
                const by = event.deltaX * unit / this.scale;
                this.see(this.from + by, this.to + by);
            } else if (event.shiftKey || x < GUTTER) {
                this.scrollBy(event.deltaY * unit);
            } else {
                this.zoom(1.0015 ** (event.deltaY * unit), x);
            }
        }, {passive: false});
        canvas.addEventListener("pointerdown", (event) => {
            if (event.button) {
                return;
            }
            canvas.focus({preventScroll: true});
            canvas.setPointerCapture(event.pointerId);
            const [x, y] = where(event);
            this.run = null;
            grab = {x, y, from: this.from, to: this.to, scroll: this.scroll, moved: false,
                    measure: event.shiftKey};
            if (event.shiftKey) {
                this.span = [this.time(x), this.time(x)];
            }
        });
        canvas.addEventListener("pointermove", (event) => {
            const [x, y] = where(event);
            if (!grab) {
                this.hover(x, y, event);
                return;
            }
            grab.moved ||= Math.abs(x - grab.x) + Math.abs(y - grab.y) > 4;
            if (!grab.moved) {
                return;
            }
            this.app.tip(null);
            if (grab.measure) {
                this.span[1] = this.time(x);
                this.draw();
                return;
            }
            canvas.classList.add("busy");
            const by = (grab.x - x) / this.scale;
            this.scroll =
                Math.max(0, Math.min(grab.scroll + grab.y - y, this.total - this.height + AXIS));
            this.see(grab.from + by, grab.to + by);
        });
        const release = (event) => {
            const was = grab;
            grab = null;
            canvas.classList.remove("busy");
            if (was && !was.moved && event.type === "pointerup") {
                this.span = null;
                const hit = this.at(...where(event));
                if (hit.edge !== undefined) {
                    this.app.selectEdge(hit.edge);
                } else if (hit.range !== undefined) {
                    this.app.selectRange(hit.range);
                } else {
                    this.app.select(hit.task === undefined ? NONE : hit.task);
                }
            }
        };
        canvas.addEventListener("pointerup", release);
        canvas.addEventListener("pointercancel", release);
        canvas.addEventListener("pointerleave", () => this.app.tip(null));
        canvas.addEventListener("dblclick", (event) => {
            const hit = this.at(...where(event));
            if (hit.task !== undefined) {
                this.reveal(hit.task, true);
            } else if (hit.range !== undefined) {
                this.revealRange(hit.range);
            }
        });
        let brush = false;
        const move = (event) => {
            const x = event.clientX - this.overview.getBoundingClientRect().left;
            const {first, last} = this.model, all = last - first;
            const middle = first + (x - GUTTER) / (this.width - GUTTER) * all;
            let half = (this.to - this.from) / 2;
            if (half * 2 > all * .9) {
                half = all / 20;
            }
            this.run = null;
            this.see(middle - half, middle + half);
        };
        this.overview.addEventListener("pointerdown", (event) => {
            brush = true;
            this.overview.setPointerCapture(event.pointerId);
            move(event);
        });
        this.overview.addEventListener("pointermove", (event) => brush && move(event));
        this.overview.addEventListener("pointerup", () => { brush = false; });
    }

    hover(x, y, event) {
        const hit = this.at(x, y), {trace} = this.model;
        this.canvas.classList.toggle(
            "over", [hit.task, hit.edge, hit.range].some((what) => what !== undefined));
        let text = null;
        if (hit.edge !== undefined) {
            text = [edgeTitle(this.model, hit.edge), "Click to see the reason."];
        } else if (hit.task !== undefined) {
            const i = hit.task;
            const name = trace.kernelName(i), place = trace.siteName(i);
            text = hit.call
                ? [`submit of ${name}`, duration(trace.submitted(i) - trace.called(i)), place]
                : [name, trace.label(i), this.model.isSkipped(i) ? "skipped"
                   : duration(trace.duration(i)), `task ${i}, ${place}`].filter(Boolean);
        } else if (hit.range !== undefined) {
            const r = hit.range, count = trace.rangeTasks(r);
            text = [trace.rangeName(r),
                    duration((trace.rangeEnd(r) || this.model.last) - trace.rangeBegin(r)),
                    `${amount(count)} ${count === 1 ? "task" : "tasks"}, double-click to zoom`];
        } else if (hit.event !== undefined) {
            const {lane, event: i} = hit;
            text = [
                EVENT_WORDS[lane.eventKind[i]] || "event",
                duration(lane.eventWhole[i])
            ];
        } else if (hit.ring) {
            const i = this.sampleAt(hit.ring, hit.t), used = i < 0 ? 0 : hit.ring.used[i];
            const size = (value) => ringText(hit.ring.ring, value);
            text = [hit.ring.name, `${size(used)} of ${size(hit.ring.capacity)} in use`];
        }
        this.app.hover(hit.task === undefined || hit.call ? NONE : hit.task);
        this.app.tip(text, event);
    }
}
