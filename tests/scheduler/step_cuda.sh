#!/bin/sh
# step_cuda.sh SOURCE: src/scheduler/step.h compiles as CUDA C++ for the supported devices: with
# nvcc if it is installed, otherwise with clang's CUDA mode, device code only, which needs no toolkit.
set -u

source=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
archs="sm_80 sm_90"
[ -n "$nvcc" ] || archs=sm_80 # what every clang of today knows
for arch in $archs; do
    if [ -n "$nvcc" ]; then
        "$nvcc" -std=c++17 -Werror all-warnings -arch="$arch" -ptx -I"$source/src" \
            -o "$work/$arch.ptx" "$source/tests/scheduler/step.cu" || exit 1
    elif command -v clang >/dev/null; then
        clang -x cuda --cuda-device-only --cuda-gpu-arch="$arch" -nocudainc -nocudalib -std=c++17 \
            -Wall -Werror -Wno-unknown-cuda-version -O2 -S -I"$source/src" \
            -o "$work/$arch.ptx" "$source/tests/scheduler/step.cu" || exit 1
    else
        echo "neither nvcc nor clang is here: nothing is compiled"
        exit 0
    fi
    # W2, W3 and W4 are there, in the scope of the device.
    for word in ptoi_step_test 'fence.acq_rel.gpu' 'atom.acquire.gpu.exch.b64' 'atom.acquire.gpu.cas.b64' \
        'ld.acquire.gpu.u64'; do
        grep -qF "$word" "$work/$arch.ptx" || {
            echo "$arch: no $word in the code" >&2
            exit 1
        }
    done
done
echo "the step compiles as CUDA C++ with ${nvcc:-clang}"
