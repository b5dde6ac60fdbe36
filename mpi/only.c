/* only.c - ranges of calls that concern some ranks only (pto_mpi_only).
 *
 * The program declares which views the tasks of a range use. A rank that owns no tile of these has nothing to
 * do there, and does not walk through the range. It must know two things about what it left out:
 *
 *     M3  version   all tiles of the declared outputs count as written, on all ranks, with one number at the
 *                   end of the range. Nothing that a rank outside has in its cache is of a version inside
 *     M6  number    messages are between ranks that own tiles, which all walk through the range
 *
 * Tasks inside are checked against the declaration tile by tile: o->mark has the range, and whether its
 * tasks may write. Ranks that make different calls inside are found by the next wait (add_to_sum), or as soon
 * as they block each other. Views are declared as boxes of tiles; one with steps stands for the box around it.
 */
#include "plan.h"

static uint64_t box_first(const tile_box *b, const int64_t *index)
{
    uint64_t tile = 0;
    for (int32_t d = 0; d < b->o->ndim; d++) {
        tile = tile * (uint64_t)b->o->tiles[d] + (uint64_t)index[d];
    }
    return tile;
}

/* Goes to the next row of tiles of a box. False: there is none. */
static bool box_next(const tile_box *b, int64_t *index)
{
    int32_t d = b->o->ndim - 2;
    for (; d >= 0; d--) {
        if (++index[d] < b->to[d]) {
            return true;
        }
        index[d] = b->from[d];
    }
    return false;
}

static uint64_t box_row(const tile_box *b)
{
    const int32_t last = b->o->ndim - 1;
    return last < 0 ? 1 : (uint64_t)(b->to[last] - b->from[last]);
}

static void box_versions(const tile_box *b, uint64_t version)
{
    int64_t index[PTO_MAX_DIMS];
    const uint64_t n = box_row(b);
    memcpy(index, b->from, sizeof index);
    do {
        uint64_t *row = b->o->version + box_first(b, index);
        for (uint64_t i = 0; i < n; i++) {
            row[i] = version;
        }
    } while (box_next(b, index));
}

static void box_marks(const tile_box *b, uint32_t mark)
{
    int64_t index[PTO_MAX_DIMS];
    const uint64_t n = box_row(b);
    memcpy(index, b->from, sizeof index);
    do {
        uint32_t *row = b->o->mark + box_first(b, index);
        for (uint64_t i = 0; i < n; i++) {
            row[i] = mark;
        }
    } while (box_next(b, index));
}

/* Block-cyclic: some tile of the box belongs to the rank if that is so along each dim. */
static bool box_meets_cyclic(const tile_box *b, int rank)
{
    for (int32_t d = b->o->ndim - 1; d >= 0; d--) {
        const int64_t n = b->o->grid[d], at = rank % n, size = b->to[d] - b->from[d];
        rank /= (int)n;
        if (size < n && (at - b->from[d] % n + n) % n >= size) {
            return false;
        }
    }
    return true;
}

bool box_has(const tile_box *b, int rank)
{
    int64_t index[PTO_MAX_DIMS];
    if (b->o->grid[0]) {
        return box_meets_cyclic(b, rank);
    }
    const uint64_t n = box_row(b);
    memcpy(index, b->from, sizeof index);
    do {
        const int32_t *row = b->o->home + box_first(b, index);
        for (uint64_t i = 0; i < n; i++) {
            if (row[i] == rank) {
                return true;
            }
        }
    } while (box_next(b, index));
    return false;
}

/* A view that runs along the tensor, with steps of one: its tiles without its pieces. */
static bool straight_box(const object *o, const pto_tensor *t, tile_box *b)
{
    int64_t offset = t->offset;
    if (o->temp || t->ndim != o->ndim || offset < 0 || t->dtype != o->dtype) {
        return false;
    }
    for (int32_t d = 0; d < o->ndim; d++) {
        const int64_t c = offset / o->strides[d], end = c + t->shape[d];
        offset -= c * o->strides[d];
        if (t->shape[d] < 1 || (t->shape[d] > 1 && t->strides[d] != o->strides[d]) ||
            end > o->shape[d]) {
            return false;
        }
        b->from[d] = c / o->tile[d];
        b->to[d] = (end - 1) / o->tile[d] + 1;
    }
    return true;
}

pto_status box_of(world *w, const char *who, const pto_tensor *t, tile_box *b, uint32_t *n)
{
    piece first;
    view v;
    *n = 1;
    b->o = t ? object_find(w, t) : NULL;
    if (b->o && straight_box(b->o, t, b)) {
        return PTO_OK;
    }
    PTO_TRY(view_resolve(w, who, t, &first, &v));
    if (!v.o) {
        return pto_fail(PTO_BAD_PARAM, "%s: a parameter is not distributed", who);
    }
    for (uint32_t k = 0; k < v.n; k++) {
        int64_t index[PTO_MAX_DIMS] = {0};
        tile_index(v.o, v.pieces[k].tile, index);
        for (int32_t d = 0; d < v.o->ndim; d++) {
            b->from[d] = k && b->from[d] < index[d] ? b->from[d] : index[d];
            b->to[d] = k && b->to[d] > index[d] + 1 ? b->to[d] : index[d] + 1;
        }
    }
    *n = v.n;
    view_free(&v, &first);
    return PTO_OK;
}

static bool in_range(const world *w, int rank)
{
    for (uint32_t i = 0; i < w->only.n; i++) {
        if (box_has(&w->only.boxes[i], rank)) {
            return true;
        }
    }
    return false;
}

bool only_walks(const world *w, int rank)
{
    return !w->only.open || in_range(w, rank);
}

/* All tiles that the range may have written have one version, on all ranks. */
static void commit(world *w)
{
    const uint64_t version = w->only.step | STEP_INSIDE;
    for (uint32_t i = 0; i < w->only.n; i++) {
        if (w->only.boxes[i].writes) {
            box_versions(&w->only.boxes[i], version);
        }
    }
}

static pto_status mark(world *w)
{
    w->only.serial = (w->only.serial + 1) & (UINT32_MAX >> 1);
    for (uint32_t writes = 0; writes < 2; writes++) { /* a tile of two views may be written */
        for (uint32_t i = 0; i < w->only.n; i++) {
            const tile_box *b = &w->only.boxes[i];
            object *o = b->o;
            if (b->writes != writes) {
                continue;
            }
            if (!o->mark && !(o->mark = calloc((size_t)o->n_tiles, sizeof *o->mark))) {
                return pto_fail(PTO_OUT_OF_MEMORY, "mpi_only: %" PRId64 " tiles", o->n_tiles);
            }
            o->whole.mark = o->mark;
            box_marks(b, w->only.serial << 1 | writes);
        }
    }
    if (w->last) {
        w->whole = w->last->whole;
    }
    return PTO_OK;
}

static pto_status declare(world *w, const pto_param *params, size_t n)
{
    w->only.n = 0;
    if (n > ONLY_MOST) {
        return pto_fail(PTO_BAD_PARAM, "mpi_only: %zu parameters (at most %d)", n, ONLY_MOST);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t pieces;
        tile_box *b = &w->only.boxes[w->only.n];
        if (!is_tensor(&params[i])) {
            return pto_fail(PTO_BAD_PARAM, "mpi_only: parameter %zu is no tensor", i);
        }
        PTO_TRY(box_of(w, "mpi_only", params[i].tensor, b, &pieces));
        if (b->o->temp && b->o->home[0] < 0) {
            return pto_fail(PTO_NOT_WRITTEN,
                            "mpi_only: parameter %zu is a temporary that no task has written", i);
        }
        b->writes = writes(&params[i]);
        w->only.n += pieces != 0;
    }
    return PTO_OK;
}

bool pto_mpi_only_begin_at(pto_runtime *rt, const pto_param *params, size_t n, const char *file,
                           int line)
{
    world *w = world_of(rt);
    uint64_t hash = 41;
    if (!w || (n && !params) || world_check(w) != PTO_OK ||
        world_check_thread(w, "mpi_only") != PTO_OK) {
        return false; /* the next call says so */
    }
    w->file = file;
    w->line = line;
    if (w->only.open) {
        PTO_IGNORE(only_refuses(w, "mpi_only"));
        return false;
    }
    const pto_status status = declare(w, params, n);
    for (size_t i = 0; i < n; i++) {
        const pto_tensor *t = is_tensor(&params[i]) ? params[i].tensor : NULL;
        hash = t ? hash_param(hash, &params[i], view_hash(object_find(w, t), t)) : hash + 1;
    }
    w->only.step = history_step(w, hash, file, line);
    w->only.file = file;
    w->only.line = line;
    if (status != PTO_OK) {
        PTO_IGNORE(world_refused(w, status));
        return false;
    }
    if (!in_range(w, w->rank)) {
        commit(w);
        w->stats.skipped++;
        return false;
    }
    if (mark(w) != PTO_OK) {
        PTO_IGNORE(world_break(w, PTO_OUT_OF_MEMORY, "mpi_only: no memory"));
        return false;
    }
    w->only.open = true;
    w->only.hash = w->history.hash;
    w->history.stride = 1;
    return true;
}

/* The ranks of a range must have made the same calls there, and the others do not know these. So each one
 * compares itself with the next one, in a sum over all ranks that a wait looks at:
 *
 *     sum over i   hash[i] * (salt[next(i)] - salt[i])   =   sum over i   salt[next(i)] * (hash[i] - hash[next(i)])
 *
 * It is zero if all hashes of a range are equal, and else hardly ever. */
static void add_to_sum(world *w)
{
    int next = (w->rank + 1) % w->ranks;
    while (next != w->rank && !in_range(w, next)) {
        next = (next + 1) % w->ranks;
    }
    w->only.sum += w->history.hash * (hash_mix(w->only.step, (uint64_t)next) -
                                      hash_mix(w->only.step, (uint64_t)w->rank));
}

void pto_mpi_only_end_at(pto_runtime *rt, const char *file, int line)
{
    world *w = world_of(rt);
    if (!w || !w->only.open || world_check_thread(w, "mpi_only") != PTO_OK) {
        return;
    }
    history_step(w, 42, file, line); /* ranks that end it too early differ here */
    add_to_sum(w);
    w->history.step = w->only.step;
    w->history.hash = w->only.hash;
    w->history.stride = STEP_CALL;
    w->only.open = false;
    commit(w);
}

pto_status only_refuses(world *w, const char *who)
{
    if (!w->only.open) {
        return PTO_OK;
    }
    return world_refuse(w, PTO_BAD_SCOPE,
                        "%s: inside of the range of pto_mpi_only at %s:%d, which not all ranks "
                        "walk through",
                        who, w->only.file ? w->only.file : "?", w->only.line);
}

/* Whether a parameter of a task is covered by the declaration. */
static bool covered(const plan *p, uint32_t i)
{
    const view *v = &p->views[i];
    if (v->o->temp && v->o->born == p->w->only.step) {
        return true;
    }
    for (uint32_t k = 0; k < v->n; k++) {
        if (!v->o->mark || !only_allows(p->w, v->o->mark[v->pieces[k].tile], &p->params[i])) {
            return false;
        }
    }
    return true;
}

pto_status only_check(const plan *p, int rank, uint32_t distributed)
{
    const world *w = p->w;
    if (!w->only.open) {
        return PTO_OK;
    }
    if (!distributed) {
        return pto_fail(PTO_BAD_PARAM,
                        "mpi_submit: a task of all ranks inside of the range at %s:%d",
                        w->only.file ? w->only.file : "?", w->only.line);
    }
    if (rank >= 0 && rank < w->ranks && !only_walks(w, rank)) {
        return pto_fail(PTO_BAD_PARAM, "mpi_submit: rank %d owns nothing of the range at %s:%d",
                        rank, w->only.file ? w->only.file : "?", w->only.line);
    }
    if ((w->history.step & STEP_INSIDE) >= STEP_INSIDE - 2) {
        return pto_fail(PTO_TOO_LARGE, "mpi_submit: more than %d calls in one range",
                        (int)STEP_INSIDE - 2);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        if (is_tensor(&p->params[i]) && p->views[i].o && !covered(p, i)) {
            return pto_fail(PTO_BAD_PARAM,
                            "mpi_submit: parameter %u is %s in the range of pto_mpi_only at %s:%d",
                            i, writes(&p->params[i]) ? "not declared as written" : "not declared",
                            w->only.file ? w->only.file : "?", w->only.line);
        }
    }
    return PTO_OK;
}
