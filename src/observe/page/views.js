/* views.js - arguments as rows and columns of the matrix that they view:
 * A[128:192, 0:64] of 1024x1024 float32.
 *
 * The file has an argument's address, its strides, and the size of the storage that it is a view
 * of. For memory of the user it also has the place in the storage. Where that is missing (managed
 * memory, older files), it follows from all arguments together: views of one storage lie within its
 * size, so if the lowest and the highest are exactly that size apart, they are the two ends of it.
 * Otherwise the start is not known, and only address and strides are shown.
 *
 * The strides of all views of a storage, from the largest to the smallest, give its shape: 4096 and
 * 4 bytes are rows of 1024 elements of 4 bytes. */

/* A, B, ... Z, AA, AB: the order of first use. The names of the program are not in the file. */
function letters(n) {
    let text = "";
    for (n++; n > 0; n = Math.floor((n - 1) / 26)) {
        text = String.fromCharCode(65 + (n - 1) % 26) + text;
    }
    return text;
}

class Views {
    constructor(trace) {
        this.trace = trace;
        this.layouts = new Map(); // by index in DIMS and data type: extent and strides in bytes
        this.buffers = new Map(); // managed storages, by number
        this.given = new Map();   // storages of the user whose start is in the file, by start, size
        this.sizes = new Map();   // the others, by size
        const bySize = new Map(), {ARGS} = trace;
        for (let a = 0; a < ARGS.count; a++) {
            const layout = this.layout(a);
            if (!layout || layout.empty) {
                continue;
            }
            const bytes = ARGS.u64(a, 2), at = ARGS.u64(a, 0);
            if (ARGS.u8(a, 20) === PTRACE_USER && ARGS.u32(a, 7)) {
                this.addGiven(a, bytes, layout);
            } else if (ARGS.u8(a, 20) === PTRACE_USER) {
                let spans = bySize.get(bytes);
                spans || bySize.set(bytes, spans = new Map());
                this.addSpan(spans, at + layout.low, at + layout.high, layout, a);
            } else {
                this.addManaged(ARGS.u32(a, 4), bytes, at, layout);
            }
        }
        for (const [bytes, spans] of bySize) {
            this.sizes.set(bytes, this.findStorages(bytes, spans));
        }
        [...this.given.values(), ...[...this.sizes.values()].flat()].filter((s) => s.known)
            .sort((a, b) => a.first - b.first)
            .forEach((storage, i) => { storage.name = letters(i); });
        for (const [number, s] of this.buffers) {
            s.known = s.end - s.base === s.bytes;
            s.name = `buffer ${number} `;
        }
    }

    /* The dims of an argument in bytes; null for a scalar. Many arguments have the same dims. */
    layout(a) {
        const {ARGS, DIMS} = this.trace, first = ARGS.u32(a, 6);
        const dtype = ARGS.u8(a, 21), size = DTYPE_BYTES[dtype], n = ARGS.u8(a, 22);
        if ((ARGS.u8(a, 23) & ~PTRACE_NODEP) === ACCESS.SCALAR || !size) {
            return null;
        }
        const key = first * 256 + dtype;
        let layout = this.layouts.get(key);
        if (layout) {
            return layout;
        }
        const number = (i) => DIMS.u32(i, 0) + (DIMS.u32(i, 1) | 0) * 4294967296;
        layout = {size, dims: [], low: 0, high: size, empty: false};
        for (let d = 0; d < n && first !== NONE; d++) {
            const count = number(first + d), stride = number(first + n + d) * size;
            layout.empty ||= count < 1;
            if (count > 1) {
                const far = (count - 1) * stride;
                far < 0 ? layout.low += far : layout.high += far;
                layout.dims.push({count, stride});
            }
        }
        this.layouts.set(key, layout);
        return layout;
    }

    /* The start of a storage, for an argument whose place in it is in the file. */
    startOf(a, layout) {
        return this.trace.ARGS.u64(a, 0) - (this.trace.ARGS.u32(a, 7) - 1) * layout.size;
    }

    addGiven(a, bytes, layout) {
        const base = this.startOf(a, layout), key = `${base} ${bytes}`;
        let s = this.given.get(key);
        s || this.given.set(key, s = {base, bytes, first: a, known: true, layouts: new Set()});
        s.layouts.add(layout);
    }

    addSpan(spans, low, high, layout, a) {
        const span = spans.get(low);
        if (!span) {
            spans.set(low, {low, high, first: a, layouts: new Set([layout])});
        } else {
            span.high = Math.max(span.high, high);
            span.layouts.add(layout);
        }
    }

    addManaged(number, bytes, at, layout) {
        let s = this.buffers.get(number);
        s || this.buffers.set(number, s = {base: Infinity, end: 0, bytes, layouts: new Set()});
        s.base = Math.min(s.base, at + layout.low);
        s.end = Math.max(s.end, at + layout.high);
        s.layouts.add(layout);
    }

    /* Storages of one size, from the spans of their views. */
    findStorages(bytes, spans) {
        const storages = [];
        let last = null;
        for (const span of [...spans.values()].sort((a, b) => a.low - b.low)) {
            if (!last || span.low >= last.base + bytes) {
                last = {base: span.low, end: span.high, bytes, first: span.first,
                        layouts: new Set(), fits: true};
                storages.push(last);
            }
            last.end = Math.max(last.end, span.high);
            last.first = Math.min(last.first, span.first);
            last.fits &&= span.high <= last.base + bytes;
            span.layouts.forEach((layout) => last.layouts.add(layout));
        }
        for (const storage of storages) {
            storage.known = storage.fits && storage.end - storage.base === bytes;
        }
        return storages;
    }

    /* The storage of an argument; null if where it begins is not known. */
    storageOf(a) {
        const {ARGS} = this.trace, layout = this.layout(a);
        if (!layout || layout.empty) {
            return null;
        }
        let found = null;
        if (ARGS.u8(a, 20) === PTRACE_USER && ARGS.u32(a, 7)) {
            found = this.given.get(`${this.startOf(a, layout)} ${ARGS.u64(a, 2)}`);
        } else if (ARGS.u8(a, 20) === PTRACE_USER) {
            const at = ARGS.u64(a, 0) + layout.low, list = this.sizes.get(ARGS.u64(a, 2));
            let low = 0, high = list.length; // the last that begins at or before `at`
            while (low < high) {
                const middle = (low + high) >> 1;
                list[middle].base <= at ? low = middle + 1 : high = middle;
            }
            found = list[low - 1];
        } else {
            found = this.buffers.get(ARGS.u32(a, 4));
        }
        return found?.known ? found : null;
    }

    /* The shape of a storage if these strides, in bytes, are its rows: [{stride, count}], the
     * slowest first. null if they do not divide each other. */
    static shape(bytes, size, strides) {
        const sorted = [...new Set([...strides, size])].sort((a, b) => b - a), dims = [];
        let whole = bytes;
        for (const stride of sorted) {
            if (whole % stride || stride % size) {
                return null;
            }
            dims.push({stride, count: whole / stride});
            whole = stride;
        }
        return dims.filter((d) => d.count > 1 || dims.length === 1);
    }

    /* The place of an argument in a shape: {count, from, to, step} for each dim of the storage.
     * null if it does not fit. */
    static place(shape, offset, layout) {
        const taken = new Set(), dims = shape.map(({stride, count}) => {
            const from = Math.floor(offset / stride);
            offset -= from * stride;
            return {stride, count, from, to: from + 1, step: 1};
        });
        for (const {count, stride} of layout.dims) {
            if (!stride) {
                continue; // a broadcast dim repeats what the others view
            }
            const dim = dims.find((d) => Math.abs(stride) % d.stride === 0 && !taken.has(d));
            if (!dim) {
                return null;
            }
            taken.add(dim);
            dim.step = stride / dim.stride;
            const last = dim.from + (count - 1) * dim.step;
            dim.to = last + 1;
            if (last < 0 || last >= dim.count) {
                return null;
            }
        }
        return dims;
    }

    /* {storage, dims} of an argument; null if that is not certain. */
    find(a) {
        const storage = this.storageOf(a), layout = this.layout(a);
        if (!storage) {
            return null;
        }
        const strides = (layouts) => [...layouts].flatMap((l) => l.dims)
            .map((d) => Math.abs(d.stride)).filter(Boolean);
        const offset = this.trace.ARGS.u64(a, 0) - storage.base;
        for (const list of [strides(storage.layouts), strides([layout])]) {
            const shape = Views.shape(storage.bytes, layout.size, list);
            const dims = shape && Views.place(shape, offset, layout);
            if (dims) {
                return {storage, dims};
            }
        }
        return null;
    }

    /* For example ["A[128:192, 0:64]", "1024x1024 float32"]; null if it is not certain. */
    text(a) {
        const found = this.find(a);
        if (!found) {
            return null;
        }
        const range = ({from, to, step}) => step < 0 ? `${from} down to ${to - 1}`
            : to === from + 1 ? `${from}` : `${from}:${to}${step > 1 ? `:${step}` : ""}`;
        const type = DTYPE_NAMES[this.trace.ARGS.u8(a, 21)] || "?";
        return [`${found.storage.name}[${found.dims.map(range).join(", ")}]`,
                `${found.dims.map((d) => d.count).join("x")} ${type}`];
    }
}
