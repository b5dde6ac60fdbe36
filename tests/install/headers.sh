#!/bin/sh
# headers.sh SOURCE CC
#
# Every header compiles when it is the only thing included, and when it is included twice: public
# ones as strict C11 and as C++17 under pedantic warnings, internal ones as C11.
set -eu

source=$1
cc=$2

c_flags="-std=c11 -Wall -Wextra -Wpedantic -Wundef -Wconversion -Werror"
cxx_flags="-std=c++17 -Wall -Wextra -Wpedantic -Wundef -Wconversion -Werror"

# twice HEADER COMPILER FLAGS...
twice() {
    header=$1
    shift
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" | "$@" -fsyntax-only -
}

checked=0
cd "$source/include"
for header in pto/*.h; do
    echo "public: $header"
    # shellcheck disable=SC2086 # the flags are words
    twice "$header" "$cc" -x c $c_flags -I.
    # shellcheck disable=SC2086
    twice "$header" "${CXX:-c++}" -x c++ $cxx_flags -I.
    checked=$((checked + 1))
done
for header in ../mpi/include/pto/*.h; do
    echo "public: $header"
    # shellcheck disable=SC2086
    twice "$header" "$cc" -x c $c_flags -I.
    # shellcheck disable=SC2086
    twice "$header" "${CXX:-c++}" -x c++ $cxx_flags -I.
done
# pto_scalar chooses the same type in both languages: a declared kernel is picky about it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/scalar.c" <<'END'
#include <pto/pto.h>
int main(void)
{
    const pto_param p[] = {pto_scalar(true), pto_scalar('a'), pto_scalar((short)1), pto_scalar(1), pto_scalar(1u),
                           pto_scalar(1l), pto_scalar(1ul), pto_scalar(1ll), pto_scalar(1ull),
                           pto_scalar((uint8_t)1), pto_scalar((uint32_t)1), pto_scalar((size_t)1),
                           pto_scalar(1.0f), pto_scalar(1.0), pto_scalar(1.0l)};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        printf("%d ", p[i].dtype);
    }
    return 0;
}
END
cp "$work/scalar.c" "$work/scalar.cc"
"$cc" -std=c11 -I. "$work/scalar.c" -o "$work/c"
"${CXX:-c++}" -std=c++17 -I. "$work/scalar.cc" -o "$work/cc"
echo "pto_scalar: C $("$work/c"), C++ $("$work/cc")"
[ "$("$work/c")" = "$("$work/cc")" ]
cd "$source/src"
for header in */*.h; do
    echo "internal: $header"
    # shellcheck disable=SC2086
    twice "$header" "$cc" -x c -std=gnu11 -Wall -Wextra -Wundef -Werror -I. -I../include
    checked=$((checked + 1))
done
echo "$checked headers"
