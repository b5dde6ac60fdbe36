/* read.js - reads the trace: base64 to bytes, bytes to sections, and checks of all indices.
 *
 * Records are not copied: a section is a view of the bytes, and the functions below read its
 * fields. Times are nanoseconds; NaN means not known. */

const NONE = PTRACE_NONE;

class TraceError extends Error {}

/* The base64 text is in one or several script elements, each with whole groups of four characters.
 * Each element is decoded and removed as soon as it is parsed: the text of a large trace does not
 * fit into a single string, and the lanes can be drawn before the rest has been loaded. */
class Incoming {
    constructor() {
        this.bytes = new Uint8Array(0);
        this.count = 0; // bytes loaded so far
    }

    add(text) {
        text = text.trim();
        if (text) {
            const part = Incoming.decode(text);
            this.room(this.count + part.length, part);
            this.bytes.set(part, this.count);
            this.count += part.length;
        }
    }

    /* Makes room for `least` bytes; for the whole trace, if the header says its size. */
    room(least, part) {
        if (least > this.bytes.length) {
            const size = this.count || part.length < 32 ? 0
                : Number(new DataView(part.buffer, part.byteOffset).getBigUint64(24, true));
            const larger = new Uint8Array(size > least && size < least * 1000 ? size : least);
            larger.set(this.bytes.subarray(0, this.count));
            this.bytes = larger;
        }
    }

    all() {
        return this.bytes.subarray(0, this.count);
    }

    static decode(text) {
        try {
            if (Uint8Array.fromBase64) {
                return Uint8Array.fromBase64(text);
            }
            const letters = atob(text), bytes = new Uint8Array(letters.length);
            for (let i = 0; i < bytes.length; i++) {
                bytes[i] = letters.charCodeAt(i);
            }
            return bytes;
        } catch {
            throw new TraceError("The data in this page is not base64: it was cut or changed.");
        }
    }
}

/* A section. Records of a later version may be longer than known here, so `stride` is the distance
 * from record to record, in words. */
class Section {
    constructor(name, bytes, at, item, count) {
        this.name = name;
        this.count = count;
        this.bytes = bytes.subarray(at, at + item * count);
        this.item = item;
        if (SECTION_BYTES[SECTION_KINDS[name]] > 1) {
            this.words = new Uint32Array(bytes.buffer, bytes.byteOffset + at, item * count / 4);
            this.stride = item / 4;
        }
    }

    u32(i, word) {
        return this.words[i * this.stride + word];
    }

    u64(i, word) {
        const at = i * this.stride + word;
        return this.words[at] + this.words[at + 1] * 4294967296;
    }

    time(i, word) {
        const at = i * this.stride + word, high = this.words[at + 1];
        return high === NONE ? NaN : this.words[at] + high * 4294967296;
    }

    exact(i, word) {
        const at = i * this.stride + word;
        return BigInt(this.words[at]) | BigInt(this.words[at + 1]) << 32n;
    }

    u8(i, byte) {
        return this.bytes[i * this.item + byte];
    }
}

/* The common folder: "/home/a/x/" for "/home/a/x/b.c" and "/home/a/x/y/c.c". */
function commonFolder(files) {
    let common = files.length ? files[0].slice(0, files[0].lastIndexOf("/") + 1) : "";
    for (const file of files) {
        while (!file.startsWith(common)) {
            common = common.slice(0, common.lastIndexOf("/", common.length - 2) + 1);
        }
    }
    return common;
}

class Trace {
    /* `here`: number of bytes loaded so far. All are loaded when `complete` is called. */
    constructor(bytes, here = bytes.length) {
        this.bytes = bytes;
        if (here < 64) {
            this.fail(`A trace begins with 64 bytes of header, and there are only ${here} bytes.`);
        }
        if (String.fromCharCode(...bytes.subarray(0, 8)) !== "PTOTRACE") {
            this.fail("This is not a .ptrace file: it does not begin with PTOTRACE.");
        }
        const head = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
        const u32 = (at) => head.getUint32(at, true);
        const u64 = (at) => u32(at) + u32(at + 4) * 4294967296;
        if (u32(8) !== PTRACE_VERSION) {
            this.fail(`The trace has format version ${u32(8)}, and this page reads version ` +
                      `${PTRACE_VERSION}.`);
        }
        const size = u64(24), sections = u32(12), table = u64(16);
        if (size !== bytes.length) {
            this.fail(`The header says ${size} bytes, and there are ${bytes.length}: ` +
                      (size > bytes.length ? "the file was cut." : "something was appended."));
        }
        if (table + sections * 24 > bytes.length) {
            this.fail(
                `The table of ${sections} sections at byte ${table} does not fit into the file.`);
        }
        this.origin = u64(32);
        this.lost = u64(40);
        this.late = []; // names of sections that are not loaded yet
        const room = table + sections * 24 <= here;
        for (const [name, kind] of Object.entries(SECTION_KINDS)) {
            const item = SECTION_BYTES[kind];
            this[name] = new Section(name, bytes, 0, item, 0);
            for (let s = 0; s < (room ? sections : 0); s++) {
                const at = table + 24 * s;
                if (u32(at) !== kind) {
                    continue;
                }
                const has = u32(at + 4), from = u64(at + 8), count = u64(at + 16);
                if (has < item || (item > 1 && has % 4)) {
                    this.fail(
                        `Section ${name} has records of ${has} bytes; this page needs ${item}.`);
                }
                if (from + has * count > bytes.length || (item > 1 && from % 4)) {
                    this.fail(
                        `Section ${name} (${count} records of ${has} bytes at byte ${from}) ` +
                        "does not fit into the file.");
                }
                if (from + has * count > here) {
                    this.late.push(name);
                } else {
                    this[name] = new Section(name, bytes, from, has, count);
                }
            }
        }
        this.drawable = room && !["META", "STRINGS", "KERNELS", "SITES", "LANES", "TASKS"]
            .some((name) => this.late.includes(name));
        if (!this.drawable) {
            return;
        }
        this.checkTasks();
        if (!this.late.length) {
            this.checkRest();
        }
        this.meta = new Map();
        for (const line of new TextDecoder().decode(this.META.bytes).split("\n")) {
            const at = line.indexOf("=");
            if (at > 0) {
                this.meta.set(line.slice(0, at), line.slice(at + 1));
            }
        }
        this.texts = new Map();
        const names = (section, name) => Array.from({length: section.count}, (_, i) => name(i));
        this.kernelNames =
            names(this.KERNELS, (i) => this.text(this.KERNELS.u32(i, 0)) || `kernel ${i}`);
        // The common start of all absolute paths is left out of the names.
        const files = names(this.SITES, (i) => this.text(this.SITES.u32(i, 0)));
        this.sources = commonFolder(files.filter((file) => file.startsWith("/")));
        this.siteNames = files.map((file, i) =>
            `${file.startsWith("/") ? file.slice(this.sources.length) : file}:` +
            `${this.SITES.u32(i, 1) | 0}`);
        this.laneNames = names(this.LANES, (i) => this.text(this.LANES.u32(i, 0)) || `lane ${i}`);
    }

    fail(text) {
        throw new TraceError(text);
    }

    /* All bytes have been loaded. */
    complete() {
        const whole = new Trace(this.bytes);
        for (const name of this.late) {
            this[name] = whole[name];
        }
        this.late = [];
    }

    /* Checks every index once, so that the rest of the page need not. */
    checkTasks() {
        const {TASKS, EDGES, ARGS, late} = this;
        const limits = [this.KERNELS, this.SITES, this.LANES], counts = limits.map((s) => s.count);
        const most = (section) => late.includes(section.name) ? NONE : section.count;
        const edges = most(EDGES), args = most(ARGS), w = TASKS.words;
        for (let i = 0, at = 0; i < TASKS.count; i++, at += TASKS.stride) {
            for (let k = 0; k < 3; k++) {
                const value = w[at + 16 + k];
                if (value >= counts[k] && value !== NONE) {
                    this.stray("Task", i, value, limits[k]);
                }
            }
            if (w[at + 20] && w[at + 19] + w[at + 20] > edges) {
                this.stray("Task", i, w[at + 19] + w[at + 20] - 1, EDGES);
            }
            if (w[at + 22] & 0xffff && w[at + 21] + (w[at + 22] & 0xffff) > args) {
                this.stray("Task", i, w[at + 21] + (w[at + 22] & 0xffff) - 1, ARGS);
            }
        }
    }

    checkRest() {
        const {TASKS, EDGES, ARGS, DIMS, LANES, EVENTS} = this;
        const tasks = TASKS.count, args = ARGS.count;
        for (let i = 0, w = EDGES.words, at = 0; i < EDGES.count; i++, at += EDGES.stride) {
            const from = w[at], to = w[at + 1];
            if (to >= tasks) {
                this.stray("Edge", i, to, TASKS);
            }
            if (from >= to && from !== NONE) {
                this.fail(`Edge ${i} leads from task ${from} back to ${to}: ` +
                          "a task can only wait for an earlier one.");
            }
            for (let k = 3; k < 5; k++) {
                if (w[at + k] >= args && w[at + k] !== NONE) {
                    this.stray("Edge", i, w[at + k], ARGS);
                }
            }
        }
        for (let i = 0, w = ARGS.words, at = 0; i < args; i++, at += ARGS.stride) {
            const end = w[at + 6] + 2 * (w[at + 5] >>> 16 & 0xff);
            if (end > DIMS.count && w[at + 6] !== NONE) {
                this.stray("Argument", i, end - 1, DIMS);
            }
        }
        for (let i = 0; i < EVENTS.count; i++) {
            if (EVENTS.u32(i, 4) >= LANES.count && EVENTS.u32(i, 4) !== NONE) {
                this.stray("Event", i, EVENTS.u32(i, 4), LANES);
            }
        }
        this.checkNames();
    }

    checkNames() {
        const {TASKS, EDGES, ARGS, FAILURES, LABELS, RANGES, DEVICES} = this;
        const check = (what, section, i, word, limit, none) => {
            const value = section.u32(i, word);
            if (value >= limit.count && !(none && value === NONE)) {
                this.stray(what, i, value, limit);
            }
        };
        for (let i = 0; i < FAILURES.count; i++) {
            check("Failure", FAILURES, i, 0, TASKS);
            check("Failure", FAILURES, i, 4, TASKS, true);
            check("Failure", FAILURES, i, 5, EDGES, true);
        }
        for (let i = 0; i < LABELS.count; i++) {
            check("Label", LABELS, i, 0, TASKS);
        }
        for (let i = 0; i < DEVICES.count; i++) {
            check("Device", DEVICES, i, 0, ARGS);
        }
        for (let i = 0; i < RANGES.count; i++) {
            const end = this.rangeFirst(i) + this.rangeTasks(i);
            if (end > TASKS.count) {
                this.stray("Range", i, end - 1, TASKS);
            }
            if (this.rangeParent(i) !== NONE && this.rangeParent(i) >= i) {
                this.fail(`Range ${i} is inside of range ${this.rangeParent(i)}, ` +
                          "which begins after it.");
            }
        }
    }

    stray(what, i, value, section) {
        this.fail(
            `${what} ${i} names record ${value} of ${section.name}, which has ${section.count}.`);
    }

    text(at) {
        let text = this.texts.get(at);
        if (text === undefined) {
            const bytes = this.STRINGS.bytes;
            let end = at;
            while (end < bytes.length && bytes[end]) {
                end++;
            }
            text = new TextDecoder().decode(bytes.subarray(at, end));
            this.texts.set(at, text);
        }
        return text;
    }

    // The fields of a task that the page uses.
    id(i) { return this.TASKS.exact(i, 0); }
    called(i) { return this.TASKS.time(i, 2); }
    submitted(i) { return this.TASKS.time(i, 4); }
    ready(i) { return this.TASKS.time(i, 6); }
    start(i) { return this.TASKS.time(i, 8); }
    end(i) { return this.TASKS.time(i, 10); }
    retired(i) { return this.TASKS.time(i, 12); }
    blocked(i) { return this.TASKS.time(i, 14) || 0; }
    kernel(i) { return this.TASKS.u32(i, 16); }
    site(i) { return this.TASKS.u32(i, 17); }
    lane(i) { return this.TASKS.u32(i, 18); }
    firstEdge(i) { return this.TASKS.u32(i, 19); }
    edges(i) { return this.TASKS.u32(i, 20); }
    firstArg(i) { return this.TASKS.u32(i, 21); }
    args(i) { return this.TASKS.u32(i, 22) & 0xffff; }
    level(i) { return this.TASKS.u32(i, 22) >>> 16 & 0xff; }
    outcome(i) { return this.TASKS.u32(i, 22) >>> 24; }
    ranInline(i) { return (this.TASKS.u32(i, 23) & PTRACE_INLINE) !== 0; }
    /* One end of a message between ranks: it is pending, and does no work. */
    transfers(i) { return (this.TASKS.u32(i, 23) & PTRACE_TRANSFER) !== 0; }
    /* The rank of a task, in a merged trace. */
    rank(i) { return this.TASKS.u32(i, 1) >>> 16; }
    duration(i) { return Math.max(0, this.end(i) - this.start(i)) || 0; }
    kernelName(i) {
        const k = this.kernel(i);
        return k === NONE ? "(no kernel)" : this.kernelNames[k];
    }
    siteName(i) {
        const s = this.site(i);
        return s === NONE ? "unknown place" : this.siteNames[s];
    }
    // The fields of a range.
    rangeBegin(r) { return this.RANGES.time(r, 0); }
    rangeEnd(r) { return this.RANGES.time(r, 2); }
    rangeName(r) { return this.text(this.RANGES.u32(r, 4)); }
    rangeParent(r) { return this.RANGES.u32(r, 5); }
    rangeFirst(r) { return this.RANGES.u32(r, 6); }
    rangeTasks(r) { return this.RANGES.u32(r, 7); }
    inRange(r, i) { return i >= this.rangeFirst(r) && i - this.rangeFirst(r) < this.rangeTasks(r); }

    /* The record of a task in a section that is sorted by tasks; NONE if there is none. */
    recordOf(section, i) {
        let low = 0, high = section.count;
        while (low < high) {
            const middle = (low + high) >> 1;
            section.u32(middle, 0) < i ? low = middle + 1 : high = middle;
        }
        return low < section.count && section.u32(low, 0) === i ? low : NONE;
    }
    label(i) {
        const at = this.recordOf(this.LABELS, i);
        return at === NONE ? "" : this.text(this.LABELS.u32(at, 1));
    }
    /* The device of an argument; "cpu:0" if it is on the host. */
    deviceOf(a) {
        const at = this.recordOf(this.DEVICES, a);
        return at === NONE ? "cpu:0" : this.text(this.DEVICES.u32(at, 1));
    }
    /* Why a task failed or was skipped: {status, words, cause, edge}; null if it did not. */
    failure(i) {
        const {FAILURES} = this, at = this.recordOf(FAILURES, i);
        return at === NONE ? null : {
            status: this.text(FAILURES.u32(at, 2)), words: this.text(FAILURES.u32(at, 3)),
            cause: FAILURES.u32(at, 4), edge: FAILURES.u32(at, 5)
        };
    }

    // The fields of an edge.
    from(e) { return this.EDGES.u32(e, 0); }
    to(e) { return this.EDGES.u32(e, 1); }
    edgeKind(e) { return this.EDGES.u8(e, 8); }
    verdict(e) { return this.EDGES.u8(e, 9); }
    argFrom(e) { return this.EDGES.u32(e, 3); }
    argTo(e) { return this.EDGES.u32(e, 4); }
}
