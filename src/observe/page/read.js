/* read.js - the trace: base64 to bytes, bytes to sections, and whether they hold together.
 *
 * Nothing is copied out of the records: a section is a window on the bytes, and its fields are read
 * by the functions below. Times are numbers of nanoseconds; NaN: not known. */

const NONE = 0xffffffff;
const SECTIONS = { // the kind in the file, and the bytes of a record that we know
    META: [1, 1], STRINGS: [2, 1], KERNELS: [3, 8], SITES: [4, 8], LANES: [5, 24], TASKS: [6, 96],
    EDGES: [7, 20], ARGS: [8, 32], DIMS: [9, 8], EVENTS: [10, 32], RINGS: [11, 24], CAPS: [12, 16],
};

class TraceError extends Error {}

/* Base64 comes in one script element or in several, each of whole groups of four letters. They are
 * decoded as the parser brings them, and let go at once: the text of a large trace does not fit
 * into a single string. */
class Base64 {
    constructor() {
        this.parts = [];
        this.bytes = 0;
    }

    add(text) {
        text = text.trim();
        if (text) {
            const part = Base64.decode(text);
            this.parts.push(part);
            this.bytes += part.length;
        }
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
            throw new TraceError("What is inside this page is not base64: it was cut or changed.");
        }
    }

    join() {
        if (this.parts.length === 1) {
            return this.parts[0];
        }
        const all = new Uint8Array(this.bytes);
        let at = 0;
        for (const part of this.parts) {
            all.set(part, at);
            at += part.length;
        }
        this.parts.length = 0;
        return all;
    }
}

/* One section. Records of a later writer may be longer than ours, so `stride` counts, in words. */
class Section {
    constructor(name, bytes, at, item, count) {
        this.name = name;
        this.count = count;
        this.bytes = bytes.subarray(at, at + item * count);
        this.item = item;
        if (SECTIONS[name][1] > 1) {
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

class Trace {
    constructor(bytes) {
        const fail = (text) => {
            throw new TraceError(text);
        };
        if (bytes.length < 64) {
            fail(`A trace begins with 64 bytes of header; here are ${bytes.length} bytes in all.`);
        }
        if (String.fromCharCode(...bytes.subarray(0, 8)) !== "PTOTRACE") {
            fail("This is not a .ptrace file: it does not begin with PTOTRACE.");
        }
        const head = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
        const u32 = (at) => head.getUint32(at, true);
        const u64 = (at) => u32(at) + u32(at + 4) * 4294967296;
        if (u32(8) !== 1) {
            fail(`The trace is of version ${u32(8)} of the format; this page reads version 1.`);
        }
        const said = u64(24), sections = u32(12), table = u64(16);
        if (said !== bytes.length) {
            fail(`The header speaks of ${said} bytes, and there are ${bytes.length}: ` +
                 (said > bytes.length ? "the file was cut." : "something was appended."));
        }
        if (table + sections * 24 > bytes.length) {
            fail(`The table of ${sections} sections at byte ${table} does not fit into the file.`);
        }
        this.bytes = bytes;
        this.origin = u64(32);
        this.lost = u64(40);
        for (const [name, [kind, item]] of Object.entries(SECTIONS)) {
            this[name] = new Section(name, bytes, 0, item, 0);
            for (let s = 0; s < sections; s++) {
                const at = table + 24 * s;
                if (u32(at) !== kind) {
                    continue;
                }
                const has = u32(at + 4), from = u64(at + 8), count = u64(at + 16);
                if (has < item || (item > 1 && has % 4)) {
                    fail(`Section ${name} has records of ${has} bytes; this page needs ${item}.`);
                }
                if (from + has * count > bytes.length || (item > 1 && from % 4)) {
                    fail(`Section ${name} (${count} records of ${has} bytes at byte ${from}) ` +
                         "does not fit into the file.");
                }
                this[name] = new Section(name, bytes, from, has, count);
            }
        }
        this.check(fail);
        this.meta = new Map();
        for (const line of new TextDecoder().decode(this.META.bytes).split("\n")) {
            const at = line.indexOf("=");
            if (at > 0) {
                this.meta.set(line.slice(0, at), line.slice(at + 1));
            }
        }
        this.texts = new Map();
        this.kernelNames = Array.from({length: this.KERNELS.count},
                                      (_, i) => this.text(this.KERNELS.u32(i, 0)) || `kernel ${i}`);
        this.siteNames = Array.from({length: this.SITES.count}, (_, i) =>
            `${this.text(this.SITES.u32(i, 0))}:${this.SITES.u32(i, 1) | 0}`);
        this.laneNames = Array.from({length: this.LANES.count},
                                    (_, i) => this.text(this.LANES.u32(i, 0)) || `lane ${i}`);
    }

    /* Every index is looked at once, here, so that nobody has to later. */
    check(fail) {
        const {TASKS, EDGES, ARGS, DIMS, KERNELS, SITES, LANES, EVENTS} = this;
        const within = (what, i, value, count, section) => {
            if (value >= count && value !== NONE) {
                fail(`${what} ${i} names record ${value} of ${section}, which has ${count}.`);
            }
        };
        const range = (what, i, first, n, count, section) => {
            if (n && first + n > count) {
                fail(`${what} ${i} names records ${first} to ${first + n - 1} of ${section}, ` +
                     `which has ${count}.`);
            }
        };
        for (let i = 0, w = TASKS.words, at = 0; i < TASKS.count; i++, at += TASKS.stride) {
            within("Task", i, w[at + 16], KERNELS.count, "KERNELS");
            within("Task", i, w[at + 17], SITES.count, "SITES");
            within("Task", i, w[at + 18], LANES.count, "LANES");
            range("Task", i, w[at + 19], w[at + 20], EDGES.count, "EDGES");
            range("Task", i, w[at + 21], w[at + 22] & 0xffff, ARGS.count, "ARGS");
        }
        for (let i = 0, w = EDGES.words, at = 0; i < EDGES.count; i++, at += EDGES.stride) {
            within("Edge", i, w[at], TASKS.count, "TASKS");
            range("Edge", i, w[at + 1], 1, TASKS.count, "TASKS");
            within("Edge", i, w[at + 3], ARGS.count, "ARGS");
            within("Edge", i, w[at + 4], ARGS.count, "ARGS");
            if (w[at] !== NONE && w[at] >= w[at + 1]) {
                fail(`Edge ${i} leads from task ${w[at]} back to ${w[at + 1]}: ` +
                     "a task can only wait for one before it.");
            }
        }
        for (let i = 0; i < ARGS.count; i++) {
            if (ARGS.u32(i, 6) !== NONE) {
                range("Argument", i, ARGS.u32(i, 6), 2 * ARGS.u8(i, 22), DIMS.count, "DIMS");
            }
        }
        for (let i = 0; i < EVENTS.count; i++) {
            within("Event", i, EVENTS.u32(i, 4), LANES.count, "LANES");
        }
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

    // Tasks: all of their record that others read.
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
    duration(i) { return Math.max(0, this.end(i) - this.start(i)) || 0; }
    kernelName(i) {
        const k = this.kernel(i);
        return k === NONE ? "(no kernel)" : this.kernelNames[k];
    }
    siteName(i) {
        const s = this.site(i);
        return s === NONE ? "unknown place" : this.siteNames[s];
    }
    // Edges.
    from(e) { return this.EDGES.u32(e, 0); }
    to(e) { return this.EDGES.u32(e, 1); }
    edgeKind(e) { return this.EDGES.u8(e, 8); }
    verdict(e) { return this.EDGES.u8(e, 9); }
    argFrom(e) { return this.EDGES.u32(e, 3); }
    argTo(e) { return this.EDGES.u32(e, 4); }
}
