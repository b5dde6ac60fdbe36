#!/bin/sh
# ranks.sh MPI MPIRUN PROGRAMS PTO PART
#
# Runs the programs of tests/mpi in the folder PROGRAMS, and workloads of the command PTO, on several
# ranks. PART: random `programs`, the single `cases`, whole `runs` of the command, or their `traces`.
set -u

mpi=$1
launcher=$2
programs=$3
pto=$4
part=$5
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

    # One world after the other in the same processes.
    ranks 3 "$programs/cases" different_configs refusals failures scratch_heals ranges counted trees
    [ $status -eq 0 ] || fail "a case ends with status $status"

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
    ranks 2 "$programs/cases" leave_early
    broke leave_early
    said 1 "different programs: they differ from call 2 on"
    ranks 3 "$programs/cases" one_cannot
    broke one_cannot
    said 1 "rank 1: .*has ended"

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
    done
    ranks 2 "$pto" run cholesky --mpi --small --break 40
    [ $status -ne 0 ] && [ $status -ne 124 ] || fail "a matrix that cannot be factored: status $status"
    said 1 "row 40: the pivot is not positive"
    ranks 1 "$pto" run reduce --mpi --small
    [ $status -eq 2 ] || fail "pto run reduce --mpi ends with status $status"
}

# merged NAME RANKS: checks the trace of all ranks, $work/NAME.
merged() {
    "$programs/../merged" "$work/$1" "$2" >"$work/out" 2>&1 || fail "the trace of $2 ranks is wrong"
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
        merged run.ptrace $n
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
    "$pto" trace merge "$work"/broken.rank-*.ptrace -o "$work/broken.html" >"$work/out" 2>&1 ||
        fail "the traces of a broken world cannot be merged"
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
*) fail "no part '$part'" ;;
esac
exit $bad
