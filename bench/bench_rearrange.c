/* bench_rearrange.c - copies between layouts, compared with memcpy, OpenBLAS and NumPy.
 *
 * Before anything is timed, each copy runs once in each way that will be timed, and must leave
 * exactly what a plain loop over all elements leaves.
 *
 * All copies share two buffers in huge pages, and memcpy copies the same number of bytes between
 * the same pages. The cases take turns, and so do memcpy and ours within a case, so that other load
 * disturbs a few runs of each rather than all of one. Figures are medians, and ratios are ratios of
 * medians.
 *
 * Large copies are timed one by one. Small ones stay in the L1 cache and are timed in batches, with
 * the plan of the copy in the thread's plan cache and with that cache turned off. NumPy has its own
 * arrays in its own process, with one thread; its time for a small copy is what a Python program
 * waits for it.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "bench.h"

#include <pto/rearrange.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "op/rearrange/plan.h"
#include "peers/memcpy.h"
#include "peers/numpy.h"
#include "peers/openblas.h"
#include "rearrange_cases.h"

enum { ROUNDS = 7, QUICK_ROUNDS = 3, LARGE_PAIRS = 3, SMALL_PAIRS = 9, SMALL_CALLS = 1000 };
enum { SMALL_SHIFT = 2048 };
_Static_assert(MAX_SAMPLES >= ROUNDS * SMALL_PAIRS, "samples of all rounds");

typedef struct options {
    const char *name; /* part of the names of those wanted; NULL: all */
    const char *set;  /* an instruction set, or "all"; NULL: the usual tables */
    bool quick;
} options;

static char *to_memory, *from_memory, *right_memory;
static crew copiers;
static numpy_peer numpy;
static openblas_peer openblas;

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_rearrange: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

/* A line on the terminal that the next one replaces. */
static void progress(const char *text, const char *name)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s%s", text, name);
    }
}

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int mine = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    const long cores = mine > 0 ? mine : online > 0 ? online : 1;
    return cores < MAX_CREW ? (uint32_t)cores : MAX_CREW;
}

/* OpenBLAS knows plain transposes of floats. */
static bool is_openblas(const bench_case *c)
{
    return openblas.somatcopy && c->dtype == PTO_FLOAT32 && c->ndim == 2;
}

/* ---- The copies --------------------------------------------------------------------------- */

/* Both at the start of a huge page, as an allocator places large ones. Where small ones lie is
 * anything, but not at the same place in two pages: loads would wait for unrelated stores. */
static char *source_of(const bench_case *c)
{
    return from_memory + (is_large(c) ? 0 : SMALL_SHIFT);
}

static void make_tensors(bench_case *c)
{
    pto_tensor whole;
    must(pto_tensor_init(&whole, source_of(c), c->bytes, c->dtype, c->ndim, c->shape, NULL, 0));
    must(pto_tensor_permute(&whole, c->perm, &c->from));
    must(pto_tensor_init(&c->to, to_memory, c->bytes, c->dtype, c->ndim, c->from.shape, NULL, 0));
}

static void make_plan(const bench_case *c, const ptoi_isa *isa, ptoi_plan *plan)
{
    ptoi_plan_make_with(plan, c->to.ndim, c->to.shape, c->to.strides, c->from.strides,
                        (uint32_t)c->size, (uintptr_t)to_memory % PTOI_LINE, isa, PTOI_STREAM_FROM);
}

/* ---- Is it right? ------------------------------------------------------------------------- */

static bool expect(const bench_case *c, const char *who)
{
    const bool right = memcmp(to_memory, right_memory, c->bytes) == 0;
    if (!right) {
        size_t first = 0;
        while (to_memory[first] == right_memory[first]) {
            first++;
        }
        fprintf(stderr, "bench_rearrange: %s: %s is wrong, first in element %zu of %zu\n", c->name,
                who, first / c->size, c->bytes / c->size);
    }
    /* So that no old contents count as correct. */
    memset(to_memory, 0xA5, c->bytes);
    return right;
}

static bool check(const bench_case *c)
{
    copy_plainly(c, right_memory, source_of(c));
    memset(to_memory, 0xA5, c->bytes);
    bool right = true;
    for (int twice = 0; twice < 2; twice++) {
        must(pto_rearrange(&c->to, &c->from));
        right &= expect(c, twice ? "pto_rearrange with a plan of the cache" : "pto_rearrange");
    }
    if (is_large(c)) {
        must(pto_rearrange_parallel(&c->to, &c->from, copiers.size));
        right &= expect(c, "pto_rearrange_parallel");
    } else {
        must(pto_rearrange_cache_resize(0));
        must(pto_rearrange(&c->to, &c->from));
        must(pto_rearrange_cache_resize(PTO_REARRANGE_CACHE));
        right &= expect(c, "pto_rearrange without a cache");
    }
    if (is_openblas(c)) {
        openblas_transpose(&openblas, c->shape[0], c->shape[1], to_memory, source_of(c));
        if (!expect(c, "OpenBLAS")) {
            openblas = (openblas_peer){.why_not = "wrong, and not measured"};
        }
    }
    return right;
}

static bool check_set(const bench_case *c, const ptoi_isa *isa)
{
    ptoi_plan plan;
    copy_plainly(c, right_memory, source_of(c));
    memset(to_memory, 0xA5, c->bytes);
    make_plan(c, isa, &plan);
    ptoi_plan_run(&plan, to_memory, source_of(c));
    return expect(c, isa->name);
}

/* ---- How fast? ---------------------------------------------------------------------------- */

static void add(samples *s, double ns)
{
    if (ns > 0) {
        s->ns[s->count++] = ns;
    }
}

/* Nanoseconds of one call, the mean of `calls`. */
static double time_memcpy(const bench_case *c, size_t calls)
{
    const double start = bench_now_ns();
    for (size_t i = 0; i < calls; i++) {
        memcpy(to_memory, source_of(c), c->bytes);
        bench_keep(i);
    }
    return (bench_now_ns() - start) / (double)calls;
}

static double time_ours(const bench_case *c, size_t calls)
{
    const double start = bench_now_ns();
    for (size_t i = 0; i < calls; i++) {
        must(pto_rearrange(&c->to, &c->from));
    }
    return (bench_now_ns() - start) / (double)calls;
}

static double time_uncached(const bench_case *c, size_t calls)
{
    must(pto_rearrange_cache_resize(0));
    const double ns = time_ours(c, calls);
    must(pto_rearrange_cache_resize(PTO_REARRANGE_CACHE));
    must(pto_rearrange(&c->to, &c->from));
    return ns;
}

static double time_openblas(const bench_case *c, size_t calls)
{
    if (!is_openblas(c)) {
        return 0;
    }
    const double start = bench_now_ns();
    for (size_t i = 0; i < calls; i++) {
        openblas_transpose(&openblas, c->shape[0], c->shape[1], to_memory, source_of(c));
    }
    return (bench_now_ns() - start) / (double)calls;
}

static void visit(bench_case *c)
{
    const bool large = is_large(c);
    const size_t calls = large ? 1 : SMALL_CALLS;
    samples *f = c->figure;
    add(&f[NUMPY],
        numpy_time(&numpy, pto_dtype_name(c->dtype), c->shape_text, c->perm_text, calls));
    add(&f[OPENBLAS], time_openblas(c, calls));
    /* From here on the caches hold what the other of the two left there. */
    time_ours(c, 1);
    for (int i = 0; i < (large ? LARGE_PAIRS : SMALL_PAIRS); i++) {
        add(&f[MEMCPY], time_memcpy(c, calls));
        add(&f[OURS], time_ours(c, calls));
        if (!large) {
            add(&f[UNCACHED], time_uncached(c, calls));
        }
    }
    for (int i = 0; i < LARGE_PAIRS && large && copiers.size > 1; i++) {
        add(&f[MEMCPY_CREW], crew_copy(&copiers, to_memory, source_of(c), c->bytes));
        const double start = bench_now_ns();
        must(pto_rearrange_parallel(&c->to, &c->from, copiers.size));
        add(&f[OURS_CREW], bench_now_ns() - start);
    }
}

static void visit_set(bench_case *c, size_t set)
{
    ptoi_plan plan;
    make_plan(c, ptoi_isa_at(set), &plan);
    ptoi_plan_run(&plan, to_memory, source_of(c));
    for (int i = 0; i < LARGE_PAIRS; i++) {
        add(&c->memcpy_of[set], time_memcpy(c, 1));
        const double start = bench_now_ns();
        ptoi_plan_run(&plan, to_memory, source_of(c));
        add(&c->ours_of[set], bench_now_ns() - start);
    }
}

static void compute_median(samples *s)
{
    s->median = s->count ? bench_median(s->ns, s->count) : 0;
}

static bool set_wanted(const options *o, size_t set)
{
    const ptoi_isa *isa = ptoi_isa_at(set);
    return set < MAX_SETS && isa && o->set &&
           (strcmp(o->set, "all") == 0 || strcmp(o->set, isa->name) == 0);
}

/* False if a result is wrong. */
static bool check_all(const options *o)
{
    bool right = true;
    for (int i = 0; i < CASES; i++) {
        if (!cases[i].chosen) {
            continue;
        }
        progress("checking ", cases[i].name);
        make_tensors(&cases[i]);
        if (!o->set) {
            right &= check(&cases[i]);
        }
        for (size_t s = 0; ptoi_isa_at(s); s++) {
            if (set_wanted(o, s)) {
                right &= check_set(&cases[i], ptoi_isa_at(s));
            }
        }
    }
    progress("", "");
    return right;
}

static void measure_all(const options *o)
{
    const int rounds = o->quick ? QUICK_ROUNDS : ROUNDS;
    char text[64];
    for (int r = 0; r < rounds; r++) {
        snprintf(text, sizeof text, "round %d of %d: ", r + 1, rounds);
        for (int i = 0; i < CASES; i++) {
            if (!cases[i].chosen) {
                continue;
            }
            progress(text, cases[i].name);
            if (!o->set) {
                visit(&cases[i]);
            }
            for (size_t s = 0; ptoi_isa_at(s); s++) {
                if (set_wanted(o, s)) {
                    visit_set(&cases[i], s);
                }
            }
        }
    }
    for (int i = 0; i < CASES; i++) {
        for (int f = 0; f < FIGURES; f++) {
            compute_median(&cases[i].figure[f]);
        }
        for (int s = 0; s < MAX_SETS; s++) {
            compute_median(&cases[i].memcpy_of[s]);
            compute_median(&cases[i].ours_of[s]);
        }
    }
    progress("", "");
}

/* ---- Output ------------------------------------------------------------------------------- */

static const char *what(const bench_case *c)
{
    static char text[128];
    snprintf(text, sizeof text, "%s[%s] by %s", pto_dtype_name(c->dtype), c->shape_text,
             c->perm_text);
    return text;
}

/* `digits` after the point, or "-" for what was not measured. */
static void print_figure(int width, int digits, double figure)
{
    if (figure > 0) {
        printf(" %*.*f", width, digits, figure);
    } else {
        printf(" %*s", width, "-");
    }
}

/* Read and written. */
static double gb_per_s(const bench_case *c, const samples *s)
{
    return s->median > 0 ? 2 * (double)c->bytes / s->median : 0;
}

/* Speed relative to the other one; 0: not measured. */
static double ratio(const samples *ours, const samples *other)
{
    return ours->median > 0 ? other->median / ours->median : 0;
}

static bool any_chosen(bool large)
{
    for (int i = 0; i < CASES; i++) {
        if (cases[i].chosen && is_large(&cases[i]) == large) {
            return true;
        }
    }
    return false;
}

static void print_large(void)
{
    printf("\nlarge copies: GB/s read and written; ratio: to memcpy on as many threads\n");
    printf("%-16s %-43s %7s %7s %7s %6s %9s %7s\n", "case", "what", "threads", "memcpy", "ours",
           "ratio", "OpenBLAS", "NumPy");
    for (int i = 0; i < CASES; i++) {
        const bench_case *c = &cases[i];
        const samples *f = c->figure;
        if (!c->chosen || !is_large(c)) {
            continue;
        }
        printf("%-16s %-43s %7d", c->name, what(c), 1);
        print_figure(7, 1, gb_per_s(c, &f[MEMCPY]));
        print_figure(7, 1, gb_per_s(c, &f[OURS]));
        print_figure(6, 2, ratio(&f[OURS], &f[MEMCPY]));
        print_figure(9, 2, gb_per_s(c, &f[OPENBLAS]));
        print_figure(7, 2, gb_per_s(c, &f[NUMPY]));
        printf("\n");
        if (f[OURS_CREW].count) {
            printf("%-16s %-43s %7u", "", "", copiers.size);
            print_figure(7, 1, gb_per_s(c, &f[MEMCPY_CREW]));
            print_figure(7, 1, gb_per_s(c, &f[OURS_CREW]));
            print_figure(6, 2, ratio(&f[OURS_CREW], &f[MEMCPY_CREW]));
            printf(" %9s %7s\n", "-", "-");
        }
    }
}

static void print_small(void)
{
    printf("\nsmall copies: ns a call; cached: with a plan of the thread's cache of plans\n");
    printf("%-16s %-43s %7s %7s %9s %9s %9s\n", "case", "what", "memcpy", "cached", "uncached",
           "OpenBLAS", "NumPy");
    for (int i = 0; i < CASES; i++) {
        const bench_case *c = &cases[i];
        if (!c->chosen || is_large(c)) {
            continue;
        }
        printf("%-16s %-43s", c->name, what(c));
        print_figure(7, 1, c->figure[MEMCPY].median);
        print_figure(7, 1, c->figure[OURS].median);
        print_figure(9, 1, c->figure[UNCACHED].median);
        print_figure(9, 1, c->figure[OPENBLAS].median);
        print_figure(9, 1, c->figure[NUMPY].median);
        printf("\n");
    }
}

static void print_sets(const options *o)
{
    printf("\nGB/s read and written on one thread, and the ratio to memcpy, by instruction set\n");
    printf("%-16s %-43s", "case", "what");
    for (size_t s = 0; ptoi_isa_at(s); s++) {
        if (set_wanted(o, s)) {
            printf(" %14s", ptoi_isa_at(s)->name);
        }
    }
    printf("\n");
    for (int i = 0; i < CASES; i++) {
        const bench_case *c = &cases[i];
        if (!c->chosen) {
            continue;
        }
        printf("%-16s %-43s", c->name, what(c));
        for (size_t s = 0; ptoi_isa_at(s); s++) {
            if (set_wanted(o, s)) {
                print_figure(7, 1, gb_per_s(c, &c->ours_of[s]));
                print_figure(6, 2, ratio(&c->ours_of[s], &c->memcpy_of[s]));
            }
        }
        printf("\n");
    }
}

/* ---- What is promised --------------------------------------------------------------------- */

static bool bar_numpy(void)
{
    const bench_case *worst = NULL;
    double least = 0;
    for (int i = 0; i < CASES; i++) {
        const double times = ratio(&cases[i].figure[OURS], &cases[i].figure[NUMPY]);
        if (times > 0 && (!worst || times < least)) {
            worst = &cases[i];
            least = times;
        }
    }
    if (!worst || !numpy.ask) {
        printf("BAR rearrange faster than NumPy: skipped: %s\n", numpy.why_not);
        return true;
    }
    printf("BAR rearrange faster than NumPy: worst ratio %.2f, %s (want > 1) %s\n", least,
           worst->name, least > 1 ? "ok" : "short");
    return least > 1;
}

static bool bars(void)
{
    bool ok = true;
    char name[64];
    for (int i = 0; i < CASES; i++) {
        const bench_case *c = &cases[i];
        if (!c->chosen) {
            continue;
        }
        const double ours = c->figure[OURS].median, copy = c->figure[MEMCPY].median;
        const size_t elements = c->bytes / c->size;
        snprintf(name, sizeof name, "rearrange %s%s", c->name, is_large(c) ? "" : " cached");
        if (is_large(c)) {
            ok &= bench_bar_at_least(name, copy / ours, "of memcpy", c->want);
        } else if (elements == 64) {
            ok &= bench_bar_at_most(name, ours, "ns", 150);
        } else if (elements == 4096) {
            ok &= bench_bar_at_most(name, ours, "ns", 150 + 2 * copy);
        }
    }
    return bar_numpy() && ok;
}

/* ---- The command line --------------------------------------------------------------------- */

static const char usage[] =
    "usage: ./dev bench rearrange [OPTIONS]\n"
    "  --case NAME   only the cases whose name contains it\n"
    "  --isa NAME    instead: the large cases by the kernels of one instruction set (all: of "
    "each)\n"
    "  --quick       3 rounds instead of 7\n"
    "  --help\n"
    "OpenBLAS (libopenblas0) and NumPy (python3-numpy) are measured if they are installed.\n";

static void refuse(const char *problem, const char *value)
{
    fprintf(stderr, "bench_rearrange: %s '%s'\n\n%s\ncases:", problem, value, usage);
    for (int i = 0; i < CASES; i++) {
        fprintf(stderr, " %s", cases[i].name);
    }
    fprintf(stderr, "\ninstruction sets here:");
    for (size_t s = 0; ptoi_isa_at(s); s++) {
        fprintf(stderr, " %s", ptoi_isa_at(s)->name);
    }
    fprintf(stderr, "\n");
    exit(2);
}

static options parse(int argc, char **argv)
{
    options o = {0};
    bool any = false;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        const bool has_value = !strcmp(option, "--case") || !strcmp(option, "--isa");
        const char *value = has_value ? argv[++i] : NULL;
        if (has_value && !value) {
            refuse("a value is missing after", option);
        }
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (!strcmp(option, "--case")) {
            o.name = value;
        } else if (!strcmp(option, "--isa")) {
            o.set = value;
        } else if (!strcmp(option, "--quick")) {
            o.quick = true;
        } else {
            refuse("unknown option", option);
        }
    }
    for (size_t s = 0; o.set && ptoi_isa_at(s); s++) {
        any |= set_wanted(&o, s);
    }
    if (o.set && !any) {
        refuse("no such instruction set here:", o.set);
    }
    any = false;
    for (int i = 0; i < CASES; i++) {
        cases[i].chosen = (!o.name || strstr(cases[i].name, o.name)) &&
                          (!o.set || is_large(&cases[i]));
        any |= cases[i].chosen;
    }
    if (!any) {
        refuse("no such case:", o.name);
    }
    return o;
}

/* In the folder of this source file. */
static void start_numpy(size_t bytes)
{
    char script[4096] = __FILE__;
    char *slash = strrchr(script, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - script) : 0;
    snprintf(script + folder, sizeof script - folder, "peers/numpy_copy.py");
    numpy_start(&numpy, script, bytes);
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    const size_t bytes = describe_cases();
    if (!o.set) {
        start_numpy(bytes);
        openblas_start(&openblas);
    }
    to_memory = huge_memory(bytes);
    from_memory = huge_memory(bytes + SMALL_SHIFT);
    right_memory = huge_memory(bytes);
    fill(from_memory, bytes + SMALL_SHIFT);
    crew_start(&copiers, usable_cores());
    bool ok = check_all(&o);
    if (ok) {
        measure_all(&o);
        printf("rearrange: %u cores; %s huge pages; OpenBLAS: %s; NumPy: %s\n", copiers.size,
               huge_mb() < 3 * (double)bytes / 1e6 ? "NOT all memory in" : "all memory in",
               o.set                ? "-"
               : openblas.somatcopy ? "yes"
                                    : openblas.why_not,
               o.set       ? "-"
               : numpy.ask ? numpy.version
                           : numpy.why_not);
        if (o.set) {
            print_sets(&o);
        } else {
            if (any_chosen(true)) {
                print_large();
            }
            if (any_chosen(false)) {
                print_small();
            }
            printf("\n");
            ok = bars();
        }
    }
    crew_stop(&copiers);
    numpy_stop(&numpy);
    return ok ? 0 : 1;
}
