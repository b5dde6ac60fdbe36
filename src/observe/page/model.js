/* model.js - what is computed from a trace: rows to draw, statistics, consumers, the critical path.
 *
 * A row is a list of spans that do not overlap, sorted by time. It has flat arrays and running
 * sums, so that the cost of drawing depends on the number of pixels, not of spans. */

const BLOCK = 16;   // spans per running sum
const MOST_RANGES = 5; // rows for ranges inside of ranges; deeper ones are not drawn
const CLASSES = 24; // kernels with their own colour and pattern; the last class is for all others
const DIM = CLASSES, CALL = CLASSES + 1, FAILED = CLASSES + 2, RANGE = CLASSES + 3;
const ALL_CLASSES = CLASSES + 4;

class Row {
    /* Spans in the order of `items` (indices of tasks, sorted by start). */
    constructor(items, start, end) {
        this.items = items;
        this.start = new Float64Array(items.length);
        this.end = new Float64Array(items.length);
        this.kind = new Uint8Array(items.length);
        for (let i = 0; i < items.length; i++) {
            this.start[i] = start(items[i]);
            this.end[i] = end(items[i]);
        }
    }

    /* Sets the class of each span. Stores running sums of time, by class, every BLOCK spans. */
    classify(kindOf) {
        const {items, kind, start, end} = this, used = new Uint8Array(ALL_CLASSES);
        for (let i = 0; i < items.length; i++) {
            kind[i] = kindOf(items[i]);
            used[kind[i]] = 1;
        }
        this.classes = [];
        const place = new Uint8Array(ALL_CLASSES);
        for (let c = 0; c < ALL_CLASSES; c++) {
            if (used[c]) {
                place[c] = this.classes.length;
                this.classes.push(c);
            }
        }
        const n = this.classes.length, blocks = Math.floor(items.length / BLOCK) + 1;
        const sums = this.sums = new Float64Array(n * (blocks + 1));
        const running = new Float64Array(n);
        for (let i = 0; i < items.length; i++) {
            if (i % BLOCK === 0) {
                sums.set(running, i / BLOCK * n);
            }
            running[place[kind[i]]] += end[i] - start[i];
        }
        sums.set(running, Math.ceil(items.length / BLOCK) * n);
        this.place = place;
    }

    /* The first span, from `low` on, that ends after t. */
    after(t, low = 0) {
        // Growing steps first, since the answer is mostly near `low`.
        const end = this.end;
        let high = end.length;
        for (let step = 1; low + step < high; step *= 2) {
            if (end[low + step] > t) {
                high = low + step;
            } else {
                low += step;
            }
        }
        while (low < high) {
            const middle = (low + high) >> 1;
            if (end[middle] <= t) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /* Adds the time of the spans in [a, b) to `times`, by class. `i` is after(a). Returns the first
     * span that ends after b. */
    measure(a, b, i, times) {
        const {start, end, kind, place, sums} = this, n = this.classes.length;
        const last = this.after(b, i);
        // Only a part of the last span counts if it ends after b.
        const end1 = last < start.length && start[last] < b ? last + 1 : last;
        let j = i;
        const whole = last - last % BLOCK, first = j + 1 + (BLOCK - (j + 1) % BLOCK) % BLOCK;
        const skips = whole > first;
        for (; j < end1; j++) {
            if (skips && j === first) {
                for (let c = 0; c < n; c++) {
                    times[c] += sums[whole / BLOCK * n + c] - sums[first / BLOCK * n + c];
                }
                j = whole;
                if (j === end1) {
                    break;
                }
            }
            const from = start[j] > a ? start[j] : a, to = end[j] < b ? end[j] : b;
            if (to > from) {
                times[place[kind[j]]] += to - from;
            }
        }
        return last;
    }
}

/* Indices of a section's records, sorted by one of their times. Records for which `skip` is true,
 * or whose time is not known, are left out. A radix sort by 32 bits, then an insertion sort for the
 * bits below them. */
function sortByTime(section, word, skip) {
    const {count} = section;
    let items = new Uint32Array(count), n = 0, max = 0, sorted = true, last = 0;
    for (let i = 0; i < count; i++) {
        const time = section.time(i, word);
        if (time === time && !(skip && skip(i))) {
            items[n++] = i;
            sorted = sorted && time >= last;
            last = time;
            max = time > max ? time : max;
        }
    }
    items = items.subarray(0, n);
    if (sorted) {
        return items;
    }
    const unit = Math.max(1, 2 ** Math.ceil(Math.log2((max + 1) / 4294967296)));
    let keys = new Uint32Array(n), others = new Uint32Array(n), keysToo = new Uint32Array(n);
    for (let i = 0; i < n; i++) {
        keys[i] = section.time(items[i], word) / unit;
    }
    for (let shift = 0; shift < 33 && max / unit >= 2 ** shift; shift += 11) {
        const place = new Uint32Array(2049);
        for (let i = 0; i < n; i++) {
            place[(keys[i] >>> shift & 2047) + 1]++;
        }
        for (let d = 0; d < 2048; d++) {
            place[d + 1] += place[d];
        }
        for (let i = 0; i < n; i++) {
            const to = place[keys[i] >>> shift & 2047]++;
            others[to] = items[i];
            keysToo[to] = keys[i];
        }
        [items, others] = [others, items];
        [keys, keysToo] = [keysToo, keys];
    }
    for (let i = 1; unit > 1 && i < n; i++) {
        const item = items[i], time = section.time(item, word);
        let j = i;
        for (; j && section.time(items[j - 1], word) > time; j--) {
            items[j] = items[j - 1];
        }
        items[j] = item;
    }
    return items;
}

class Model {
    constructor(trace) {
        this.trace = trace;
        const t = trace, n = this.tasks = t.TASKS.count;
        // The picture begins with the first call and ends with the last known time of a task.
        let first = Infinity, last = 0;
        for (let i = 0; i < n; i++) {
            const called = t.called(i), submitted = t.submitted(i);
            const end = t.end(i), retired = t.retired(i);
            first = called < first ? called : first;
            last = submitted > last ? submitted : last;
            last = end > last ? end : last;
            last = retired > last ? retired : last;
        }
        this.first = Math.min(first, last);
        this.last = Math.max(last, this.first + 1);
        this.countKernels();
        this.makeLanes();
        this.classify(null);
        this.addLate();
    }

    /* Adds the sections that follow the tasks in the file. Called again when they have been
     * loaded. */
    addLate() {
        const {EVENTS} = this.trace;
        for (let i = 0; i < EVENTS.count; i++) {
            // Sleep and idle waits after the last task do not make the picture longer.
            const end = EVENTS.time(i, 2), room = IS_ROOM[EVENTS.u32(i, 5) & 0xffff];
            this.last = room && end > this.last ? end : this.last;
        }
        this.makeEvents();
        this.eventKinds = new Set(this.lanes.flatMap((lane) => [...new Set(lane.eventKind)]));
        this.makeRings();
        this.makeRanges();
        this.makeSkipped();
        this.failureList = null;
    }

    /* A task that has not ended is drawn to the end of the picture. */
    endOf(i) {
        const end = this.trace.end(i);
        return end === end ? end : this.last;
    }

    countKernels() {
        const t = this.trace, k = t.KERNELS.count;
        const time = new Float64Array(k + 1), count = new Uint32Array(k + 1);
        let busy = 0, spent = 0, ran = 0, first = Infinity, end = 0, failed = 0, skipped = 0, inlined = 0;
        for (let i = 0; i < this.tasks; i++) {
            const kernel = t.kernel(i) === NONE ? k : t.kernel(i), outcome = t.outcome(i);
            count[kernel]++;
            failed += outcome === OUTCOME.FAILED;
            skipped += outcome === OUTCOME.SKIPPED;
            inlined += t.ranInline(i);
            const start = t.start(i);
            if (start === start && t.lane(i) !== NONE) {
                const d = Math.max(0, this.endOf(i) - start);
                time[kernel] += d;
                spent += d;
                busy += t.transfers(i) ? 0 : d; // a message is pending, which is no work
                ran++;
                first = start < first ? start : first;
                end = Math.max(end, start + d);
            }
        }
        Object.assign(this, {busy, spent, ran, failed, skipped, inlined,
                             kernelTime: time, kernelCount: count});
        this.makespan = ran ? end - Math.min(first, t.called(0) || first) : 0;
        // The kernels that take the most time get the most distinct colours.
        const order = Array.from({length: k}, (_, i) => i).filter((i) => count[i])
            .sort((a, b) => time[b] - time[a] || count[b] - count[a]);
        this.kernelOrder = order;
        this.kernelClass = new Uint8Array(k + 1).fill(CLASSES - 1);
        order.forEach((kernel, rank) => {
            this.kernelClass[kernel] = Math.min(rank, CLASSES - 1);
        });
    }

    kernelClassOf(i) {
        const kernel = this.trace.kernel(i);
        return this.kernelClass[kernel === NONE ? this.trace.KERNELS.count : kernel];
    }

    /* Failed tasks have a colour of their own. */
    classOf(i) {
        return this.failed && this.trace.outcome(i) === OUTCOME.FAILED ? FAILED
                                                                       : this.kernelClassOf(i);
    }

    makeLanes() {
        const t = this.trace, lanes = Math.max(t.LANES.count, 1);
        const order = sortByTime(t.TASKS, 8, (i) => t.lane(i) === NONE);
        const counts = new Uint32Array(lanes);
        for (let k = 0; k < order.length; k++) {
            counts[t.lane(order[k])]++;
        }
        const queues = Array.from(counts, (count) => new Uint32Array(count));
        counts.fill(0);
        for (let k = 0; k < order.length; k++) {
            const lane = t.lane(order[k]);
            queues[lane][counts[lane]++] = order[k];
        }
        this.lanes = queues.map((queue, lane) => ({
            lane,
            name: t.laneNames[lane] || "",
            kind: t.LANES.count ? t.LANES.u32(lane, 1) : LANE.WORKER,
            lost: t.LANES.count ? t.LANES.u64(lane, 4) : 0,
            rows: this.stack(queue),
            busy: 0,
        }));
        for (const lane of this.lanes) {
            for (const {start, end, items} of lane.rows) {
                for (let i = 0; i < start.length; i++) {
                    lane.busy += t.transfers(items[i]) ? 0 : end[i] - start[i];
                }
            }
        }
        // The orchestrator also has a row for its calls of submit; of several ranks each has one.
        const ranks = t.meta.has("ranks");
        for (const orchestrator of this.lanes.filter((l) => l.kind === LANE.ORCHESTRATOR)) {
            const others = ranks ? (i) => !orchestrator.name.startsWith(`rank ${t.rank(i)} `) : null;
            const calls = sortByTime(t.TASKS, 2, others);
            // Without the time in which it waited for room: that is an event.
            const begin = (i) => t.called(i) + t.blocked(i);
            orchestrator.calls =
                new Row(calls, begin, (i) => Math.max(begin(i), t.submitted(i) || 0));
            orchestrator.calls.classify(() => CALL);
        }
    }

    /* Events by lane, as flat arrays, since there may be hundreds of thousands. Events nest: a
     * thread sleeps during a wait. They are cut into pieces that do not overlap, and each piece
     * belongs to the innermost event. */
    makeEvents() {
        const {EVENTS} = this.trace, order = sortByTime(EVENTS, 0);
        const counts = new Uint32Array(this.lanes.length + 1);
        for (let k = 0; k < order.length; k++) {
            counts[Math.min(EVENTS.u32(order[k], 4), this.lanes.length)]++;
        }
        const queues = this.lanes.map((_, l) => new Uint32Array(counts[l]));
        counts.fill(0);
        for (let k = 0; k < order.length; k++) {
            const lane = EVENTS.u32(order[k], 4);
            if (lane < this.lanes.length) {
                queues[lane][counts[lane]++] = order[k];
            }
        }
        this.lanes.forEach((lane, l) => this.cutEvents(lane, queues[l]));
    }

    /* Cuts the events of one lane, which are sorted by begin. */
    cutEvents(lane, queue) {
        const {EVENTS} = this.trace, room = 2 * queue.length;
        const begin = (i) => EVENTS.time(i, 0);
        const end = (i) => {
            const time = EVENTS.time(i, 2);
            return time < this.last ? time : this.last;
        };
        const start = new Float64Array(room), stop = new Float64Array(room);
        const whole = new Float64Array(room), kind = new Uint8Array(room), open = [];
        let n = 0, at = 0;
        const until = (i, time) => {
            if (time > at || (time === at && end(i) === begin(i))) {
                start[n] = at;
                stop[n] = time;
                whole[n] = end(i) - begin(i);
                kind[n++] = EVENTS.u32(i, 5) & 0xffff;
            }
            at = Math.max(at, time);
        };
        const close = (time) => {
            while (open.length && end(open[open.length - 1]) <= time) {
                const i = open.pop();
                until(i, end(i));
            }
        };
        for (const i of queue) {
            close(begin(i));
            if (open.length) {
                until(open[open.length - 1], begin(i));
            }
            at = begin(i);
            open.push(i);
            const below = open[open.length - 2];
            if (below !== undefined && begin(below) === at && end(below) < end(i)) {
                open.splice(-2, 2, i, below);
            }
        }
        close(Infinity);
        lane.eventStart = start.subarray(0, n);
        lane.eventEnd = stop.subarray(0, n);
        lane.eventWhole = whole.subarray(0, n); // duration of the event that the piece belongs to
        lane.eventKind = kind.subarray(0, n);
    }

    /* Pending tasks overlap other tasks of their lane. Adds rows until nothing overlaps. */
    stack(queue) {
        const t = this.trace, start = (i) => t.start(i);
        const end = (i) => Math.max(t.start(i), this.endOf(i)), whole = new Row(queue, start, end);
        let k = 1;
        while (k < queue.length && whole.start[k] >= whole.end[k - 1]) {
            k++;
        }
        if (k >= queue.length) {
            return [whole];
        }
        const rows = [[]], ends = [0];
        for (const i of queue) {
            let r = 0;
            while (r < ends.length && ends[r] > t.start(i) && r < 15) {
                r++;
            }
            if (r === ends.length) {
                ends.push(0);
                rows.push([]);
            }
            ends[r] = Math.max(ends[r], end(i));
            rows[r].push(i);
        }
        return rows.map((row) => new Row(Uint32Array.from(row), start, end));
    }

    makeRings() {
        const {CAPS, RINGS} = this.trace, series = new Map();
        const find = (level, ring) => {
            const key = level * 4096 + ring;
            if (!series.has(key)) {
                series.set(key, {level, ring, count: 0, capacity: 0, most: 0,
                                 name: `${RING_NAMES[ring] || "ring " + ring}, level ${level}`});
            }
            return series.get(key);
        };
        for (let i = 0; i < CAPS.count; i++) {
            find(CAPS.u32(i, 2), CAPS.u32(i, 3)).capacity = CAPS.u64(i, 0);
        }
        for (let i = 0; i < RINGS.count; i++) {
            find(RINGS.u32(i, 4), RINGS.u32(i, 5)).count++;
        }
        this.rings = [...series.values()].sort((a, b) => a.level - b.level || a.ring - b.ring)
            .filter((s) => s.count);
        for (const s of this.rings) {
            s.at = new Float64Array(s.count);
            s.used = new Float64Array(s.count);
            // The largest of every BLOCK samples, for pictures with many samples per pixel.
            s.tops = new Float64Array(Math.ceil(s.count / BLOCK));
            s.count = 0;
        }
        const order = sortByTime(RINGS, 0);
        for (let k = 0; k < order.length; k++) {
            const i = order[k], s = find(RINGS.u32(i, 4), RINGS.u32(i, 5)), used = RINGS.u64(i, 2);
            const n = s.count++, block = Math.floor(n / BLOCK);
            s.at[n] = RINGS.time(i, 0);
            s.used[n] = used;
            s.most = used > s.most ? used : s.most;
            s.tops[block] = used > s.tops[block] ? used : s.tops[block];
        }
        for (const s of this.rings) { // samples without a time were left out
            s.at = s.at.subarray(0, s.count);
            s.used = s.used.subarray(0, s.count);
        }
    }

    /* Ranges of the program, one row for each depth. Ranges of one depth do not overlap. */
    makeRanges() {
        const t = this.trace, depths = new Uint8Array(t.RANGES.count), items = [];
        for (let r = 0; r < t.RANGES.count; r++) {
            const parent = t.rangeParent(r);
            depths[r] = parent === NONE ? 0 : Math.min(depths[parent] + 1, MOST_RANGES);
            if (depths[r] < MOST_RANGES) {
                (items[depths[r]] ||= []).push(r);
            }
        }
        const end = (r) => Math.max(t.rangeBegin(r), t.rangeEnd(r) || this.last);
        this.ranges = items.map((list) => {
            const row = new Row(Uint32Array.from(list), (r) => t.rangeBegin(r), end);
            row.classify(() => RANGE);
            return row;
        });
    }

    /* Tasks that were skipped ran on no lane. They are drawn at the time at which that was
     * decided. */
    makeSkipped() {
        const t = this.trace;
        const order = this.skipped ? sortByTime(t.TASKS, 10, (i) => !this.isSkipped(i)) : [];
        this.skippedTasks = order;
        this.skippedAt = Float64Array.from(order, (i) => t.end(i));
    }

    isSkipped(i) {
        return this.trace.outcome(i) === OUTCOME.SKIPPED;
    }

    /* Failed tasks, and those whose memory a guard found overwritten, in order of submission. */
    failures() {
        if (!this.failureList) {
            const {FAILURES} = this.trace, list = this.failureList = [];
            for (let f = 0; f < FAILURES.count; f++) {
                if (!this.isSkipped(FAILURES.u32(f, 0))) {
                    list.push(FAILURES.u32(f, 0));
                }
            }
            // Older files have no such records.
            for (let i = 0; !FAILURES.count && this.failed && i < this.tasks; i++) {
                if (this.trace.outcome(i) === OUTCOME.FAILED) {
                    list.push(i);
                }
            }
        }
        return this.failureList;
    }

    /* How many tasks were skipped because this one failed. */
    skippedBecauseOf(i) {
        if (!this.causes) {
            const {FAILURES} = this.trace;
            this.causes = new Map();
            for (let f = 0; f < FAILURES.count; f++) {
                const cause = FAILURES.u32(f, 4);
                if (this.isSkipped(FAILURES.u32(f, 0))) {
                    this.causes.set(cause, (this.causes.get(cause) || 0) + 1);
                }
            }
        }
        return this.causes.get(i) || 0;
    }

    /* The innermost range that a task was submitted in; NONE if there is none. */
    rangeOf(i) {
        const t = this.trace;
        let low = 0, high = t.RANGES.count; // the last range that began before the task
        while (low < high) {
            const middle = (low + high) >> 1;
            t.rangeFirst(middle) <= i ? low = middle + 1 : high = middle;
        }
        let range = low ? low - 1 : NONE; // the ranges that were open then are around it
        while (range !== NONE && !t.inRange(range, i)) {
            range = t.rangeParent(range);
        }
        return range;
    }

    /* How many threads ran at the same time, compared with the cores of the machine. Sampled, since
     * an estimate is enough. null if the cores are not known, or were enough. */
    crowding() {
        const cores = Number(this.trace.meta.get("cores")), samples = 2048;
        if (!(cores > 0) || this.trace.meta.has("ranks")) { // each rank may have a machine of its own
            return null;
        }
        let most = 0, over = 0;
        for (let k = 0; k < samples; k++) {
            const t = this.first + (k + .5) / samples * (this.last - this.first);
            const runs = (row) => row.start[row.after(t)] <= t;
            const running = this.lanes.filter((lane) => lane.kind !== LANE.FOREIGN &&
                (lane.rows.some(runs) || (lane.calls && runs(lane.calls)))).length;
            most = Math.max(most, running);
            over += running > cores;
        }
        return most > cores && over > samples / 20 ? {cores, most, share: over / samples} : null;
    }

    /* Only tasks for which match(task) is true keep their colour. null: all tasks do. */
    classify(match) {
        const kindOf = match ? (i) => match(i) ? this.classOf(i) : DIM : (i) => this.classOf(i);
        for (const lane of this.lanes) {
            for (const row of lane.rows) {
                row.classify(kindOf);
            }
        }
    }

    // ---- edges --------------------------------------------------------------------------------

    /* The outgoing edges of a task. The index is built on the first call. */
    consumers(i) {
        const t = this.trace;
        if (!this.outFirst) {
            const first = this.outFirst = new Uint32Array(this.tasks + 2);
            this.outEdges = new Uint32Array(t.EDGES.count);
            for (let e = 0; e < t.EDGES.count; e++) {
                if (t.from(e) !== NONE) {
                    first[t.from(e) + 2]++;
                }
            }
            for (let j = 0; j < this.tasks; j++) {
                first[j + 2] += first[j + 1];
            }
            for (let e = 0; e < t.EDGES.count; e++) {
                if (t.from(e) !== NONE) {
                    this.outEdges[first[t.from(e) + 1]++] = e;
                }
            }
        }
        return this.outEdges.subarray(this.outFirst[i], this.outFirst[i + 1]);
    }

    /* The edges that are messages between ranks. */
    messages() {
        if (!this.messageEdges) {
            const t = this.trace, list = [];
            for (let e = 0; e < t.EDGES.count; e++) {
                if (t.edgeKind(e) === EDGE.MESSAGE) {
                    list.push(e);
                }
            }
            this.messageEdges = Uint32Array.from(list);
        }
        return this.messageEdges;
    }

    /* The incoming edge whose producer ended last; NONE if there is none. */
    lastProducer(i) {
        const t = this.trace;
        let found = NONE, latest = -1;
        for (let e = t.firstEdge(i); e < t.firstEdge(i) + t.edges(i); e++) {
            const from = t.from(e), end = from === NONE ? NaN : this.endOf(from);
            if (end > latest) {
                latest = end;
                found = e;
            }
        }
        return found;
    }

    /* The parts of a task's time. A part that is not known is NaN. */
    split(i) {
        const t = this.trace, positive = (x) => x < 0 ? 0 : x;
        const called = t.called(i), submitted = t.submitted(i), blocked = t.blocked(i);
        const ready = t.ready(i), start = t.start(i);
        return {
            blocked,
            submit: positive(submitted - called - blocked),
            waiting: positive(ready - submitted),
            queued: positive(start - Math.max(ready, submitted)),
            running: start === start ? positive(this.endOf(i) - start) : NaN,
            retiring: positive(t.retired(i) - t.end(i)),
        };
    }

    /* The longest chain of edges, by the time of its tasks. The run cannot be shorter, with any
     * number of workers. */
    criticalPath() {
        if (this.critical) {
            return this.critical;
        }
        const t = this.trace, long = new Float64Array(this.tasks);
        const ran = (i) => t.lane(i) === NONE ? 0 : t.duration(i);
        /* By one edge, to the end of its later task. A message takes from the begin of its send to the
         * end of its receive, once; a receive that was posted early only waits. */
        const pathBy = (e) => {
            const from = t.from(e), to = t.to(e), last = t.firstEdge(to) + t.edges(to) - 1;
            if (t.edgeKind(e) === EDGE.MESSAGE) {
                return long[from] - ran(from) + (Math.max(0, t.end(to) - t.start(from)) || 0);
            }
            const sent = t.edgeKind(last) === EDGE.MESSAGE ? t.start(t.from(last)) : NaN;
            return long[from] + (sent > t.start(to) ? Math.max(0, t.end(to) - sent) : ran(to));
        };
        const before = new Uint32Array(this.tasks).fill(NONE);
        let end = NONE, most = -1;
        for (let i = 0; i < this.tasks; i++) {
            let best = -1;
            for (let e = t.firstEdge(i), stop = e + t.edges(i); e < stop; e++) {
                const from = t.from(e);
                const path = from !== NONE && from < i ? pathBy(e) : -1;
                if (path > best) {
                    best = path;
                    before[i] = e;
                }
            }
            long[i] = best < 0 ? ran(i) : best;
            if (long[i] > most) {
                most = long[i];
                end = i;
            }
        }
        const tasks = [], edges = [];
        for (let i = end; i !== NONE;) {
            tasks.push(i);
            const e = before[i];
            if (e !== NONE) {
                edges.push(e);
            }
            i = e === NONE ? NONE : t.from(e);
        }
        this.critical = {tasks: Uint32Array.from(tasks.reverse()), edges: edges.reverse(),
                         time: Math.max(most, 0), on: new Uint8Array(this.tasks)};
        for (const i of tasks) {
            this.critical.on[i] = 1;
        }
        return this.critical;
    }

    /* The depth of each task: the number of edges on the longest path to it. */
    depths() {
        if (!this.depth) {
            const t = this.trace, depth = this.depth = new Uint32Array(this.tasks);
            for (let i = 0; i < this.tasks; i++) {
                for (let e = t.firstEdge(i), stop = e + t.edges(i); e < stop; e++) {
                    const from = t.from(e);
                    if (from !== NONE && from < i && depth[from] >= depth[i]) {
                        depth[i] = depth[from] + 1;
                    }
                }
            }
        }
        return this.depth;
    }

    // ---- statistics ---------------------------------------------------------------------------

    kernelTable() {
        if (this.table) {
            return this.table;
        }
        const t = this.trace, k = t.KERNELS.count;
        const durations = Array.from({length: k}, (_, i) => new Float64Array(this.kernelCount[i]));
        const fill = new Uint32Array(k), waiting = new Float64Array(k),
              queued = new Float64Array(k), skipped = new Uint32Array(k);
        for (let i = 0; i < this.tasks; i++) {
            const kernel = t.kernel(i);
            if (kernel !== NONE && this.isSkipped(i)) {
                skipped[kernel]++;
            }
            if (kernel === NONE || t.lane(i) === NONE || t.start(i) !== t.start(i)) {
                continue;
            }
            durations[kernel][fill[kernel]++] = Math.max(0, this.endOf(i) - t.start(i));
            const ready = t.ready(i), submitted = t.submitted(i);
            waiting[kernel] += Math.max(0, ready - submitted) || 0;
            queued[kernel] += Math.max(0, t.start(i) - Math.max(ready, submitted)) || 0;
        }
        this.table = durations.map((all, kernel) => {
            const n = fill[kernel], sorted = all.subarray(0, n).sort();
            const at = (share) => n ? sorted[Math.min(n - 1, Math.floor(share * n))] : 0;
            return {kernel, name: t.kernelNames[kernel], ran: n, skipped: skipped[kernel],
                    total: this.kernelTime[kernel], mean: n ? this.kernelTime[kernel] / n : 0,
                    p50: at(.5), p99: at(.99), max: n ? sorted[n - 1] : 0,
                    waiting: n ? waiting[kernel] / n : 0, queued: n ? queued[kernel] / n : 0};
        });
        this.table = this.table.filter((row) => this.kernelCount[row.kernel]);
        return this.table;
    }

    // ---- search -------------------------------------------------------------------------------

    /* The kernels, places and tasks that match a text. match(i) says whether task i belongs to the
     * entry. */
    search(text) {
        const t = this.trace, found = [], wanted = text.trim().toLowerCase();
        if (!wanted) {
            return found;
        }
        const number = /^#?(\d+|0x[0-9a-f]+)$/.exec(wanted);
        if (number) {
            const wantedNumber = BigInt(number[1]);
            const add = (i, how) => found.push({kind: "task", task: i, count: 1,
                                                match: (j) => j === i,
                                                name: `task ${i}${how}: ${t.kernelName(i)}`});
            if (wantedNumber < BigInt(this.tasks)) {
                add(Number(wantedNumber), "");
            }
            const low = Number(wantedNumber & 0xffffffffn);
            for (let i = 0; i < this.tasks; i++) {
                if (t.TASKS.u32(i, 0) === low && t.id(i) === wantedNumber) {
                    add(i, `, handle ${wantedNumber}`);
                    break;
                }
            }
        }
        for (const [word, outcome] of [["failed", OUTCOME.FAILED], ["skipped", OUTCOME.SKIPPED]]) {
            const count = this[word];
            if (count && word.startsWith(wanted)) {
                found.push({kind: "outcome", name: word, count,
                            match: (i) => t.outcome(i) === outcome});
            }
        }
        t.kernelNames.forEach((name, k) => {
            if (name.toLowerCase().includes(wanted)) {
                found.push({kind: "kernel", kernel: k, name, count: this.kernelCount[k],
                            match: (i) => t.kernel(i) === k});
            }
        });
        t.siteNames.forEach((name, s) => {
            if (name.toLowerCase().includes(wanted)) {
                found.push({kind: "place", site: s, name, match: (i) => t.site(i) === s});
            }
        });
        this.searchLabels(wanted, found);
        return found.slice(0, 60);
    }

    /* Ranges of one name are one entry, and so are labels: the first of them are listed. */
    searchLabels(wanted, found) {
        const t = this.trace, ranges = new Map();
        for (let r = 0; r < t.RANGES.count; r++) {
            const name = t.rangeName(r);
            if (name.toLowerCase().includes(wanted)) {
                ranges.has(name) ? ranges.get(name).push(r) : ranges.set(name, [r]);
            }
        }
        for (const [name, list] of ranges) {
            found.push({kind: "range", name, range: list[0], count: list.length,
                        match: (i) => list.some((r) => t.inRange(r, i))});
        }
        const labelled = new Set();
        for (let l = 0; l < t.LABELS.count; l++) {
            if (t.text(t.LABELS.u32(l, 1)).toLowerCase().includes(wanted)) {
                labelled.add(t.LABELS.u32(l, 0));
                if (labelled.size <= 20) {
                    const i = t.LABELS.u32(l, 0);
                    found.push({kind: "label", task: i, count: 1, match: (j) => j === i,
                                name: `${t.label(i)}: ${t.kernelName(i)} ${i}`});
                }
            }
        }
        if (labelled.size > 1) {
            found.push({kind: "labels", name: `labels with “${wanted}”`, count: labelled.size,
                        match: (i) => labelled.has(i)});
        }
    }
}
