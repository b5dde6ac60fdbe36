/* test_trace_file.c - trace files: version 1 stays readable; damaged, truncated, foreign or
 * newer files are refused with a message; every format has the right contents. */
#define _GNU_SOURCE /* open_memstream, mkdtemp */
#include "traces.h"

#include <libgen.h>

#include <pto/trace.h>

#include "observe/export.h"
#include "observe/rows.h"

/* tests/data/v1.ptrace: the program of write_golden below, as version 1 was written. */
static const char *golden(char path[512])
{
    char here[256];
    snprintf(here, sizeof here, "%s", __FILE__);
    snprintf(path, 512, "%s/../data/v1.ptrace", dirname(here));
    return path;
}

/* ---- How it came to be ---- */

/* A kernel whose name needs care in every format. A runtime stores control characters as '?' today;
 * files from before have them. */
#define NASTY "na\"st\\y\n\xff<\xe2\x82\xac>"
#define NASTY_NOW "na\"st\\y?\xff<\xe2\x82\xac>"

/* A task, submitted at this line of a fixed file name. */
#define GOLDEN(line, kernel, ...)                                                                  \
    rig_submit(&r, (kernel), (const pto_param[]){__VA_ARGS__},                                     \
               sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), "golden.c", (line))

/* With a name as argument, the program writes the trace of the golden file, to compare it or to
 * make one of a later version. */
static void write_golden(const char *path)
{
    static char x[8], y[8];
    static rig_setup setup = {"golden", PTO_PLACE_THREAD, 0, 1};
    void *state = &setup;
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.trace = path;
    config.ring_tasks = 2;
    config.workers = PTO_NO_WORKERS;
    rig_start(&r, &state, &config);
    pto_kernel nasty;
    expect_ok(pto_kernel_register(r.rt, NASTY, PTO_CUBE, rig_quick, NULL, &nasty));
    pto_tensor tx = rig_bytes(&r, x, 8), ty = rig_bytes(&r, y, 8);
    const pto_tensor low = rig_slice(&tx, 0, 4);
    const pto_task first = GOLDEN(1, r.quick, pto_output(&tx), pto_scalar(5));
    GOLDEN(2, r.fails, pto_input(&tx), pto_output(&ty));
    GOLDEN(3, nasty, pto_inout(&low), pto_after(first));
    GOLDEN(4, r.quick, pto_input(&ty));
    expect_ok(pto_scope_begin_at(r.rt, 0, "golden.c", 5));
    pto_tensor temp = rig_temp(&r, 64);
    const pto_task last = GOLDEN(6, r.quick, pto_output(&temp));
    expect_ok(pto_wait_task(r.rt, last));
    expect_ok(pto_scope_end(r.rt));
    assert_int_equal(pto_runtime_destroy(&r.rt, PTO_WAIT), PTO_TASK_FAILED);
    rig_forget_gate(&r);
}

/* With a name and one more argument: a run with pending tasks, whose threads continue meanwhile. */
static void write_pending(const char *path)
{
    static char x[4][8];
    static rig_setup setup = {"pending", PTO_PLACE_INLINE, 0, 1};
    void *state = &setup;
    rig r;
    pto_config config = PTO_CONFIG_INIT;
    config.trace = path;
    config.workers = PTO_NO_WORKERS;
    rig_start(&r, &state, &config);
    pto_task held[3];
    for (int i = 0; i < 3; i++) {
        const pto_tensor tx = rig_bytes(&r, x[i], 8), last = rig_bytes(&r, x[3], 8);
        held[i] = GOLDEN(1 + i, r.hold, pto_output(&tx));
        GOLDEN(4, r.quick, pto_input(&tx), pto_output(&last));
    }
    for (int i = 0; i < 3; i++) { /* they begin in a wait, and go on after it */
        const pto_task quick = GOLDEN(5, r.quick, pto_scalar(i));
        expect_ok(pto_wait_task(r.rt, quick));
        rig_sleep_us(10);
    }
    for (int i = 0; i < 3; i++) {
        rig_finish(&r, held[i], PTO_OK);
    }
    expect_ok(pto_runtime_destroy(&r.rt, PTO_WAIT));
    rig_forget_gate(&r);
}

static void check_golden_named(const ptoi_ptrace *t, const char *nasty)
{
    static const uint8_t outcomes[] = {PTRACE_DONE, PTRACE_FAILED, PTRACE_DONE, PTRACE_SKIPPED,
                                       PTRACE_DONE};
    static const struct {
        uint32_t from, to, kind;
    } edges[] = {{0, 1, PTRACE_RAW}, {0, 2, PTRACE_RAW}, {1, 2, PTRACE_WAR}, {1, 3, PTRACE_RAW}};
    assert_int_equal(t->n_tasks, 5);
    assert_int_equal(t->n_edges, 4);
    assert_int_equal(t->lost, 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(t->tasks[i].outcome, outcomes[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(t->edges[i].from, edges[i].from);
        assert_int_equal(t->edges[i].to, edges[i].to);
        assert_int_equal(t->edges[i].kind, edges[i].kind);
    }
    assert_string_equal(ptoi_ptrace_kernel(t, &t->tasks[2]), nasty);
    assert_string_equal(ptoi_ptrace_file(t, &t->tasks[2]), "golden.c");
    assert_int_equal(ptoi_ptrace_line(t, &t->tasks[2]), 3);
    assert_int_equal(t->args[t->tasks[0].first_arg + 1].where, 5);
    assert_int_equal(t->args[t->tasks[4].first_arg].segment, 0);
    traces_check_times(t);
}

static void check_golden(const ptoi_ptrace *t)
{
    check_golden_named(t, NASTY);
}

static void test_the_first_version_is_read_for_ever(void **state)
{
    char path[512], now[128];
    ptoi_ptrace t;
    (void)state;
    expect_ok(ptoi_ptrace_open(golden(path), &t));
    check_golden(&t);
    ptoi_ptrace_close(&t);
    /* The same program still leaves the same trace. */
    write_golden(traces_path("now.ptrace", now));
    expect_ok(ptoi_ptrace_open(now, &t));
    check_golden_named(&t, NASTY_NOW);
    ptoi_ptrace_close(&t);
}

/* ---- Damage ---- */

/* Reads everything in a trace. */
static void use(const ptoi_ptrace *t)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(ptoi_export_json(t, out), 0);
    assert_int_equal(ptoi_export_dot(t, out), 0);
    assert_int_equal(ptoi_export_ptrace(t, out), 0);
    fclose(out);
    assert_true(n > 0);
    free(text);
    for (uint64_t i = 0; i < t->n_tasks; i++) {
        assert_true(t->tasks[i].lane == PTRACE_NONE || t->tasks[i].lane < t->n_lanes);
    }
    for (uint64_t i = 0; i < t->n_events; i++) {
        assert_true(t->events[i].lane < t->n_lanes);
    }
}

static void test_any_byte_may_be_wrong(void **state)
{
    static const unsigned char flips[] = {0xff, 0x01, 0x80, 0x10};
    char path[512];
    size_t n, refused = 0;
    ptoi_ptrace t;
    (void)state;
    write_golden(traces_path("now.ptrace", path)); /* it has more sections than the golden file */
    char *bytes = traces_bytes(path, &n);
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < sizeof flips; f++) {
            bytes[i] = (char)(bytes[i] ^ flips[f]);
            const pto_status status = ptoi_ptrace_parse("damaged", bytes, n, &t);
            bytes[i] = (char)(bytes[i] ^ flips[f]);
            if (status == PTO_OK) {
                use(&t);
                ptoi_ptrace_close(&t);
            } else {
                assert_int_equal(status, PTO_BAD_FILE);
                assert_non_null(strstr(pto_error_detail(), "damaged"));
                refused++;
            }
        }
    }
    assert_true(refused > n / 4); /* of four times as many */
    free(bytes);
}

static void test_it_may_end_anywhere(void **state)
{
    char path[512];
    size_t n;
    ptoi_ptrace t;
    (void)state;
    char *bytes = traces_bytes(golden(path), &n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ptoi_ptrace_parse("cut", bytes, i, &t), PTO_BAD_FILE);
    }
    bytes = realloc(bytes, n + 1);
    bytes[n] = 0;
    assert_int_equal(ptoi_ptrace_parse("long", bytes, n + 1, &t), PTO_BAD_FILE);
    free(bytes);
}

static void test_refused_in_words(void **state)
{
    char path[512], other[128];
    size_t n;
    ptoi_ptrace t;
    uint32_t version = 2;
    (void)state;
    expect_fail(ptoi_ptrace_open("/nowhere", &t), PTO_SYSTEM, "/nowhere", "No such file");
    expect_fail(ptoi_ptrace_open("/", &t), PTO_SYSTEM, "'/'", "directory");
    expect_fail(ptoi_ptrace_open(__FILE__, &t), PTO_BAD_FILE, "test_trace_file.c", "no trace");
    expect_fail(ptoi_ptrace_open("/dev/null", &t), PTO_BAD_FILE, "/dev/null", "no trace");
    expect_fail(ptoi_ptrace_open("/dev/zero", &t), PTO_BAD_FILE, "/dev/zero", "no trace");
    char *bytes = traces_bytes(golden(path), &n);
    memcpy(bytes + 8, &version, sizeof version);
    expect_fail(ptoi_ptrace_parse("new", bytes, n, &t), PTO_BAD_FILE, "version 2", "version 1");
    free(bytes);
    expect_fail(pto_trace_convert(NULL, "x.json"), PTO_NULL_ARGUMENT, "from");
    expect_fail(pto_trace_convert("x.ptrace", NULL), PTO_NULL_ARGUMENT, "to");
    expect_fail(pto_trace_convert(path, "x.txt"), PTO_BAD_PARAM, "x.txt", ".json");
    expect_fail(pto_trace_convert(path, "/nowhere/x.json"), PTO_SYSTEM, "/nowhere/x.json");
    /* A file that cannot be read leaves the output file unchanged. */
    traces_path("kept.json", other);
    FILE *file = fopen(other, "w");
    assert_non_null(file);
    fputs("kept", file);
    fclose(file);
    expect_fail(pto_trace_convert(__FILE__, other), PTO_BAD_FILE, "no trace");
    bytes = traces_bytes(other, &n);
    assert_string_equal(bytes, "kept");
    free(bytes);
}

/* Lifetimes come after the sections that every file has. */
static void test_lifetimes_are_kept_and_checked(void **state)
{
    static const ptrace_life lives[] = {
        {.at = 10, .kind = PTRACE_SCOPED},
        {.at = 20, .task = 5, .bytes = 64, .buffer = 3, .level = 1, .kind = PTRACE_MEMORY},
        {.at = 30, .task = 7, .level = PTO_MAX_LEVELS - 1, .kind = PTRACE_RELEASED},
        {.at = 40, .kind = PTRACE_UNSCOPED},
    };
    char path[512], *text = NULL;
    size_t n = 0;
    ptoi_ptrace t, again;
    (void)state;
    expect_ok(ptoi_ptrace_open(golden(path), &t));
    assert_int_equal(t.n_lives, 0); /* a file from before there were any */
    t.lives = lives;
    t.n_lives = sizeof lives / sizeof *lives;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(ptoi_export_ptrace(&t, out), 0);
    fclose(out);
    expect_ok(ptoi_ptrace_parse("lives", text, n, &again));
    check_golden(&again);
    assert_int_equal(again.n_lives, t.n_lives);
    assert_memory_equal(again.lives, lives, sizeof lives);
    const size_t at = n - sizeof lives + sizeof *lives; /* of the second: it is the last section */
    ptoi_ptrace_close(&again);
    text[at + offsetof(ptrace_life, level)] = PTO_MAX_LEVELS;
    expect_fail(ptoi_ptrace_parse("level", text, n, &again), PTO_BAD_FILE, "LIVES", "1");
    text[at + offsetof(ptrace_life, level)] = 1;
    text[at + offsetof(ptrace_life, kind)] = PTRACE_LIFE_KINDS;
    expect_fail(ptoi_ptrace_parse("kind", text, n, &again), PTO_BAD_FILE, "LIVES", "1");
    free(text);
    ptoi_ptrace_close(&t);
}

/* Failures, labels and ranges of the trace that is recorded now. */
static void test_failures_are_kept_and_checked(void **state)
{
    char path[128], *text = NULL;
    size_t n = 0;
    ptoi_ptrace t, again;
    (void)state;
    write_golden(traces_path("now.ptrace", path));
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_int_equal(t.n_failures, 2);
    ptrace_failure wrong[2] = {t.failures[0], t.failures[1]};
    const ptrace_label labels[] = {{1, 0}, {3, t.kernels[0].name}};
    ptrace_range ranges[] = {{1, 9, t.kernels[0].name, PTRACE_NONE, 0, 3},
                             {2, PTRACE_UNKNOWN, 0, 0, 1, 2}};
    const struct {
        uint32_t *field, value;
        const char *words;
    } cases[] = {
        {&wrong[0].task, wrong[0].task, NULL},
        {&wrong[0].task, (uint32_t)t.n_tasks, "task"},
        {&wrong[0].words, (uint32_t)t.n_strings, "words"},
        {&wrong[0].name, (uint32_t)t.n_strings, "name"},
        {&wrong[1].cause, (uint32_t)t.n_tasks, "cause"},
        {&wrong[1].edge, (uint32_t)t.n_edges, "edge"},
        {&wrong[1].task, wrong[0].task, "task"},
        {&ranges[1].parent, 1, "parent"},
        {&ranges[1].name, (uint32_t)t.n_strings, "name"},
        {&ranges[1].tasks, (uint32_t)t.n_tasks, "first_task + tasks"},
    };
    t.failures = wrong;
    t.labels = labels;
    t.n_labels = 2;
    t.ranges = ranges;
    t.n_ranges = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t was = *cases[i].field;
        *cases[i].field = cases[i].value;
        FILE *out = open_memstream(&text, &n);
        assert_non_null(out);
        assert_int_equal(ptoi_export_ptrace(&t, out), 0);
        fclose(out);
        *cases[i].field = was;
        if (cases[i].words) {
            expect_fail(ptoi_ptrace_parse("bad", text, n, &again), PTO_BAD_FILE, cases[i].words);
        } else {
            expect_ok(ptoi_ptrace_parse("good", text, n, &again));
            assert_int_equal(again.n_labels, 2);
            assert_string_equal(ptoi_ptrace_label(&again, 3),
                                ptoi_ptrace_string(&t, labels[1].text));
            assert_string_equal(ptoi_ptrace_label(&again, 2), "");
            assert_memory_equal(again.ranges, ranges, sizeof ranges);
            ptoi_ptrace_close(&again);
        }
        free(text);
    }
    ptoi_ptrace_close(&t);
}

/* JSON and dot say why tasks failed and were skipped. */
static void test_failures_are_shown(void **state)
{
    char from[128], to[128];
    size_t n;
    (void)state;
    write_golden(traces_path("now.ptrace", from));
    expect_ok(pto_trace_convert(from, traces_path("now.json", to)));
    char *text = traces_bytes(to, &n);
    assert_non_null(strstr(text, "\"status\":\"PTO_KERNEL_FAILED\",\"error\":\"no luck\""));
    assert_non_null(strstr(text, ",\"cause\":1,\"waited_ns\":"));
    assert_non_null(strstr(text, "\"cname\":\"terrible\""));
    free(text);
    expect_ok(pto_trace_convert(from, traces_path("now.dot", to)));
    text = traces_bytes(to, &n);
    assert_non_null(strstr(text, "failed: PTO_KERNEL_FAILED\\nno luck\""));
    assert_non_null(strstr(text, "skipped because of 1\""));
    free(text);
}

/* ---- What a later version may add ---- */

static void test_larger_items_and_unknown_sections_are_passed_over(void **state)
{
    char path[512], *later = NULL;
    size_t n, n_later = 0;
    (void)state;
    ptoi_ptrace t;
    char *bytes = traces_bytes(golden(path), &n);
    ptrace_header header;
    memcpy(&header, bytes, sizeof header);
    ptrace_section table[PTRACE_FIRST_SECTIONS + 1];
    assert_int_equal(header.sections, PTRACE_FIRST_SECTIONS);
    memcpy(table, bytes + header.sections_at, PTRACE_FIRST_SECTIONS * sizeof *table);
    FILE *out = open_memstream(&later, &n_later);
    assert_non_null(out);
    /* The old bytes stay; tasks and edges follow again, eight bytes larger, then a new section. */
    (void)fwrite(bytes, 1, n, out);
    uint64_t at = n;
    for (uint32_t s = 0; s < PTRACE_FIRST_SECTIONS; s++) {
        if (table[s].kind != PTRACE_TASKS && table[s].kind != PTRACE_EDGES) {
            continue;
        }
        const uint64_t old = table[s].at;
        table[s].at = at;
        for (uint64_t i = 0; i < table[s].count; i++) {
            (void)fwrite(bytes + old + i * table[s].item_bytes, 1, table[s].item_bytes, out);
            (void)fwrite("new word", 1, 8, out);
            at += table[s].item_bytes + 8;
        }
        table[s].item_bytes += 8;
        for (; at % 8; at++) {
            fputc(0, out);
        }
    }
    table[PTRACE_FIRST_SECTIONS] = (ptrace_section){4711, 3, at, UINT64_MAX};
    header.sections = PTRACE_FIRST_SECTIONS + 1;
    header.sections_at = at;
    header.bytes = at + sizeof table;
    (void)fwrite(table, 1, sizeof table, out);
    fclose(out);
    memcpy(later, &header, sizeof header);
    expect_ok(ptoi_ptrace_parse("later", later, n_later, &t));
    check_golden(&t);
    use(&t);
    ptoi_ptrace_close(&t);
    /* Smaller ones are refused. */
    table[0].item_bytes = 0;
    memcpy(later + header.sections_at, table, sizeof table);
    expect_fail(ptoi_ptrace_parse("small", later, n_later, &t), PTO_BAD_FILE, "META", "0 bytes");
    free(later);
    free(bytes);
}

/* Each required section in turn is replaced by an unknown one; and the count of lost tasks does not
 * match the sum over the threads. */
static void test_missing_sections_are_reported(void **state)
{
    char path[512];
    size_t n;
    ptoi_ptrace t;
    ptrace_header header;
    (void)state;
    char *bytes = traces_bytes(golden(path), &n);
    memcpy(&header, bytes, sizeof header);
    for (uint32_t i = 0; i < header.sections; i++) {
        char *at = bytes + header.sections_at + i * sizeof(ptrace_section);
        ptrace_section section;
        memcpy(&section, at, sizeof section);
        const uint32_t kind = section.kind;
        section.kind = 4711;
        memcpy(at, &section, sizeof section);
        if (kind <= PTRACE_FIRST_SECTIONS) {
            expect_fail(ptoi_ptrace_parse("less", bytes, n, &t), PTO_BAD_FILE, "section",
                        "is missing");
        }
        section.kind = kind;
        memcpy(at, &section, sizeof section);
    }
    header.lost = UINT64_MAX;
    memcpy(bytes, &header, sizeof header);
    expect_fail(ptoi_ptrace_parse("lost", bytes, n, &t), PTO_BAD_FILE, "18446744073709551615",
                "lost 0");
    free(bytes);
}

/* ---- JSON, checked by a strict parser ---- */

typedef struct json {
    const char *at;
    uint32_t depth, phases[128];
} json;

static void json_value(json *j);

static void json_space(json *j)
{
    j->at += strspn(j->at, " \t\r\n");
}

static void json_sign(json *j, char sign)
{
    json_space(j);
    if (*j->at != sign) {
        fail_msg("JSON: '%c' wanted before: %.40s", sign, j->at);
    }
    j->at++;
}

static void json_string(json *j, char *text, size_t size)
{
    size_t n = 0;
    json_sign(j, '"');
    for (; *j->at != '"'; j->at++) {
        assert_true((unsigned char)*j->at >= 0x20);
        if (*j->at == '\\') {
            j->at++;
            assert_non_null(strchr("\"\\/bfnrtu", *j->at));
            if (*j->at == 'u') {
                assert_int_equal(strspn(j->at + 1, "0123456789abcdefABCDEF") >= 4, true);
                j->at += 4;
            }
        } else if ((unsigned char)*j->at >= 0x80) {
            assert_true((unsigned char)*j->at < 0xf8);
        }
        if (n + 1 < size) {
            text[n++] = *j->at;
        }
    }
    text[n] = '\0';
    j->at++;
}

static void json_object(json *j)
{
    char key[32], value[32];
    json_sign(j, '{');
    json_space(j);
    if (*j->at == '}') {
        j->at++;
        return;
    }
    for (;;) {
        json_space(j);
        json_string(j, key, sizeof key);
        json_sign(j, ':');
        json_space(j);
        if (strcmp(key, "ph") == 0) {
            json_string(j, value, sizeof value);
            assert_int_equal(strlen(value), 1);
            j->phases[(unsigned char)value[0] & 127]++;
        } else {
            json_value(j);
        }
        json_space(j);
        if (*j->at == '}') {
            j->at++;
            return;
        }
        json_sign(j, ',');
    }
}

static void json_number(json *j)
{
    j->at += *j->at == '-';
    const size_t digits = strspn(j->at, "0123456789");
    assert_true(digits > 0 && (digits == 1 || *j->at != '0'));
    j->at += digits;
    if (*j->at == '.') {
        const size_t more = strspn(j->at + 1, "0123456789");
        assert_true(more > 0);
        j->at += 1 + more;
    }
}

static void json_value(json *j)
{
    char text[32];
    assert_true(++j->depth < 8);
    json_space(j);
    if (*j->at == '{') {
        json_object(j);
    } else if (*j->at == '[') {
        do {
            j->at++;
            json_value(j);
            json_space(j);
        } while (*j->at == ',');
        json_sign(j, ']');
    } else if (*j->at == '"') {
        json_string(j, text, sizeof text);
    } else {
        json_number(j);
    }
    j->depth--;
}

static void test_json_is_json(void **state)
{
    char from[512], to[128];
    size_t n;
    json j = {.depth = 0};
    ptoi_ptrace t;
    (void)state;
    expect_ok(pto_trace_convert(golden(from), traces_path("golden.json", to)));
    char *text = traces_bytes(to, &n);
    assert_int_equal(strlen(text), n);
    j.at = text;
    json_value(&j);
    json_space(&j);
    assert_int_equal(*j.at, '\0');
    expect_ok(ptoi_ptrace_open(from, &t));
    uint32_t runs = 0, flows = 0;
    for (uint32_t i = 0; i < t.n_tasks; i++) {
        runs += t.tasks[i].lane != PTRACE_NONE;
    }
    for (uint32_t i = 0; i < t.n_edges; i++) {
        flows += t.tasks[t.edges[i].from].lane != PTRACE_NONE &&
                 t.tasks[t.edges[i].to].lane != PTRACE_NONE;
    }
    assert_int_equal(j.phases['X'], t.n_tasks + t.n_events + runs);
    assert_int_equal(j.phases['s'], flows);
    assert_int_equal(j.phases['f'], flows);
    assert_int_equal(j.phases['C'], t.n_rings);
    assert_int_equal(j.phases['M'], 1 + 2 * t.n_lanes);
    assert_non_null(strstr(text, "\"na\\\"st\\\\y\\u000a\\ufffd<\xe2\x82\xac>\""));
    ptoi_ptrace_close(&t);
    free(text);
}

/* ---- Inline tasks ---- */

/* The golden file has none. Here one task has this flag, and an unknown flag. */
static void test_what_ran_inline_is_kept_and_shown(void **state)
{
    enum { INLINE = 2 };
    const uint32_t flags = PTRACE_INLINE | UINT32_C(1) << 31;
    char path[512], *text = NULL, *chart = NULL;
    size_t n = 0, n_chart = 0, shown = 0;
    ptoi_ptrace t, again;
    (void)state;
    expect_ok(ptoi_ptrace_open(golden(path), &t));
    ptrace_task *tasks = malloc(t.n_tasks * sizeof *tasks);
    assert_non_null(tasks);
    memcpy(tasks, t.tasks, t.n_tasks * sizeof *tasks);
    for (uint64_t i = 0; i < t.n_tasks; i++) {
        assert_int_equal(tasks[i].flags, 0);
    }
    assert_int_not_equal(tasks[INLINE].lane, PTRACE_NONE);
    tasks[INLINE].flags = flags;
    t.tasks = tasks;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(ptoi_export_ptrace(&t, out), 0);
    fclose(out);
    expect_ok(ptoi_ptrace_parse("inline", text, n, &again));
    check_golden(&again);
    for (uint64_t i = 0; i < again.n_tasks; i++) {
        assert_int_equal(again.tasks[i].flags, i == INLINE ? flags : 0);
    }
    out = open_memstream(&chart, &n_chart);
    assert_non_null(out);
    assert_int_equal(ptoi_export_json(&again, out), 0);
    fclose(out);
    for (const char *at = chart; (at = strstr(at, "\"inline\":true")); at++) {
        shown++;
    }
    assert_int_equal(shown, 2); /* in its slice, and in that of its submit */
    ptoi_ptrace_close(&again);
    ptoi_ptrace_close(&t);
    free(tasks);
    free(text);
    free(chart);
}

/* ---- Pending tasks ---- */

/* Whether one ends before the other begins, or lies inside it. */
static bool nests(uint64_t begin, uint64_t end, uint64_t other_begin, uint64_t other_end)
{
    return end <= other_begin || other_end <= begin || (begin >= other_begin && end <= other_end) ||
           (other_begin >= begin && other_end <= end);
}

static void test_pending_tasks_are_beside_their_lane(void **state)
{
    char path[128], text[128];
    ptoi_ptrace t;
    ptoi_rows rows;
    size_t n;
    uint32_t beside = 0;
    (void)state;
    write_pending(traces_path("pending.ptrace", path));
    expect_ok(ptoi_ptrace_open(path, &t));
    assert_true(ptoi_rows_find(&t, &rows));
    assert_int_equal(rows.n_runs, t.n_tasks);
    assert_int_equal(rows.beside[0], 0);
    for (uint64_t i = 0; i < rows.n_runs; i++) {
        const ptoi_task_run *r = &rows.runs[i];
        const bool held = strcmp(ptoi_ptrace_kernel(&t, &t.tasks[r->task]), "hold") == 0;
        assert_int_equal(rows.run_of[r->task], i);
        assert_int_equal(r->row != 0, held);
        assert_true(r->row <= rows.beside[r->lane + 1] - rows.beside[r->lane]);
        beside += held;
        for (uint64_t j = 0; j < i; j++) {
            const ptoi_task_run *other = &rows.runs[j];
            assert_true(other->lane != r->lane || other->row != r->row || other->end <= r->start);
        }
        for (uint64_t j = 0; r->row == 0 && j < t.n_events; j++) {
            const ptrace_event *e = &t.events[j];
            assert_true(e->lane != r->lane || nests(r->start, r->end, e->begin, e->end));
        }
    }
    assert_int_equal(beside, 3);
    assert_int_equal(rows.beside[t.n_lanes], 3); /* all of them in parallel */
    ptoi_rows_free(&rows);
    ptoi_ptrace_close(&t);
    expect_ok(pto_trace_convert(path, traces_path("pending.json", text)));
    char *json_text = traces_bytes(text, &n);
    assert_non_null(strstr(json_text, "\"orchestrator, pending 3\""));
    free(json_text);
}

/* ---- The others ---- */

static void test_dot_names_tasks_and_edges(void **state)
{
    char from[512], to[128];
    size_t n;
    (void)state;
    expect_ok(pto_trace_convert(golden(from), traces_path("golden.dot", to)));
    char *text = traces_bytes(to, &n);
    assert_int_equal(strncmp(text, "digraph", 7), 0);
    assert_non_null(strstr(text, "  t0 -> t1;\n"));
    assert_non_null(strstr(text, "  t1 -> t2 [style=dashed, label=\"WAR\"];\n"));
    assert_non_null(strstr(text, "\"2 na\\\"st\\\\y?"
                                 "?<\xe2\x82\xac"
                                 ">\\n"));
    assert_non_null(strstr(text, "\\nfailed\""));
    assert_non_null(strstr(text, "\\nskipped\""));
    assert_string_equal(text + n - 2, "}\n");
    free(text);
}

static int digit(char sign)
{
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = sign ? strchr(signs, sign) : NULL;
    return at ? (int)(at - signs) : -1;
}

/* The page contains the bytes of the .ptrace file. */
static void test_html_carries_the_trace(void **state)
{
    char from[512], to[128], again[128];
    size_t n_page, n_bytes, n_again, n = 0;
    (void)state;
    expect_ok(pto_trace_convert(golden(from), traces_path("golden.html", to)));
    expect_ok(pto_trace_convert(from, traces_path("again.ptrace", again)));
    char *page = traces_bytes(to, &n_page), *bytes = traces_bytes(from, &n_bytes);
    char *copy = traces_bytes(again, &n_again);
    assert_int_equal(n_again, n_bytes);
    assert_memory_equal(copy, bytes, n_bytes);
    assert_null(strstr(page, "@PTRACE_BASE64@"));
    const char *mark = "<script id=\"ptrace\" type=\"application/octet-stream\">";
    const char *at = strstr(page, mark);
    assert_non_null(at);
    at += strlen(mark);
    while (digit(*at) >= 0) {
        uint32_t word = 0;
        int signs = 0;
        for (; signs < 4; signs++) {
            const int value = digit(at[signs]);
            word = word << 6 | (value > 0 ? (uint32_t)value : 0);
        }
        const int bytes_here = at[2] == '=' ? 1 : at[3] == '=' ? 2 : 3;
        for (int i = 0; i < bytes_here; i++) {
            assert_true(n < n_bytes);
            assert_int_equal((word >> (16 - 8 * i)) & 255, (unsigned char)bytes[n]);
            n++;
        }
        at += 4;
    }
    assert_int_equal(n, n_bytes);
    assert_int_equal(strncmp(at, "</script>", 9), 0);
    free(page);
    free(bytes);
    free(copy);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        (argc > 2 ? write_pending : write_golden)(argv[1]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_version_is_read_for_ever),
        cmocka_unit_test(test_any_byte_may_be_wrong),
        cmocka_unit_test(test_it_may_end_anywhere),
        cmocka_unit_test(test_refused_in_words),
        cmocka_unit_test(test_lifetimes_are_kept_and_checked),
        cmocka_unit_test(test_failures_are_kept_and_checked),
        cmocka_unit_test(test_failures_are_shown),
        cmocka_unit_test(test_larger_items_and_unknown_sections_are_passed_over),
        cmocka_unit_test(test_json_is_json),
        cmocka_unit_test(test_what_ran_inline_is_kept_and_shown),
        cmocka_unit_test(test_pending_tasks_are_beside_their_lane),
        cmocka_unit_test(test_missing_sections_are_reported),
        cmocka_unit_test(test_dot_names_tasks_and_edges),
        cmocka_unit_test(test_html_carries_the_trace),
    };
    return cmocka_run_group_tests_name("trace_file", tests, NULL, NULL);
}
