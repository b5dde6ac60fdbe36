/* isa.c - detects the instruction sets of this machine. */
#include "op/rearrange/isa.h"

const ptoi_isa *ptoi_isa_at(size_t index)
{
#if defined(__x86_64__)
    /* Fills the compiler's own table, unless that was done before main. */
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && index-- == 0) {
        return &ptoi_isa_avx512;
    }
    if (__builtin_cpu_supports("avx2") && index-- == 0) {
        return &ptoi_isa_avx2;
    }
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    if (index-- == 0) {
        return &ptoi_isa_simd128;
    }
#endif
    return index == 0 ? &ptoi_isa_portable : NULL;
}
