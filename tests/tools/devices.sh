#!/bin/sh
# devices.sh PTO [SANITIZE]
#
# `pto run bgemm --device`, the program of the guide's chapter about devices, in every combination: on
# the host and on a simulated device, submitted by the caller or by a thread, scheduled inline, by a
# thread or in worker processes. Each must be right, with the same verdict. And all workloads that run in
# place gpu, on a simulated device. PTO is the command;
# SANITIZE names the sanitizers that it was built with.
set -u

pto=$1
sanitize=${2:-}
bad=0
first=
count=0

unset PTO_WORKERS PTO_RING_TASKS PTO_HEAP PTO_DEPS PTO_ARGS PTO_MAP_ENTRIES PTO_LEVELS PTO_DEVICE

say() {
    echo "$*"
    bad=1
}

# run_one SCHEDULER DEVICE ORCHESTRATOR
run_one() {
    object=$(PTO_SCHEDULER=$1 timeout 120 "$pto" run bgemm --device "$2" --orchestrator "$3" --small \
        --repeat 2 --json 2>&1)
    status=$?
}

places="inline thread process"
case $sanitize in
*thread*) places="inline thread" ;; # the thread sanitizer does not see what another process orders
esac
for orchestrator in caller thread; do
    for place in $places; do
        for device in cpu:0 sim:0 sim:1; do
            run_one $place $device $orchestrator
            if [ $place = process ] && [ $device != cpu:0 ]; then
                case $status:$object in
                0:*) say "$device in worker processes was not refused" ;;
                *"$device: worker processes"*) ;;
                *) say "$device in worker processes: $object" ;;
                esac
                continue
            fi
            verdict=$(printf '%s\n' "$object" |
                sed -n 's/.*"right":true,"verdict":"\([^"]*\)".*/\1/p')
            if [ $status -ne 0 ] || [ -z "$verdict" ]; then
                say "$device, $orchestrator, $place: status $status: $object"
            fi
            : "${first:=$verdict}"
            [ "$verdict" = "$first" ] || say "$device, $orchestrator, $place: '$verdict', not '$first'"
            count=$((count + 1))
        done
    done
done
# The option is the same as the variable. The data is copied to cpu:0 unless something else is said.
case $sanitize in
*thread*) ;;
*)
    object=$("$pto" run vector --small --workers 2 --place process 2>&1)
    case $object in
    *'device cpu:0'*'threads   2 workers in other processes, scheduler in them'*'result    right'*) ;;
    *) say "vector --place process: $object" ;;
    esac
    case $object in
    *'no profile: the kernels run in other processes'*) ;;
    *) say "vector --place process does not say why it has no profile: $object" ;;
    esac
    object=$("$pto" run vector --small --place process --json 2>/dev/null)
    case $object in
    *'"scheduler":"process"'*) ;;
    *) say "the JSON does not name the place: $object" ;;
    esac
    ;;
esac
# A GPU that is not there is no such device, for every workload that takes one.
if [ ! -e /dev/nvidiactl ]; then
    for name in vector bgemm rearrange; do
        object=$("$pto" run $name --small --device nvidia:0 2>&1)
        case $?:$object in
        1:*'no such device, '*': nvidia:0 cannot be used: '*NVIDIA*'hint: use a device that `pto info` lists'*) ;;
        *) say "$name on a GPU that is not there: $object" ;;
        esac
    done
fi
# Workloads on a device that schedules for itself.
unset PTO_SCHEDULER
for name in vector bgemm cholesky stencil attention decode; do
    object=$(timeout 200 "$pto" run $name --device sim:0 --place gpu --small --repeat 2 --json 2>&1)
    status=$?
    case $status:$object in
    0:*'"right":true'*) count=$((count + 1)) ;;
    *) say "$name in place gpu: status $status: $object" ;;
    esac
done
# Sizes that only just fit into the memory of a block, or are cut further: keys that are taken in parts, wide pieces,
# many experts, pages and heads of odd sizes.
for sizes in "--prompt 2500 --page 4096 --width 32 --dim 8 --hidden 32 --vocabulary 64 --tokens 2 --compare 1" \
    "--hidden 60000 --vocabulary 50000 --blocks 2 --moe-every 0 --tokens 2 --batch 2 --compare 1" \
    "--experts 64 --chosen 4 --batch 64 --tokens 2" \
    "--page 3 --dim 6 --heads 4 --kv-heads 2 --width 40 --batch 9"; do
    # shellcheck disable=SC2086 # words
    object=$(timeout 200 "$pto" run decode --device sim:0 --place gpu --small --no-profile --json $sizes 2>&1)
    status=$?
    case $status:$object in
    0:*'"right":true'*) count=$((count + 1)) ;;
    *) say "decode $sizes in place gpu: status $status: $object" ;;
    esac
done
# A trace says on which device an argument is, in every form.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for file in run.ptrace run.json; do
    PTO_TRACE=$work/$file "$pto" run bgemm --device sim:1 --small --no-profile --quiet ||
        say "a traced run: status $?"
done
"$pto" explain "$work/run.ptrace" gemm add >"$work/words" 2>&1
grep -q 'writes argument 2: .* in the heap of level [0-9]* on sim:1$' "$work/words" ||
    say "explain does not name the device: $(cat "$work/words")"
grep -q '"devices":"sim:1 sim:1 sim:1"' "$work/run.json" && grep -q '"devices":"[^"]*cpu:0' \
    "$work/run.json" || say "the JSON does not name the devices of arguments"

# The summary names the device where it counts threads, memory and time.
"$pto" run bgemm --device sim:1 --small --profile >"$work/summary" 2>&1
grep -q '^threads .* and the caller, 3 of sim:1, scheduler' "$work/summary" &&
    grep -q '^  *[0-9.]* .* of [0-9]* MiB on sim:1$' "$work/summary" &&
    grep -q '^busy .* caller [0-9]* %, sim:1 [0-9]* % [0-9]* % [0-9]* %; efficiency 0' "$work/summary" ||
    say "the summary does not name the device: $(cat "$work/summary")"
# In place gpu the orchestrating thread runs nothing, and the device has blocks.
PTO_GPU_WORKERS=2 "$pto" run bgemm --device sim:1 --place gpu --small --profile >"$work/summary" 2>&1
grep -q '^threads  *[0-9]* workers*, 1 thread and 2 blocks of sim:1, scheduler on the device$' "$work/summary" &&
    grep -q '^busy  *worker 0 [0-9]* %.*, sim:1 [0-9]* % [0-9]* % [0-9]* %; efficiency' "$work/summary" &&
    ! grep '^threads\|^busy' "$work/summary" | grep -q caller ||
    say "the summary of place gpu: $(cat "$work/summary")"
# Its trace has their lanes, and says how exact their times are.
PTO_GPU_WORKERS=2 PTO_TRACE=$work/grid.ptrace "$pto" run bgemm --device sim:0 --place gpu --small --no-profile \
    --quiet || say "a traced run in place gpu: status $?"
"$pto" trace report "$work/grid.ptrace" >"$work/words" 2>&1
grep -q 'scheduler gpu,' "$work/words" && grep -q '^  sim:0 block 0 ' "$work/words" &&
    grep -q '^  sim:0 block 1 ' "$work/words" && grep -q '^device clock .* within [0-9.]* [num]*s of' \
    "$work/words" || say "the report of place gpu: $(cat "$work/words")"
object=$("$pto" run bgemm --device sim:1 --small --profile --json 2>/dev/null)
case $object in
*'"devices":[{"device":"sim:1","workers":3,"heaps":['*'"device_busy_seconds":{"sim:1":['*) ;;
*) say "the JSON does not name the device: $object" ;;
esac
# Workers of devices have numbers behind those of the host. (A thousand threads are slow when watched.)
[ -n "$sanitize" ] || "$pto" run bgemm --device sim:1 --small --workers 1024 --profile --quiet ||
    say "with 1024 workers: status $?"

[ $bad -eq 0 ] && echo "$count combinations, all right"
exit $bad
