/* openblas.h - OpenBLAS as a peer: its transpose of float matrices, if the library is there.
 *
 * It is loaded when the program runs, so that neither it nor its headers are needed to build.
 */
#ifndef PTO_PEERS_OPENBLAS_H
#define PTO_PEERS_OPENBLAS_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Their enums are ints: the order of the matrix (101: by rows), what to do (112: transpose). */
typedef void openblas_somatcopy_fn(int order, int transpose, int rows, int columns, float factor,
                                   const float *from, int from_row, float *to, int to_row);

typedef struct openblas_peer {
    openblas_somatcopy_fn *somatcopy; /* NULL: not to be had, */
    const char *why_not;              /* and why */
} openblas_peer;

static void openblas_start(openblas_peer *openblas)
{
    *openblas = (openblas_peer){.why_not = "libopenblas0 is not installed"};
    /* Its threads would only be in the way: this function does not use them. */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cblas_somatcopy") : NULL;
    if (library && !symbol) {
        openblas->why_not = "libopenblas.so.0 has no cblas_somatcopy";
    }
    /* C has no cast from an object pointer to a function; POSIX promises that the bytes fit. */
    memcpy(&openblas->somatcopy, &symbol, sizeof symbol);
}

static void openblas_transpose(const openblas_peer *openblas, int64_t rows, int64_t columns,
                               void *to, const void *from)
{
    openblas->somatcopy(101, 112, (int)rows, (int)columns, 1.0f, from, (int)columns, to, (int)rows);
}

#endif /* PTO_PEERS_OPENBLAS_H */
