/* consumer.c - a first program of somebody who installed the library; C11 and C++17. */
#include <pto/dlpack.h>
#include <pto/pto.h>

#include <stdio.h>
#include <string.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, pto_error_detail());
    return 1;
}

static pto_status add_number(const pto_call *call)
{
    const float *x = (const float *)call->args[0].data;
    float *y = (float *)call->args[1].data;
    for (int64_t i = 0; i < call->args[1].shape[0]; i++) {
        y[i] = x[i] + (float)call->args[2].f64;
    }
    return PTO_OK;
}

/* Two tasks with a temporary between them: x += 3. */
static pto_status run_tasks(pto_runtime *rt, float *x, int64_t n)
{
    pto_kernel kernel;
    pto_tensor tx, between;
    PTO_TRY(pto_kernel_register(rt, "add_number", PTO_VECTOR, add_number, NULL, &kernel));
    PTO_TRY(pto_external_tensor(rt, x, PTO_FLOAT32, 1, &n, &tx));
    PTO_SCOPE(rt) {
        PTO_TRY(pto_temp(rt, PTO_FLOAT32, 1, &n, &between));
        PTO_TRY(pto_submit(rt, kernel, pto_input(&tx), pto_output(&between), pto_scalar(1.0f)));
        PTO_TRY(pto_submit(rt, kernel, pto_input(&between), pto_output(&tx), pto_scalar(2.0)));
    }
    return pto_wait(rt);
}

static int check_runtime(void)
{
    float x[16] = {0};
    pto_runtime *rt = NULL;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = 2;
    if (pto_runtime_create(&rt, &config) != PTO_OK || run_tasks(rt, x, 16) != PTO_OK) {
        return failed("tasks");
    }
    for (int i = 0; i < 16; i++) {
        if (x[i] != 3) {
            return failed("sum");
        }
    }
    return pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK ? 0 : failed("end");
}

int main(void)
{
    float matrix[4][8];
    const int64_t shape[] = {4, 8};
    pto_tensor whole, column, other;
    memset(matrix, 0, sizeof matrix);

    if (strcmp(pto_version(), PTO_VERSION) != 0) {
        return failed("compiled against another version than it runs with");
    }
    if (pto_tensor_init(&whole, matrix, sizeof matrix, PTO_FLOAT32, 2, shape, NULL, 0) != PTO_OK ||
        pto_tensor_slice(&whole, 1, 2, 3, 1, &column) != PTO_OK ||
        pto_tensor_slice(&whole, 1, 3, 4, 1, &other) != PTO_OK) {
        return failed("views");
    }
    if (!pto_tensor_overlaps(&whole, &column) || pto_tensor_overlaps(&column, &other)) {
        return failed("overlap");
    }

    pto_tensormap *map = NULL;
    pto_map_task task = {1, 0};
    pto_map_task producer = {0, 0};
    bool found = false;
    if (pto_tensormap_init_default(&map) != PTO_OK ||
        pto_tensormap_insert(map, &whole, task) != PTO_OK ||
        pto_tensormap_lookup(map, &column, &found, &producer) != PTO_OK) {
        return failed("map");
    }
    pto_tensormap_destroy(&map);
    if (!found || producer.id != 1) {
        return failed("producer");
    }

    pto_dl_managed *exported = NULL;
    if (pto_dlpack_export(&column, NULL, NULL, &exported) != PTO_OK) {
        return failed("export");
    }
    pto_dlpack_release(&exported);

    /* A failure has words on both sides of the language. */
    if (pto_tensor_slice(&whole, 7, 0, 1, 1, &other) != PTO_BAD_DIM || !*pto_error_detail()) {
        return failed("no error");
    }
    if (check_runtime() != 0) {
        return 1;
    }
    printf("pto %s\n", pto_version());
    return 0;
}
