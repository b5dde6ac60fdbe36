/* rearrange.c - a filter on planes, for images with interleaved channels.
 *
 *     image     height x width x channels       abcd abcd abcd ...
 *       |
 *       | rearrange, in parts of some planes each
 *       v
 *     planes    channels x height x width       aaa... bbb... ccc... ddd...     a temporary
 *       |
 *       | level: one task per plane, which starts when the part with its plane is done
 *       v
 *     planes
 *       |
 *       | rearrange, in parts of some rows each
 *       v
 *     image
 *
 * The copies are ordinary tasks. The program declares no dependencies. While one image is
 * rearranged, the planes of another are filtered.
 */
#include <errno.h>
#include <pto/rearrange.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Subtracts the smallest element of a plane from all its elements. The plane is dense: no strides,
 * and no other channels in its cache lines. */
static pto_status level(const pto_call *call)
{
    const pto_arg *plane = &call->args[0];
    const int64_t n = plane->shape[2] * plane->shape[3];
    float *x = plane->data, least = x[0];
    for (int64_t i = 1; i < n; i++) {
        least = x[i] < least ? x[i] : least;
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] -= least;
    }
    return PTO_OK;
}

/* The serial program. `images` is [n, height, width, channels]. */
static pto_status orchestrate(pto_runtime *rt, const pto_tensor *images)
{
    pto_kernel kernel;
    pto_tensor turned; /* the same memory as [n, channels, height, width] */
    PTO_TRY(pto_kernel_register(rt, "level", PTO_VECTOR, level, NULL, &kernel));
    PTO_TRY(pto_tensor_permute(images, (int32_t[]){0, 3, 1, 2}, &turned));
    for (int64_t i = 0; i < turned.shape[0]; i++) {
        PTO_BOUNDARY(rt) { /* the planes of an image are recycled when its tasks are done */
            pto_tensor image, planes, plane;
            PTO_TRY(pto_tensor_slice(&turned, 0, i, i + 1, 1, &image));
            PTO_TRY(pto_temp(rt, PTO_FLOAT32, 4, image.shape, &planes));
            PTO_TRY(pto_submit_rearrange(rt, &planes, &image, PTO_VECTOR));
            for (int64_t c = 0; c < planes.shape[1]; c++) {
                PTO_TRY(pto_tensor_slice(&planes, 1, c, c + 1, 1, &plane));
                PTO_TRY(pto_submit(rt, kernel, pto_inout(&plane)));
            }
            PTO_TRY(pto_submit_rearrange(rt, &image, &planes, PTO_VECTOR));
        }
    }
    return pto_wait(rt);
}

/* ---- Options, data, checks ---------------------------------------------------------------- */

static const char usage[] = "usage: ./dev run rearrange [OPTIONS]\n"
                            "  --images N     number of images (default 8)\n"
                            "  --height N     height of an image (default 112)\n"
                            "  --width N      width of an image (default 112)\n"
                            "  --channels N   channels of an image (default 64)\n"
                            "  --help\n"
                            "\n"
                            "Rearranges images of height x width x channels into planes, filters "
                            "each plane, rearranges them\n"
                            "back, and compares the result with serial loops.\n";

static const char *const names[] = {"--images", "--height", "--width", "--channels"};
static const int64_t most[] = {4096, 16384, 16384, 4096};

static void refuse(const char *problem, const char *what)
{
    fprintf(stderr, "rearrange: %s '%s'\n\n%s", problem, what, usage);
    exit(2);
}

static void parse(int argc, char **argv, int64_t *shape)
{
    for (int i = 1; i < argc; i += 2) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            exit(0);
        }
        int d = 0;
        while (d < 4 && strcmp(argv[i], names[d]) != 0) {
            d++;
        }
        if (d == 4) {
            refuse("unknown option", argv[i]);
        }
        const char *text = argv[i + 1] ? argv[i + 1] : "";
        char *end, problem[64];
        errno = 0;
        const long long value = strtoll(text, &end, 10);
        if (end == text || *end || errno || value < 1 || value > most[d]) {
            snprintf(problem, sizeof problem, "%s takes a number from 1 to %lld, not", names[d],
                     (long long)most[d]);
            refuse(problem, text);
        }
        shape[d] = value;
    }
}

/* Integers, so that results are exact. None is 0, so that every plane changes. */
static float pixel(int64_t i)
{
    return (float)(1 + i * 7919 % 1000003);
}

static int64_t count_wrong(const float *x, const int64_t *shape)
{
    const int64_t channels = shape[3], image = shape[1] * shape[2] * channels;
    int64_t wrong = 0;
    for (int64_t at = 0; at < shape[0] * image; at += image) {
        for (int64_t c = at; c < at + channels; c++) {
            float least = pixel(c);
            for (int64_t i = c; i < at + image; i += channels) {
                least = pixel(i) < least ? pixel(i) : least;
            }
            for (int64_t i = c; i < at + image; i += channels) {
                wrong += x[i] != pixel(i) - least;
            }
        }
    }
    return wrong;
}

static pto_status run(float *x, const int64_t *shape)
{
    pto_runtime *rt;
    pto_tensor images;
    pto_runtime_stats s;
    PTO_TRY(pto_runtime_create(&rt, NULL));
    pto_status status = pto_external_tensor(rt, x, PTO_FLOAT32, 4, shape, &images);
    status = status ? status : orchestrate(rt, &images);
    status = status ? status : pto_stats(rt, &s);
    if (!status) {
        const int64_t planes = shape[0] * shape[3];
        printf("%lld images of %lld x %lld, %lld channels: %.1f MB\n", (long long)shape[0],
               (long long)shape[1], (long long)shape[2], (long long)shape[3],
               (double)pto_tensor_numel(&images) * sizeof(float) / 1e6);
        printf("tasks    %lld planes, %lld for the copies in both directions\n", (long long)planes,
               (long long)s.completed - (long long)planes);
    }
    const pto_status ended = pto_runtime_destroy(&rt, PTO_CANCEL);
    return status ? status : ended;
}

int main(int argc, char **argv)
{
    int64_t shape[4] = {8, 112, 112, 64};
    parse(argc, argv, shape);
    const int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
    float *x = malloc((size_t)n * sizeof *x);
    if (!x) {
        fprintf(stderr, "rearrange: no memory for %lld elements\n", (long long)n);
        return 1;
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = pixel(i);
    }
    const pto_status status = run(x, shape);
    const int64_t wrong = status ? n : count_wrong(x, shape);
    free(x);
    if (status) {
        fprintf(stderr, "rearrange: %s: %s\n  hint: %s\n", pto_status_text(status),
                pto_error_detail(), pto_status_hint(status));
    } else if (wrong) {
        printf("result   WRONG: %lld elements differ from those of serial loops\n",
               (long long)wrong);
    } else {
        printf("result   right: every element equals that of serial loops\n");
    }
    return status || wrong;
}
