/* code.h - which code this process has loaded: the program and its shared objects.
 *
 * A process that is forked has the code that was loaded then, at the same addresses. Code that is
 * loaded later, or made at run time, is not there.
 */
#ifndef PTOI_CODE_H
#define PTOI_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pto/status.h>

/* The ranges of addresses that held code at one moment. */
typedef struct ptoi_code {
    size_t count;
    struct {
        uintptr_t begin, end;
    } * ranges;
} ptoi_code;

/* Lists all code that is loaded now. */
pto_status ptoi_code_list(ptoi_code *code);
void ptoi_code_free(ptoi_code *code);

bool ptoi_code_has(const ptoi_code *code, uint64_t address);

#endif /* PTOI_CODE_H */
