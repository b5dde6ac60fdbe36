#!/bin/sh
# emulate.sh HEADER KERNELS OUT: what nvcc compiles, for the C++ compiler: pto/grid.cuh and the test's kernels, without
# PTX. OUT/pto/grid.cuh and OUT/grid_kernels.cc.
set -eu

mkdir -p "$3/pto"
without_ptx() {
    sed -e 's/asm volatile("mov.u64[^"]*" : "=l"(\([a-z]*\)));/\1 = lanes_clock();/' \
        -e 's/asm volatile("st.release.sys.u64[^)]*) *, *"l"(\([a-z]*\)) : "memory");/__atomic_store_n(flag, \1, __ATOMIC_RELEASE);/' \
        "$1"
}
without_ptx "$1" | awk '/^#ifndef PTOI_ATOMIC_CUH/ { skip = 1 } !skip { print } /^#endif \/\* PTOI_ATOMIC_CUH/ { skip = 0 }' >"$3/pto/grid.cuh"
without_ptx "$2" >"$3/grid_kernels.cc"
! grep -n 'asm volatile' "$3/pto/grid.cuh" "$3/grid_kernels.cc"
