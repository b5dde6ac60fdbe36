#!/bin/sh
# example.sh NVCC SOURCE: the kernel in docs/devices.md compiles for the supported GPUs, and fits into 20
# lines.
set -u

nvcc=$1
source=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

sed -n '/^```cuda$/,/^```$/{/^```/d;p;}' "$source/docs/devices.md" >"$work/example.cu"
grep -q __global__ "$work/example.cu" || {
    echo "docs/devices.md has no CUDA kernel" >&2
    exit 1
}
lines=$(grep -c . "$work/example.cu")
[ "$lines" -le 20 ] || {
    echo "the kernel in docs/devices.md has $lines lines" >&2
    exit 1
}
for arch in sm_80 sm_90; do
    "$nvcc" -std=c++17 -Werror all-warnings -arch=$arch -c -I"$source/include" -o "$work/example.o" \
        "$work/example.cu" || exit 1
done
echo "the kernel in docs/devices.md compiles: $lines lines"
