/* peek_look.c - copies the contents of a window while the program runs. See peek.h. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/source.h"
#include "peek.h"
#include "window/builtin.h"

/* ---- Texts ---- */

static char printable(char c)
{
    return isprint((unsigned char)c) || (unsigned char)c >= 0x80 ? c : '?';
}

/* Copies a text of the window, safe to print. */
static void copy_text(const peek *p, uint32_t at, char *to, size_t size)
{
    size_t n = 0;
    for (; n + 1 < size && at + n < PTOI_STRING_BYTES; n++) {
        const char c = p->view.strings[at + n];
        if (!c) {
            break;
        }
        to[n] = printable(c);
    }
    to[n] = '\0';
}

static void copy_label(const ptoi_label *label, uint64_t key, char to[PTO_LABEL_BYTES])
{
    ptoi_label_read(label, key, to);
    for (; *to; to++) {
        *to = printable(*to);
    }
}

static void copy_kernel(const peek *p, uint32_t kernel, char *to, size_t size)
{
    to[0] = '\0';
    if (kernel < PTOI_MAX_KERNELS) {
        copy_text(p, p->view.kernels[kernel].name, to, size);
    }
}

/* Copies a path. A long path loses its start, because its end is more useful. */
static void copy_site(const peek *p, uint32_t site, char *to, size_t size, int32_t *line)
{
    char whole[1024] = "";
    *line = 0;
    if (site < PTOI_MAX_SITES) {
        copy_text(p, p->view.sites[site].file, whole, sizeof whole);
        *line = p->view.sites[site].line;
    }
    const size_t length = strlen(whole);
    if (length < size) {
        memcpy(to, whole, length + 1);
    } else {
        snprintf(to, size, "...%s", whole + length - (size - 4));
    }
}

peek_name peek_name_of(const peek_task *t)
{
    peek_name name;
    snprintf(name.s, sizeof name.s, "task %" PRIu64 "%s%s%s (kernel '%s', submitted at %s)",
             t->order, *t->label ? " '" : "", t->label, *t->label ? "'" : "", t->kernel,
             ptoi_source_of(t->file, t->line).text);
    return name;
}

peek_name peek_brief_of(const peek_task *t)
{
    const char *slash = strrchr(t->file, '/');
    peek_task brief = *t;
    if (slash) {
        snprintf(brief.file, sizeof brief.file, "%s", slash + 1);
    }
    return peek_name_of(&brief);
}

peek_types peek_types_of(uint32_t types)
{
    peek_types names = {.s = ""};
    size_t length = 0;
    if (!types || (types & PTO_ALL_TYPES) == PTO_ALL_TYPES) {
        snprintf(names.s, sizeof names.s, "%s", types ? "all" : "none");
        return names;
    }
    for (uint32_t type = 0; type < PTO_WORKER_TYPES; type++) {
        if (types >> type & 1) {
            const int more = snprintf(names.s + length, sizeof names.s - length, "%s%s",
                                      length ? "+" : "",
                                      pto_worker_type_name((pto_worker_type)type));
            length += more > 0 ? (size_t)more : 0;
        }
    }
    return names;
}

/* ---- Tasks ---- */

static bool is_complete(const peek *p, pto_task task)
{
    return ptoi_task_is_complete(&p->view, ptoi_ref_make(task >> 3, (uint32_t)task & 7, false));
}

/* The owner writes these fields as plain memory. We read concurrently, so we use atomic loads. */
static void copy_slot(const ptoi_slot *from, ptoi_slot *to)
{
    const ptoi_a64 *words = (const ptoi_a64 *)(const void *)from;
    uint64_t copy[sizeof *to / sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof copy / sizeof *copy; i++) {
        copy[i] = ptoi_acquire64(&words[i]); /* see ptoi_slot_header_of */
    }
    memcpy(to, copy, sizeof *to);
}

static uint64_t read_word(const uint64_t *at)
{
    return ptoi_get64((const ptoi_a64 *)(const void *)at);
}

/* Counts the unfinished producers of a task, and finds the first. */
static void read_producers(const peek *p, const ptoi_slot *slot, peek_task *out)
{
    const ptoi_view_level *level = &p->view.level[out->level];
    const uint32_t room = p->view.header->level[out->level].deps;
    if (slot->deps > room || slot->fanin > room - slot->deps) {
        return;
    }
    for (uint32_t i = 0; i < slot->fanin; i++) {
        const ptoi_ref ref = read_word(&level->deps[slot->deps + i]);
        if (ptoi_ref_level(ref) < p->view.header->levels && !is_complete(p, ptoi_ref_task(ref))) {
            if (!out->left) {
                out->waits_for = ptoi_ref_task(ref);
            }
            out->left++;
        }
    }
}

/* Whether a block of a device that schedules for itself runs the task, which is not complete: the states
 * of its tasks are in memory of the device, so only their ends are in the window. */
static bool is_on_a_block(const peek *p, const peek_task *t)
{
    const ptoi_header *h = p->view.header;
    if ((pto_place)ptoi_get32(&h->place) != PTO_PLACE_GPU || t->device != 1 || t->left) {
        return false;
    }
    const uint32_t first = ptoi_get32(&h->device[1].first_worker);
    const uint32_t n = ptoi_get32(&h->device[1].n_workers);
    for (uint32_t i = 1; i < n && first + i < PTOI_DEVICE_WORKERS; i++) {
        const uint32_t line = ptoi_line_of_device(&p->view, first + i);
        if (ptoi_acquire64(&p->view.workers[line].task) == t->task) { /* pairs W6 */
            return true;
        }
    }
    return false;
}

static peek_state state_of(const peek_task *t, uint32_t phase)
{
    if (phase & PTOI_PHASE_COMPLETED) {
        return PEEK_ENDS;
    }
    if (phase & PTOI_PHASE_RETURNED) {
        return PEEK_PENDING;
    }
    if (phase & PTOI_PHASE_RUNNING) {
        return PEEK_RUNS;
    }
    return t->left ? PEEK_WAITS : PEEK_READY;
}

/* Reads all of a task except its texts. */
static bool read_task(const peek *p, pto_task task, peek_task *out, ptoi_slot *slot)
{
    memset(out, 0, sizeof *out);
    out->level = (uint32_t)task & 7;
    if (!task || out->level >= p->view.header->levels || is_complete(p, task)) {
        return false;
    }
    const ptoi_slot *there = ptoi_slot_of(&p->view, out->level, task >> 3);
    const ptoi_state *state = ptoi_state_of(&p->view, out->level, task >> 3);
    copy_slot(there, slot);
    const ptoi_slot_header what = ptoi_slot_header_of(slot);
    out->task = task;
    out->order = ptoi_order_of(&p->view, there);
    out->type = (uint8_t)ptoi_lane_type(what.lane);
    out->device = ptoi_lane_device(what.lane) % PTO_MAX_DEVICES;
    out->fanin = slot->fanin;
    read_producers(p, slot, out);
    out->state = state_of(
        out, ptoi_phase_of(ptoi_get32(&state->phase), ptoi_lap(&p->view, out->level, task >> 3)));
    if (out->state == PEEK_READY && is_on_a_block(p, out)) {
        out->state = PEEK_RUNS;
    }
    return !is_complete(p, task); /* if so, everything above belongs to this task */
}

bool peek_task_of(const peek *p, pto_task task, peek_task *out)
{
    ptoi_slot slot;
    if (!read_task(p, task, out, &slot)) {
        return false;
    }
    const ptoi_slot_header what = ptoi_slot_header_of(&slot);
    copy_kernel(p, what.kernel, out->kernel, sizeof out->kernel);
    copy_site(p, what.site, out->file, sizeof out->file, &out->line);
    const ptoi_slot *there = ptoi_slot_of(&p->view, out->level, task >> 3);
    copy_label(&p->view.labels[ptoi_slot_index(&p->view, there)], out->order, out->label);
    return true;
}

/* Counts the unfinished tasks, and finds the oldest. */
static void read_tasks(const peek *p, peek_look *look)
{
    uint64_t oldest = UINT64_MAX;
    pto_task found = 0;
    for (uint32_t l = 0; l < look->levels; l++) {
        const ptoi_progress *progress = &p->view.header->progress[l];
        const uint64_t head = ptoi_acquire64(&progress->head);
        uint64_t n = ptoi_get64(&progress->completed);
        if (head - n > p->view.level[l].mask + UINT64_C(1)) { /* it was published long ago */
            n = head - p->view.level[l].mask - 1;
        }
        for (; n < head; n++) {
            const pto_task task = n << 3 | l;
            peek_task t;
            ptoi_slot slot;
            if (!read_task(p, task, &t, &slot)) {
                continue;
            }
            look->states[t.state]++;
            if (t.order < oldest) {
                oldest = t.order;
                found = task;
            }
        }
    }
    if (!peek_task_of(p, found, &look->oldest)) {
        look->oldest.task = 0;
    }
}

/* ---- Snapshots ---- */

static void read_level(const peek *p, uint32_t l, peek_level *out)
{
    const ptoi_progress *from = &p->view.header->progress[l];
    const uint64_t head = ptoi_acquire64(&from->head), published = ptoi_get64(&from->published);
    ptoi_window_read_rings(&p->view, l, &out->rings);
    out->since = head > published ? head - published : 0;
}

/* One thread writes in this order: task, serial. Fields read between two equal serials are as
 * consistent as is possible without a lock. A caller that must be sure reads twice. */
static void read_wait(const peek *p, uint64_t now, peek_wait *out)
{
    const ptoi_waiting *w = &p->view.header->waiting;
    for (int tries = 0; tries < 100; tries++) {
        out->serial = ptoi_acquire64(&w->serial);
        out->why = (ptoi_why)ptoi_get32(&w->why);
        out->task = ptoi_get64(&w->task);
        out->ring = (pto_ring)ptoi_get32(&w->ring);
        out->level = ptoi_get32(&w->level);
        out->wanted = ptoi_get64(&w->wanted);
        if (ptoi_acquire64(&w->serial) == out->serial) {
            break;
        }
    }
    out->on = out->serial % 2;
    const uint64_t since = ptoi_get64(&p->view.wakes->threads[p->workers].since);
    out->since = since && since < now ? now - since : 0;
}

/* The texts and the depth may be of different moments. */
static void read_ranges(const peek *p, peek_look *look)
{
    const ptoi_header *h = p->view.header;
    const uint64_t depth = ptoi_get64(&h->range_depth);
    look->n_ranges = depth < PTOI_RANGES ? (uint32_t)depth : PTOI_RANGES;
    for (uint32_t i = 0; i < look->n_ranges; i++) {
        copy_label(&h->ranges[i], ptoi_get64(&h->ranges[i].key), look->range[i]);
    }
}

static void read_stall(const peek *p, peek_look *look)
{
    const ptoi_stalled *s = &p->view.header->stalled;
    pto_stall_report *r = &look->stall;
    for (int tries = 0; tries < 100; tries++) {
        const uint64_t serial = ptoi_acquire64(&s->serial);
        int32_t line, scope_line;
        look->stalls = serial / 2;
        if (serial % 2 || !look->stalls) {
            continue;
        }
        copy_kernel(p, ptoi_acquire32(&s->kernel), look->stall_text[0], sizeof look->stall_text[0]);
        copy_site(p, ptoi_acquire32(&s->site), look->stall_text[1], sizeof look->stall_text[1],
                  &line);
        copy_site(p, ptoi_acquire32(&s->scope), look->stall_text[2], sizeof look->stall_text[2],
                  &scope_line);
        const uint64_t when = ptoi_acquire64(&s->when);
        look->stall_age = look->when > when ? look->when - when : 0;
        look->stall_is_last = ptoi_acquire64(&s->submitted) == look->submitted;
        *r = (pto_stall_report){
            .count = look->stalls,
            .kind = (pto_stall_kind)ptoi_acquire32(&s->kind),
            .ring = (pto_ring)ptoi_acquire32(&s->ring),
            .level = ptoi_acquire32(&s->level),
            .device = ptoi_device_of_word(ptoi_acquire64(&s->device)),
            .size = ptoi_acquire64(&s->size),
            .used = ptoi_acquire64(&s->used),
            .wanted = ptoi_acquire64(&s->wanted),
            .enough = ptoi_acquire64(&s->enough),
            .oldest = ptoi_acquire64(&s->task),
            .order = ptoi_acquire64(&s->order),
            .output = (uint32_t)ptoi_acquire64(&s->output),
            .output_bytes = ptoi_acquire64(&s->output_bytes),
            .given_up = ptoi_acquire64(&s->given_up),
            .kernel = look->stall_text[0],
            .file = look->stall_text[1],
            .line = line,
            .scope_file = look->stall_text[2],
            .scope_line = scope_line,
            .field = "",
            .variable = "",
        };
        if (ptoi_acquire64(&s->serial) == serial) {
            return;
        }
    }
}

peek_device peek_device_name(pto_device device)
{
    peek_device name;
    snprintf(name.s, sizeof name.s, "%s:%" PRId32, pto_device_name(device.type), device.index);
    return name;
}

/* Thread i of a snapshot: its name, and the device that it works for. */
static void name_worker(const peek *p, peek_look *look, uint32_t i)
{
    peek_worker *w = &look->worker[i];
    if (i < p->workers) {
        snprintf(w->name, sizeof w->name, "worker %u", i);
        return;
    }
    if (i == p->workers) {
        snprintf(w->name, sizeof w->name, "the orchestrating thread");
        return;
    }
    uint32_t before = p->workers + 1;
    for (uint32_t d = 1; d < look->devices; d++) {
        if (i - before < look->device[d].workers) {
            w->device = d;
            w->block = peek_is_block(look->place, d, i - before);
            snprintf(w->name, sizeof w->name, "%.15s %s %u",
                     peek_device_name(look->device[d].device).s, w->block ? "block" : "worker",
                     i - before - w->block);
            return;
        }
        before += look->device[d].workers;
    }
}

static void read_workers(const peek *p, peek_look *look)
{
    for (uint32_t i = 0; i < look->threads; i++) {
        const uint32_t at = i <= p->workers ? i : ptoi_line_of_device(&p->view, i - p->workers - 1);
        const ptoi_worker_line *line = &p->view.workers[at];
        peek_worker *w = &look->worker[i];
        name_worker(p, look, i);
        w->types = ptoi_get32(&p->view.wakes->threads[at].types);
        w->thread = ptoi_get32(&line->thread);
        w->completed = ptoi_get64(&line->tally.completed);
        w->completed += i == p->workers ? ptoi_get64(&p->view.header->inlined) : 0;
        const pto_task task = ptoi_acquire64(&line->task);
        if (!peek_task_of(p, task, &w->runs) || w->runs.state != PEEK_RUNS) {
            w->runs.task = 0;
        }
    }
}

pto_status peek_look_at(const peek *p, peek_look *look)
{
    const ptoi_header *h = p->view.header;
    memset(look, 0, sizeof *look);
    look->devices = ptoi_window_read_devices(&p->view, look->device);
    look->workers = p->workers;
    look->threads = p->workers + 1;
    for (uint32_t d = 1; d < look->devices; d++) {
        const uint32_t room = PEEK_THREADS(p) - look->threads;
        look->device[d].workers = look->device[d].workers < room ? look->device[d].workers : room;
        look->threads += look->device[d].workers;
    }
    look->worker = calloc(look->threads, sizeof *look->worker);
    if (!look->worker) {
        return pto_fail(PTO_OUT_OF_MEMORY, "a snapshot of %u threads", look->threads);
    }
    look->when = peek_clock();
    look->created = ptoi_get64(&h->created);
    look->levels = h->levels;
    look->place = (pto_place)ptoi_get32(&h->place);
    look->lost = ptoi_get64(&h->lost);
    snprintf(look->runtime, sizeof look->runtime, "%.*s", (int)sizeof h->runtime, h->runtime);
    /* Read the completions first, so that completed never exceeds submitted. */
    for (uint32_t i = 0; i < ptoi_lines(&p->view); i++) {
        const ptoi_tally *tally = &p->view.workers[i].tally;
        look->completed += ptoi_acquire64(&tally->completed);
        look->failed += ptoi_get64(&tally->failed);
        look->skipped += ptoi_get64(&tally->skipped);
    }
    const uint64_t inlined = ptoi_acquire64(&h->inlined);
    look->completed += inlined;
    for (uint32_t l = 0; l < look->levels; l++) { /* not inbox_head: pto_recover publishes again */
        look->submitted += ptoi_acquire64(&h->progress[l].head) - h->first_task; /* W6 */
    }
    for (int why = 0; why < 4; why++) {
        look->edges += ptoi_get64(&h->edges[why]);
    }
    look->scope_depth = ptoi_get64(&h->scope_depth);
    look->buffers = ptoi_get64(&h->buffers);
    look->max_buffers = h->max_buffers;
    look->cancelled = ptoi_is_cancelled(&p->view);
    look->done = ptoi_get32(&h->orchestrator_done);
    for (uint32_t l = 0; l < look->levels; l++) {
        read_level(p, l, &look->level[l]);
    }
    read_wait(p, look->when, &look->wait);
    read_ranges(p, look);
    read_stall(p, look);
    read_workers(p, look);
    read_tasks(p, look);
    return PTO_OK;
}

void peek_look_free(peek_look *look)
{
    free(look->worker);
    look->worker = NULL;
}

/* ---- Words ---- */

peek_words peek_range_words(const peek_look *look)
{
    peek_words words = {""};
    size_t length = 0;
    for (uint32_t i = 0; i < look->n_ranges; i++) {
        const int more = snprintf(words.s + length, sizeof words.s - length, "%s%s", i ? " > " : "",
                                  look->range[i]);
        length += more > 0 ? (size_t)more : 0;
        length = length < sizeof words.s ? length : sizeof words.s - 1;
    }
    return words;
}

peek_words peek_wait_words(const peek *p, const peek_look *look, bool brief)
{
    static const char *const reasons[] = {
        [PTOI_WHY_OTHER] = "waits",
        [PTOI_WHY_ALL] = "waits for all tasks (pto_wait)",
        [PTOI_WHY_TASK] = "waits for one task (pto_wait_task)",
        [PTOI_WHY_READ] = "waits to read a tensor (pto_read)",
        [PTOI_WHY_WRITE] = "waits to write a tensor (pto_write)",
        [PTOI_WHY_ROOM] = "waits for room to submit",
        [PTOI_WHY_DESTROY] = "waits for all tasks (pto_runtime_destroy)",
    };
    const peek_wait *w = &look->wait;
    const peek_worker *caller = &look->worker[look->workers];
    peek_words words;
    peek_task task;
    char room[96] = "", what[352] = "";
    if (!w->on && caller->runs.task) {
        snprintf(words.s, sizeof words.s, "is inside of submit and runs %s inline",
                 (brief ? peek_brief_of : peek_name_of)(&caller->runs).s);
        return words;
    }
    if (!w->on) {
        snprintf(words.s, sizeof words.s, "%s",
                 look->done ? "has destroyed the runtime" : "is in user code or submits tasks");
        return words;
    }
    if (w->why == PTOI_WHY_ROOM) {
        snprintf(room, sizeof room, ": it needs %" PRIu64 " more in the %s of level %u", w->wanted,
                 pto_ring_name(w->ring), w->level);
    }
    peek_name (*name)(const peek_task *) = brief ? peek_brief_of : peek_name_of;
    if (caller->runs.task) {
        snprintf(what, sizeof what, " and runs %s meanwhile", name(&caller->runs).s);
    } else if (w->task && peek_task_of(p, w->task, &task)) {
        snprintf(what, sizeof what, ", currently for %s", name(&task).s);
    }
    snprintf(words.s, sizeof words.s, "%s%s%s",
             (uint32_t)w->why < sizeof reasons / sizeof *reasons ? reasons[w->why] : "waits", room,
             what);
    return words;
}
