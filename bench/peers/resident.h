/* resident.h - what is measured beside place gpu: a prototype of it, CUDA graphs that are replayed, and a
 * bare ping-pong through pinned memory (resident.cu, a library that is loaded). */
#ifndef PTO_BENCH_PEERS_RESIDENT_H
#define PTO_BENCH_PEERS_RESIDENT_H

#include <stdint.h>

typedef enum resident_shape {
    RESIDENT_INDEPENDENT,
    RESIDENT_CHAIN,
    RESIDENT_STENCIL, /* 64 cells, 3 edges each */
} resident_shape;

enum { RESIDENT_MOST = 1000000 }; /* tasks */

typedef struct resident_peer {
    /* The prototype: ns for each task, from the first that the host writes until it sees that all are
     * done. It has no TensorMap, no recycling, no failures, and reports every 1024 tasks. */
    double (*prototype)(resident_shape shape, uint32_t tasks);
    /* A CUDA graph with a kernel node for each task, made before: ns for each task of one replay. */
    double (*graph)(resident_shape shape, uint32_t tasks);
    /* The host stores a number in pinned memory, and a thread on the GPU answers: ns for each round. */
    double (*ping_pong)(uint32_t rounds);
    /* A word of pinned memory that the GPU can address under its address here. */
    uint64_t *(*flag)(void);
} resident_peer;

#ifndef __cplusplus
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static inline resident_peer resident_peer_load(void)
{
    void *library = dlopen("libpto-gpu-resident.so", RTLD_NOW);
    const resident_peer *(*get)(void) = library ? (const resident_peer *(*)(void))(uintptr_t)dlsym(
                                                      library, "resident_peer_get")
                                                : NULL;
    if (!get) {
        fprintf(stderr, "bench_gpu_grid: %s\n", dlerror());
        exit(2);
    }
    return *get();
}
#endif

#endif /* PTO_BENCH_PEERS_RESIDENT_H */
