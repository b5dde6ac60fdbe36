/* timeline.js - lanes and rings over one time axis. What is drawn in a frame depends on the pixels:
 * spans of two pixels or more one by one, and of all narrower ones in a column of pixels the share
 * of each kernel, as bands. */

const GUTTER = 132, AXIS = 26, RING = 44, CALLS = 14;
const EVENT_WORDS = [...STALLS.map((s) => "stalled: no room for " + s), "waiting", "asleep"];

class Timeline {
    constructor(app, canvas, overview) {
        this.app = app;
        this.model = app.model;
        this.canvas = canvas;
        this.overview = overview;
        this.context = canvas.getContext("2d", {willReadFrequently: true});
        this.pixels = new Pixels(this.context);
        this.from = -this.model.last * .01;
        this.to = this.model.last * 1.01;
        this.scroll = 0;
        this.frames = 0;
        this.widths = new Map();
        this.listen();
        new ResizeObserver(() => this.resize()).observe(canvas);
        this.resize();
    }

    // ---- the view -----------------------------------------------------------------------------

    resize() {
        const box = this.canvas.getBoundingClientRect();
        if (!box.width || !box.height) {
            return;
        }
        this.ratio = window.devicePixelRatio || 1;
        this.width = Math.floor(box.width);
        this.height = Math.floor(box.height);
        this.canvas.width = Math.floor(this.width * this.ratio);
        this.canvas.height = Math.floor(this.height * this.ratio);
        this.overview.width = this.canvas.width;
        this.overview.height = Math.floor(46 * this.ratio);
        this.place();
        this.drawOverview();
        this.draw();
    }

    /* Where each lane and ring is, from the top of all of them. */
    place() {
        const {lanes, rings} = this.model;
        let rows = 0, fixed = 8;
        for (const lane of lanes) {
            rows += this.rowsOf(lane);
            fixed += 6 + (lane.calls ? CALLS + 2 : 0) + (this.rowsOf(lane) ? 0 : 12);
        }
        const room = this.height - AXIS - fixed - rings.length * (RING + 10) - (rings.length ? 24 : 0);
        const high = Math.max(14, Math.min(40, Math.floor(room / Math.max(rows, 1))));
        let y = 6;
        this.places = lanes.map((lane) => {
            const place = {lane, y, calls: lane.calls ? CALLS : 0};
            y += place.calls + (place.calls ? 2 : 0);
            place.rows = lane.rows.slice(0, this.rowsOf(lane)).map((row) => {
                const at = {row, y, high};
                y += high;
                return at;
            });
            y += place.rows.length ? 0 : 12; // room for its name all the same
            place.end = y;
            y += 6;
            return place;
        });
        y += rings.length ? 20 : 0;
        this.ringsAt = y;
        const spare = Math.max(0, this.height - AXIS - y - rings.length * (RING + 10) - 4);
        const tall = RING + Math.min(48, Math.floor(spare / Math.max(rings.length, 1)));
        this.ringPlaces = rings.map((ring) => {
            const place = {ring, y, high: tall};
            y += tall + 10;
            return place;
        });
        this.total = y;
        this.scroll = Math.max(0, Math.min(this.scroll, this.total - (this.height - AXIS)));
    }

    /* An orchestrator that never ran a task needs no line for tasks. */
    rowsOf(lane) {
        return lane.calls && !lane.rows[0].items.length ? 0 : lane.rows.length;
    }

    get scale() {
        return (this.width - GUTTER) / (this.to - this.from);
    }

    x(time) {
        return GUTTER + (time - this.from) * this.scale;
    }

    time(x) {
        return this.from + (x - GUTTER) / this.scale;
    }

    see(from, to) {
        const all = this.model.last, least = 20;
        let span = Math.max(least, Math.min(to - from, all * 1.1));
        const middle = (from + to) / 2;
        from = Math.max(-all * .05, Math.min(middle - span / 2, all * 1.05 - span));
        this.from = from;
        this.to = from + span;
        this.draw();
    }

    pan(part) {
        const by = (this.to - this.from) * part;
        this.glide(this.from + by, this.to + by);
    }

    zoom(factor, x = (GUTTER + this.width) / 2, smooth = false) {
        const at = this.time(Math.max(GUTTER, x));
        const from = at - (at - this.from) * factor, to = at + (this.to - at) * factor;
        smooth ? this.glide(from, to) : this.see(from, to);
    }

    /* There in a sixth of a second, unless the system asks for stillness. */
    glide(from, to) {
        this.goal = {from, to};
        if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
            this.see(from, to);
            return;
        }
        const begin = performance.now(), a = this.from, b = this.to;
        const run = this.run = {};
        const step = (now) => {
            if (run !== this.run) {
                return;
            }
            const part = Math.min(1, Math.max(0, (now - begin) / 160)), ease = 1 - (1 - part) ** 3;
            this.see(a + (from - a) * ease, b + (to - b) * ease);
            if (part < 1) {
                requestAnimationFrame(step);
            }
        };
        requestAnimationFrame(step);
    }

    fit() {
        const edge = this.model.last * .01;
        this.glide(-edge, this.model.last + edge);
    }

    /* Brings a task into sight; with `close`, so near that its name can be read. */
    reveal(task, close) {
        const t = this.model.trace;
        let start = t.start(task), end = this.model.endOf(task);
        if (!(start === start)) {
            start = end = t.submitted(task) || 0;
        }
        const span = this.to - this.from;
        const want = close ? Math.max((end - start) * 8, 200) : span;
        const visible = start >= this.from && end <= this.to;
        if (close || !visible) {
            const middle = (start + end) / 2;
            this.glide(middle - want / 2, middle + want / 2);
        }
        const place = this.places[t.lane(task)];
        if (place) {
            const view = this.height - AXIS;
            if (place.y < this.scroll || place.end > this.scroll + view) {
                this.scroll = Math.max(0, Math.min(place.y - view / 2, this.total - view));
            }
        }
        this.draw();
    }

    /* Asks for a frame. */
    draw() {
        if (!this.asked) {
            this.asked = true;
            requestAnimationFrame(() => {
                this.asked = false;
                this.paint();
            });
        }
    }

    // ---- a frame ------------------------------------------------------------------------------

    paint() {
        if (!this.width || this.canvas.hidden) {
            return;
        }
        const {context: c, pixels, ratio, app: {colours}} = this;
        const step = this.tickStep();
        pixels.size(this.canvas.width, this.canvas.height);
        pixels.clear(colours.paperBits);
        this.phase = ((Math.round(-this.from * this.scale * ratio) % 35) + 35) % 35;
        this.phase = 35 - this.phase;
        const left = GUTTER * ratio, top = AXIS * ratio;
        const dy = (y) => Math.round((y - this.scroll) * ratio + top);
        for (const place of this.places) {
            const end = dy(place.end);
            if (end < top || dy(place.y) > pixels.height) {
                continue;
            }
            pixels.fill(left, pixels.width, dy(place.y), end, colours.laneBits);
        }
        for (let tick = Math.ceil(this.from / step) * step; tick < this.to; tick += step) {
            const x = Math.round(this.x(tick) * ratio);
            if (x >= left) {
                pixels.fill(x, x + 1, top, pixels.height, colours.lineBits);
            }
        }
        for (const place of this.places) {
            if (dy(place.end) < top || dy(place.y) > pixels.height) {
                continue;
            }
            this.paintEvents(place, dy);
            if (place.calls) {
                this.paintRow(place.lane.calls, dy(place.y) + 1, dy(place.y + CALLS), 0);
            }
            for (const {row, y, high} of place.rows) {
                this.paintRow(row, dy(y) + Math.round(2 * ratio), dy(y + high) - Math.round(2 * ratio), 1);
            }
        }
        pixels.fill(0, pixels.width, 0, top, colours.paperBits);
        pixels.show();
        c.setTransform(ratio, 0, 0, ratio, 0, 0);
        c.save();
        c.beginPath();
        c.rect(0, AXIS, this.width, this.height - AXIS);
        c.clip();
        this.paintRings(c, colours);
        c.save();
        c.beginPath();
        c.rect(GUTTER, AXIS, this.width - GUTTER, this.height - AXIS);
        c.clip();
        this.paintNames(c, colours);
        this.paintOutcomes(c, colours);
        this.paintPath(c, colours);
        this.paintSelected(c, colours);
        this.paintSpan(c, colours);
        c.restore();
        this.paintGutter(c, colours);
        c.restore();
        this.paintAxis(c, colours, step);
        this.paintBrush();
        this.frames++;
    }

    paintRow(row, y0, y1, gap) {
        const {pixels, ratio, phase, app: {colours}} = this;
        const {start, end, kind} = row, n = start.length;
        const scale = this.scale * ratio, left = GUTTER * ratio, from = this.from;
        const px = (t) => left + (t - from) * scale;
        const high = y1 - y0, times = new Float64Array(row.classes.length);
        let x = left, i = row.after(from);
        while (i < n && x < pixels.width) {
            const sx = px(start[i]), ex = px(end[i]);
            if (sx >= pixels.width) {
                break;
            }
            if (ex - sx >= 2) {
                const a = Math.max(left, Math.round(sx)), b = Math.round(ex);
                pixels.span(a, Math.min(pixels.width, b - (b - a > 4 ? gap : 0)), y0, y1, kind[i],
                            colours, phase);
                x = Math.max(x, b);
                i++;
                continue;
            }
            const column = Math.max(x, Math.floor(sx));
            const a = from + (column - left) / scale, b = from + (column + 1 - left) / scale;
            times.fill(0);
            // A span of this column may lie behind the last one that was drawn whole.
            const next = row.measure(a, b, i, times);
            let sum = 0, y = y1;
            for (let k = 0; k < times.length; k++) {
                if (times[k]) {
                    sum += times[k];
                    const to = y1 - Math.max(1, Math.round(sum / (b - a) * high));
                    if (to < y) {
                        pixels.span(column, column + 1, Math.max(y0, to), y, row.classes[k], colours,
                                    phase);
                        y = to;
                    }
                }
            }
            x = column + 1;
            i = next;
        }
    }

    /* Time that was not spent working, and why. */
    paintEvents({lane, y, end}, dy) {
        const {pixels, ratio, app: {colours}} = this;
        const {eventStart, eventEnd, eventKind} = lane, n = eventStart.length;
        let low = 0, high = n;
        while (low < high) {
            const middle = (low + high) >> 1;
            eventEnd[middle] <= this.from ? low = middle + 1 : high = middle;
        }
        const y0 = dy(y), y1 = dy(end);
        let drawn = -1;
        for (let i = low; i < n && eventStart[i] < this.to; i++) {
            const a = Math.max(GUTTER * ratio, Math.floor(this.x(eventStart[i]) * ratio));
            const b = Math.max(a + 1, Math.ceil(this.x(eventEnd[i]) * ratio));
            if (b <= drawn) {
                continue;
            }
            const stall = eventKind[i] < 5;
            if (stall) {
                pixels.fill(a, b, y0, y1, packed(mix(colours.dark ? [0x50, 0x3b, 0x0c] : [0xff, 0xe3, 0xa0],
                                                    colours.dark ? [0, 0, 0] : [255, 255, 255], .1)));
                pixels.hatch(a, b, y0, y1, colours.warnBits, 6);
                drawn = b;
            } else {
                pixels.hatch(a, b, y0, y1, eventKind[i] === 5 ? colours.faintBits : colours.lineBits,
                             eventKind[i] === 5 ? 6 : 4);
            }
        }
    }

    paintNames(c, colours) {
        const {trace} = this.model;
        c.font = "11px " + getComputedStyle(document.body).fontFamily;
        c.textBaseline = "middle";
        const least = 30 / this.scale;
        for (const {rows} of this.places) {
            for (const {row, y, high} of rows) {
                const at = y - this.scroll + AXIS;
                if (at + high < AXIS || at > this.height || high < 13) {
                    continue;
                }
                const {start, end, items, kind} = row;
                // Too many to look at, one by one: none is wide enough then, but for a few.
                let i = row.after(this.from), budget = 4 * this.width;
                for (; i < items.length && start[i] < this.to && budget--; i++) {
                    if (end[i] - start[i] < least) {
                        continue;
                    }
                    const x0 = Math.max(GUTTER, this.x(start[i])), x1 = Math.min(this.width, this.x(end[i]));
                    const name = trace.kernelName(items[i]), room = x1 - x0 - 8;
                    const text = this.shorten(c, name, room);
                    if (text) {
                        c.fillStyle = kind[i] === DIM ? colours.soft : colours.words[kind[i]];
                        c.fillText(text, x0 + 4, at + high / 2 + .5);
                    }
                }
            }
        }
    }

    shorten(c, text, room) {
        let width = this.widths.get(text);
        if (width === undefined) {
            width = c.measureText(text).width;
            this.widths.set(text, width);
        }
        if (width <= room) {
            return text;
        }
        const letters = Math.floor(text.length * room / width) - 1;
        return letters < 3 ? "" : text.slice(0, letters) + "…";
    }

    /* Failed tasks are marked at any zoom. */
    paintOutcomes(c, colours) {
        const {trace} = this.model;
        this.failures ||= this.model.failed
            ? Array.from({length: this.model.tasks}, (_, i) => i).filter((i) => trace.outcome(i) === 1)
            : [];
        c.fillStyle = c.strokeStyle = colours.bad;
        for (const i of this.failures.slice(0, 2000)) {
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

    /* Where a task is on the canvas, if it is on a lane. */
    boxOf(task) {
        const {trace} = this.model, place = this.places[trace.lane(task)];
        const start = trace.start(task);
        if (!place || !(start === start)) {
            return null;
        }
        let row = place.rows[0];
        if (place.rows.length > 1) {
            row = place.rows.find((r) => {
                const i = r.row.after(start);
                return r.row.items[i] === task;
            }) || row;
        }
        if (!row) {
            return null;
        }
        return {x0: this.x(start), x1: this.x(this.model.endOf(task)),
                y: row.y - this.scroll + AXIS + 2, high: row.high - 4};
    }

    paintPath(c, colours) {
        if (!this.app.showPath) {
            return;
        }
        const {tasks} = this.model.criticalPath(), {trace} = this.model;
        // The chain is sorted by time; of more than can be told apart, some are left out.
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

    paintSelected(c, colours) {
        const {selected, hovered, edge} = this.app;
        this.curves = [];
        if (hovered !== NONE && hovered !== selected) {
            const box = this.boxOf(hovered);
            if (box) {
                c.strokeStyle = colours.ink;
                c.lineWidth = 1;
                c.strokeRect(box.x0 - .5, box.y - .5, Math.max(2, box.x1 - box.x0) + 1, box.high + 1);
            }
        }
        if (selected === NONE) {
            return;
        }
        const {trace} = this.model, box = this.boxOf(selected), last = this.model.lastProducer(selected);
        const curve = (e, other, into) => {
            const far = this.boxOf(other);
            if (!far || !box) {
                return;
            }
            const [a, b] = into ? [far, box] : [box, far];
            const line = {e, x0: a.x1, y0: a.y + a.high / 2, x1: b.x0, y1: b.y + b.high / 2};
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
        for (let e = trace.firstEdge(selected), n = Math.min(trace.edges(selected), 200); n--; e++) {
            if (trace.from(e) !== NONE) {
                curve(e, trace.from(e), true);
            }
        }
        if (!box) {
            return;
        }
        // From the end of submit over ready to the start: how long it waited, and was queued.
        const submitted = this.x(trace.submitted(selected)), ready = this.x(trace.ready(selected));
        const y = box.y + box.high + 1.5;
        c.lineWidth = 3;
        for (const [a, b, style] of [[submitted, ready, colours.warn], [Math.max(ready, submitted), box.x0, colours.accent]]) {
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

    /* The span that was measured with Shift. */
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
            lanes += lane.kind === 1;
            for (const row of lane.rows) {
                const times = new Float64Array(row.classes.length);
                row.measure(a, b, row.after(a), times);
                busy += times.reduce((s, x) => s + x, 0);
            }
        }
        this.label(c, colours, `${duration(b - a)}, workers ${percent(busy, (b - a) * Math.max(lanes, 1))} busy`,
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

    paintRings(c, colours) {
        for (const {ring, y: at, high} of this.ringPlaces) {
            const y = at - this.scroll + AXIS;
            if (y + high < AXIS || y > this.height) {
                continue;
            }
            // As high as the ring is large; a ring that is hardly used is drawn larger, and says so.
            const capacity = ring.capacity || ring.most || 1;
            const full = ring.most < capacity / 4 && ring.most ? ring.most * 1.25 : capacity;
            const up = (used) => y + high - Math.min(1, used / full) * (high - 3);
            c.fillStyle = colours.line;
            c.fillRect(GUTTER, y + high, this.width - GUTTER, 1);
            c.beginPath();
            c.moveTo(GUTTER, y + high);
            let i = this.sampleAt(ring, this.time(GUTTER)), value = i < 0 ? 0 : ring.used[i];
            c.lineTo(GUTTER, up(value));
            const end = ring.at.length ? this.x(ring.at[ring.at.length - 1]) : GUTTER;
            for (let x = GUTTER; x < Math.min(this.width, end + 1); x++) {
                const next = this.sampleAt(ring, this.time(x + 1), i);
                if (next > i) {
                    value = this.topOf(ring, i + 1, next);
                    c.lineTo(x, up(value));
                    value = ring.used[next];
                    i = next;
                }
                c.lineTo(x + 1, up(value));
            }
            c.lineTo(Math.min(this.width, Math.max(end, GUTTER)), y + high);
            c.closePath();
            c.globalAlpha = colours.dark ? .32 : .22;
            c.fillStyle = colours.accent;
            c.fill();
            c.globalAlpha = 1;
            c.strokeStyle = colours.accent;
            c.lineWidth = 1.2;
            c.stroke();
            if (full === capacity && ring.capacity) {
                c.strokeStyle = colours.warn;
                c.setLineDash([4, 4]);
                c.beginPath();
                c.moveTo(GUTTER, y + 3);
                c.lineTo(this.width, y + 3);
                c.stroke();
                c.setLineDash([]);
            }
        }
    }

    /* The last sample at or before t, -1: none. */
    sampleAt(ring, t, low = -1) {
        let high = ring.at.length;
        for (let step = 1; low + step < high; step *= 2) {
            if (ring.at[low + step] > t) {
                high = low + step;
            } else {
                low += step;
            }
        }
        while (low + 1 < high) {
            const middle = (low + high) >> 1;
            ring.at[middle] <= t ? low = middle : high = middle;
        }
        return low;
    }

    topOf(ring, first, last) {
        let most = 0;
        for (let i = first; i <= last;) {
            if (i % BLOCK === 0 && i + BLOCK <= last) {
                most = Math.max(most, ring.tops[i / BLOCK]);
                i += BLOCK;
            } else {
                most = Math.max(most, ring.used[i++]);
            }
        }
        return most;
    }

    paintGutter(c, colours) {
        const font = getComputedStyle(document.body).fontFamily;
        c.fillStyle = colours.paper;
        c.fillRect(0, AXIS, GUTTER - 6, this.height);
        c.textBaseline = "middle";
        for (const {lane, y, end} of this.places) {
            const middle = (y + end) / 2 - this.scroll + AXIS, tall = end - y >= 26;
            c.font = "12px " + font;
            c.fillStyle = colours.ink;
            c.fillText(this.shorten(c, lane.name, GUTTER - 24) || lane.name.slice(0, 9), 12,
                       middle - (tall ? 6 : 0));
            const share = lane.calls && !lane.busy ? "submits" : percent(lane.busy, this.model.makespan) + (tall ? " busy" : "");
            c.font = "10px " + font;
            c.fillStyle = lane.lost ? colours.warn : colours.soft;
            const text = lane.lost ? `${share} · ${amount(lane.lost)} lost` : share;
            if (tall) {
                c.fillText(text, 12, middle + 8);
            } else if (this.widths.get(lane.name) < GUTTER - 60) {
                c.textAlign = "right";
                c.fillText(share, GUTTER - 10, middle);
                c.textAlign = "left";
            }
        }
        if (this.ringPlaces.length) {
            const y = this.ringsAt - this.scroll + AXIS - 16;
            c.fillStyle = colours.soft;
            c.font = "600 10px " + getComputedStyle(document.body).fontFamily;
            c.textBaseline = "middle";
            c.fillText("RINGS", 12, y + 4);
            c.fillStyle = colours.line;
            c.fillRect(58, y + 4, this.width - 58, 1);
        }
        for (const {ring, y, high} of this.ringPlaces) {
            const at = y - this.scroll + AXIS, size = ring.ring === 1 || ring.ring === 2 ? bytesText : amount;
            c.font = "12px " + font;
            c.fillStyle = colours.ink;
            c.fillText(ring.name, 12, at + high / 2 - 7);
            c.font = "10px " + font;
            c.fillStyle = ring.capacity && ring.most >= ring.capacity * .98 ? colours.warn : colours.soft;
            c.fillText(`most ${size(ring.most)}`, 12, at + high / 2 + 7);
            if (ring.capacity) {
                c.fillText(`of ${size(ring.capacity)}`, 12, at + high / 2 + 19);
            }
        }
    }

    tickStep() {
        const rough = (this.to - this.from) / Math.max(2, (this.width - GUTTER) / 120);
        const power = 10 ** Math.floor(Math.log10(rough));
        return power * [1, 2, 5, 10].find((m) => m * power >= rough);
    }

    paintAxis(c, colours, step) {
        c.fillStyle = colours.paper;
        c.fillRect(0, 0, this.width, AXIS);
        c.fillStyle = colours.line;
        c.fillRect(0, AXIS - 1, this.width, 1);
        c.font = "11px " + getComputedStyle(document.body).fontFamily;
        c.textBaseline = "middle";
        c.fillStyle = colours.soft;
        for (let tick = Math.ceil(this.from / step) * step; tick < this.to; tick += step) {
            const x = this.x(tick);
            if (x >= GUTTER - 1) {
                c.fillText(moment(tick, step), x + 4, AXIS / 2);
                c.fillRect(x, AXIS - 6, 1, 6);
            }
        }
        c.fillStyle = colours.paper;
        c.fillRect(0, 0, GUTTER - 6, AXIS - 1);
        c.fillStyle = colours.faint;
        c.fillText(`${duration(this.to - this.from)} wide`, 12, AXIS / 2);
    }

    // ---- the overview -------------------------------------------------------------------------

    /* How busy the workers were over the whole run, by kernel. Drawn once, and kept. */
    drawOverview() {
        const {overview, ratio, model, app: {colours}} = this;
        if (!this.width) {
            return;
        }
        const wide = overview.width, high = overview.height, left = Math.round(GUTTER * ratio);
        const pixels = new Pixels(overview.getContext("2d"));
        pixels.size(wide, high);
        pixels.clear(colours.panelBits);
        const rows = model.lanes.flatMap((lane) => lane.rows).filter((row) => row.items.length);
        const lanes = Math.max(1, model.lanes.filter((lane) => lane.busy).length);
        const at = rows.map(() => 0), times = rows.map((row) => new Float64Array(row.classes.length));
        const sums = new Float64Array(ALL_CLASSES), span = model.last / (wide - left);
        for (let x = left; x < wide; x++) {
            const a = (x - left) * span;
            sums.fill(0);
            rows.forEach((row, r) => {
                times[r].fill(0);
                at[r] = row.measure(a, a + span, row.after(a, at[r]), times[r]);
                row.classes.forEach((kind, k) => {
                    sums[kind] += times[r][k];
                });
            });
            let sum = 0, y = high;
            for (let k = 0; k < ALL_CLASSES; k++) {
                sum += sums[k];
                const to = Math.max(4, high - Math.round(sum / span / lanes * (high - 6)));
                if (to < y) {
                    pixels.span(x, x + 1, to, y, k, colours, 0);
                    y = to;
                }
            }
        }
        this.overviewPixels = pixels;
        this.paintBrush();
    }

    paintBrush() {
        if (!this.overviewPixels) {
            return;
        }
        const {app: {colours}, ratio, width} = this, c = this.overview.getContext("2d");
        this.overviewPixels.show();
        c.setTransform(ratio, 0, 0, ratio, 0, 0);
        const scale = (width - GUTTER) / this.model.last;
        const x0 = Math.max(GUTTER, GUTTER + this.from * scale), x1 = Math.min(width, GUTTER + this.to * scale);
        c.fillStyle = colours.paper;
        c.globalAlpha = .72;
        c.fillRect(GUTTER, 0, x0 - GUTTER, 46);
        c.fillRect(x1, 0, width - x1, 46);
        c.globalAlpha = 1;
        if (x0 > GUTTER || x1 < width) {
            c.strokeStyle = colours.accent;
            c.lineWidth = 1.5;
            c.strokeRect(x0 - .5, .75, Math.max(3, x1 - x0), 44);
        }
        c.font = "11px " + getComputedStyle(document.body).fontFamily;
        c.fillStyle = colours.soft;
        c.textBaseline = "middle";
        c.fillText("whole run", 12, 23);
    }

    // ---- mouse and touch ----------------------------------------------------------------------

    /* What is under a point: {task}, {edge}, {event, lane}, {ring} or nothing. */
    at(x, y) {
        for (const line of this.curves || []) {
            for (let k = 0; k <= 24; k++) {
                const p = k / 24, q = 1 - p;
                const cx = q ** 3 * line.x0 + 3 * q * q * p * (line.x0 + line.bend) +
                    3 * q * p * p * (line.x1 - line.bend) + p ** 3 * line.x1;
                const cy = q ** 3 * line.y0 + 3 * q * q * p * line.y0 + 3 * q * p * p * line.y1 + p ** 3 * line.y1;
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
        for (const place of this.places) {
            if (line < place.y || line >= place.end) {
                continue;
            }
            const rows = place.calls && line < place.y + CALLS ? [{row: place.lane.calls, y: place.y, high: CALLS}] : place.rows;
            for (const {row, y: top, high} of rows) {
                if (line >= top && line < top + high) {
                    let best = NONE, gap = 3 / this.scale;
                    for (let i = Math.max(0, row.after(t) - 1), n = i + 3; i < n && i < row.items.length; i++) {
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
            let low = 0, end = lane.events.length;
            while (low < end) {
                const middle = (low + end) >> 1;
                lane.eventStart[middle] <= t ? low = middle + 1 : end = middle;
            }
            // Stalls lie within waits: the one that began last is the one to name.
            for (let i = low - 1; i >= Math.max(0, low - 64); i--) {
                if (lane.eventEnd[i] >= t) {
                    return {event: i, lane};
                }
            }
            return {};
        }
        const ring = this.ringPlaces.find((p) => line >= p.y && line < p.y + p.high);
        return ring ? {ring: ring.ring, t} : {};
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
            this.scroll = Math.max(0, Math.min(grab.scroll + grab.y - y, this.total - this.height + AXIS));
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
            }
        });
        let brush = false;
        const move = (event) => {
            const x = event.clientX - this.overview.getBoundingClientRect().left;
            const middle = (x - GUTTER) / (this.width - GUTTER) * this.model.last;
            let half = (this.to - this.from) / 2;
            if (half * 2 > this.model.last * .9) {
                half = this.model.last / 20;
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

    scrollBy(by) {
        this.scroll = Math.max(0, Math.min(this.scroll + by, this.total - this.height + AXIS));
        this.draw();
    }

    hover(x, y, event) {
        const hit = this.at(x, y), {trace} = this.model;
        this.canvas.classList.toggle("over", hit.task !== undefined || hit.edge !== undefined);
        let text = null;
        if (hit.edge !== undefined) {
            text = [edgeTitle(this.model, hit.edge), "click: why"];
        } else if (hit.task !== undefined) {
            const i = hit.task;
            text = hit.call
                ? [`submit of ${trace.kernelName(i)}`, duration(trace.submitted(i) - trace.called(i)), trace.siteName(i)]
                : [trace.kernelName(i), duration(trace.duration(i)), `task ${trace.id(i)}, ${trace.siteName(i)}`];
        } else if (hit.event !== undefined) {
            const {lane, event: i} = hit;
            text = [EVENT_WORDS[lane.eventKind[i]] || "event", duration(lane.eventEnd[i] - lane.eventStart[i])];
        } else if (hit.ring) {
            const i = this.sampleAt(hit.ring, hit.t), used = i < 0 ? 0 : hit.ring.used[i];
            const size = hit.ring.ring === 1 || hit.ring.ring === 2 ? bytesText : amount;
            text = [hit.ring.name, `${size(used)} of ${size(hit.ring.capacity)} in use`];
        }
        this.app.hover(hit.task === undefined || hit.call ? NONE : hit.task);
        this.app.tip(text, event);
    }
}
