#!/bin/sh
# grid_compiles.sh NVCC SOURCE: a program with only the public headers and the generated pto/grid.cuh
# compiles kernels for a GPU that schedules for itself, for the supported GPUs: without warnings, without
# spilled registers, local memory or reads through the read-only cache in the grid. The module can be found from C. The
# example of pto/cuda.cuh compiles.
set -u

nvcc=$1
source=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0

complain() {
    echo "$1" >&2
    bad=1
}

# As it is installed: no folder of internal headers.
mkdir -p "$work/include/pto"
cp "$source"/include/pto/*.h "$source"/include/pto/*.cuh "$work/include/pto/"
"$source/cmake/one-header.sh" "$source/src" scheduler/grid.cuh >"$work/include/pto/grid.cuh" || exit 1
! grep '^#include "' "$work/include/pto/grid.cuh" || complain "pto/grid.cuh includes internal headers"
! grep -n '__CUDA_ARCH__$' "$work/include/pto/grid.cuh" || complain "pto/grid.cuh has code of the host"

for arch in sm_80 sm_90; do
    "$nvcc" -std=c++17 -O3 -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror \
        -Xptxas -v -shared -cudart static -arch=$arch -I"$work/include" -o "$work/module.so" \
        "$source/tests/device/cuda/grid_kernels.cu" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
    grids=$(grep -c 'Compiling entry function.*pto_gpu_grid' "$work/log")
    [ "$grids" -eq 2 ] || complain "$arch: $grids grids, and there are 2 modules"
    ! grep -v ' 0 bytes spill stores, 0 bytes spill loads' "$work/log" | grep 'bytes spill' >&2 ||
        complain "$arch: registers are spilled"
    # Each fence empties the cache of local memory, so what is there would have to be read again.
    ! grep 'bytes stack frame' "$work/log" | grep -v ' 0 bytes stack frame' >&2 || complain "$arch: local memory"
    for module in grid_module grid_small_module; do
        nm -D "$work/module.so" | grep -q " [DR] $module\$" || complain "$arch: no symbol $module"
    done
done

# Nothing is read through the cache that knows nothing of what other blocks have written since the launch.
for file in tests/device/cuda/grid_kernels.cu examples/workloads/gpu.cu examples/workloads/decode.cu; do
    "$nvcc" -std=c++17 -O3 -arch=compute_90 -ptx -I"$work/include" -o "$work/file.ptx" "$source/$file" || exit 1
    grep -q 'fence.acq_rel' "$work/file.ptx" || complain "$file: no grid in the PTX"
    ! grep -m 3 'ld.global.nc' "$work/file.ptx" >&2 || complain "$file: reads through the read-only cache"
done

# The example of the header, from its first #include to its module.
sed -n 's/^ \*     //p' "$source/include/pto/cuda.cuh" | sed -n '/^#include/,/^PTO_GPU_MODULE/p' >"$work/example.cu"
grep -q 'PTO_GPU_KERNEL(scale)' "$work/example.cu" || complain "pto/cuda.cuh has no example"
"$nvcc" -std=c++17 -Werror all-warnings -arch=sm_90 -c -I"$work/include" -o "$work/example.o" "$work/example.cu" ||
    complain "the example of pto/cuda.cuh does not compile"
[ $bad -eq 0 ] && echo "the grid compiles with $nvcc: $(grep -o 'Used [0-9]* registers' "$work/log" | sort -u | tr '\n' ' ')"
exit $bad
