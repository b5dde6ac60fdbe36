/* view.js - the visible part of the run, and the places of lanes and rings on the canvas. */

const GUTTER = 132, AXIS = 26, RING = 44, IDLE_RING = 12;
const CALLS = 14, RANGE_ROW = 18, SKIPPED_ROW = 18;

class View {
    constructor(app, canvas, overview) {
        this.app = app;
        this.model = app.model;
        this.canvas = canvas;
        this.overview = overview;
        this.context = canvas.getContext("2d", {willReadFrequently: true});
        this.pixels = new Pixels(this.context);
        this.whole();
        this.scroll = 0;
        this.frames = 0;
        this.widths = new Map();
        this.listen();
        new ResizeObserver(() => this.resize()).observe(canvas);
        this.resize();
    }

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

    /* Computes the place of each lane and ring, from the top of all of them. */
    place() {
        const {lanes, rings, ranges, skippedTasks} = this.model;
        let rows = 0, fixed = 8 + (ranges.length ? ranges.length * RANGE_ROW + 6 : 0) +
            (skippedTasks.length ? SKIPPED_ROW + 6 : 0);
        for (const lane of lanes) {
            rows += this.rowsOf(lane);
            fixed += 6 + (lane.calls ? CALLS + 2 : 0) + (this.rowsOf(lane) ? 0 : 12);
        }
        // Lanes come first. Rings get up to half of the height; beyond that the view scrolls.
        const wanted = rings.reduce((sum, ring) => sum + (ring.most ? RING : IDLE_RING) + 10, 24);
        const room = this.height - AXIS - fixed - Math.min(wanted, this.height / 2);
        const high = Math.max(14, Math.min(40, Math.floor(room / Math.max(rows, 1))));
        let y = 6;
        this.rangePlaces =
            ranges.map((row, depth) => ({row, y: y + depth * RANGE_ROW, high: RANGE_ROW}));
        y += ranges.length ? ranges.length * RANGE_ROW + 6 : 0;
        this.places = lanes.map((lane) => {
            const place = {lane, y, calls: lane.calls ? CALLS : 0};
            y += place.calls + (place.calls ? 2 : 0);
            place.rows = lane.rows.slice(0, this.rowsOf(lane)).map((row) => {
                const at = {row, y, high};
                y += high;
                return at;
            });
            y += place.rows.length ? 0 : 12; // room for its name
            place.end = y;
            y += 6;
            return place;
        });
        this.skippedPlace = skippedTasks.length ? {y, end: y + SKIPPED_ROW} : null;
        y += skippedTasks.length ? SKIPPED_ROW + 6 : 0;
        y += rings.length ? 20 : 0;
        this.ringsAt = y;
        const busy = rings.filter((ring) => ring.most).length;
        const spare = Math.max(0, this.height - AXIS - y - wanted);
        const tall = RING + Math.min(40, Math.floor(spare / Math.max(busy, 1)));
        this.ringPlaces = rings.map((ring) => {
            const place = {ring, y, high: ring.most ? tall : IDLE_RING};
            y += place.high + 10;
            return place;
        });
        this.total = y;
        this.scroll = Math.max(0, Math.min(this.scroll, this.total - (this.height - AXIS)));
    }

    /* An orchestrator that never ran a task needs no row for tasks. */
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

    /* The place of a task on the canvas; null if it is on no lane. */
    boxOf(task) {
        const {trace} = this.model, place = this.places[trace.lane(task)];
        const start = trace.start(task);
        if (this.model.isSkipped(task) && this.skippedPlace) {
            const x = this.x(trace.end(task)), {y} = this.skippedPlace;
            return {x0: x - 1, x1: x + 1, y: y - this.scroll + AXIS + 2, high: SKIPPED_ROW - 4};
        }
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

    see(from, to) {
        const {first, last} = this.model, all = last - first, least = 20;
        const span = Math.max(least, Math.min(to - from, all * 1.1)), middle = (from + to) / 2;
        from = Math.max(first - all * .05, Math.min(middle - span / 2, last + all * .05 - span));
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

    /* Moves there in a sixth of a second; without animation if the user prefers reduced motion. */
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
        const {first, last} = this.model, edge = (last - first) * .01;
        this.glide(first - edge, last + edge);
    }

    /* The same without animation. */
    whole() {
        const {first, last} = this.model, edge = (last - first) * .01;
        this.from = first - edge;
        this.to = last + edge;
    }

    scrollBy(by) {
        this.scroll = Math.max(0, Math.min(this.scroll + by, this.total - this.height + AXIS));
        this.draw();
    }

    /* Makes a task visible. With `close`, zooms in until its name can be read. */
    reveal(task, close) {
        const t = this.model.trace;
        let start = t.start(task), end = this.model.endOf(task);
        if (this.model.isSkipped(task)) {
            start = end;
        } else if (!(start === start)) {
            start = end = t.submitted(task) || 0;
        }
        const span = this.to - this.from;
        const want = close ? Math.max((end - start) * 8, 200) : span;
        const visible = start >= this.from && end <= this.to;
        if (close || !visible) {
            const middle = (start + end) / 2;
            this.glide(middle - want / 2, middle + want / 2);
        }
        const place = this.model.isSkipped(task) ? this.skippedPlace : this.places[t.lane(task)];
        if (place) {
            const view = this.height - AXIS;
            if (place.y < this.scroll || place.end > this.scroll + view) {
                this.scroll = Math.max(0, Math.min(place.y - view / 2, this.total - view));
            }
        }
        this.draw();
    }

    /* Shows all of a range. */
    revealRange(range) {
        const t = this.model.trace, begin = t.rangeBegin(range);
        const end = t.rangeEnd(range) || this.model.last, edge = (end - begin) * .03;
        this.glide(begin - edge, end + edge);
    }

    /* Requests a frame. */
    draw() {
        if (!this.asked) {
            this.asked = true;
            requestAnimationFrame(() => {
                this.asked = false;
                this.paint();
            });
        }
    }
}
