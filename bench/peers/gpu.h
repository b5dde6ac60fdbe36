/* gpu.h - what is measured beside ours on a GPU: CUDA called by hand (gpu.cu, a library that is
 * loaded). */
#ifndef PTO_BENCH_PEERS_GPU_H
#define PTO_BENCH_PEERS_GPU_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct gpu_peer {
    double (*empty_launches)(void *stream, int launches); /* ns each */
    double (*copies)(void *host, void *device, uint64_t bytes, bool in, int copies);
    double (*device_copies)(void *to, const void *from, uint64_t bytes, void *stream, int copies);
    double (*memsets)(void *to, uint64_t bytes, void *stream, int count);
    char *(*pinned)(uint64_t bytes);
    /* For tests: makes all launches on a stream fail, until end_capture. */
    void (*spoil_capture)(void *stream);
    void (*end_capture)(void *stream);
} gpu_peer;

#ifndef __cplusplus
static inline void gpu_peer_load(gpu_peer *peer)
{
    void *library = dlopen("libpto-gpu-peer.so", RTLD_NOW);
    gpu_peer *(*get)(void) = library
                                 ? (gpu_peer * (*)(void))(uintptr_t)dlsym(library, "gpu_peer_get")
                                 : NULL;
    if (!get) {
        fprintf(stderr, "bench_gpu: %s\n", dlerror());
        exit(2);
    }
    *peer = *get();
}
#endif

#endif /* PTO_BENCH_PEERS_GPU_H */
