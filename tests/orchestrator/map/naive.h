/* naive.h - a TensorMap that is too simple to be wrong, to compare the real one with.
 *
 * A growing list of accesses, each with its bytes as a bitmap over one small memory. The rules are
 * those of pto/tensormap.h:
 *   - an access is live while its task's id is not below the watermark of its level;
 *   - a write drops every earlier access, whoever made it, whose bytes it contains;
 *   - a question names the live tasks whose accesses share a byte with it.
 *
 * Which answers are legal? The writers are settled. A read is *shadowed* when a live write of the
 * same task contains its bytes: whoever meets the read meets that write too, and whatever drops
 * the write would drop the read, so a map may forget the read or keep it. Such a reader may be
 * missing; every other one must be there, and nobody else may.
 *
 * Accesses that are submitted together have no order among themselves: a write of the same submit
 * shadows a read where a later write would drop it.
 */
#ifndef PTO_TEST_NAIVE_H
#define PTO_TEST_NAIVE_H

#include "answers.h"

#define NAIVE_BYTES 2048
#define NAIVE_WORDS (NAIVE_BYTES / 64)

typedef struct naive_bytes {
    uint64_t word[NAIVE_WORDS];
} naive_bytes;

typedef struct naive_access {
    pto_map_task task;
    pto_map_access kind;
    bool shadowed;
    int32_t space; /* which memory */
    naive_bytes bytes;
} naive_access;

typedef struct naive_map {
    naive_access *access; /* in order of insertion, without what was dropped or is dead */
    size_t count, room;
    pto_map_task *charged; /* a task for each access ever inserted, while it is live */
    size_t n_charged, charged_room;
    uint64_t watermark[PTO_MAP_MAX_LEVELS];
} naive_map;

/* An answer; `must` unless all it rests on is shadowed. */
typedef struct naive_answer {
    pto_map_hit hit;
    bool must;
    bool seen;
} naive_answer;

typedef struct naive_answers {
    naive_answer *answer;
    size_t count, room;
} naive_answers;

/* ---- Bytes ------------------------------------------------------------------------------- */

static inline void naive_mark(naive_bytes *b, uint64_t first, uint64_t count)
{
    if (first > NAIVE_BYTES || count > NAIVE_BYTES - first) {
        abort(); /* the test made a target outside of its memory */
    }
    for (uint64_t at = first; at < first + count; at++) {
        b->word[at / 64] |= UINT64_C(1) << (at % 64);
    }
}

/* Marks each element, one by one; `origin` is the address of byte 0. */
static inline void naive_mark_tensor(naive_bytes *b, const pto_tensor *t, uint64_t origin)
{
    const uint64_t size = answers_element(t->dtype);
    int64_t index[PTO_MAX_DIMS] = {0};
    for (int32_t d = 0; d < t->ndim; d++) {
        if (t->shape[d] == 0) {
            return;
        }
    }
    for (;;) {
        int64_t element = t->offset;
        for (int32_t d = 0; d < t->ndim; d++) {
            element += index[d] * t->strides[d];
        }
        naive_mark(b, (uint64_t)(uintptr_t)t->storage - origin + (uint64_t)element * size, size);
        int32_t d = t->ndim - 1;
        while (d >= 0 && ++index[d] == t->shape[d]) {
            index[d--] = 0;
        }
        if (d < 0) {
            return;
        }
    }
}

static inline bool naive_empty(const naive_bytes *b)
{
    for (size_t i = 0; i < NAIVE_WORDS; i++) {
        if (b->word[i]) {
            return false;
        }
    }
    return true;
}

static inline bool naive_meet(const naive_bytes *a, const naive_bytes *b)
{
    for (size_t i = 0; i < NAIVE_WORDS; i++) {
        if (a->word[i] & b->word[i]) {
            return true;
        }
    }
    return false;
}

static inline bool naive_contains(const naive_bytes *a, const naive_bytes *b)
{
    for (size_t i = 0; i < NAIVE_WORDS; i++) {
        if (b->word[i] & ~a->word[i]) {
            return false;
        }
    }
    return true;
}

/* ---- The list ---------------------------------------------------------------------------- */

static inline void *naive_grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count == *room) {
        *room = *room ? 2 * *room : 64;
        array = realloc(array, *room * size);
        if (!array) {
            abort();
        }
    }
    return array;
}

static inline void naive_free(naive_map *m)
{
    free(m->access);
    free(m->charged);
    *m = (naive_map){0};
}

static inline bool naive_live(const naive_map *m, pto_map_task task)
{
    return task.id >= m->watermark[task.level];
}

/* One access of a task. `together` is how many accesses of the same submit came before it. */
static inline void naive_insert(naive_map *m, int32_t space, const naive_bytes *bytes,
                                pto_map_access kind, pto_map_task task, size_t together)
{
    if (naive_empty(bytes)) {
        return;
    }
    bool shadowed = false;
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        naive_access *a = &m->access[i];
        const bool same_task = a->task.id == task.id;
        if (a->space == space && kind == PTO_MAP_WRITE && naive_contains(bytes, &a->bytes)) {
            if (!(together && same_task && a->kind == PTO_MAP_READ)) {
                continue;
            }
            a->shadowed = true;
        }
        if (a->space == space && kind == PTO_MAP_READ && same_task && a->kind == PTO_MAP_WRITE &&
            naive_contains(&a->bytes, bytes)) {
            shadowed = true;
        }
        m->access[kept++] = *a;
    }
    m->count = kept;
    m->access = naive_grow(m->access, m->count, &m->room, sizeof *m->access);
    m->access[m->count++] = (naive_access){task, kind, shadowed, space, *bytes};
    m->charged = naive_grow(m->charged, m->n_charged, &m->charged_room, sizeof *m->charged);
    m->charged[m->n_charged++] = task;
}

static inline void naive_retire(naive_map *m, uint32_t level, uint64_t oldest_alive)
{
    m->watermark[level] = oldest_alive;
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (naive_live(m, m->access[i].task)) {
            m->access[kept++] = m->access[i];
        }
    }
    m->count = kept;
    kept = 0;
    for (size_t i = 0; i < m->n_charged; i++) {
        if (naive_live(m, m->charged[i])) {
            m->charged[kept++] = m->charged[i];
        }
    }
    m->n_charged = kept;
}

/* Entries of a level that its live tasks can take at most, what was superseded included: a pool
 * that holds more than these has no right to be full. */
static inline size_t naive_charged(const naive_map *m, uint32_t level)
{
    size_t count = 0;
    for (size_t i = 0; i < m->n_charged; i++) {
        count += m->charged[i].level == level;
    }
    return count;
}

/* ---- Questions --------------------------------------------------------------------------- */

static inline void naive_answers_free(naive_answers *a)
{
    free(a->answer);
    *a = (naive_answers){0};
}

/* Adds to `out` what a question about the bytes must and may be answered, each task and kind once.
 * The accesses of task `self` are left out (0: of nobody). */
static inline void naive_ask(const naive_map *m, int32_t space, const naive_bytes *bytes,
                             bool readers, uint64_t self, naive_answers *out)
{
    for (size_t i = 0; i < m->count; i++) {
        const naive_access *a = &m->access[i];
        if (a->space != space || a->task.id == self || !naive_meet(&a->bytes, bytes) ||
            (a->kind == PTO_MAP_READ && !readers)) {
            continue;
        }
        size_t at = 0;
        while (at < out->count && (out->answer[at].hit.task.id != a->task.id ||
                                   out->answer[at].hit.access != a->kind)) {
            at++;
        }
        if (at == out->count) {
            out->answer = naive_grow(out->answer, out->count, &out->room, sizeof *out->answer);
            out->answer[out->count++] = (naive_answer){{a->task, a->kind, 0}, false, false};
        }
        out->answer[at].must = out->answer[at].must || !a->shadowed;
    }
}

/* Whether the hits are a legal answer. `once`: none may come twice. `exact`: nothing else may come
 * (not so where the map's budget ran out). What is wrong goes to `why`. */
static inline bool naive_accepts(const naive_map *m, naive_answers *want, const pto_map_hit *hits,
                                 size_t count, bool once, bool exact, char *why, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        const pto_map_hit *hit = &hits[i];
        const char *kind = hit->access == PTO_MAP_WRITE ? "writer" : "reader";
        size_t at = 0;
        while (at < want->count && (want->answer[at].hit.task.id != hit->task.id ||
                                    want->answer[at].hit.task.level != hit->task.level ||
                                    want->answer[at].hit.access != hit->access)) {
            at++;
        }
        if (hit->task.level >= PTO_MAP_MAX_LEVELS || !naive_live(m, hit->task)) {
            snprintf(why, size, "%s %" PRIu64 " of level %" PRIu32 " is dead", kind, hit->task.id,
                     hit->task.level);
            return false;
        }
        if (at == want->count && exact) {
            snprintf(why, size, "%s %" PRIu64 " of level %" PRIu32 " has nothing to do with it",
                     kind, hit->task.id, hit->task.level);
            return false;
        }
        if (at < want->count) {
            if (once && want->answer[at].seen) {
                snprintf(why, size, "%s %" PRIu64 " came twice", kind, hit->task.id);
                return false;
            }
            want->answer[at].seen = true;
        }
    }
    for (size_t at = 0; at < want->count; at++) {
        const naive_answer *a = &want->answer[at];
        if (a->must && !a->seen) {
            snprintf(why, size, "%s %" PRIu64 " of level %" PRIu32 " is missing",
                     a->hit.access == PTO_MAP_WRITE ? "writer" : "reader", a->hit.task.id,
                     a->hit.task.level);
            return false;
        }
    }
    return true;
}

#endif /* PTO_TEST_NAIVE_H */
