/* overlap.c - shows which bytes two views share, and what the runtime concludes.
 *
 * Without arguments it draws a few pairs of views of one small memory as maps of bytes. It prints
 * the decision of the runtime and the stage that decided, and checks each decision byte by byte.
 * Then it lets a TensorMap find the dependencies of some tasks. With two arguments it compares two
 * views of your choice.
 */
#include <errno.h>
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA 4096 /* bytes of the memory of all views */
static unsigned char arena[ARENA];

/* Ends the program if a call fails. */
static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "overlap: %s: %s\n  hint: %s\n", pto_status_text(status),
                pto_error_detail(), pto_status_hint(status));
        exit(1);
    }
}

/* ---- A map of bytes, made element by element ---- */

static void mark(const pto_tensor *t, unsigned char bit, unsigned char *map)
{
    int64_t index[PTO_MAX_DIMS] = {0};
    size_t size = pto_dtype_size(t->dtype);
    for (int64_t left = pto_tensor_numel(t); left > 0; left--) {
        int64_t at = t->offset;
        for (int32_t d = 0; d < t->ndim; d++) {
            at += index[d] * t->strides[d];
        }
        for (size_t b = 0; b < size; b++) {
            map[(size_t)at * size + b] |= bit;
        }
        for (int32_t d = t->ndim - 1; d >= 0 && ++index[d] == t->shape[d]; d--) {
            index[d] = 0;
        }
    }
}

typedef struct verdict {
    bool overlaps, covers; /* according to the bytes */
} verdict;

/* Draws both views on top of each other, `width` bytes per line. */
static verdict draw(const pto_tensor *a, const pto_tensor *b, size_t width)
{
    static unsigned char map[ARENA];
    static const char sign[4] = {'.', 'a', 'b', '#'};
    verdict v = {false, true};
    size_t end = 0;
    memset(map, 0, sizeof map);
    mark(a, 1, map);
    mark(b, 2, map);
    for (size_t i = 0; i < sizeof map; i++) {
        v.overlaps |= map[i] == 3;
        v.covers &= map[i] != 2;
        end = map[i] ? i + 1 : end;
    }
    for (size_t row = 0; row < end; row += width) {
        printf("  %4zu  ", row);
        for (size_t i = row; i < row + width && i < sizeof map; i++) {
            putchar(sign[map[i]]);
        }
        putchar('\n');
    }
    return v;
}

static void show_view(const char *name, const pto_tensor *t)
{
    char line[256];
    pto_tensor_format(t, line, sizeof line);
    char *at = strstr(line, " at 0x"); /* the address differs in every run */
    if (at) {
        *at = '\0';
    }
    printf("  %s = %s\n", name, line);
}

/* Shows one pair. Returns false if a decision contradicts the bytes. */
static bool show(const char *title, const pto_tensor *a, const pto_tensor *b, size_t width)
{
    pto_overlap_result meets, contains;
    printf("%s\n", title);
    show_view("a", a);
    show_view("b", b);
    verdict truth = draw(a, b, width);
    must(pto_tensor_overlaps_ex(a, b, 0, &meets));
    must(pto_tensor_covers_ex(a, b, 0, &contains));
    printf("  a and b share a byte: %-3s (by %s)     a covers b: %-3s (by %s)\n",
           meets.yes ? "yes" : "no", pto_overlap_stage_name(meets.stage),
           contains.yes ? "yes" : "no", pto_overlap_stage_name(contains.stage));
    bool right = (meets.yes == truth.overlaps || meets.stage == PTO_STAGE_BUDGET) &&
                 (contains.yes == truth.covers || contains.stage == PTO_STAGE_BUDGET);
    printf("  byte by byte: %s\n\n", right ? "the same result" : "ANOTHER RESULT");
    return right;
}

/* ---- The tour ---- */

static pto_tensor tensor(pto_dtype dtype, int32_t ndim, const int64_t *shape,
                         const int64_t *strides, int64_t offset)
{
    pto_tensor t;
    must(pto_tensor_init(&t, arena, sizeof arena, dtype, ndim, shape, strides, offset));
    return t;
}

static pto_tensor view(const pto_tensor *t, int64_t row, int64_t column, int64_t rows,
                       int64_t columns)
{
    pto_tensor out;
    must(pto_tensor_view(t, (int64_t[]){row, column}, (int64_t[]){rows, columns}, &out));
    return out;
}

static bool show_pairs(void)
{
    pto_tensor m = tensor(PTO_FLOAT32, 2, (int64_t[]){6, 16}, NULL, 0), a, b;
    bool right = true;

    a = view(&m, 0, 0, 2, 16);
    b = view(&m, 3, 0, 2, 16);
    right &= show("Two bands of rows of a 6 x 16 matrix", &a, &b, 64);

    a = view(&m, 0, 0, 6, 4);
    b = view(&m, 0, 4, 6, 4);
    right &= show("Two bands of columns: their byte ranges overlap, their bytes do not", &a, &b,
                  64);

    a = view(&m, 0, 0, 4, 8);
    b = view(&m, 3, 6, 3, 6);
    right &= show("Two tiles that share a corner", &a, &b, 64);

    must(pto_tensor_slice(&m, 1, 0, 16, 2, &a));
    must(pto_tensor_slice(&m, 1, 15, -1, -2, &b));
    right &= show("Even columns, and odd columns in reverse order", &a, &b, 64);

    a = tensor(PTO_FLOAT32, 1, (int64_t[]){8}, (int64_t[]){2}, 0);
    b = tensor(PTO_FLOAT16, 1, (int64_t[]){8}, (int64_t[]){4}, 1);
    right &= show("float32 and float16: different starts, shared bytes", &a, &b, 64);

    a = tensor(PTO_UINT8, 1, (int64_t[]){20}, (int64_t[]){9}, 0);
    b = tensor(PTO_UINT8, 1, (int64_t[]){12}, (int64_t[]){15}, 5);
    right &= show("Steps of 9 and 15: the greatest common divisor decides", &a, &b, 64);

    a = tensor(PTO_UINT8, 3, (int64_t[]){3, 3, 4}, (int64_t[]){61, 17, 5}, 0);
    b = tensor(PTO_UINT8, 3, (int64_t[]){3, 4, 3}, (int64_t[]){59, 19, 7}, 2);
    right &= show("Strides without a common divisor: only a search can decide", &a, &b, 64);
    return right;
}

static void print_hit(void *context, const pto_map_hit *hit)
{
    (void)context;
    printf("  task %llu, which %s it\n", (unsigned long long)hit->task.id,
           hit->access == PTO_MAP_WRITE ? "writes" : "reads");
}

/* A small history: the map finds the dependencies that a runtime would find. */
static void show_map(void)
{
    pto_tensormap *map;
    pto_tensor m = tensor(PTO_FLOAT32, 2, (int64_t[]){6, 16}, NULL, 0);
    uint64_t id = 1;
    must(pto_tensormap_init_default(&map));
    printf("A TensorMap: tasks 1 to 4 write the four bands of columns of the matrix.\n");
    for (int64_t column = 0; column < 16; column += 4, id++) {
        pto_tensor band = view(&m, 0, column, 6, 4);
        must(pto_tensormap_insert(map, &band, (pto_map_task){.id = id}));
    }
    pto_tensor row = view(&m, 2, 3, 1, 8), tile = view(&m, 0, 8, 3, 8);
    printf("Task 5 reads row 2, columns 3 to 10. It waits for\n");
    must(pto_tensormap_read_deps(map, &row, print_hit, NULL));
    must(pto_tensormap_insert_read(map, &row, (pto_map_task){.id = 5}));
    printf("Task 6 writes rows 0 to 2, columns 8 to 15. It waits for\n");
    must(pto_tensormap_write_deps(map, &tile, print_hit, NULL));
    must(pto_tensormap_insert(map, &tile, (pto_map_task){.id = 6}));
    must(pto_tensormap_sync_validity(map, 0, 6));
    printf("Tasks 1 to 5 retire. A task that writes the whole matrix waits for\n");
    must(pto_tensormap_write_deps(map, &m, print_hit, NULL));
    pto_tensormap_destroy(&map);
}

/* ---- Views of your own: dtype:shape:strides:offset ---- */

static const char usage[] =
    "usage: ./dev run overlap       a tour of views, decisions and a TensorMap\n"
    "       ./dev run overlap A B   compare two views of the same %d bytes\n"
    "       ./dev run overlap --help\n"
    "\n"
    "A view is dtype:shape[:strides[:offset]], all but the dtype in elements:\n"
    "    float32:6,16            a dense matrix of 6 x 16\n"
    "    float32:6,4:16,1:4      its columns 4 to 7\n"
    "    uint8:20:9:5            every ninth byte from byte 5 on, 20 of them\n"
    "In the map of bytes, 'a' and 'b' mark the two views and '#' the bytes of both.\n";

static void refuse(const char *text, const char *why)
{
    fprintf(stderr, "overlap: view '%s': %s\n  see ./dev run overlap --help\n", text, why);
    exit(2);
}

static int64_t parse_number(const char *whole, char **at)
{
    char *end;
    errno = 0;
    long long value = strtoll(*at, &end, 10);
    if (end == *at || errno) {
        refuse(whole, "a number is missing or too large");
    }
    *at = end;
    return value;
}

static int32_t parse_list(const char *whole, char **at, int64_t *values)
{
    int32_t count = 0;
    for (;;) {
        if (count == PTO_MAX_DIMS) {
            refuse(whole, "at most 8 dims");
        }
        values[count++] = parse_number(whole, at);
        if (**at != ',') {
            return count;
        }
        (*at)++;
    }
}

static pto_dtype parse_dtype(const char *whole, size_t length)
{
#define TRY_DTYPE(name, value, text, bytes)                                                        \
    if (length == strlen(text) && !strncmp(whole, text, length)) {                                 \
        return PTO_##name;                                                                         \
    }
    PTO_DTYPE_MAP(TRY_DTYPE)
#undef TRY_DTYPE
    refuse(whole, "unknown dtype; known are float32, float16, int32, int16, int8, uint8, bfloat16, "
                  "int64, uint64, float64, bool");
    return PTO_DTYPE_NONE;
}

static pto_tensor parse_view(const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon) {
        refuse(text, "a ':' and the shape are missing");
    }
    pto_dtype dtype = parse_dtype(text, (size_t)(colon - text));
    char *copy = strdup(colon + 1), *at = copy;
    if (!copy) {
        refuse(text, "out of memory");
    }
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS], offset = 0;
    int32_t ndim = parse_list(text, &at, shape), nstrides = 0;
    if (*at == ':') {
        at++;
        nstrides = parse_list(text, &at, strides);
        if (nstrides != ndim) {
            refuse(text, "the number of strides differs from the number of sizes");
        }
    }
    if (*at == ':') {
        at++;
        offset = parse_number(text, &at);
    }
    if (*at) {
        refuse(text, "unexpected text at the end");
    }
    free(copy);
    return tensor(dtype, ndim, shape, nstrides ? strides : NULL, offset);
}

int main(int argc, char **argv)
{
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        printf(usage, ARENA);
        return 0;
    }
    if (argc == 3) {
        pto_tensor a = parse_view(argv[1]), b = parse_view(argv[2]);
        return show("Two views of the same memory", &a, &b, 64) ? 0 : 1;
    }
    if (argc != 1) {
        fprintf(stderr, "overlap: %d arguments; it takes none, or two views\n\n", argc - 1);
        fprintf(stderr, usage, ARENA);
        return 2;
    }
    printf("PTO Runtime %s: which bytes do two views share? A line is sixteen float32.\n\n",
           pto_version());
    bool right = show_pairs();
    show_map();
    return right ? 0 : 1;
}
