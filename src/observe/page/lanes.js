/* lanes.js - lanes and rings over one time axis. The cost of a frame depends on the number of
 * pixels: spans of two pixels or more are drawn one by one. Narrower spans are summed up for each
 * column of pixels, and drawn as one band per kernel. */

const NEARLY_FULL = .98; // of a ring's capacity: the number is shown as a warning

class Lanes extends View {
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
        const {skippedPlace} = this;
        for (const place of skippedPlace ? [...this.places, skippedPlace] : this.places) {
            const end = dy(place.end);
            if (end < top || dy(place.y) > pixels.height) {
                continue;
            }
            pixels.fill(left, pixels.width, dy(place.y), end, colours.laneBits);
        }
        for (let k = Math.max(0, Math.ceil(this.from / step)); k * step < this.to; k++) {
            const x = Math.round(this.x(k * step) * ratio);
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
                this.paintRow(row, dy(y) + Math.round(2 * ratio),
                              dy(y + high) - Math.round(2 * ratio), 1);
            }
        }
        for (const {row, y, high} of this.rangePlaces) {
            this.paintRow(row, dy(y) + 1, dy(y + high) - 1, 1);
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
        this.paintSkipped(c, colours);
        this.paintOutcomes(c, colours);
        this.paintPath(c, colours);
        this.paintMessages(c, colours);
        this.paintSelected(c, colours);
        this.paintSpan(c, colours);
        c.restore();
        this.paintGutter(c, colours);
        c.restore();
        this.paintAxis(c, colours, step);
        this.paintBrush();
        if (!this.frames++) {
            requestAnimationFrame(() => {
                this.firstSeen = performance.now();
            });
        }
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
            // A span of this column may begin after the last span that was drawn on its own.
            const next = row.measure(a, b, i, times);
            let sum = 0, y = y1;
            for (let k = 0; k < times.length; k++) {
                if (times[k]) {
                    sum += times[k];
                    const to = y1 - Math.max(1, Math.round(sum / (b - a) * high));
                    if (to < y) {
                        pixels.span(column, column + 1, Math.max(y0, to), y, row.classes[k],
                                    colours, phase);
                        y = to;
                    }
                }
            }
            x = column + 1;
            i = next;
        }
    }

    /* Time in which the thread did not work, and the reason. */
    paintEvents({lane, y, end}, dy) {
        const {pixels, ratio, app: {colours}} = this;
        const {eventStart, eventEnd, eventKind} = lane, n = eventStart.length;
        /* The first event from `low` on that ends after t. */
        const after = (t, low) => {
            let high = n;
            for (let step = 1; low + step < high; step *= 2) {
                eventEnd[low + step] > t ? high = low + step : low += step;
            }
            while (low < high) {
                const middle = (low + high) >> 1;
                eventEnd[middle] <= t ? low = middle + 1 : high = middle;
            }
            return low;
        };
        const y0 = dy(y), y1 = dy(end), left = GUTTER * ratio;
        for (let i = after(this.from, 0); i < n && eventStart[i] < this.to;) {
            const a = Math.max(left, Math.floor(this.x(eventStart[i]) * ratio));
            const b = Math.max(a + 1, Math.ceil(this.x(eventEnd[i]) * ratio));
            if (IS_ROOM[eventKind[i]]) {
                pixels.fill(a, b, y0, y1, colours.roomBits);
                pixels.hatch(a, b, y0, y1, colours.roomLineBits, 7);
            } else if (eventKind[i] === EVENT.WAIT) {
                pixels.hatch(a, b, y0, y1, colours.faintBits, 6);
            } else {
                pixels.hatch(a, b, y0, y1, colours.lineBits, 4);
            }
            // One event is enough of those that end within a pixel.
            i = b > a + 1 ? i + 1 : Math.max(i + 1, after(this.time(b / ratio), i));
        }
    }

    paintNames(c, colours) {
        const {trace} = this.model, taskName = (i) => trace.label(i) || trace.kernelName(i);
        c.font = "11px " + getComputedStyle(document.body).fontFamily;
        c.textBaseline = "middle";
        const least = 30 / this.scale;
        this.widths.size > 20000 && this.widths.clear();
        for (const [rows, nameOf] of [[this.rangePlaces, (r) => trace.rangeName(r)],
                                      ...this.places.map((place) => [place.rows, taskName])]) {
            for (const {row, y, high} of rows) {
                const at = y - this.scroll + AXIS;
                if (at + high < AXIS || at > this.height || high < 13) {
                    continue;
                }
                const {start, end, items, kind} = row;
                // Limits the spans that are checked. Where there are more, few are wide enough.
                let i = row.after(this.from), budget = 4 * this.width;
                for (; i < items.length && start[i] < this.to && budget--; i++) {
                    if (end[i] - start[i] < least) {
                        continue;
                    }
                    const x0 = Math.max(GUTTER, this.x(start[i])),
                          x1 = Math.min(this.width, this.x(end[i]));
                    const text = this.shorten(c, nameOf(items[i]), x1 - x0 - 8);
                    if (text) {
                        c.fillStyle = kind[i] === DIM ? colours.soft : colours.words[kind[i]];
                        c.fillText(text, x0 + 4, at + high / 2 + .5);
                    }
                }
            }
        }
    }

    /* A mark for each skipped task, or one for all of a pixel. */
    paintSkipped(c, colours) {
        const {skippedAt: at, skippedTasks} = this.model, place = this.skippedPlace;
        const match = this.app.filter?.match;
        for (let i = place ? this.skippedAfter(this.from) : 0; i < at.length && at[i] < this.to;) {
            const x = Math.round(this.x(at[i]));
            c.globalAlpha = !match || match(skippedTasks[i]) ? .8 : .15;
            c.fillStyle = colours.bad;
            c.fillRect(x - 1, place.y - this.scroll + AXIS + 3, 2, SKIPPED_ROW - 6);
            i = this.skippedAfter(this.time(x + 2), i + 1);
        }
        c.globalAlpha = 1;
    }

    /* The first skipped task, from `low` on, that was skipped at t or later. */
    skippedAfter(t, low = 0) {
        const {skippedAt} = this.model;
        let high = skippedAt.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            skippedAt[middle] < t ? low = middle + 1 : high = middle;
        }
        return low;
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

    paintRings(c, colours) {
        for (const {ring, y: at, high} of this.ringPlaces) {
            const y = at - this.scroll + AXIS;
            if (y + high < AXIS || y > this.height || !ring.most) {
                continue;
            }
            // The full height is the capacity, so that rings can be compared. Any use is visible.
            const full = ring.capacity || ring.most;
            const up = (used) => y + high -
                (used ? Math.max(1.5, Math.min(1, used / full) * (high - 3)) : 0);
            c.fillStyle = colours.line;
            c.fillRect(GUTTER, y + high, this.width - GUTTER, 1);
            c.beginPath();
            c.moveTo(GUTTER, y + high);
            let i = this.sampleAt(ring, this.time(GUTTER)), value = i < 0 ? 0 : ring.used[i];
            c.lineTo(GUTTER, up(value));
            // A sample is a change, so the last one is valid until the end.
            const end = Math.min(this.width, Math.max(this.x(this.model.last), GUTTER));
            for (let x = GUTTER; x < end; x++) {
                const next = this.sampleAt(ring, this.time(x + 1), i);
                if (next > i) {
                    value = this.topOf(ring, i + 1, next);
                    c.lineTo(x, up(value));
                    value = ring.used[next];
                    i = next;
                }
                c.lineTo(Math.min(x + 1, end), up(value));
            }
            c.lineTo(end, y + high);
            c.closePath();
            c.globalAlpha = colours.dark ? .32 : .22;
            c.fillStyle = colours.accent;
            c.fill();
            c.globalAlpha = 1;
            c.strokeStyle = colours.accent;
            c.lineWidth = 1.2;
            c.stroke();
            if (ring.capacity) {
                c.strokeStyle = ring.most >= NEARLY_FULL * full ? colours.warn : colours.faint;
                c.lineWidth = 1;
                c.setLineDash([4, 4]);
                c.beginPath();
                c.moveTo(GUTTER, y + 3);
                c.lineTo(this.width, y + 3);
                c.stroke();
                c.setLineDash([]);
            }
        }
    }

    /* The last sample at or before t; -1 if there is none. */
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
        c.fillRect(0, AXIS, GUTTER, this.height);
        c.textBaseline = "middle";
        for (const {lane, y, end} of this.places) {
            const middle = (y + end) / 2 - this.scroll + AXIS, tall = end - y >= 26;
            c.font = "12px " + font;
            c.fillStyle = colours.ink;
            c.fillText(this.shorten(c, lane.name, GUTTER - 24) || lane.name.slice(0, 9), 12,
                       middle - (tall ? 6 : 0));
            const share = lane.calls && !lane.busy
                              ? "submits"
                              : percent(lane.busy, this.model.makespan) + (tall ? " busy" : "");
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
        const note = (text, y, style) => {
            c.font = "11px " + font;
            c.fillStyle = style;
            c.fillText(text, 12, y - this.scroll + AXIS + .5);
        };
        if (this.rangePlaces.length) {
            note("ranges", this.rangePlaces[0].y + RANGE_ROW / 2, colours.soft);
        }
        if (this.skippedPlace) {
            note(`${amount(this.model.skipped)} skipped`, this.skippedPlace.y + SKIPPED_ROW / 2,
                 colours.bad);
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
            const at = y - this.scroll + AXIS, size = (value) => ringText(ring.ring, value);
            c.font = "12px " + font;
            c.fillStyle = colours.ink;
            if (!ring.most) {
                c.fillStyle = colours.soft;
                c.fillText(`${ring.name}: not used`, 12, at + high / 2 + 1);
                continue;
            }
            c.fillText(ring.name, 12, at + high / 2 - 12);
            c.font = "10px " + font;
            c.fillStyle = ring.capacity && ring.most >= ring.capacity * NEARLY_FULL ? colours.warn
                                                                                    : colours.soft;
            c.fillText(`peak ${size(ring.most)}`, 12, at + high / 2 + 2);
            if (ring.capacity) {
                c.fillText(`${percent(ring.most, ring.capacity)} of ${size(ring.capacity)}`, 12,
                           at + high / 2 + 14);
            }
        }
    }

    tickStep() {
        return tickStep((this.to - this.from) / Math.max(2, (this.width - GUTTER) / 120));
    }

    paintAxis(c, colours, step) {
        c.fillStyle = colours.paper;
        c.fillRect(0, 0, this.width, AXIS);
        c.fillStyle = colours.line;
        c.fillRect(0, AXIS - 1, this.width, 1);
        c.font = "11px " + getComputedStyle(document.body).fontFamily;
        c.textBaseline = "middle";
        c.fillStyle = colours.soft;
        const {base, label} = axisLabels(Math.max(0, this.from), this.to, step);
        for (let k = Math.max(0, Math.ceil(this.from / step)); k * step < this.to; k++) {
            const x = this.x(k * step);
            if (x >= GUTTER - 1) {
                const text = label(k * step);
                if (x + 8 + c.measureText(text).width < this.width) {
                    c.fillText(text, x + 4, AXIS / 2);
                }
                c.fillRect(x, AXIS - 6, 1, 6);
            }
        }
        c.fillStyle = colours.paper;
        c.fillRect(0, 0, GUTTER - 6, AXIS - 1);
        c.fillStyle = colours.soft;
        c.fillText(base ? `from ${base}` : `${duration(this.to - this.from)} wide`, 12, AXIS / 2);
    }

    /* How busy the workers were over the whole run, by kernel. Drawn once and kept. */
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
        const at = rows.map(() => 0),
              times = rows.map((row) => new Float64Array(row.classes.length));
        const sums = new Float64Array(ALL_CLASSES), span = (model.last - model.first) / (wide - left);
        for (let x = left; x < wide; x++) {
            const a = model.first + (x - left) * span;
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
        const {first, last} = this.model, scale = (width - GUTTER) / (last - first);
        const x0 = Math.max(GUTTER, GUTTER + (this.from - first) * scale);
        const x1 = Math.min(width, GUTTER + (this.to - first) * scale);
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
}
