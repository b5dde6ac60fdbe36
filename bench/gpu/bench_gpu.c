/* bench_gpu.c - NVIDIA GPUs: copies between layouts compared with PyTorch, copies to and from the
 * host, fills, small copies.
 *
 * Each copy is checked against the CPU before it is timed. A time is that of several copies that are
 * started together, until the device is synchronized. Ours and PyTorch's take turns, each in its own
 * process. Figures are medians.
 */
#include "bench.h"

#include <pto/pto.h>
#include <pto/rearrange.h>
#include <string.h>

#include "../peers/gpu.h"
#include "../peers/torch.h"
#include "device/copy.h"
#include "device/cuda/api.h"
#include "device/cuda/load.h"
#include "op/rearrange/grid.h"

enum { ROUNDS = 7, MAX_RANK = 6 };

typedef struct gpu_case {
    const char *name;
    pto_dtype dtype;
    int32_t ndim;
    int64_t shape[MAX_RANK]; /* of the dense source */
    int32_t perm[MAX_RANK];
} gpu_case;

static const gpu_case cases[] = {
    {"transpose f32", PTO_FLOAT32, 2, {8192, 8192}, {1, 0}},
    {"transpose f16", PTO_FLOAT16, 2, {8192, 8192}, {1, 0}},
    {"transpose i8", PTO_INT8, 2, {8192, 8192}, {1, 0}},
    {"nchw-nhwc f32", PTO_FLOAT32, 4, {64, 256, 56, 56}, {0, 2, 3, 1}},
    {"nchw-nhwc f16", PTO_FLOAT16, 4, {64, 256, 56, 56}, {0, 2, 3, 1}},
    {"nhwc-nchw f32", PTO_FLOAT32, 4, {64, 56, 56, 256}, {0, 3, 1, 2}},
    {"nhwc-nchw f16", PTO_FLOAT16, 4, {64, 56, 56, 256}, {0, 3, 1, 2}},
    {"cube 2,1,0 f32", PTO_FLOAT32, 3, {512, 512, 512}, {2, 1, 0}},
    {"six dims f32", PTO_FLOAT32, 6, {160, 8, 24, 16, 24, 24}, {5, 2, 0, 4, 1, 3}},
    {"heads f16", PTO_FLOAT16, 4, {16, 4096, 16, 128}, {0, 2, 1, 3}},
    /* Without a bar: */
    {"transpose f64", PTO_FLOAT64, 2, {8192, 8192}, {1, 0}},
    {"odd sizes f32", PTO_FLOAT32, 2, {8191, 8193}, {1, 0}},
    {"odd sizes f16", PTO_FLOAT16, 2, {8191, 8193}, {1, 0}},
    {"odd sizes i8", PTO_INT8, 2, {8191, 8193}, {1, 0}},
    {"pairs of f64", PTO_FLOAT64, 3, {8192, 4096, 2}, {1, 0, 2}},
    {"3 channels f32", PTO_FLOAT32, 4, {128, 3, 512, 512}, {0, 2, 3, 1}},
    {"to 3 planes f32", PTO_FLOAT32, 4, {128, 512, 512, 3}, {0, 3, 1, 2}},
    {"16 channels f32", PTO_FLOAT32, 4, {64, 16, 256, 256}, {0, 2, 3, 1}},
};
enum { CASES = sizeof cases / sizeof *cases, WITH_BAR = 10 };

static const pto_device gpu = {PTO_DEVICE_NVIDIA, 0};
static pto_device_ops ops;
static gpu_peer peer;
static torch_peer torch;
static void *to_memory, *from_memory;
static char *host_from, *host_to;
static uint64_t most_bytes;

static void must(pto_status status)
{
    if (status != PTO_OK) {
        fprintf(stderr, "bench_gpu: %s: %s\n", pto_status_name(status), pto_error_detail());
        exit(2);
    }
}

static uint64_t bytes_of(const gpu_case *c)
{
    uint64_t bytes = pto_dtype_size(c->dtype);
    for (int32_t d = 0; d < c->ndim; d++) {
        bytes *= (uint64_t)c->shape[d];
    }
    return bytes;
}

/* The dense destination and the permuted view of the source. */
static void tensors_of(const gpu_case *c, void *to, void *from, pto_device device, pto_tensor *dst,
                       pto_tensor *src)
{
    pto_tensor dense;
    must(pto_tensor_init(&dense, from, bytes_of(c), c->dtype, c->ndim, c->shape, NULL, 0));
    dense.device = device;
    must(pto_tensor_permute(&dense, c->perm, src));
    must(pto_tensor_init(dst, to, bytes_of(c), c->dtype, c->ndim, src->shape, NULL, 0));
    dst->device = device;
}

static void synchronize(void)
{
    must(ops.synchronize(ops.self));
}

/* Compares what the GPU made of a copy with what the CPU makes of it. */
static void check(const gpu_case *c, const pto_tensor *dst)
{
    pto_tensor right, src;
    uint64_t bytes = bytes_of(c);
    tensors_of(c, host_to, host_from, (pto_device){PTO_DEVICE_CPU, 0}, &right, &src);
    must(pto_rearrange_parallel(&right, &src, 0));
    char *got = malloc(bytes);
    must(ops.copy_out(ops.self, got, dst->storage, bytes));
    synchronize();
    if (!got || memcmp(got, host_to, bytes) != 0) {
        fprintf(stderr, "bench_gpu: %s: the GPU gives another result than the CPU\n", c->name);
        exit(2);
    }
    free(got);
}

/* ---- Copies between layouts --------------------------------------------------------------------- */

static double time_ours(const pto_tensor *dst, const pto_tensor *src, int copies)
{
    double begin = 0;
    for (int k = -2; k < copies; k++) { /* two before: another process may have had the GPU */
        if (k == 0) {
            synchronize();
            begin = bench_now_ns();
        }
        must(pto_rearrange(dst, src));
    }
    synchronize();
    return (bench_now_ns() - begin) / copies;
}

static int copies_of(const gpu_case *c)
{
    /* About 6 ms: the wait at the end takes some microseconds, too. */
    int copies = (int)(UINT64_C(12) * 1000 * 1000 * 1000 / bytes_of(c));
    return copies < 4 ? 4 : copies;
}

static bool bench_cases(void)
{
    bool ok = true;
    double ours[CASES], theirs[CASES];
    printf("%-17s %10s %10s %8s %10s\n", "GB/s read+written", "ours", "PyTorch", "ratio", "memcpy");
    for (int i = 0; i < CASES; i++) {
        const gpu_case *c = &cases[i];
        pto_tensor dst, src;
        double mine[ROUNDS], others[ROUNDS], plain[ROUNDS], bytes = 2 * (double)bytes_of(c);
        tensors_of(c, to_memory, from_memory, gpu, &dst, &src);
        must(pto_fill(&dst, 77));
        must(pto_rearrange(&dst, &src));
        check(c, &dst);
        (void)time_ours(&dst, &src, 4);
        bool there = torch_prepare(&torch, pto_dtype_name(c->dtype), c->ndim, c->shape, c->perm);
        for (int k = 0; k < ROUNDS; k++) {
            mine[k] = time_ours(&dst, &src, copies_of(c));
            plain[k] = peer.device_copies(to_memory, from_memory, bytes_of(c), ops.stream,
                                          copies_of(c));
            others[k] = there ? torch_time(&torch, copies_of(c)) : 0;
        }
        ours[i] = bytes / bench_median(mine, ROUNDS);
        theirs[i] = there ? bytes / bench_median(others, ROUNDS) : 0;
        printf("%-17s %10.0f %10.0f %8.2f %10.0f\n", c->name, ours[i], theirs[i],
               there ? ours[i] / theirs[i] : 0, bytes / bench_median(plain, ROUNDS));
        fflush(stdout);
    }
    for (int i = 0; i < WITH_BAR; i++) {
        ok &= bench_bar_at_least(cases[i].name, ours[i], "GB/s", 3800);
        if (theirs[i] > 0) {
            char name[64];
            snprintf(name, sizeof name, "%s, of PyTorch", cases[i].name);
            ok &= bench_bar_ratio(name, "ratio", ours[i] / theirs[i], 1.5);
        }
    }
    return ok;
}

/* ---- Tuning ---------------------------------------------------------- */

static double time_plan(const ptoi_cuda_api *api, ptoi_cuda *device, const ptoi_grid_plan *plan,
                        const pto_tensor *dst, int copies)
{
    double samples[3];
    for (int k = -1; k < 3; k++) {
        double begin = bench_now_ns();
        for (int j = 0; j < copies; j++) {
            must(api->move(device, NULL, plan, to_memory, from_memory, dst));
        }
        synchronize();
        samples[k < 0 ? 0 : k] = (bench_now_ns() - begin) / copies;
    }
    return bench_median(samples, 3);
}

static void tune(void)
{
    ptoi_cuda *device;
    const ptoi_cuda_api *api = ptoi_cuda_loaded(0, &device);
    printf("%-17s %10s %10s\n", "GB/s in tiles", "small", "large");
    for (int i = 0; i < CASES; i++) {
        const gpu_case *c = &cases[i];
        pto_tensor dst, src;
        tensors_of(c, to_memory, from_memory, gpu, &dst, &src);
        printf("%-17s", c->name);
        for (int form = 0; form < PTOI_TILE_FORMS; form++) {
            ptoi_grid_plan plan;
            ptoi_grid_make_with(&plan, dst.ndim, dst.shape, dst.strides, src.strides,
                                (uint32_t)pto_dtype_size(c->dtype), (uintptr_t)to_memory,
                                (uintptr_t)from_memory, 132, form);
            printf(" %10.0f",
                   2 * (double)bytes_of(c) / time_plan(api, device, &plan, &dst, copies_of(c)));
        }
        printf("\n");
    }
}

/* ---- Small copies ------------------------------------------------------------------------------- */

static bool bench_small(void)
{
    enum { CALLS = 2000 };
    static const gpu_case small[] = {
        {"64 KiB transposed", PTO_FLOAT32, 2, {128, 128}, {1, 0}},
        {"64 KiB of heads", PTO_FLOAT16, 4, {1, 16, 16, 128}, {0, 2, 1, 3}},
        {"64 KiB strided", PTO_FLOAT32, 3, {128, 64, 2}, {2, 0, 1}},
    };
    bool ok = true;
    double empty[ROUNDS], ours[3][ROUNDS];
    for (int k = 0; k < ROUNDS; k++) {
        empty[k] = peer.empty_launches(ops.stream, CALLS);
        for (int i = 0; i < 3; i++) {
            pto_tensor dst, src;
            tensors_of(&small[i], to_memory, from_memory, gpu, &dst, &src);
            (void)time_ours(&dst, &src, 10);
            ours[i][k] = time_ours(&dst, &src, CALLS);
        }
    }
    double launch = bench_median(empty, ROUNDS);
    printf("an empty kernel, launched by hand: %.2f us\n", launch / 1000);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, of an empty launch", small[i].name);
        ok &= bench_bar_at_most(name, bench_median(ours[i], ROUNDS) / launch, "", 1.2);
    }
    return ok;
}

/* ---- Copies to and from the host ---------------------------------------------------------------- */

static double time_host(char *host, uint64_t bytes, bool in, int copies)
{
    double begin = bench_now_ns();
    for (int k = 0; k < copies; k++) {
        must(in ? ops.copy_in(ops.self, to_memory, host, bytes)
                : ops.copy_out(ops.self, host, to_memory, bytes));
    }
    synchronize();
    return (bench_now_ns() - begin) / copies;
}

/* Median of single copies, each of which is waited for. */
static double time_single(char *host, uint64_t bytes, bool in)
{
    enum { COPIES = 501 };
    static double samples[COPIES];
    for (int k = 0; k < COPIES; k++) {
        samples[k] = time_host(host, bytes, in, 1);
    }
    return bench_median(samples, COPIES);
}

static bool bench_host(void)
{
    const uint64_t large = UINT64_C(256) << 20;
    bool ok = true;
    char *pinned = peer.pinned(large);
    static const char *const ways[] = {"to the device", "to the host"};
    double rate[2][2], raw[2];
    for (int way = 0; way < 2; way++) {
        bool in = way == 0;
        double samples[2][5], peers[5], by_hand[5];
        for (int k = 0; k < 5; k++) {
            peers[k] = peer.copies(pinned, to_memory, large, in, 4);
            samples[0][k] = time_host(pinned, large, in, 4);
            samples[1][k] = time_host(host_to, large, in, 2);
            by_hand[k] = peer.copies(host_to, to_memory, large, in, 2);
        }
        raw[way] = (double)large / bench_median(peers, 5);
        rate[way][0] = (double)large / bench_median(samples[0], 5);
        rate[way][1] = (double)large / bench_median(samples[1], 5);
        printf("256 MiB %-14s %6.1f GB/s pinned (by hand %.1f), %6.1f pageable "
               "(by hand %.1f)\n",
               ways[way], rate[way][0], raw[way], rate[way][1],
               (double)large / bench_median(by_hand, 5));
    }
    for (int way = 0; way < 2; way++) {
        char name[64];
        snprintf(name, sizeof name, "pinned %s", ways[way]);
        ok &= bench_bar_at_least(name, rate[way][0], "GB/s", 0.9 * 55);
        snprintf(name, sizeof name, "4 KiB %s, waited for", ways[way]);
        ok &= bench_bar_at_most(name, time_single(host_to, 4096, way == 0) / 1000, "us", 12);
    }
    double both[5];
    for (int k = 0; k < 5; k++) {
        double begin = bench_now_ns();
        must(ops.copy_in(ops.self, to_memory, pinned, large / 2));
        must(ops.copy_out(ops.self, pinned + large / 2, from_memory, large / 2));
        synchronize();
        both[k] = bench_now_ns() - begin;
    }
    printf("128 MiB each way at once: %.1f GB/s\n", (double)large / bench_median(both, 5));
    return ok;
}

/* Copies that go on by themselves: those of tasks. */
static double time_copy(const pto_tensor *to, const pto_tensor *from)
{
    const double begin = bench_now_ns();
    ptoi_device_wait w = PTOI_DEVICE_WAIT;
    must(ops.copy(ops.self, to, from, ptoi_device_wake, &w));
    must(ptoi_device_wait_for(&w));
    return bench_now_ns() - begin;
}

/* One side is transposed, of 8192 x 8192 floats: GB/s. */
static void bench_strided(void)
{
    enum { SIDE = 8192 };
    const uint64_t bytes = UINT64_C(4) * SIDE * SIDE;
    char *pinned = peer.pinned(bytes);
    static const char *const names[] = {"both sides dense", "transposed on the device",
                                        "transposed on the host", "a part of each row"};
    for (int k = 0; k < 4; k++) {
        printf("copies as tasks, %-26s", names[k]);
        for (int way = 0; way < 4; way++) { /* pinned in and out, pageable in and out */
            pto_tensor host, far;
            const int64_t shape[] = {SIDE, SIDE};
            double samples[5];
            must(pto_tensor_init(&host, way < 2 ? pinned : host_to, bytes, PTO_FLOAT32, 2, shape,
                                 NULL, 0));
            must(pto_tensor_init(&far, to_memory, bytes, PTO_FLOAT32, 2, shape, NULL, 0));
            far.device = gpu;
            if (k == 1 || k == 2) {
                pto_tensor *side = k == 1 ? &far : &host;
                must(pto_tensor_transpose(side, 0, 1, side));
            } else if (k == 3) {
                must(pto_tensor_slice(&far, 1, 64, SIDE - 64, 1, &far));
                must(pto_tensor_slice(&host, 1, 64, SIDE - 64, 1, &host));
            }
            for (int i = 0; i < 5; i++) {
                samples[i] = way % 2 ? time_copy(&host, &far) : time_copy(&far, &host);
            }
            printf(" %6.1f", (double)pto_tensor_numel(&far) * 4 / bench_median(samples, 5));
        }
        printf("  GB/s pinned in, out, pageable in, out\n");
    }
    static double small[501];
    pto_tensor host, far;
    const int64_t n = 1024;
    must(pto_tensor_init(&host, host_to, 4096, PTO_FLOAT32, 1, &n, NULL, 0));
    must(pto_tensor_init(&far, to_memory, 4096, PTO_FLOAT32, 1, &n, NULL, 0));
    far.device = gpu;
    for (int i = 0; i < 501; i++) {
        small[i] = time_copy(&far, &host);
    }
    printf("4 KiB to the device as a task does it: %.1f us\n", bench_median(small, 501) / 1000);
}

static void bench_fill(void)
{
    double samples[5];
    pto_tensor t;
    const int64_t n = (int64_t)(most_bytes / 4);
    must(pto_tensor_init(&t, to_memory, most_bytes, PTO_FLOAT32, 1, &n, NULL, 0));
    t.device = gpu;
    for (int k = 0; k < 5; k++) {
        double begin = bench_now_ns();
        for (int j = 0; j < 10; j++) {
            must(pto_fill(&t, 1.5));
        }
        synchronize();
        samples[k] = (bench_now_ns() - begin) / 10;
    }
    printf("fill: %.0f GB/s written", (double)most_bytes / bench_median(samples, 5));
    for (int k = 0; k < 5; k++) {
        samples[k] = peer.memsets(to_memory, most_bytes, ops.stream, 10);
    }
    printf("; cudaMemset: %.0f\n", (double)most_bytes / bench_median(samples, 5));
    for (int k = 0; k < 5; k++) {
        samples[k] = peer.device_copies(to_memory, from_memory, most_bytes, ops.stream, 10);
    }
    printf("cudaMemcpy from device to device: %.0f GB/s read+written\n",
           2 * (double)most_bytes / bench_median(samples, 5));
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    if (!strcmp(only, "--help")) {
        printf("usage: bench_gpu [--tune]\n\n  --tune   only compare the two forms of tiles\n");
        return 0;
    }
    must(pto_device_get(gpu, &ops));
    must(pto_device_set_current(gpu));
    gpu_peer_load(&peer);
    for (int i = 0; i < CASES; i++) {
        most_bytes = bytes_of(&cases[i]) > most_bytes ? bytes_of(&cases[i]) : most_bytes;
    }
    must(ops.alloc(ops.self, most_bytes, &to_memory));
    must(ops.alloc(ops.self, most_bytes, &from_memory));
    if (!strcmp(only, "--tune")) {
        tune();
        return 0;
    }
    host_from = malloc(most_bytes);
    host_to = malloc(most_bytes);
    uint64_t random = 88172645463325252U;
    for (uint64_t k = 0; k < most_bytes; k += 8) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        memcpy(host_from + k, &random, 8);
    }
    memset(host_to, 1, most_bytes);
    must(ops.copy_in(ops.self, from_memory, host_from, most_bytes));
    synchronize();
    torch_start(&torch);
    bool ok = bench_cases();
    ok &= bench_small();
    ok &= bench_host();
    bench_strided();
    bench_fill();
    torch_stop(&torch);
    return !ok;
}
