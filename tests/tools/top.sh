#!/bin/sh
# top.sh PTO
#
# pto top, doctor, info and bench from the shell: help, bad input, a program that runs, and the live
# view on a terminal, if tmux is there to be one.
set -u

pto=$1
bad=0
work=$(mktemp -d) || exit 1
program=
grid=
terminal="pto-test-$$"
# shellcheck disable=SC2317 # by the trap
leave() {
    [ -z "$program" ] || kill -KILL "$program" 2>/dev/null
    [ -z "$grid" ] || kill -KILL "$grid" 2>/dev/null
    if command -v tmux >/dev/null 2>&1; then
        tmux -L "$terminal" kill-server 2>/dev/null
    fi
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

unset PTO_WORKERS PTO_SCHEDULER PTO_RING_TASKS PTO_HEAP PTO_DEPS PTO_ARGS PTO_MAP_ENTRIES PTO_LEVELS
export NO_COLOR=

say() {
    echo "$*"
    bad=1
}

# expect STATUS TEXT COMMAND...: it ends with STATUS, and TEXT is in what it says
expect() {
    want=$1
    text=$2
    shift 2
    said=$(timeout 120 "$@" 2>&1 </dev/null)
    got=$?
    if [ $got -eq "$want" ] && printf '%s\n' "$said" | grep -qF -- "$text"; then
        return
    fi
    say "$*: status $got, not $want; or does not say '$text':"
    printf '%s\n' "$said" | sed 's/^/    /'
}

# ---- help and bad input ----
for command in top doctor info bench; do
    expect 0 "usage: pto $command" "$pto" "$command" --help
done
expect 2 "unknown option '--onse'; did you mean --once?" "$pto" top --onse
expect 2 "--interval needs a value" "$pto" top --interval
expect 2 "--interval takes seconds from 0.05 to 3600, not 'soon'" "$pto" top --interval soon $$
expect 2 "--interval takes seconds from 0.05 to 3600, not '0'" "$pto" top --interval 0 $$
expect 2 "--once takes no value" "$pto" top --once=1
expect 2 "'12x' is not a process" "$pto" top --once 12x
expect 2 "'' is not a process" "$pto" top --once ''
expect 2 "'12:' is not a process" "$pto" doctor 12:
expect 2 "unexpected argument '2'" "$pto" top 1 2
expect 1 "there is no process 999999999" "$pto" top --once 999999999
expect 1 "has no runtime" "$pto" top --once $$
expect 2 "has no runtime" "$pto" doctor $$
expect 2 "there is no process 999999999" "$pto" doctor 999999999
expect 2 "which process?" "$pto" doctor
expect 2 "unexpected argument 'x'" "$pto" info x
expect 2 "the benchmark comes first" "$pto" bench --quick
expect 2 "no command 'docter'; did you mean 'doctor'?" "$pto" docter

# ---- info ----
expect 0 "version        0." "$pto" info
expect 0 "PTO_RING_TASKS       1024             default" "$pto" info
expect 0 "PTO_RING_TASKS       2048             environment, default 1024" env PTO_RING_TASKS=2000 "$pto" info
expect 0 "PTO_WORKERS          cube:2,vector    environment" env PTO_WORKERS=cube:2,vector "$pto" info
expect 1 "The environment has an error" env PTO_RING_TASKS=many "$pto" info

# ---- bench: in a build they lie beside the command, elsewhere they do not ----
cp "$pto" "$work/pto"
expect 1 "./dev bench" "$work/pto" bench
if "$pto" bench >"$work/benches" 2>&1; then
    grep -q '^  tasks$' "$work/benches" || say "pto bench does not list tasks: $(cat "$work/benches")"
    expect 2 "no benchmark 'task'; did you mean 'tasks'?" "$pto" bench task
    expect 0 "--callgrind" "$pto" bench tasks --help
fi

# ---- a program that runs ----
"$pto" run stencil --small --steps 1000000 --workers 2 --no-check >/dev/null 2>&1 &
program=$!
tries=0
until timeout 60 "$pto" top --once --interval 0.05 $program >/dev/null 2>&1 || [ $tries -gt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
expect 0 "pto top: $(basename "$pto"), process $program, up " "$pto" top --once $program
expect 0 "2 workers, scheduler inline" "$pto" top --once "$program:0"
expect 1 "there is no number 1" "$pto" top --once "$program:1"
"$pto" top --once --interval 1 $program >"$work/said"
for line in '^tasks  *[0-9][0-9]* submitted (.*/s)  [0-9]* complete (' '^unfinished  *[0-9]* running, ' \
    '^orchestrator ' '^oldest ' '^0  *tasks  *[#.]* ' '^  *heap ' '^1  *all ' '^caller  *all '; do
    grep -q "$line" "$work/said" || say "pto top --once: no line '$line': $(cat "$work/said")"
done
if grep -q "$(printf '\033')" "$work/said"; then
    say "pto top --once: colours, and no terminal"
fi
expect 0 "makes progress: in " "$pto" doctor --wait 3 $program
object=$("$pto" top --json $program)
if [ "$(printf '%s\n' "$object" | wc -l)" -ne 1 ]; then
    say "pto top --json: not one line: $object"
fi
if command -v python3 >/dev/null 2>&1; then
    printf '%s\n' "$object" | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert o["pid"] == int(sys.argv[1]) and o["submitted"] >= o["completed"] > 0, o
assert len(o["workers"]) == 3 and o["workers"][2]["role"] == "caller", o
assert o["levels"][0]["tasks"]["size"] >= o["levels"][0]["tasks"]["used"], o
' $program || say "pto top --json: $object"
fi
# Without a process: this one alone, or it is in the list of several.
"$pto" top --once >"$work/said" 2>&1
grep -q "process $program,\|^ *$program  " "$work/said" || say "pto top: $(cat "$work/said")"
expect 2 "pto top: not a terminal; --once prints" "$pto" top $program

# ---- a device that schedules for itself ----
PTO_GPU_WORKERS=2 "$pto" run stencil --device sim:0 --place gpu --small --steps 1000000 --no-check >/dev/null 2>&1 &
grid=$!
tries=0
until timeout 60 "$pto" top --once --interval 0.05 $grid >"$work/said" 2>&1 || [ $tries -gt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
for line in ' scheduler gpu$' '^caller  *none ' '^sim:0 block 0 cube+vector ' '^sim:0 block 1 cube+vector '; do
    grep -q -- "$line" "$work/said" || say "pto top in place gpu: no line '$line': $(cat "$work/said")"
done
# What blocks run is seen sooner or later.
tries=0
until "$pto" top --once --interval 0.05 $grid 2>&1 | grep -q "^sim:0 block . .*  task [0-9]* (kernel 'step_tile'" ||
    [ $tries -gt 300 ]; do
    tries=$((tries + 1))
done
[ $tries -le 300 ] || say "pto top does not show what blocks run"
case $("$pto" top --json $grid) in
*'"scheduler":"gpu"'*'"role":"block","device":"sim:0","serves":"cube+vector"'*) ;;
*) say "pto top --json in place gpu" ;;
esac
expect 0 "makes progress: in " "$pto" doctor --wait 3 $grid
kill -KILL $grid
wait $grid 2>/dev/null
grid=

# ---- on a terminal ----

screen() {
    tmux -L "$terminal" capture-pane -p -t top
}

# until_screen TEXT: it shows that, sooner or later
until_screen() {
    tries=0
    until screen | grep -q -- "$1"; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ]; then
            say "the terminal does not show '$1':"
            screen | sed 's/^/    /'
            return
        fi
        sleep 0.1
    done
}

# start_view: afterwards the shell says which view it was, and its exit status
view=0
start_view() {
    view=$((view + 1))
    tmux -L "$terminal" send-keys -t top \
        "'$pto' top --interval 0.1 $program; echo view $view: \$?" Enter
}

# leaves KEY: the live view is there in this size, and is gone after the key; the shell goes on
leaves() {
    start_view
    until_screen "^pto top: "
    until_screen "^caller "
    tmux -L "$terminal" resize-window -t top -x 50 -y 8
    until_screen "^0     tasks"
    [ "$(screen | awk 'length > most { most = length } END { print most }')" -le 50 ] ||
        say "the view is wider than its terminal: $(screen)"
    tmux -L "$terminal" resize-window -t top -x 110 -y 40
    until_screen "^caller "
    tmux -L "$terminal" send-keys -t top "$1"
    until_screen "view $view: 0"
    if screen | grep -q "^caller "; then
        say "the view stays after $1: $(screen)"
    fi
}

if command -v tmux >/dev/null 2>&1 &&
    tmux -L "$terminal" -f /dev/null new-session -d -s top -x 110 -y 40 'PS1="$ " sh'; then
    leaves q
    leaves C-c
    # A program that ends takes the view with it.
    start_view
    until_screen "^caller "
    kill -KILL "$program"
    wait "$program" 2>/dev/null
    until_screen "process $program has ended"
    until_screen "view $view: 0"
    program=
else
    echo "tmux is not there: the live view is not tried"
fi
[ $bad -eq 0 ] && echo "pto top, doctor, info and bench do what they say"
exit $bad
