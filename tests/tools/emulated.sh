#!/bin/sh
# emulated.sh PTO
#
# The workloads with the kernels of examples/workloads/gpu.cu, which PTO has compiled for the CPU
# (tests/tools/emulated/pto/cuda.cuh): in memory of the host, and on a simulated device. Each must be right.
set -u

pto=$1
bad=0
count=0

unset PTO_WORKERS PTO_SCHEDULER PTO_RING_TASKS PTO_HEAP PTO_DEPS PTO_ARGS PTO_MAP_ENTRIES PTO_LEVELS PTO_DEVICE

for name in vector bgemm cholesky stencil attention decode; do
    for device in cpu:0 sim:0; do
        for seed in 1 2; do
            text=$(timeout 120 "$pto" run $name --small --device $device --seed $seed --no-profile 2>&1)
            status=$?
            case $status:$text in
            0:*"result    right"*) ;;
            *)
                echo "$name, $device, seed $seed: status $status: $text"
                bad=1
                ;;
            esac
            count=$((count + 1))
        done
    done
done
# A kernel that fails says so.
text=$("$pto" run cholesky --small --device sim:0 --break 40 2>&1)
case $text in
*"the matrix is not positive definite"*) ;;
*)
    echo "cholesky --break 40: $text"
    bad=1
    ;;
esac
echo "$count runs"
exit $bad
