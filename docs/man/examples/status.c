/* Statuses and their texts. */
#include "example.h"

static pto_status run(pto_runtime *rt)
{
    (void)rt;
    /* example */
    pto_tensor row;
    pto_status status = pto_tensor_select(&ta, 3, 0, &row);
    if (status != PTO_OK) {
        printf("%s: %s\n", pto_status_name(status), pto_status_text(status));
        printf("  %s\n", pto_error_detail()); /* this failure, with its numbers */
        printf("  to do: %s\n", pto_status_hint(status));
    }
    /* end */
    CHECK(status == PTO_BAD_DIM);
    /* example */
    if (strcmp(pto_version(), PTO_VERSION) != 0) {
        printf("compiled with %s, running with %s\n", PTO_VERSION, pto_version());
    }
    /* end */
    /* example */
    PTO_IGNORE(pto_tensor_check(&ta)); /* a cast to void would not silence gcc */
    /* end */
    return PTO_OK;
}
