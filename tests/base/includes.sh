#!/bin/sh
# includes.sh SOURCE
#
# cmake/includes.sh accepts a small tree that keeps every rule, and names file, line and rule of each
# include that breaks one.
set -u

check=$1/cmake/includes.sh
. "$1/tests/support/expect.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# file PATH LINE...: a file of the good tree
file() {
    path=$work/good/src/$1
    shift
    mkdir -p "$(dirname "$path")"
    printf '%s\n' "$@" >"$path"
}

file base/os.h '#include <stddef.h>'
file base/thread.h '#include <pthread.h>' 'int ptoi_thread_start(void);'
file base/os.c '#include "base/os.h"' '#include "thread.h"' 'int ptoi_thread_start(void)' '{' '}'
file tensor/tensor.h '#include <pto/tensor.h>' '#include "base/os.h"'
file device/device.h '#include "tensor/tensor.h"'
file op/op.h '#include "tensor/tensor.h"' '#include "device/device.h"'
file window/window.h '#include "tensor/tensor.h"' '#include "base/os.h"'
file observe/log.h '#include "window/window.h"'
file observe/export.h '#include "observe/log.h"'
file orchestrator/side.h '#include "window/window.h"' '#include "orchestrator/map/map.h"'
file orchestrator/side.c '#include "side.h"' '#include "observe/export.h"' '#include "op/op.h"'
file orchestrator/map/map.h '#include "orchestrator/ring/ring.h"'
file orchestrator/ring/ring.h '#include "base/os.h"'
file scheduler/step.h '#include "window/window.h"' '#include "observe/log.h"'
file scheduler/ready.h '#include "base/thread.h"'
file scheduler/ready.c '#include "scheduler/ready.h"' '#include "scheduler/step.h"'
file worker/work.c '#include "scheduler/ready.h"' '#include "op/op.h"'
expect 0 "" "$check" "$work/good"

# planted PATH INCLUDE TEXT: with this include at the end of that file, the check fails and says TEXT
planted() {
    rm -rf "$work/bad"
    cp -R "$work/good" "$work/bad"
    printf '#include %s\n' "$2" >>"$work/bad/src/$1"
    line=$(wc -l <"$work/bad/src/$1")
    expect 1 "src/$1:$line: $3" "$check" "$work/bad"
}

planted base/os.h '"tensor/tensor.h"' "base must not include tensor/tensor.h (the rule: base: base)"
planted tensor/tensor.h '"window/window.h"' 'tensor must not include window/window.h'
planted device/device.h '"op/op.h"' 'device must not include op/op.h'
planted scheduler/ready.c '"device/device.h"' 'scheduler must not include device/device.h'
planted op/op.h '"window/window.h"' 'op must not include window/window.h'
planted observe/export.h '"op/op.h"' 'observe must not include op/op.h'
planted orchestrator/side.c '"scheduler/step.h"' 'orchestrator must not include scheduler/step.h'
planted scheduler/step.h '"../orchestrator/side.h"' 'scheduler/step.h must not include ../orchestr'
planted worker/work.c '"orchestrator/side.h"' 'worker must not include orchestrator/side.h'
planted orchestrator/map/map.h '"orchestrator/side.h"' 'orchestrator/map must not include orchestr'
planted scheduler/ready.c '"observe/export.h"' 'scheduler must not include observe/export.h'
planted window/window.h '<pthread.h>' 'window must not include <pthread.h> (the rule: window: base'
planted elsewhere.h '<stddef.h>' 'no rule for this file'

# Through a header, and through several.
planted window/window.h '"base/thread.h"' 'window must not include <pthread.h>, through base/thread.h'
planted scheduler/step.h '"ready.h"' \
    'scheduler/step.h must not include <pthread.h>, through scheduler/ready.h, through base/thread.h'
planted window/window.h '"orchestrator/side.h"' 'window must not include orchestrator/side.h'
expect 1 'src/scheduler/step.h:1: scheduler/step.h must not include orchestrator/side.h, through w' \
    "$check" "$work/bad"

rm -rf "$work/bad"
cp -R "$work/good" "$work/bad"
echo >"$work/bad/src/orchestrator/map/side.h"
expect 1 'src/orchestrator/side.c:1: has several headers of its name:' "$check" "$work/bad"

expect 0 'src/base/thread.h: ptoi_thread_start is defined in src/base/os.c' \
    "$check" --owners "$work/good"
expect 2 'there are no sources in' "$check" "$work"

exit $bad
