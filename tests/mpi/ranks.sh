#!/bin/sh
# ranks.sh MPI MPIRUN PROGRAMS PTO PART
#
# Runs the programs of tests/mpi in the folder PROGRAMS, and workloads of the command PTO, on several
# ranks. PART: random `programs`, the single `cases`, whole `runs` of the command, their `traces`, or the
# program of the `guide`.
set -u

mpi=$1
launcher=$2
programs=$3
pto=$4
part=$5
root=$(readlink -f -- "$(dirname -- "$0")/../..")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
bad=0

# As root, with more ranks than cores, without binding, and through shared memory alone: a machine for
# tests may have no network, and may forbid to read the memory of another process.
options=
if [ "$mpi" = openmpi ]; then
    options="--oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader"
    options="$options --mca btl_vader_single_copy_mechanism none"
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
fi

# ranks N COMMAND...: leaves the output in $work/out and the exit status in $status. One attempt is
# bounded: a run that hangs is ended, with all of its ranks.
ranks() {
    n=$1
    shift
    begun=$(date +%s)
    # shellcheck disable=SC2086 # words
    timeout -k 10 100 "$launcher" $options -n "$n" "$@" >"$work/out" 2>&1 </dev/null
    status=$?
    # 137 is also what Open MPI returns for a rank that was killed.
    [ $status -ne 137 ] || [ $(($(date +%s) - begun)) -lt 100 ] || status=124
}

fail() {
    echo "ranks.sh: $mpi: $*"
    cat "$work/out"
    bad=1
}

# broke NAME: all ranks ended by themselves. Which status the launcher passes on is its own affair.
broke() {
    [ $status -ne 0 ] && [ $status -ne 124 ] && [ $status -ne 3 ] ||
        fail "$1 ends with status $status"
    ! grep -q "its manual page does not name" "$work/out" || fail "$1 returns what no page names"
}

# said N TEXT: the output has at least N lines with the text.
said() {
    [ "$(grep -c -- "$2" "$work/out")" -ge "$1" ] || fail "not said $1 times: $2"
}

random_programs() {
    seed=${PTO_TEST_SEED:-1}
    effort=${PTO_TEST_EFFORT:-100}
    for pair in 1=3 2=6 3=5 4=6; do
        count=$((${pair#*=} * effort / 100))
        ranks "${pair%=*}" "$programs/programs" $((seed * 1000 + ${pair%=*} * 100)) \
            $((count > 0 ? count : 1))
        [ $status -eq 0 ] || fail "random programs on ${pair%=*} ranks end with status $status"
    done
}

# leaves_nobody NAME: whoever is still ending may take a while on a busy machine.
leaves_nobody() {
    for wait in 1 2 4 8 16; do
        pgrep -f "^$programs/cases $1" >/dev/null || return 0
        sleep $wait
    done
    fail "$1 leaves processes behind"
}

single_cases() {
    # Three changes make a program for one machine one for several, and it prints the same.
    ranks 4 "$programs/names"
    [ $status -eq 0 ] || fail "names ends with status $status"
    "$programs/../names" >"$work/one" 2>&1 && cmp "$work/one" "$work/out" ||
        fail "names prints something else"

    # The launcher of another MPI.
    other=$([ "$mpi" = openmpi ] && echo mpich || echo openmpi)
    if [ -x "$programs/../$other/names" ]; then
        ranks 2 "$programs/../$other/names"
        broke names
        said 2 "the launcher has started 2 ranks"
    fi

    # One world after the other in the same processes.
    ranks 3 "$programs/cases" different_configs refusals stale two_worlds wrong_place in_kernel failures \
        cache_heals scratch_heals broadcast_heals scratch_cuts ranges counted trees together backwards \
        locks empty destroyed_early after_failure patience aliases stale_temps bad_arguments \
        slow_reader many_worlds
    [ $status -eq 0 ] || fail "a case ends with status $status"

    # Calls that are refused, in any order. Three ranks: one of them often has no part of a task.
    ranks 3 "$programs/cases" hostile
    [ $status -eq 0 ] || fail "hostile ends with status $status"

    # Tensors on a device.
    ranks 3 "$programs/cases" staging device_refusals device_fails on_sim refusals failures \
        cache_heals broadcast_heals scratch_heals scratch_cuts ranges counted trees backwards \
        aliases stale_temps
    [ $status -eq 0 ] || fail "a case on a device ends with status $status"

    ranks 2 "$programs/cases" forks
    [ $status -eq 0 ] || fail "a child that exits: status $status"
    ranks 3 "$programs/cases" no_variant
    broke no_variant
    said 1 "kernel 'host_only' has no variant for sim:0: add one (pto_kernel_variant)"
    ranks 2 "$programs/cases" no_device
    broke no_device
    said 1 "rank [01] cannot use cambricon:0, and every rank needs it"

    ranks 2 "$programs/cases" thread_level
    [ $status -eq 0 ] || fail "thread_level ends with status $status"
    ranks 3 "$programs/cases" one_level
    [ $status -eq 0 ] || fail "one_level ends with status $status"

    # All ranks end with the same error, which names both lines.
    cases=$(dirname -- "$0")/cases.c
    a=$(grep -n 'line A' "$cases" | cut -d: -f1)
    b=$(grep -n 'line B' "$cases" | cut -d: -f1)
    ranks 3 "$programs/cases" diverge
    broke diverge
    said 1 "cases.c:$a on rank 1"
    said 1 "cases.c:$b on rank [02]"
    c=$(grep -n 'line C' "$cases" | cut -d: -f1)
    d=$(grep -n 'line D' "$cases" | cut -d: -f1)
    ranks 3 "$programs/cases" diverge_inside
    broke diverge_inside
    said 1 "cases.c:$c on rank 1"
    said 1 "cases.c:$d on rank 0"
    said 1 "from call [0-9]* on, step [0-9]* of its range, which is at"
    ranks 3 "$programs/cases" other_kernels
    broke other_kernels
    said 1 "differ from call 2 on.*, with other arguments, kernels or owners of tiles"
    ranks 2 "$programs/cases" other_scalars
    broke other_scalars
    said 1 "differ from call 2 on.*, with other arguments, kernels or owners of tiles"
    ranks 2 "$programs/cases" far_behind
    broke far_behind
    said 1 "differ from call [0-9]* (or an earlier one) on, which is at .*cases.c:[0-9]* on rank"
    for name in finalizes one_finalizes; do
        ranks 3 "$programs/cases" $name
        broke $name
        said 1 "rank [012] calls MPI_Finalize before pto_mpi_destroy"
    done
    ranks 3 "$programs/cases" no_progress
    broke no_progress
    said 1 "rank 1 cannot go on: mpi: progress thread"
    ranks 2 "$programs/cases" leave_early
    broke leave_early
    said 1 "different programs: they differ from call 2 on"
    ranks 3 "$programs/cases" one_cannot
    broke one_cannot
    said 2 "rank 1 cannot go on: .*storage"
    for name in cancel_one cancel_all; do
        ranks 3 "$programs/cases" $name
        broke $name
        said 1 "rank 1: cancelled: the runtime was cancelled"
    done
    said 3 ": cancelled: the runtime was cancelled"
    for name in cancel_clear cancel_plainly; do
        ranks 3 "$programs/cases" $name
        broke $name
        said 1 "rank 1: the runtime was cancelled"
    done
    ranks 3 "$programs/cases" cancel_temps
    broke cancel_temps
    said 3 "rank [012] has left"
    ! grep -qiE "segmentation|signal 11" "$work/out" || fail "cancel_temps crashes"

    # A rank that dies or leaves ends the others, within seconds, and nobody stays behind.
    for name in dies ends; do
        ranks 3 "$programs/cases" $name
        broke $name
        [ $(($(date +%s) - begun)) -le 30 ] || fail "$name takes more than 30 seconds"
        leaves_nobody $name
    done
    said 1 "rank 1 ends without pto_mpi_destroy"
}

# Whole programs, checked as on one machine, by the command that links no MPI.
whole_runs() {
    workloads="cholesky stencil"
    [ "$mpi" != mpich ] || workloads="lu bgemm"
    for name in $workloads; do
        ranks 4 "$pto" run $name --mpi --small --workers 1
        [ $status -eq 0 ] || fail "pto run $name --mpi ends with status $status"
        said 1 "4 ranks"
        ! grep -q "$(printf '\033')" "$work/out" || fail "colours in a file"
    done
    ranks 2 "$pto" run cholesky --mpi --small --break 40
    [ $status -ne 0 ] && [ $status -ne 124 ] || fail "a matrix that cannot be factored: status $status"
    said 1 "row 40: the pivot is not positive"
    said 1 "hint: .*; pto_mpi_clear_error lets the runtime continue"
    interrupted
    ranks 1 "$pto" run reduce --mpi --small
    [ $status -eq 2 ] || fail "pto run reduce --mpi ends with status $status"
}

# Ctrl-C at the launcher ends all ranks within seconds, in the middle of a run.
interrupted() {
    name="run stencil --mpi --rows 1999"
    # shellcheck disable=SC2086 # words
    "$launcher" $options -n 3 "$pto" $name --columns 1999 --tile 250 --steps 100000 >"$work/out" 2>&1 \
        </dev/null &
    run=$!
    for wait in 1 2 4 8; do
        [ "$(pgrep -c -f "^$pto $name")" -lt 3 ] || break
        sleep $wait
    done
    [ "$(pgrep -c -f "^$pto $name")" -eq 3 ] || fail "three ranks do not start"
    sleep 1
    kill -INT $run
    wait $run
    status=$?
    [ $status -ne 0 ] || fail "an interrupted run ends with status 0"
    for wait in 1 2 4 8 16; do
        pgrep -f "^$pto $name" >/dev/null || return 0
        sleep $wait
    done
    fail "an interrupted run leaves processes behind"
}

# merged NAME RANKS [WORKERS]: checks the trace of all ranks, $work/NAME. Each has so many workers.
merged() {
    "$programs/../merged" "$work/$1" "$2" ${3:+"$3"} >"$work/out" 2>&1 ||
        fail "the trace of $2 ranks is wrong"
    [ "$(grep -c messages "$work/out")" = 1 ] && ! grep -q "^0 " "$work/out" ||
        fail "the trace of $2 ranks has no messages"
}

# PTO_TRACE is all that it takes: rank 0 writes one trace of all ranks.
traces() {
    for n in 2 3 4; do
        PTO_TRACE=$work/run.ptrace
        export PTO_TRACE
        ranks $n "$pto" run cholesky --mpi --small --workers 1
        unset PTO_TRACE
        [ $status -eq 0 ] || fail "a traced run on $n ranks ends with status $status"
        merged run.ptrace $n 1
    done
    # Random programs: worlds one after the other, failures, temporaries, views across tiles.
    PTO_TRACE=$work/random.ptrace
    export PTO_TRACE
    ranks 3 "$programs/programs" 4711 2
    unset PTO_TRACE
    [ $status -eq 0 ] || fail "traced random programs end with status $status"
    for file in "$work"/random*.ptrace; do
        merged "${file##*/}" 3
    done
    # A page has the messages too, and the report says how exact times are.
    "$pto" trace html "$work/run.ptrace" -o "$work/run.html" >"$work/out" 2>&1 || fail "no page"
    "$pto" trace report "$work/run.ptrace" >"$work/out" 2>&1
    said 1 "messages .* between 4 ranks; times of different ranks are within"
    said 1 "rank 3 orchestrator"
    # A world that breaks leaves a file of each rank, which can be merged by hand.
    PTO_TRACE=$work/broken.ptrace
    export PTO_TRACE
    ranks 3 "$programs/cases" one_cannot
    unset PTO_TRACE
    broke one_cannot
    [ "$(ls "$work"/broken.rank-*.ptrace | wc -l)" -eq 3 ] || fail "not all ranks leave a trace"
    "$pto" trace merge "$work"/broken.rank-*.ptrace -o "$work/broken.html" >"$work/out" 2>&1 ||
        fail "the traces of a broken world cannot be merged"
}

# program_of_guide: one.c is the program for one machine of docs/guide.md, and many.c the same with the block of `diff`
# applied to it: a line with a blank is looked for, one with - is looked for and goes, one with + is new.
program_of_guide() {
    awk -v out="$work" '
        $0 == "```" { inside = "" }
        inside == "program" { program[++n] = $0 }
        inside == "diff" { change[++m] = $0 }
        $0 == "```c program" { inside = "program"; n = 0 }
        $0 == "```diff" { inside = "diff" }
        inside == "diff" && m == 0 { kept = n }
        END {
            for (k = 1; k <= kept; k++)
                print program[k] > (out "/one.c")
            i = 1
            for (k = 1; k <= m; k++) {
                sign = substr(change[k], 1, 1)
                text = substr(change[k], 2)
                while (sign != "+" && i <= kept && program[i] != text)
                    print program[i++] > (out "/many.c")
                if (sign != "+" && i++ > kept) {
                    print "guide.md: the program has no such line: " text
                    exit 1
                }
                if (sign != "-")
                    print text > (out "/many.c")
            }
            while (i <= kept)
                print program[i++] > (out "/many.c")
        }' "$root/docs/guide.md"
}

# A program for one machine and the same with three lines changed print the same: on four ranks four times.
guide() {
    program_of_guide >"$work/out" || { fail "no program"; return; }
    diff "$work/one.c" "$work/many.c" >"$work/out"
    [ "$(grep -c '^>' "$work/out")" -eq 3 ] && [ "$(grep -c '^<' "$work/out")" -le 3 ] ||
        fail "the programs differ in other than three lines"
    libraries=$programs/../../..
    for version in one many; do
        set -- -lpto
        [ $version = one ] || set -- -DPTO_MPI_NAMES -I"$root/mpi/include" "-lpto-mpi-$mpi" -lpto
        cc -std=gnu11 -Wall -Wextra -Werror -I"$root/include" "$work/$version.c" -o "$work/$version" \
            -L"$libraries" -Wl,-rpath,"$libraries" "$@" -lm >"$work/out" 2>&1 || { fail "$version.c"; return; }
    done
    "$work/one" >"$work/printed" || fail "the program for one machine ends with status $?"
    for n in 1 2 3 4; do
        ranks $n "$work/many"
        [ $status -eq 0 ] || fail "the program on $n ranks ends with status $status"
        i=0
        while [ $i -lt $n ]; do
            cat "$work/printed"
            i=$((i + 1))
        done | cmp -s - "$work/out" || fail "$n ranks print something else than $(cat "$work/printed")"
    done
}

# A launcher that cannot even start `true` here (no shared memory, no pseudo-terminals) tells nothing
# about the library.
ranks 2 true
if [ $status -ne 0 ]; then
    echo "[==========] Running 1 test(s)."
    echo "[ RUN      ] $part"
    cat "$work/out"
    echo "$launcher cannot start two processes here: status $status"
    echo "[  SKIPPED ] $part"
    echo "[==========] 1 test(s) run."
    exit 0
fi
case $part in
programs) random_programs ;;
cases) single_cases ;;
runs) whole_runs ;;
traces) traces ;;
guide) guide ;;
*) fail "no part '$part'" ;;
esac
exit $bad
