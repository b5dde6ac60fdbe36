/* test_declare.c - kernels that declare their parameters: what a declaration can say, where a bad
 * one is wrong, and which submits it refuses. */
#include "../runtime/rig.h"

#include <pto/work.h>

enum { SIDE = 4 };

/* A runtime with one more kernel, and tensors of several kinds. */
typedef struct world {
    rig r;
    pto_kernel kernel;
    float *f32_memory; /* SIDE x SIDE */
    double *f64_memory;
    pto_tensor f32_1, f32_2, f64_2;
} world;

static void start(world *w, void **state, const pto_config *config, const char *declaration)
{
    memset(w, 0, sizeof *w);
    rig_start(&w->r, state, config);
    pto_runtime *rt = w->r.rt;
    expect_ok(pto_kernel_register(rt, "k", PTO_VECTOR, rig_quick, NULL, &w->kernel));
    if (declaration) {
        expect_ok(pto_kernel_declare(rt, w->kernel, declaration));
    }
    w->f32_memory = rig_memory(&w->r, SIDE * SIDE * sizeof *w->f32_memory);
    w->f64_memory = rig_memory(&w->r, SIDE * SIDE * sizeof *w->f64_memory);
    expect_ok(pto_external_tensor(rt, w->f32_memory, PTO_FLOAT32, 1, DIMS(SIDE), &w->f32_1));
    expect_ok(pto_external_tensor(rt, w->f32_memory, PTO_FLOAT32, 2, DIMS(SIDE, SIDE), &w->f32_2));
    expect_ok(pto_external_tensor(rt, w->f64_memory, PTO_FLOAT64, 2, DIMS(SIDE, SIDE), &w->f64_2));
}

/* Submits from line 7 of "app.c". */
#define SUBMIT(w, ...)                                                                             \
    pto_submit_task_at((w)->r.rt, (w)->kernel, PTO_KERNEL_TYPE, (const pto_param[]){__VA_ARGS__},  \
                       sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), NULL,         \
                       "app.c", 7)
#define BARE(w)                                                                                    \
    pto_submit_task_at((w)->r.rt, (w)->kernel, PTO_KERNEL_TYPE, NULL, 0, NULL, "app.c", 7)
#define REFUSED(call, ...)                                                                         \
    expect_fail((call), PTO_MISMATCH, "(submit at app.c:7)", "'k'", __VA_ARGS__)

/* ---- What is refused ------------------------------------------------------------------------ */

/* Each of kind, dtype, ndim and count; and that nothing has happened. */
static void test_each_difference(void **state)
{
    world w;
    start(&w, state, NULL, "in f32[2] a, out f32[2], f64 alpha");
    const pto_param a = pto_input(&w.f32_2), b = pto_output(&w.f32_1), half = pto_scalar(0.5);
    const pto_param out = pto_output(&w.f32_2);
    REFUSED(SUBMIT(&w, pto_inout(&w.f32_2), out, half),
            "parameter 0 (a) is inout f32[2]:", "declares \"in f32[2] a\"");
    REFUSED(SUBMIT(&w, pto_input(&w.f64_2), out, half), "parameter 0 (a) is in f64[2]:");
    REFUSED(SUBMIT(&w, a, b, half), "parameter 1 is out f32[1]:", "declares \"out f32[2]\"");
    REFUSED(SUBMIT(&w, a, a, half), "parameter 1 is in f32[2]:");
    REFUSED(SUBMIT(&w, a, half, out), "parameter 1 is the scalar f64:");
    REFUSED(SUBMIT(&w, a, out, out), "parameter 2 (alpha) is out f32[2]:", "\"f64 alpha\"");
    REFUSED(SUBMIT(&w, a, out, pto_scalar(1)), "parameter 2 (alpha) is the scalar i64:");
    REFUSED(SUBMIT(&w, a, out), "parameter 2 (alpha) is missing", "declares 3",
            "\"in f32[2] a, out f32[2], f64 alpha\"");
    REFUSED(BARE(&w), "parameter 0 (a) is missing");
    REFUSED(SUBMIT(&w, a, out, half, half), "parameter 3 is one too many", "declares 3");
    assert_int_equal(rig_stats(&w.r).submitted, 0);
    expect_ok(SUBMIT(&w, a, out, half));
    rig_stop(&w.r);
}

/* A refused submit of a kernel that the fast path and inline execution know is refused as well. */
static void test_on_every_path(void **state)
{
    for (int inline_ns = 0; inline_ns < 2; inline_ns++) {
        world w;
        pto_config config = PTO_CONFIG_INIT;
        config.inline_ns = inline_ns ? 1000000 : PTO_NO_INLINE;
        config.guard = PTO_NO_GUARD; /* with guards there is no inline execution */
        start(&w, state, &config, "inout f32[2]");
        for (uint64_t i = 0; i < 200; i++) {
            expect_ok(SUBMIT(&w, pto_inout(&w.f32_2)));
            REFUSED(SUBMIT(&w, pto_inout(&w.f64_2)), "inout f64[2]");
            REFUSED(SUBMIT(&w, pto_inout(&w.f32_1)), "inout f32[1]");
            assert_int_equal(rig_stats(&w.r).submitted, i + 1);
        }
        rig_stop(&w.r);
    }
}

/* pto_after is no parameter of the kernel and pto_nodep is no other kind. Numbers in messages are
 * those of the submit. */
static void test_after_and_nodep(void **state)
{
    world w;
    start(&w, state, NULL, "in f32[2] a, i64 n");
    expect_ok(SUBMIT(&w, pto_nodep(pto_input(&w.f32_2)), pto_scalar(1)));
    const pto_param after = pto_after(pto_last_task(w.r.rt));
    expect_ok(SUBMIT(&w, after, pto_input(&w.f32_2), after, pto_scalar(1), after));
    REFUSED(SUBMIT(&w, after, pto_input(&w.f32_2), after, pto_scalar(1.0)), "parameter 3 (n)");
    REFUSED(SUBMIT(&w, after, pto_nodep(pto_input(&w.f64_2))), "parameter 1 (a)");
    REFUSED(SUBMIT(&w, pto_input(&w.f32_2), after), "parameter 2 (n) is missing");
    rig_stop(&w.r);
}

/* What every submit refuses is refused as ever. */
static void test_other_errors(void **state)
{
    world w;
    start(&w, state, NULL, "in f32[2] a");
    pto_param none = pto_input(&w.f32_2);
    none.kind = (pto_param_kind)55;
    expect_fail(SUBMIT(&w, none), PTO_BAD_PARAM, "55");
    expect_fail(SUBMIT(&w, pto_input(NULL)), PTO_NULL_ARGUMENT, "parameter 0");
    expect_fail(pto_submit_task(w.r.rt, w.kernel, PTO_KERNEL_TYPE, NULL, 3, NULL),
                PTO_NULL_ARGUMENT, "3");
    expect_fail(pto_submit_task(w.r.rt, w.kernel, PTO_CUBE, NULL, 0, NULL), PTO_BAD_WORKER,
                "is for vector workers, not for cube");
    expect_fail(pto_submit_task(w.r.rt, w.kernel, (pto_worker_type)99, NULL, 0, NULL),
                PTO_BAD_WORKER, "type 99 is no worker type");
    rig_stop(&w.r);
}

/* A submit without a file, as a binding may make it, and one with a very long one. */
static void test_any_file(void **state)
{
    world w;
    char path[600];
    memset(path, 'x', sizeof path);
    strcpy(path + sizeof path - 7, "/end.c");
    start(&w, state, NULL, "");
    const pto_param one = pto_scalar(1);
    pto_runtime *rt = w.r.rt;
    expect_fail(pto_submit_task_at(rt, w.kernel, PTO_KERNEL_TYPE, &one, 1, NULL, NULL, 0),
                PTO_MISMATCH, "parameter 0 is one too many: kernel 'k' declares 0");
    expect_fail(pto_submit_task_at(rt, w.kernel, PTO_KERNEL_TYPE, &one, 1, NULL, path, 9),
                PTO_MISMATCH, "xxx/end.c:9)");
    expect_ok(BARE(&w));
    rig_stop(&w.r);
}

/* ---- What can be said ----------------------------------------------------------------------- */

static void test_wildcards(void **state)
{
    world w;
    start(&w, state, NULL, "in any[2] a, in f32 b, in any c, any n");
    const pto_param f1 = pto_input(&w.f32_1), f2 = pto_input(&w.f32_2), d2 = pto_input(&w.f64_2);
    expect_ok(SUBMIT(&w, d2, f1, d2, pto_scalar(1)));
    expect_ok(SUBMIT(&w, f2, f2, f1, pto_scalar(0.5)));
    expect_ok(SUBMIT(&w, f2, f2, f1, pto_scalar_u64(1)));
    REFUSED(SUBMIT(&w, f1, f1, d2, pto_scalar(1)), "parameter 0 (a) is in f32[1]");
    REFUSED(SUBMIT(&w, d2, d2, d2, pto_scalar(1)), "parameter 1 (b) is in f64[2]");
    REFUSED(SUBMIT(&w, d2, f1, pto_output(&w.f64_2), pto_scalar(1)), "parameter 2 (c) is out");
    REFUSED(SUBMIT(&w, d2, f1, d2, d2), "parameter 3 (n) is in f64[2]");
    rig_stop(&w.r);
}

static void test_tails(void **state)
{
    world w;
    start(&w, state, NULL, "out f64[2] sum, in f32 parts ...");
    const pto_param sum = pto_output(&w.f64_2), part = pto_input(&w.f32_1);
    expect_ok(SUBMIT(&w, sum));
    expect_ok(SUBMIT(&w, sum, part));
    expect_ok(SUBMIT(&w, sum, part, part, part, part));
    REFUSED(SUBMIT(&w, sum, part, part, pto_scalar(1)), "parameter 3 (parts) is the scalar i64");
    REFUSED(SUBMIT(&w, part), "parameter 0 (sum)");
    rig_stop(&w.r);

    start(&w, state, NULL, "out f64[2] sum, ...");
    expect_ok(SUBMIT(&w, sum));
    expect_ok(SUBMIT(&w, sum, part, pto_scalar(1), sum));
    REFUSED(BARE(&w), "parameter 0 (sum) is missing");
    rig_stop(&w.r);

    start(&w, state, NULL, "...");
    expect_ok(BARE(&w));
    expect_ok(SUBMIT(&w, part, pto_scalar(1)));
    rig_stop(&w.r);
}

/* Every dtype and every number of dims has a word, and accepts itself alone. */
static void test_every_dtype(void **state)
{
    static const struct {
        pto_dtype dtype;
        const char *word;
    } words[] = {
        {PTO_FLOAT32, "f32"}, {PTO_FLOAT16, "f16"}, {PTO_INT32, "i32"},     {PTO_INT16, "i16"},
        {PTO_INT8, "i8"},     {PTO_UINT8, "u8"},    {PTO_BFLOAT16, "bf16"}, {PTO_INT64, "i64"},
        {PTO_UINT64, "u64"},  {PTO_FLOAT64, "f64"}, {PTO_BOOL, "bool"},
    };
    enum { WORDS = sizeof words / sizeof *words };
#define COUNT(name, value, text, bytes) +1
    assert_int_equal(WORDS, 0 PTO_DTYPE_MAP(COUNT));
#undef COUNT
    world w;
    start(&w, state, NULL, NULL);
    uint64_t *memory = rig_memory(&w.r, 16);
    for (int i = 0; i < WORDS; i++) {
        const int32_t ndim = i % (PTO_MAX_DIMS + 1);
        char text[32];
        snprintf(text, sizeof text, "in %s[%d]", words[i].word, ndim);
        expect_ok(pto_kernel_register(w.r.rt, "k", PTO_VECTOR, rig_quick, NULL, &w.kernel));
        expect_ok(pto_kernel_declare(w.r.rt, w.kernel, text));
        for (int j = 0; j < WORDS; j++) {
            pto_tensor t;
            expect_ok(pto_external_tensor(w.r.rt, memory, words[j].dtype, ndim,
                                          DIMS(1, 1, 1, 1, 1, 1, 1, 1), &t));
            if (i == j) {
                expect_ok(SUBMIT(&w, pto_input(&t)));
            } else {
                REFUSED(SUBMIT(&w, pto_input(&t)), words[i].word, words[j].word);
            }
        }
    }
    rig_stop(&w.r);
}

/* Spaces do not matter, and a name may be any word. */
static void test_spelling(void **state)
{
    static const char *const good[] = {
        "in f32[2] a, i64 n",       " in  f32 [ 2 ]a ,i64 n ", "\tin\nf32[2]  in,i64 in\n",
        "in f32[2]any,any f32 ...", "in f32[2],i64",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        world w;
        start(&w, state, NULL, good[i]);
        expect_ok(SUBMIT(&w, pto_input(&w.f32_2), pto_scalar(1)));
        REFUSED(SUBMIT(&w, pto_input(&w.f32_1), pto_scalar(1)), "parameter 0");
        rig_stop(&w.r);
    }
}

/* ---- Bad declarations ----------------------------------------------------------------------- */

#define PARAMETER "expected in, out, inout, i64, u64, f64, any or ..."

static void test_bad_declarations(void **state)
{
    static const struct {
        const char *text, *where, *why;
    } bad[] = {
        {"in f32[2] a, out f31[2], i64", "character 18, at \"f31[2], i64\"", "a data type is"},
        {"in f32[2] a, ", "character 14, at the end", PARAMETER},
        {",", "character 1, at \",\"", PARAMETER},
        {"..", "character 1, at \"..\"", PARAMETER},
        {"INPUT f32", "character 1, at \"INPUT f32\"", PARAMETER},
        {"in", "character 3, at the end", "a data type is"},
        {"f32 x", "character 1, at \"f32 x\"", "a scalar is i64, u64, f64 or any"},
        {"i64[2] x", "character 4, at \"[2] x\"", "a scalar has no dims"},
        {"in f32[9]", "character 8, at \"9]\"", "0 to 8"},
        {"in f32[12]", "character 8, at \"12]\"", "0 to 8"},
        {"in f32[", "character 8, at the end", "0 to 8"},
        {"in f32[]", "character 8, at \"]\"", "0 to 8"},
        {"in f32[-1]", "character 8, at \"-1]\"", "0 to 8"},
        {"in f32[2", "character 9, at the end", "a ] is expected"},
        {"in f32[2] a b", "character 13, at \"b\"", "a comma is expected"},
        {"in f32[2] 2a", "character 11, at \"2a\"", "a comma is expected"},
        {"in f32[2];i64", "character 10, at \";i64\"", "a comma is expected"},
        {"..., i64", "character 4, at \", i64\"", "nothing may follow"},
        {"in f32 a ... b", "character 14, at \"b\"", "nothing may follow"},
        {"in f32 a, ....", "character 14, at \".\"", "nothing may follow"},
        {"In f32", "character 1", PARAMETER},
        {"in f32[2] gr\xc3\xb6", "character 13, at \"\xc3\xb6\"",
         "names are ASCII letters, digits and _"},
        {"in f32[2] \xc3\xa9", "character 11, at \"\xc3\xa9\"",
         "names are ASCII letters, digits and _"},
        {"in f32[2] a, what is this doing here, in the middle of it",
         "at \"what is this doing here, in the middle o...\"", PARAMETER},
    };
    world w;
    start(&w, state, NULL, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_fail(pto_kernel_declare(w.r.rt, w.kernel, bad[i].text), PTO_BAD_DECLARATION,
                    "kernel 'k'", bad[i].where, bad[i].why);
        expect_ok(SUBMIT(&w, pto_scalar(1))); /* the kernel is as it was */
    }
    expect_fail(pto_kernel_declare(w.r.rt, w.kernel, NULL), PTO_NULL_ARGUMENT, "'k'");
    expect_fail(pto_kernel_declare(w.r.rt, 0, ""), PTO_BAD_KERNEL, "declare");
    expect_fail(pto_kernel_declare(w.r.rt, w.kernel + 1, ""), PTO_BAD_KERNEL, "declare");
    expect_fail(pto_kernel_declare(NULL, w.kernel, ""), PTO_NULL_ARGUMENT, "declare");
    rig_stop(&w.r);
}

/* A kernel is declared once, also after its first submit; others are not concerned. */
static void test_once(void **state)
{
    world w;
    start(&w, state, NULL, NULL);
    expect_ok(SUBMIT(&w, pto_scalar(1)));
    expect_ok(pto_kernel_declare(w.r.rt, w.kernel, "f64 x"));
    REFUSED(SUBMIT(&w, pto_scalar(1)), "parameter 0 (x) is the scalar i64");
    expect_fail(pto_kernel_declare(w.r.rt, w.kernel, "i64 x"), PTO_BAD_DECLARATION,
                "declared already, as \"f64 x\"");
    REFUSED(SUBMIT(&w, pto_scalar(1)), "parameter 0 (x) is the scalar i64");
    RIG_SUBMIT(&w.r, w.r.quick, pto_scalar(1));
    pto_work request = {.opcode = PTO_WORK_FILL, .n_outputs = 1, .outputs = &w.f32_1};
    expect_ok(pto_submit_work(w.r.rt, &request, NULL));
    rig_stop(&w.r);
}

int main(void)
{
    const rig_case cases[] = {
        RIG_CASE(test_each_difference),
        RIG_CASE(test_on_every_path),
        RIG_CASE(test_after_and_nodep),
        RIG_CASE(test_other_errors),
        RIG_CASE(test_any_file),
        RIG_CASE(test_wildcards),
        RIG_CASE(test_tails),
        RIG_CASE_SLOW(test_every_dtype),
        RIG_CASE_SLOW(test_spelling),
        RIG_CASE(test_bad_declarations),
        RIG_CASE(test_once),
    };
    return rig_run("declare", cases, sizeof cases / sizeof *cases);
}
