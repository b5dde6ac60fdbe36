/* declare.h - what kernels declare about their parameters, and the check at submit. Orchestrator's
 * side.
 *
 * A declaration is parsed once, into one `want` and `mask` for each parameter. The check is one
 * comparison of kinds and one of a masked word, so it needs no cache. Submit finds out that a kernel
 * is declared in a branch that it takes anyway: see PTOI_ROUTE_DECLARED.
 */
#ifndef PTOI_DECLARE_H
#define PTOI_DECLARE_H

#include <pto/pto.h>

/* A declared parameter. */
typedef struct ptoi_declared {
    uint64_t want, mask;  /* of the word ndim, dtype of a tensor, or of the dtype of a scalar */
    uint32_t kind;        /* pto_param_kind; 0: any parameter */
    uint32_t at, length;  /* its place in the text */
    uint32_t name, named; /* place and length of its name; 0: it has none */
} ptoi_declared;

typedef struct ptoi_declaration {
    size_t n;   /* parameters, without a tail */
    bool tail;  /* params[n] describes any number of further ones */
    char *text; /* after the parameters, in the same memory */
    ptoi_declared params[];
} ptoi_declaration;

/* Parses a declaration of kernel `name`. To be freed with free. */
pto_status ptoi_declaration_parse(const char *name, const char *text, ptoi_declaration **parsed);

/* Checks the parameters of a submit. What is no valid parameter at all is left to the checks of
 * every submit. */
pto_status ptoi_declaration_check(const ptoi_declaration *d, const char *name,
                                  const pto_param *params, size_t n_params, const char *file,
                                  int line);

#endif /* PTOI_DECLARE_H */
