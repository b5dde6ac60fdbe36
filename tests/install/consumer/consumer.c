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
    printf("pto %s\n", pto_version());
    return 0;
}
