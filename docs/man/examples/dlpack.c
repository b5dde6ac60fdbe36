/* Exchanging tensors. */
#include "example.h"

#include <pto/dlpack.h>

static void count(void *context)
{
    ++*(int *)context;
}

static pto_status run(pto_runtime *rt)
{
    (void)rt;
    int done = 0;
    /* example: pto_dlpack_export */
    pto_dl_managed *managed;
    PTO_TRY(pto_dlpack_export(&ta, count, &done, &managed)); /* pass it to another library */
    /* end */
    /* example: pto_dlpack_import pto_dlpack_release */
    pto_tensor t; /* a view of the memory of the other library */
    PTO_TRY(pto_dlpack_import(managed, &t));
    /* use t; then give the memory back */
    pto_dlpack_release(&managed);
    /* end */
    CHECK(t.storage == a && done == 1 && managed == NULL);
    return PTO_OK;
}
