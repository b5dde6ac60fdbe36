/* paint.js - colours, numbers as text, and a pixel buffer to draw many spans into. */

/* Eight hues that remain distinct with impaired colour vision, since they also differ in lightness.
 * They suit the light and the dark theme. Kernels beyond the eighth get stripes, and beyond the
 * sixteenth dots. */
const HUES = [
    [0x3d, 0x7f, 0xc4], [0xe6, 0x9a, 0x2e], [0x2a, 0x9d, 0x86], [0xc9, 0x66, 0xa2],
    [0x8f, 0xc8, 0xee], [0xc4, 0x51, 0x2d], [0x73, 0x66, 0xbd], [0xdd, 0xca, 0x53],
];
const OTHERS = [0x93, 0x9b, 0x98];
const css = (c, alpha = 1) => `rgb(${c[0]} ${c[1]} ${c[2]} / ${alpha})`;
const mix = (a, b, part) => a.map((v, i) => Math.round(v + (b[i] - v) * part));
const packed = (c) => (0xff000000 | c[2] << 16 | c[1] << 8 | c[0]) >>> 0;

class Colours {
    constructor(dark) {
        const style = getComputedStyle(document.documentElement);
        const get = (name) => style.getPropertyValue("--" + name).trim();
        const hex = (name) => get(name).slice(1, 7).match(/../g).map((p) => parseInt(p, 16));
        this.dark = dark;
        for (const name of ["paper", "panel", "lane", "line", "ink", "soft", "faint", "accent",
                            "bad", "warn"]) {
            this[name] = get(name);
            this[name + "Bits"] = packed(hex(name));
        }
        const paper = hex("paper");
        const room = dark ? [0x2e, 0x26, 0x12] : [0xff, 0xef, 0xc9];
        const roomLine = dark ? [0x86, 0x6a, 0x2c] : [0xcf, 0xa3, 0x45];
        [this.room, this.roomLine] = [css(room), css(roomLine)];
        [this.roomBits, this.roomLineBits] = [packed(room), packed(roomLine)];
        this.main = [];
        for (let c = 0; c < CLASSES; c++) {
            this.main.push(c === CLASSES - 1 ? OTHERS : HUES[c % HUES.length]);
        }
        this.main[DIM] = mix(hex("faint"), paper, .62);
        this.main[CALL] = hex("soft");
        this.main[FAILED] = dark ? [0xff, 0x5c, 0x50] : [0xd3, 0x1f, 0x16];
        this.main[RANGE] = mix(hex("accent"), paper, dark ? .7 : .8);
        this.second = this.main.map(
            (c, i) => i >= CLASSES ? c : mix(c, dark ? [0, 0, 0] : [255, 255, 255], .45));
        this.bits = Uint32Array.from(this.main, packed);
        this.secondBits = Uint32Array.from(this.second, packed);
        this.pattern = Uint8Array.from(this.main, (_, i) =>
            i >= CLASSES - 1 ? 0 : Math.floor(i / HUES.length));
        // The text colour on each colour: black or white, whichever is readable.
        this.words = this.main.map((c) =>
            c[0] * .299 + c[1] * .587 + c[2] * .114 > 140 ? "#101413" : "#ffffff");
    }

    of(kind) {
        return css(this.main[kind]);
    }

    /* Colour and pattern as a CSS background, for swatches. */
    swatch(kind) {
        const a = css(this.main[kind]), b = css(this.second[kind]);
        return [
            a, `repeating-linear-gradient(135deg, ${a} 0 3px, ${b} 3px 5px)`,
            `radial-gradient(${b} 1.3px, transparent 1.6px) 0 0 / 5px 5px, ${a}`
        ][this.pattern[kind]];
    }
}

class Pixels {
    constructor(context) {
        this.context = context;
        this.width = this.height = 0;
    }

    size(width, height) {
        if (width !== this.width || height !== this.height) {
            this.image = this.context.createImageData(width, height);
            this.data = new Uint32Array(this.image.data.buffer);
            this.width = width;
            this.height = height;
        }
    }

    clear(bits) {
        this.data.fill(bits);
    }

    fill(x0, x1, y0, y1, bits) {
        x0 = x0 < 0 ? 0 : x0;
        x1 = x1 > this.width ? this.width : x1;
        y0 = y0 < 0 ? 0 : y0;
        y1 = y1 > this.height ? this.height : y1;
        if (x0 >= x1) {
            return;
        }
        const data = this.data;
        if (x1 - x0 < 12) {
            for (let y = y0; y < y1; y++) {
                for (let at = y * this.width + x0, end = at + x1 - x0; at < end; at++) {
                    data[at] = bits;
                }
            }
            return;
        }
        for (let y = y0; y < y1; y++) {
            data.fill(bits, y * this.width + x0, y * this.width + x1);
        }
    }

    /* Fills a span with the colour and pattern of a class. `phase` moves the pattern with the
     * view. */
    span(x0, x1, y0, y1, kind, colours, phase) {
        this.fill(x0, x1, y0, y1, colours.bits[kind]);
        const pattern = colours.pattern[kind];
        if (!pattern) {
            return;
        }
        x0 = x0 < 0 ? 0 : x0;
        x1 = x1 > this.width ? this.width : x1;
        y0 = y0 < 0 ? 0 : y0;
        y1 = y1 > this.height ? this.height : y1;
        const bits = colours.secondBits[kind];
        for (let y = y0; y < y1; y++) {
            const line = y * this.width;
            for (let x = x0; x < x1; x++) {
                const p = x + phase;
                if (pattern === 1 ? (p + y) % 7 < 2 : p % 5 < 2 && y % 5 < 2) {
                    this.data[line + x] = bits;
                }
            }
        }
    }

    /* Diagonal lines, for time in which a thread waited or slept. */
    hatch(x0, x1, y0, y1, bits, step) {
        x0 = x0 < 0 ? 0 : x0;
        x1 = x1 > this.width ? this.width : x1;
        y1 = y1 > this.height ? this.height : y1;
        for (let y = y0 < 0 ? 0 : y0; y < y1; y++) {
            for (let x = x0 + (step - (x0 + y) % step) % step; x < x1; x += step) {
                this.data[y * this.width + x] = bits;
            }
        }
    }

    show() {
        this.context.putImageData(this.image, 0, 0);
    }
}

/* ---- Numbers as text ------------------------------------------------------------------------ */

function three(x) {
    return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
}

function duration(ns) {
    if (!(ns === ns)) {
        return "unknown";
    }
    const size = Math.abs(ns);
    return size < 999.5 ? `${Math.round(ns)} ns` : size < 999.5e3 ? `${three(ns / 1e3)} µs`
        : size < 999.5e6 ? `${three(ns / 1e6)} ms` : `${three(ns / 1e9)} s`;
}

/* ---- The time axis -------------------------------------------------------------------------- */

/* Steps of 1, 2 or 5 times a power of ten. Above a second, steps that divide minutes and hours. */
function tickStep(least) {
    const long = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600].map((s) => s * 1e9);
    if (least > .5e9) {
        return long.find((step) => step >= least) || Math.ceil(least / 3600e9) * 3600e9;
    }
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((m) => m * power >= least * .999999);
}

/* A point in time, to the precision of `step`, in the unit of `size`. From two minutes on, minutes
 * and seconds: 2:05. */
function moment(ns, step, size = ns) {
    const long = size >= 120e9, least = long ? 1e9 : Math.min(size, 1e9);
    const [unit, name] = least >= 1e9 ? [1e9, "s"] : least >= 1e6 ? [1e6, "ms"]
        : least >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
    if (!long) {
        return `${(ns / unit).toFixed(digits)} ${name}`;
    }
    const s = ns / 1e9, minutes = Math.floor(s / 60 + 1e-12);
    const rest = Math.max(0, s - 60 * minutes).toFixed(digits)
        .padStart(digits ? digits + 3 : 2, "0");
    return minutes < 60 ? `${minutes}:${rest}`
        : `${Math.floor(minutes / 60)}:${`${minutes % 60}`.padStart(2, "0")}:${rest}`;
}

/* The labels of the axis: {base, label(t)}. Far into a view of a long run, a time has too many
 * digits to read. Then `base` is a round time before the view, and labels count from there. */
function axisLabels(from, to, step) {
    if (to / step < 20000) {
        return {base: "", label: (t) => moment(t, step, to)};
    }
    const round = 10 ** Math.ceil(Math.log10(to - from));
    const base = Math.max(0, Math.floor(from / round) * round);
    return {base: moment(base, round), label: (t) => `+${moment(t - base, step, to - base)}`};
}

function amount(n) {
    return n.toLocaleString("en");
}

function bytesText(n) {
    return n < 1024 ? `${n} B` : n < 1048576 ? `${three(n / 1024)} KiB`
        : n < 1073741824 ? `${three(n / 1048576)} MiB` : `${three(n / 1073741824)} GiB`;
}

function percent(part, whole) {
    const p = whole ? 100 * part / whole : 0;
    return p > 0 && p < 0.1 ? "<0.1 %"
                            : `${p >= 99.95 || p === 0 ? Math.round(p) : p.toFixed(1)} %`;
}
