#!/bin/sh
# must_check.sh SOURCE CC
#
# A dropped status does not go unnoticed: CC and whichever of gcc and clang are there warn about it,
# in C and in C++, also through a cast to void where the compiler does so. PTO_IGNORE and
# PTO_ALLOW_IGNORED_STATUS silence the warning, and the macros of the headers cause none.
set -eu

source=$1
cc=$2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# No public function that returns a status is without the attribute.
if grep -nE '^(PTO_API|static inline) pto_status ' "$source"/include/pto/*.h "$source"/mpi/include/pto/*.h; then
    echo "these functions lack PTO_MUST_CHECK"
    bad=1
fi
marked=$(cat "$source"/include/pto/*.h | grep -cE '^(PTO_API|static inline) PTO_MUST_CHECK pto_status ')
[ "$marked" -gt 80 ] || { echo "only $marked functions have PTO_MUST_CHECK"; bad=1; }

# program NAME BODY: a function with the body
program() {
    printf '#include <pto/pto.h>\nvoid f(pto_runtime *rt, pto_kernel k);\n' >"$work/$1.c"
    printf 'void f(pto_runtime *rt, pto_kernel k)\n{\n    (void)k;\n    %s\n}\n' "$2" >>"$work/$1.c"
}
program wait 'pto_wait(rt);'
program macro 'pto_submit(rt, k, pto_scalar(1));'
program inline 'pto_scope_begin(rt); pto_scope_end(rt);'
program fail 'if (!rt) { pto_fail(PTO_BAD_PARAM, "no runtime"); }'
program in_scope 'PTO_SCOPE(rt) { pto_submit(rt, k, pto_scalar(1)); }'
program ignored 'PTO_IGNORE(pto_wait(rt)); if (rt) PTO_IGNORE(pto_submit(rt, k, pto_scalar(1)));'
program scopes 'PTO_SCOPE(rt) { PTO_BOUNDARY(rt) { PTO_SCOPE_EX(rt, 0) { } } }'
program checked 'if (pto_wait(rt) || pto_submit(rt, k, pto_scalar(1))) { return; }'
program bare 'if (pto_submit(rt, k)) { return; }' # strict C11 has no empty list of macro arguments
drops="wait macro inline fail in_scope"
clean="ignored scopes checked bare"

# compile NAME WORDS...: the words are a compiler and its flags
compile() {
    file=$work/$1.c
    shift
    "$@" -Wall -Wextra -Wpedantic -Werror -I"$source/include" -c "$file" -o "$work/object" \
        >"$work/said" 2>&1
}

complain() {
    echo "$1"
    cat "$work/said"
    bad=1
}

checked=0
# check COMPILER FLAGS...: all programs
check() {
    command -v "$1" >/dev/null 2>&1 || return 0
    for name in $drops; do
        if compile "$name" "$@"; then
            complain "$*: no warning about the status that $name drops"
        else
            grep -q 'unused-result' "$work/said" || complain "$*: $name fails for another reason"
        fi
        compile "$name" "$@" -DPTO_ALLOW_IGNORED_STATUS || complain "$*: $name, warnings allowed"
    done
    for name in $clean; do
        compile "$name" "$@" || complain "$*: $name is correct"
    done
    checked=$((checked + 1))
    echo "checked with: $*"
}
for compiler in "$cc" gcc clang; do
    check "$compiler" -x c -std=c11
    check "$compiler" -x c -std=gnu11 -O2
done
for compiler in "${CXX:-c++}" g++ clang++; do
    check "$compiler" -x c++ -std=c++17
done
[ "$checked" -ge 3 ] || { echo "too few compilers: $checked"; bad=1; }

# A cast to void is not enough for gcc: that is why there is PTO_IGNORE.
program cast '(void)pto_wait(rt);'
if command -v gcc >/dev/null 2>&1 && compile cast gcc -x c -std=c11; then
    complain "gcc is silent about a cast to void: pto/status.h says otherwise"
fi
exit $bad
