/* blas_clones.h - functions that are compiled for several instruction sets, of which the loader chooses. */
#ifndef WORKLOAD_BLAS_CLONES_H
#define WORKLOAD_BLAS_CLONES_H

/* The sanitizers cannot run that early, and clang 14 gives such functions another name. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(WORKLOADS_SANITIZED)
#define BLAS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BLAS_CLONES
#endif

#endif /* WORKLOAD_BLAS_CLONES_H */
