#!/bin/sh
# pack.sh BUILD SOURCE TO: puts everything that the tests and benches of a GPU need into the folder TO,
# with a script run.sh (away.sh), for a machine with a GPU and without build tools. `./dev gpu pack`
# calls it.
set -eu

build=$1
source=$2
to=$3
rm -rf "$to"
mkdir -p "$to/tests/device/cuda" "$to/gpu/other" "$to/bench/peers"
cp -L "$build/libpto.so" "$build/libpto-cuda.so" "$to/"
cp "$build"/gpu/*.so "$build/gpu/bench_gpu" "$build/gpu/bench_gpu_tasks" "$to/gpu/"
cp "$build/gpu/bench_gpu_grid" "$to/gpu/"
cp "$build/tests/soak/soak_grid" "$to/"
cp "$build"/gpu/other/*.so "$to/gpu/other/"
for name in gpu gpu_lost gpu_tasks gpu_tasks_lost why grid grid_lost; do
    cp "$build/tests/device/cuda/test_$name" "$to/tests/device/cuda/"
done
cp "$source/tests/device/cuda/gpu.sh" "$source/tests/device/cuda/dlpack_torch.py" "$to/tests/device/cuda/"
cp "$source/tests/device/cuda/grid.sh" "$to/tests/device/cuda/"
cp "$source/bench/peers/gpu_torch.py" "$to/bench/peers/"
cp -r "$source/build/python/lib" "$to/python"
cp "$source/tests/python/torch_check.py" "$to/python/"
cp "$source/tests/device/cuda/away.sh" "$to/run.sh"
# Libraries that such a machine may lack.
for program in "$to/tests/device/cuda/test_gpu_tasks" "$build/tools/pto"; do
    [ ! -x "$program" ] || ldd "$program" | awk '/cmocka|jansson|openblas|gfortran|quadmath/ && $3 ~ /^\// { print $3 }'
done | sort -u | while read -r library; do
    cp -L "$library" "$to/"
done
for tool in "$build/tools/pto" "$build/pto"; do
    [ ! -x "$tool" ] || cp "$tool" "$to/"
done
find "$to" -type f -perm -u+x ! -name '*.sh' -exec strip --strip-unneeded {} + # to carry less
du -sh "$to"
