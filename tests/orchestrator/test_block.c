/* test_block.c - blocks of managed memory: random programs that open and end scopes, take memory in
 * every way, give it up in any order, and read it late. A model knows which blocks the scopes hold.
 *
 *   - Every reader finds the bytes that it was promised, however late it runs.
 *   - A stale handle is refused, a living one is not, nor is one that a task is asked for.
 *   - When a heap stalls, all blocks before the oldest that a scope holds are recycled, and only
 *     these.
 */
#include "../runtime/rig.h"

/* A kernel takes this long at most. */
#define LONGEST_US 300

enum { MOST_DEPTH = 7, MOST_BUFFERS = 4096, MOST_BLOCKS = 4096, HEAP = 8192 };

typedef struct model_scope {
    uint32_t lifetime; /* number of its lifetime; never used twice */
    uint32_t level;
} model_scope;

typedef struct model_block {
    uint64_t bytes;
    uint32_t live;
    uint32_t lifetime;
} model_block;

typedef struct model_buffer {
    pto_tensor t;
    uint32_t lifetime;
    uint32_t block, level; /* block 0: it has no memory yet */
    int64_t bytes;
    uint8_t value;
    bool given_up;
    bool frozen; /* an unordered reader: no writes any more */
    pto_task writer;
    pto_task bringer; /* the task that brought its memory in its own block; 0: none */
    uint32_t output;  /* of that task */
} model_buffer;

typedef struct model {
    rig r;
    test_rng rng;
    uint32_t levels;
    pto_kernel set, is; /* argument 0 becomes, or must be, argument 1 */
    model_scope scope[MOST_DEPTH];
    uint32_t depth, lifetimes;
    model_buffer buffer[MOST_BUFFERS];
    uint32_t n_buffers;
    model_block block[PTO_MAX_LEVELS][MOST_BLOCKS];
    uint32_t n_blocks[PTO_MAX_LEVELS];
    uint64_t stalls, stale, outputs, reads;
} model;

static uint32_t dice(model *m, uint32_t sides)
{
    return (uint32_t)test_between(&m->rng, 0, (int64_t)sides - 1);
}

static void linger(uint64_t us)
{
    if (us) {
        rig_sleep_us((uint32_t)us);
    }
}

static pto_status set(const pto_call *call)
{
    linger(call->args[call->n_args - 1].u64);
    for (uint32_t k = 0; k + 2 < call->n_args; k++) {
        const pto_arg *to = &call->args[k];
        for (int64_t i = 0, n = rig_numel(to); i < n; i++) {
            *rig_element(to, i) = (unsigned char)(call->args[call->n_args - 2].u64 + k);
        }
    }
    return PTO_OK;
}

static pto_status is(const pto_call *call)
{
    linger(call->args[2].u64);
    const pto_arg *of = &call->args[0];
    for (int64_t i = 0, n = rig_numel(of); i < n; i++) {
        if (*rig_element(of, i) != (unsigned char)call->args[1].u64) {
            return pto_fail(PTO_KERNEL_FAILED, "byte %d of %d is %d, not %d", (int)i, (int)n,
                            *rig_element(of, i), (int)call->args[1].u64);
        }
    }
    return PTO_OK;
}

/* How long a kernel takes: mostly no time. */
static pto_param rest(model *m)
{
    return pto_scalar((int64_t)(dice(m, 20) == 0 ? dice(m, LONGEST_US) : 0));
}

static bool is_open(const model *m, uint32_t lifetime)
{
    for (uint32_t i = 0; i < m->depth; i++) {
        if (m->scope[i].lifetime == lifetime) {
            return true;
        }
    }
    return false;
}

static bool is_alive(const model *m, const model_buffer *b)
{
    return !b->given_up && is_open(m, b->lifetime);
}

static uint32_t level_of(const model *m, uint32_t lifetime)
{
    for (uint32_t i = 0; i < m->depth; i++) {
        if (m->scope[i].lifetime == lifetime) {
            return m->scope[i].level;
        }
    }
    return 0;
}

/* A random buffer that is alive; NULL if a few attempts find none. */
static model_buffer *pick(model *m)
{
    for (int i = 0; i < 20 && m->n_buffers; i++) {
        const uint32_t few = m->n_buffers < 60 ? m->n_buffers : 60;
        model_buffer *b = &m->buffer[m->n_buffers - 1 - dice(m, few)];
        if (is_alive(m, b)) {
            return b;
        }
    }
    return NULL;
}

/* ---- Scopes ---- */

static void begin(model *m, bool boundary)
{
    if (m->depth == MOST_DEPTH) {
        return;
    }
    expect_ok(pto_scope_begin_ex(m->r.rt, boundary ? PTO_SCOPE_BOUNDARY : 0));
    model_scope *s = &m->scope[m->depth];
    if (m->depth == 0) {
        *s = (model_scope){++m->lifetimes, 0};
        s->level = boundary && m->levels > 1 ? 1 : 0;
    } else {
        *s = s[-1];
        if (boundary) {
            s->lifetime = ++m->lifetimes;
            s->level += s->level + 1 < m->levels;
        }
    }
    m->depth++;
}

static void end(model *m)
{
    expect_ok(pto_scope_end(m->r.rt));
    m->depth--;
}

/* ---- Memory ---- */

/* The bytes of the blocks of a level, from the first that a scope holds on. */
static uint64_t held_bytes(const model *m, uint32_t level)
{
    uint64_t bytes = 0;
    bool held = false;
    for (uint32_t i = 0; i < m->n_blocks[level]; i++) {
        const model_block *block = &m->block[level][i];
        held |= block->live && is_open(m, block->lifetime);
        bytes += held ? block->bytes : 0;
    }
    return bytes;
}

/* A stall is proved: nothing is left in the heap but what the scopes hold, and what lies behind it. */
static void stalled(model *m, uint32_t level)
{
    pto_stall_report report;
    expect_ok(pto_last_stall(m->r.rt, &report));
    assert_true(pto_refused(m->r.rt, NULL));
    assert_int_equal(report.level, level);
    assert_true(report.kind == PTO_STALL_SCOPE || report.kind == PTO_STALL_LEVELS);
    assert_int_equal(rig_ring(&m->r, level, PTO_RING_HEAP).used, held_bytes(m, level));
    m->stalls++;
}

static uint64_t lines(int64_t bytes)
{
    return ((uint64_t)bytes + 63) / 64 * 64;
}

static void bring(model *m, model_buffer *b, uint32_t level, uint32_t block)
{
    b->level = level;
    b->block = block;
    m->block[level][block - 1].live++;
    m->block[level][block - 1].bytes += lines(b->bytes);
}

static uint32_t new_block(model *m, uint32_t level, uint32_t lifetime)
{
    assert_true(m->n_blocks[level] < MOST_BLOCKS);
    m->block[level][m->n_blocks[level]++] = (model_block){.lifetime = lifetime};
    return m->n_blocks[level];
}

static model_buffer *new_buffer(model *m, bool at_once)
{
    static const int64_t sizes[] = {64, 100, 1, 500, 1024, 0};
    const int64_t bytes = sizes[dice(m, 6)];
    const model_scope *s = &m->scope[m->depth - 1];
    model_buffer *b = &m->buffer[m->n_buffers];
    *b = (model_buffer){.lifetime = s->lifetime, .bytes = bytes};
    assert_true(m->n_buffers < MOST_BUFFERS);
    const pto_status status = at_once ? pto_alloc(m->r.rt, PTO_UINT8, 1, DIMS(bytes), &b->t)
                                      : pto_temp(m->r.rt, PTO_UINT8, 1, DIMS(bytes), &b->t);
    if (status == PTO_STALLED) {
        pto_stall_report report;
        expect_ok(pto_last_stall(m->r.rt, &report));
        if (report.ring == PTO_RING_BUFFERS) {
            assert_true(pto_refused(m->r.rt, NULL));
        } else {
            stalled(m, s->level);
        }
        return NULL;
    }
    expect_ok(status);
    m->n_buffers++;
    if (at_once) {
        bring(m, b, s->level, new_block(m, s->level, b->lifetime));
    }
    return b;
}

static void write_in(model *m, model_buffer *b)
{
    unsigned char bytes[1024];
    b->value = (uint8_t)dice(m, 256);
    memset(bytes, b->value, sizeof bytes);
    const pto_status status = pto_write(m->r.rt, &b->t, bytes, sizeof bytes);
    if (status == PTO_STALLED) {
        stalled(m, level_of(m, b->lifetime));
        return;
    }
    expect_ok(status);
    if (!b->block) {
        const uint32_t level = level_of(m, b->lifetime);
        bring(m, b, level, new_block(m, level, b->lifetime));
    }
}

/* A task that writes up to three buffers, with or without memory, each of another lifetime maybe. */
static void write_by_task(model *m)
{
    model_buffer *of[3];
    pto_param params[5];
    uint32_t n = 0;
    for (uint32_t i = 0, most = 1 + dice(m, 3); i < most; i++) {
        model_buffer *b = pick(m);
        for (uint32_t k = 0; b && k < n; k++) {
            b = of[k] == b ? NULL : b;
        }
        if (b && !b->frozen) {
            params[n] = b->block && dice(m, 2) ? pto_inout(&b->t) : pto_output(&b->t);
            of[n++] = b;
        }
    }
    const uint8_t value = (uint8_t)dice(m, 256);
    params[n] = pto_scalar(value);
    params[n + 1] = rest(m);
    if (n == 0) {
        return;
    }
    pto_task task = 0;
    const pto_status status = pto_submit_task_at(m->r.rt, m->set, PTO_KERNEL_TYPE, params, n + 2,
                                                 &task, __FILE__, __LINE__);
    if (status == PTO_STALLED || status == PTO_TOO_LARGE) {
        pto_stall_report report;
        expect_ok(pto_last_stall(m->r.rt, &report));
        stalled(m, report.level);
        return;
    }
    expect_ok(status);
    /* Buffers of outer lifetimes first, each with a block of its own. */
    const model_scope *s = &m->scope[m->depth - 1];
    uint32_t own = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!of[i]->block && of[i]->lifetime != s->lifetime) {
            const uint32_t level = level_of(m, of[i]->lifetime);
            bring(m, of[i], level, new_block(m, level, of[i]->lifetime));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!of[i]->block) {
            own = own ? own : new_block(m, s->level, s->lifetime);
            bring(m, of[i], s->level, own);
            of[i]->bringer = task;
            of[i]->output = i;
        }
        of[i]->value = (uint8_t)(value + i);
        of[i]->writer = task;
    }
}

static void read_by_task(model *m)
{
    model_buffer *b = pick(m);
    if (!b || !b->block || !b->bytes) {
        return;
    }
    pto_tensor t = b->t;
    if (dice(m, 3) == 0) {
        t = rig_slice(&t, b->bytes - 1 - dice(m, (uint32_t)b->bytes), b->bytes);
    } else if (dice(m, 4) == 0) {
        expect_ok(pto_tensor_slice(&b->t, 0, b->bytes - 1, -1, -1, &t));
    }
    m->reads++;
    if (b->writer && dice(m, 4) == 0) {
        b->frozen = true;
        RIG_SUBMIT(&m->r, m->is, pto_nodep(pto_input(&t)), pto_scalar(b->value), rest(m),
                   pto_after(b->writer));
    } else {
        RIG_SUBMIT(&m->r, m->is, pto_input(&t), pto_scalar(b->value), rest(m));
    }
}

static void give_up(model *m)
{
    model_buffer *b = pick(m);
    if (b) {
        expect_ok(pto_release(m->r.rt, &b->t));
        b->given_up = true;
        if (b->block) {
            m->block[b->level][b->block - 1].live--;
        }
    }
}

static void use_stale(model *m)
{
    const uint32_t few = m->n_buffers < 200 ? m->n_buffers : 200;
    const model_buffer *b = few ? &m->buffer[m->n_buffers - 1 - dice(m, few)] : NULL;
    if (b && !is_alive(m, b)) {
        void *address;
        expect_fail(pto_submit(m->r.rt, m->set, pto_output(&b->t), pto_scalar(1), pto_scalar(0)),
                    PTO_STALE, "not alive");
        expect_fail(pto_get_buffer_addr(m->r.rt, &b->t, &address), PTO_STALE, "not alive");
        expect_fail(pto_release(m->r.rt, &b->t), PTO_STALE, "not alive");
        m->stale++;
    }
}

/* What a task has brought is known while it lives, however long ago the task ended. */
static void ask_for_output(model *m)
{
    const model_buffer *b = pick(m);
    if (b && b->bringer) {
        pto_tensor t;
        expect_ok(pto_task_get_output(m->r.rt, b->bringer, b->output, &t));
        assert_int_equal(t.owner, b->t.owner);
        assert_int_equal(t.generation, b->t.generation);
        assert_int_equal(t.shape[0], b->bytes);
        m->outputs++;
    }
}

static void read_here(model *m)
{
    const model_buffer *b = pick(m);
    unsigned char got[1024];
    if (b && b->block) {
        expect_ok(pto_read(m->r.rt, &b->t, got, sizeof got));
        for (int64_t i = 0; i < b->bytes && (b->writer || b->value); i++) {
            assert_int_equal(got[i], b->value);
        }
    }
}

static void step(model *m)
{
    const uint32_t roll = dice(m, 100);
    if (m->depth == 0 || roll < 8) {
        begin(m, dice(m, 2) == 0);
    } else if (roll < 16) {
        end(m);
    } else if (roll < 36) {
        (void)new_buffer(m, false);
    } else if (roll < 42) {
        model_buffer *b = new_buffer(m, true);
        if (b) {
            write_in(m, b);
        }
    } else if (roll < 46) {
        model_buffer *b = pick(m);
        if (b && !b->frozen) {
            write_in(m, b);
        }
    } else if (roll < 66) {
        write_by_task(m);
    } else if (roll < 82) {
        read_by_task(m);
    } else if (roll < 92) {
        give_up(m);
    } else if (roll < 95) {
        use_stale(m);
    } else if (roll < 98) {
        ask_for_output(m);
    } else {
        read_here(m);
    }
}

static void test_random_lives(void **state)
{
    uint64_t stalls = 0;
    for (uint64_t round = 0; round < test_effort(12); round++) {
        model *m = calloc(1, sizeof *m);
        assert_non_null(m);
        m->rng = test_rng_make(test_seed() + (round << 32));
        pto_config config = PTO_CONFIG_INIT;
        m->levels = config.levels = 1 + (uint32_t)round % 3;
        config.heap_bytes = HEAP;
        config.ring_tasks = 16;
        config.buffers = 16u << dice(m, 3);
        config.inline_ns = dice(m, 2) ? 1000000 : PTO_NO_INLINE;
        config.guard = dice(m, 4) == 0;
        rig_start(&m->r, state, &config);
        expect_ok(pto_kernel_register(m->r.rt, "set", PTO_VECTOR, set, NULL, &m->set));
        expect_ok(pto_kernel_register(m->r.rt, "is", PTO_VECTOR, is, NULL, &m->is));
        for (int i = 0; i < 2000; i++) {
            step(m);
        }
        while (m->depth) {
            end(m);
        }
        expect_ok(pto_wait(m->r.rt));
        for (uint32_t l = 0; l < m->levels; l++) {
            assert_int_equal(rig_ring(&m->r, l, PTO_RING_HEAP).used, 0);
        }
        assert_true(m->reads && m->stale && m->outputs); /* or it tests nothing */
        stalls += m->stalls;
        rig_stop(&m->r);
        free(m);
    }
    assert_true(stalls);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_random_lives),
    };
    return rig_run("block", cases, sizeof cases / sizeof *cases);
}
