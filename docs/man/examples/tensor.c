/* Tensors: init, views, copies, properties, overlap. */
#include "example.h"

static float matrix[4][6];

static pto_status views(const pto_tensor *m)
{
    pto_tensor out;
    /* example */
    pto_tensor tile; /* rows 1 and 2, columns 3 to 5 */
    PTO_TRY(pto_tensor_view(m, (int64_t[]){1, 3}, (int64_t[]){2, 3}, &tile));
    /* end */
    CHECK(tile.offset == 9 && tile.strides[0] == 6);
    /* example */
    pto_tensor odd; /* columns 1, 3 and 5: m[:, 1:6:2] */
    PTO_TRY(pto_tensor_slice(m, 1, 1, 6, 2, &odd));
    pto_tensor reversed; /* rows 3 to 0: m[::-1] */
    PTO_TRY(pto_tensor_slice(m, 0, 3, -1, -1, &reversed));
    /* end */
    CHECK(odd.shape[1] == 3 && reversed.strides[0] == -6);
    /* example */
    pto_tensor row; /* a vector: m[2] */
    PTO_TRY(pto_tensor_select(m, 0, 2, &row));
    /* end */
    CHECK(row.ndim == 1 && row.shape[0] == 6);
    /* example */
    pto_tensor cube, moved; /* 4 x 2 x 3, then 3 x 4 x 2 */
    PTO_TRY(pto_tensor_reshape(m, 3, (int64_t[]){4, 2, 3}, &cube));
    PTO_TRY(pto_tensor_permute(&cube, (int32_t[]){2, 0, 1}, &moved));
    /* end */
    CHECK(moved.shape[0] == 3 && moved.strides[0] == 1);
    /* example */
    pto_tensor columns; /* 6 x 4: columns[j][i] is m[i][j] */
    PTO_TRY(pto_tensor_transpose(m, 0, 1, &columns));
    /* end */
    CHECK(columns.shape[0] == 6);
    /* example: pto_tensor_reshape */
    pto_tensor flat; /* -1: as many as are left */
    PTO_TRY(pto_tensor_reshape(m, 1, (int64_t[]){-1}, &flat));
    pto_status status = pto_tensor_reshape(&columns, 1, (int64_t[]){-1}, &flat);
    /* PTO_NEEDS_COPY: the columns are not one progression of addresses */
    /* end */
    CHECK(status == PTO_NEEDS_COPY);
    /* example */
    pto_tensor all; /* 5 x 6: the row again and again, with a stride of 0 */
    PTO_TRY(pto_tensor_broadcast(&row, 2, (int64_t[]){5, 6}, &all));
    /* end */
    CHECK(all.strides[0] == 0);
    out = all;
    return pto_tensor_check(&out);
}

static pto_status copies(const pto_tensor *m)
{
    pto_tensor columns;
    PTO_TRY(pto_tensor_transpose(m, 0, 1, &columns));
    /* example: pto_tensor_nbytes pto_tensor_contiguous */
    uint64_t bytes;
    PTO_TRY(pto_tensor_nbytes(&columns, &bytes));
    void *memory = malloc(bytes);
    pto_tensor dense; /* columns, row after row in new memory */
    PTO_TRY(pto_tensor_contiguous(&columns, memory, bytes, &dense));
    /* end */
    CHECK(pto_tensor_is_contiguous(&dense) && !pto_tensor_is_contiguous(&columns));
    /* example: pto_tensor_clone */
    pto_tensor copy; /* keeps the order in memory: a copy of the matrix, seen transposed */
    PTO_TRY(pto_tensor_clone(&columns, memory, bytes, &copy));
    /* end */
    CHECK(copy.strides[0] == 1);
    free(memory);
    return PTO_OK;
}

static pto_status properties(const pto_tensor *m)
{
    pto_tensor tile;
    PTO_TRY(pto_tensor_view(m, (int64_t[]){1, 3}, (int64_t[]){2, 3}, &tile));
    /* example: pto_tensor_numel pto_tensor_is_contiguous pto_dtype_size pto_tensor_format */
    char text[160];
    pto_tensor_format(&tile, text, sizeof text);
    printf("%s: %lld elements of %zu bytes, %s\n", text, (long long)pto_tensor_numel(&tile),
           pto_dtype_size(tile.dtype), pto_tensor_is_contiguous(&tile) ? "dense" : "with gaps");
    /* end */
    /* example: pto_tensor_byte_range */
    uint64_t low, end; /* from the first byte to one past the last, gaps included */
    PTO_TRY(pto_tensor_byte_range(&tile, &low, &end));
    /* end */
    CHECK(low == 36 && end == 72);
    /* example: pto_device_name pto_dtype_name */
    printf("%s on %s:%d\n", pto_dtype_name(tile.dtype), pto_device_name(tile.device.type),
           (int)tile.device.index);
    /* end */
    return PTO_OK;
}

static pto_status overlap(const pto_tensor *m)
{
    pto_tensor even, odd;
    PTO_TRY(pto_tensor_slice(m, 1, 0, 6, 2, &even));
    PTO_TRY(pto_tensor_slice(m, 1, 1, 6, 2, &odd));
    /* example: pto_tensor_overlaps */
    bool share = pto_tensor_overlaps(&even, &odd); /* false: they interleave */
    bool inside = pto_tensor_covers(m, &even);     /* true */
    /* end */
    CHECK(!share && inside);
    /* example: pto_tensor_overlaps_ex pto_overlap_stage_name pto_overlap_budget_hits */
    pto_overlap_result result;
    PTO_TRY(pto_tensor_overlaps_ex(&even, &odd, UINT64_MAX, &result));
    printf("%s, decided by: %s, after %llu steps\n", result.yes ? "they overlap" : "they do not",
           pto_overlap_stage_name(result.stage), (unsigned long long)result.steps);
    printf("not decided so far: %llu\n", (unsigned long long)pto_overlap_budget_hits());
    /* end */
    CHECK(!result.yes);
    return PTO_OK;
}

static pto_status run(pto_runtime *rt)
{
    (void)rt;
    /* example */
    pto_tensor m; /* float matrix[4][6], dense */
    PTO_TRY(pto_tensor_init(&m, matrix, sizeof matrix, PTO_FLOAT32, 2, (int64_t[]){4, 6}, NULL, 0));
    /* end */
    /* example */
    pto_tensor by_hand = m;
    by_hand.shape[0] = 5;                           /* one row too many */
    pto_status status = pto_tensor_check(&by_hand); /* PTO_OUT_OF_BOUNDS */
    /* end */
    CHECK(status == PTO_OUT_OF_BOUNDS);
    PTO_TRY(views(&m));
    PTO_TRY(copies(&m));
    PTO_TRY(properties(&m));
    return overlap(&m);
}
