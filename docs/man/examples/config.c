/* Options. */
#include "example.h"

static pto_status run(pto_runtime *rt)
{
    (void)rt;
    /* example: pto_options_print */
    printf("usage: program [FILE]\n\nenvironment:\n");
    pto_options_print(stdout);
    /* end */
    /* example: pto_options_list */
    pto_option options[64];
    size_t count;
    PTO_TRY(pto_options_list(options, 64, &count));
    for (size_t i = 0; i < count && i < 64; i++) {
        if (options[i].from_environment) {
            printf("%s=%s\n", options[i].variable, options[i].value);
        }
    }
    /* end */
    CHECK(count > 10);
    return PTO_OK;
}
